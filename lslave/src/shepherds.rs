//! The shepherds of this node: one `lshepherd` process for each job. A few are kept ready, and they are used for jobs in
//! turn. They outlive this daemon; the next one finds them (`attach`).
//!
//! Passes orders, answers and bytes on. The node decides.

mod attach;
mod pool;
mod process;
mod streams;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::{Attempt, JobId};
use limo_node::{Connected, Input, LAUNCH_DEADLINE_S, Recovery};
use limo_proto::{StreamId, WindowSize, make_directory};
use limo_shepherd::{Answer, Claim, Handle, Kept, Launch, Order, Plan, send_launch};
use tokio::sync::mpsc;

use crate::shell::Event;
use process::Shepherd;
pub use process::{ShepherdError, ShepherdId};
use streams::JobStreams;

/// Number of shepherds that are kept ready at least, and at most: tasks of an array often end together, and the next ones
/// start together.
const READY: std::ops::RangeInclusive<usize> = 2..=64;

/// Number of jobs after which a shepherd is replaced.
const JOBS: u32 = 1_000;

/// Number of shepherds that may end in a row before they are ready.
const FAILURES: u32 = 3;

/// Longest time for a launch with a PAM session, and for the end of a shepherd after it. A module of PAM may block the
/// shepherd, which then answers nothing. Longer than a launch may take, so that a shepherd that answers does it itself.
pub const SESSION_PATIENCE: Duration = Duration::from_secs(LAUNCH_DEADLINE_S + 10);

/// A job that a shepherd has, or that waits for one.
struct Herded {
    claim: Claim,
    /// `None` while it waits, and after the shepherd was killed.
    shepherd: Option<ShepherdId>,
    kept: Kept,
    /// `None` without attached streams, or once these were dropped.
    streams: Option<JobStreams>,
    /// True if the end is recorded.
    is_released: bool,
}

impl Herded {
    fn job(&self) -> JobId {
        JobId(self.claim.job)
    }
}

/// Messages for a shepherd that is not ready yet.
struct Waiting {
    handle: Handle,
    has_session: bool,
    messages: Vec<(Vec<u8>, Vec<OwnedFd>)>,
}

/// All shepherds of this daemon.
pub struct Shepherds {
    path: PathBuf,
    directory: OwnedFd,
    /// First part of the names of this daemon's shepherds.
    prefix: String,
    next: u64,
    all: BTreeMap<ShepherdId, Shepherd>,
    /// Processes that were dismissed and have not ended yet.
    leaving: BTreeMap<ShepherdId, i32>,
    starting: BTreeSet<ShepherdId>,
    ready: Vec<ShepherdId>,
    jobs: BTreeMap<Handle, Herded>,
    /// Newest launch of each job.
    of_job: BTreeMap<JobId, Handle>,
    waiting: VecDeque<Waiting>,
    /// Orders that any shepherd can obey.
    errands: Vec<Order>,
    failures: u32,
    /// Weak, so that the loop does not keep itself alive.
    events: mpsc::WeakSender<Event>,
}

impl Shepherds {
    /// Finds the shepherds of an earlier daemon in the directory, and adds what they hold to `recovery`.
    ///
    /// # Errors
    /// If the directory cannot be used, or no shepherd can be started.
    pub fn open(path: &Path, recovery: &mut Recovery, events: &mpsc::Sender<Event>) -> anyhow::Result<Self> {
        let was_missing = !path.exists();
        make_directory(path, 0o700)?;
        let failed = |what| move |source| ShepherdError::Directory { what, path: path.to_owned(), source };
        let directory = OwnedFd::from(fs::File::open(path).map_err(failed("open"))?);
        let attached = attach::attach(path, directory.as_fd()).map_err(failed("read"))?;
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|error| anyhow::anyhow!("cannot get random numbers from the kernel: {error}"))?;
        let mut shepherds = Self {
            path: path.to_owned(),
            directory,
            prefix: format!("ready-{:08x}", u32::from_le_bytes(random)),
            next: 0,
            all: BTreeMap::new(),
            leaving: BTreeMap::new(),
            starting: BTreeSet::new(),
            ready: Vec::new(),
            jobs: BTreeMap::new(),
            of_job: BTreeMap::new(),
            waiting: VecDeque::new(),
            errands: Vec::new(),
            failures: 0,
            events: events.downgrade(),
        };
        let key = |claim: Claim| (JobId(claim.job), Attempt(claim.attempt));
        recovery.abandoned = attached.abandoned.into_iter().map(key).collect();
        if was_missing {
            // Without the directory nobody knows which of these were started.
            let released = recovery.found.iter().filter(|(_, found)| found.released.is_some() && found.end.is_none());
            recovery.abandoned.extend(released.map(|(key, _)| *key));
        }
        for found in attached.found {
            if let Some((claim, survivor)) = shepherds.adopt(found, events)? {
                recovery.survivors.insert(key(claim), survivor);
            }
        }
        shepherds.start_some(events)?;
        Ok(shepherds)
    }

    /// Launches a job. The handle must be new.
    ///
    /// # Errors
    /// If the plan cannot be passed on.
    pub fn launch(
        &mut self,
        launch: &Launch,
        plan: &Plan,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Vec<Input>, ShepherdError> {
        let Some(claim) = launch.claim else { return Ok(Vec::new()) };
        let (bytes, file) = send_launch(launch, plan)?;
        let message = (bytes, file.into_iter().chain(descriptors).collect());
        let job = Herded { claim, shepherd: None, kept: launch.kept, streams: None, is_released: false };
        self.of_job.insert(job.job(), launch.handle);
        self.jobs.insert(launch.handle, job);
        self.waiting.push_back(Waiting {
            handle: launch.handle,
            has_session: plan.session.is_some(),
            messages: vec![message],
        });
        Ok(self.hand_over())
    }

    /// Passes an order on: to the shepherd of its job, or to all that have a job.
    pub fn order(&mut self, order: Order) {
        match order {
            Order::Signal { handle, .. }
            | Order::Stop { handle, .. }
            | Order::Frozen { handle, .. }
            | Order::Halted { handle, .. }
            | Order::Limit { handle, .. }
            | Order::Extend { handle, .. } => self.order_for(handle, &order),
            Order::Lease { .. } => {
                let handles: Vec<Handle> = self.jobs.keys().copied().collect();
                handles.into_iter().for_each(|handle| self.order_for(handle, &order));
            }
            other => self.errand(other),
        }
    }

    /// Gives an order to any shepherd.
    fn errand(&mut self, order: Order) {
        match self.ready.last().and_then(|id| self.all.get(id)) {
            Some(shepherd) => shepherd.order(&order),
            None => self.errands.push(order),
        }
    }

    fn order_for(&mut self, handle: Handle, order: &Order) {
        let Some(job) = self.jobs.get(&handle) else { return };
        match job.shepherd.and_then(|id| self.all.get(&id)) {
            Some(shepherd) => shepherd.order(order),
            None => {
                let waiting = self.waiting.iter_mut().find(|waiting| waiting.handle == handle);
                waiting.into_iter().for_each(|waiting| waiting.messages.push((order.encode(), Vec::new())));
            }
        }
    }

    /// Returns the streams of a job that its client is attached to.
    pub fn connected(&self, handle: Handle) -> Connected {
        let streams = self.jobs.get(&handle).and_then(|job| job.streams.as_ref());
        streams.map(JobStreams::connected).unwrap_or_default()
    }

    fn streams(&mut self, job: JobId) -> Option<(Handle, &mut JobStreams)> {
        let handle = *self.of_job.get(&job)?;
        Some((handle, self.jobs.get_mut(&handle)?.streams.as_mut()?))
    }

    /// Requests up to `most` bytes of an output; returns them if they are there.
    pub fn read(&mut self, stream: StreamId, most: usize) -> Option<Input> {
        self.streams(stream.job)?.1.read(stream, most)
    }

    /// Writes bytes to the job's stdin; an empty piece is its end.
    pub fn write(&mut self, job: JobId, bytes: &[u8]) {
        if let Some((handle, streams)) = self.streams(job)
            && streams.write(bytes)
        {
            self.order_for(handle, &Order::Wake { handle });
        }
    }

    /// Releases output that its receiver has.
    pub fn acknowledge(&mut self, stream: StreamId, offset: u64) {
        if let Some((handle, streams)) = self.streams(stream.job)
            && streams.release(stream.channel, offset)
        {
            self.order_for(handle, &Order::Wake { handle });
        }
    }

    /// Sets the size of the job's terminal; does nothing without one.
    pub fn resize(&mut self, job: JobId, size: WindowSize) {
        if let Some(&handle) = self.of_job.get(&job) {
            self.order_for(handle, &Order::Resize { handle, rows: size.rows, columns: size.columns });
        }
    }

    /// Ends the work of a job on emulated hardware.
    pub fn end_work(&mut self, job: JobId) {
        if let Some(&handle) = self.of_job.get(&job)
            && self.jobs.get(&handle).is_some_and(|job| job.kept.work)
        {
            self.order_for(handle, &Order::EndWork { handle });
        }
    }

    /// Drops the streams of a job: they are delivered, or nobody reads them.
    pub fn drop_streams(&mut self, job: JobId) -> Vec<Input> {
        let Some(&handle) = self.of_job.get(&job) else { return Vec::new() };
        let Some(herded) = self.jobs.get_mut(&handle) else { return Vec::new() };
        let had_streams = herded.kept.has_streams();
        herded.kept = Kept { work: herded.kept.work, ..Kept::default() };
        if let Some(rings) = herded.streams.take().map(JobStreams::into_rings)
            && let Some(shepherd) = herded.shepherd.and_then(|id| self.all.get_mut(&id))
        {
            shepherd.rings = Some(rings);
        }
        if herded.is_released {
            return self.part(handle);
        }
        if had_streams {
            self.order_for(handle, &Order::DropStreams { handle });
        }
        Vec::new()
    }

    /// Lets the shepherd of an attempt forget it, once the streams are dropped. `handle` is `None` if it was killed.
    pub fn release(&mut self, claim: Claim, handle: Option<Handle>) -> Vec<Input> {
        match handle.and_then(|handle| Some((handle, self.jobs.get_mut(&handle)?))) {
            Some((handle, job)) => {
                job.is_released = true;
                if job.streams.is_none() { self.part(handle) } else { Vec::new() }
            }
            None => {
                let killed = self.jobs.iter_mut().find(|(_, job)| job.claim == claim && job.shepherd.is_none());
                if let Some((&handle, job)) = killed {
                    job.is_released = true;
                    if job.streams.is_none() {
                        self.forget(handle);
                    }
                }
                self.unclaim(claim);
                Vec::new()
            }
        }
    }

    /// Removes the socket of a killed shepherd.
    fn unclaim(&self, claim: Claim) {
        // It does not exist if nothing was launched.
        let _ = fs::remove_file(self.path.join(claim.to_string()));
    }

    /// Forgets a job that is released and has no streams; its shepherd gets the next job.
    fn part(&mut self, handle: Handle) -> Vec<Input> {
        let Some(job) = self.forget(handle) else { return Vec::new() };
        match job.shepherd.and_then(|id| self.all.get(&id)) {
            // `Answer::Ready` follows, or the end of a shepherd with a PAM session.
            Some(shepherd) => {
                shepherd.order(&Order::Release { handle });
                if let (Some(id), true) = (job.shepherd, shepherd.has_session) {
                    self.watch_session(id, None);
                }
            }
            None => self.unclaim(job.claim),
        }
        Vec::new()
    }

    fn forget(&mut self, handle: Handle) -> Option<Herded> {
        let job = self.jobs.remove(&handle)?;
        if self.of_job.get(&job.job()) == Some(&handle) {
            self.of_job.remove(&job.job());
        }
        Some(job)
    }

    /// Handles bytes that the shepherd of a job has moved.
    pub fn moved(&mut self, handle: Handle) -> Vec<Input> {
        let Some(job) = self.jobs.get_mut(&handle) else { return Vec::new() };
        let id = job.job();
        job.streams.as_mut().map(|streams| streams.moved(id)).unwrap_or_default()
    }

    /// Returns true if the launch was given to this shepherd.
    pub fn is_of(&self, id: ShepherdId, handle: Handle) -> bool {
        self.jobs.get(&handle).is_some_and(|job| job.shepherd == Some(id))
    }

    /// Returns the attempt of a launch that is not released.
    pub fn claim(&self, handle: Handle) -> Option<Claim> {
        self.jobs.get(&handle).filter(|job| !job.is_released).map(|job| job.claim)
    }

    /// Returns the handle of an answer about a job.
    pub fn handle_of(answer: &Answer) -> Option<Handle> {
        match answer {
            Answer::Started { handle, .. }
            | Answer::NotStarted { handle, .. }
            | Answer::Stopping { handle, .. }
            | Answer::Exited { handle, .. }
            | Answer::Emptied { handle, .. }
            | Answer::Checkpointed { handle, .. }
            | Answer::Moved { handle } => Some(*handle),
            Answer::Hello { .. } | Answer::Trouble { .. } | Answer::Ready => None,
        }
    }
}
