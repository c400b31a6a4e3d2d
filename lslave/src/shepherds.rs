//! The shepherds of this node: one `lshepherd` process for each job. A few are kept ready, and they are used for jobs in
//! turn. They outlive this daemon; the next one finds them (`attach`).
//!
//! Passes orders, answers and bytes on. The node decides.

mod attach;
mod process;
mod streams;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use limo_model::{Attempt, JobId, Span};
use limo_node::{Connected, Input, Recovery, Resumed, Survivor};
use limo_proto::{StreamId, WindowSize, make_directory};
use limo_shepherd::{Answer, Claim, Handle, Kept, Launch, Order, Plan, send_launch};
use nix::sys::signal::{Signal, kill};
use tokio::sync::mpsc;
use tracing::{debug, error, warn};

use crate::shell::Event;
use process::{Shepherd, open_rings};
pub use process::{ShepherdError, ShepherdId};
use streams::JobStreams;

/// Number of shepherds that are kept ready at least, and at most.
const READY: std::ops::RangeInclusive<usize> = 2..=8;

/// Number of jobs after which a shepherd is replaced.
const JOBS: u32 = 1_000;

/// Number of shepherds that may end in a row before they are ready.
const FAILURES: u32 = 3;

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
        for found in attached.found {
            if let Some((claim, survivor)) = shepherds.adopt(found, events)? {
                recovery.survivors.insert(key(claim), survivor);
            }
        }
        shepherds.start_some(events)?;
        Ok(shepherds)
    }

    fn next_id(&mut self) -> ShepherdId {
        self.next += 1;
        ShepherdId(self.next)
    }

    /// Continues with a shepherd of an earlier daemon; returns what it holds.
    fn adopt(
        &mut self,
        found: attach::Found,
        events: &mpsc::Sender<Event>,
    ) -> Result<Option<(Claim, Survivor)>, ShepherdError> {
        let id = self.next_id();
        let attach::Found { socket, pid, rings, holds } = found;
        let mut shepherd = Shepherd::connected(socket, pid, id, events)?;
        let Some(holds) = holds else {
            shepherd.rings = Some(rings);
            self.all.insert(id, shepherd);
            self.ready.push(id);
            return Ok(None);
        };
        let (kept, claim, handle) = (holds.kept, holds.claim, holds.handle);
        let (streams, held) = if kept.has_streams() {
            let (streams, held) = JobStreams::resumed(rings, kept);
            (Some(streams), Some(held))
        } else {
            shepherd.rings = Some(rings);
            (None, None)
        };
        self.all.insert(id, shepherd);
        let job = Herded { claim, shepherd: Some(id), kept, streams, is_released: false };
        self.of_job.insert(job.job(), handle);
        self.jobs.insert(handle, job);
        let elapsed = Span::from_ms(i64::try_from(holds.elapsed).unwrap_or(i64::MAX));
        let resumed = Resumed { frozen: holds.frozen, halted: holds.halted, elapsed };
        Ok(Some((claim, Survivor { handle, cookie: holds.cookie, resumed, streams: held })))
    }

    /// Starts as many shepherds as will be needed soon.
    fn start_some(&mut self, events: &mpsc::Sender<Event>) -> Result<(), ShepherdError> {
        while self.ready.len() + self.starting.len() < READY.start() + self.waiting.len() {
            let id = self.next_id();
            let name = format!("{}-{}", self.prefix, id.0);
            let shepherd = Shepherd::start((self.directory.as_fd(), name), id, events)?;
            self.all.insert(id, shepherd);
            self.starting.insert(id);
        }
        Ok(())
    }

    /// Starts shepherds; if that fails, ends the launches that wait for one.
    fn replenish(&mut self) -> Vec<Input> {
        let Some(events) = self.events.upgrade() else { return Vec::new() };
        match self.start_some(&events) {
            Ok(()) => Vec::new(),
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// Ends the launches that wait for a shepherd.
    fn give_up(&mut self, reason: &str) -> Vec<Input> {
        error!(reason, "no shepherd can be started");
        let waiting = std::mem::take(&mut self.waiting);
        let failed = waiting.into_iter().map(|Waiting { handle, .. }| {
            self.forget(handle);
            Input::NotStarted { handle, code: 126, reason: format!("cannot start lshepherd: {reason}") }
        });
        failed.collect()
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
        self.waiting.push_back(Waiting { handle: launch.handle, messages: vec![message] });
        Ok(self.hand_over())
    }

    /// Gives the waiting jobs to ready shepherds, and starts more shepherds if few are left.
    fn hand_over(&mut self) -> Vec<Input> {
        while let (false, Some(id)) = (self.waiting.is_empty(), self.ready.pop()) {
            let Some(shepherd) = self.all.get_mut(&id) else { continue };
            let Some(Waiting { handle, messages }) = self.waiting.pop_front() else { break };
            let Some(job) = self.jobs.get_mut(&handle) else { continue };
            job.shepherd = Some(id);
            if job.kept.has_streams()
                && let Some(rings) = shepherd.rings.take()
            {
                job.streams = Some(JobStreams::new(rings, job.kept));
            }
            shepherd.jobs += 1;
            for (bytes, descriptors) in messages {
                shepherd.put(bytes, descriptors);
            }
        }
        self.replenish()
    }

    /// Passes an order on: to the shepherd of its job, or to all that have a job.
    pub fn order(&mut self, order: Order) {
        match order {
            Order::Signal { handle, .. }
            | Order::Stop { handle, .. }
            | Order::Frozen { handle, .. }
            | Order::Halted { handle, .. }
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
            // `Answer::Ready` follows.
            Some(shepherd) => shepherd.order(&Order::Release { handle }),
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

    /// Handles a shepherd that can take a job. Its memory comes with its first answer.
    pub fn is_ready(&mut self, id: ShepherdId, memory: Option<Vec<OwnedFd>>) -> Vec<Input> {
        let Some(shepherd) = self.all.get_mut(&id) else { return Vec::new() };
        if let Some(descriptors) = memory {
            self.starting.remove(&id);
            self.failures = 0;
            match open_rings(descriptors) {
                Ok(rings) => shepherd.rings = Some(rings),
                Err(error) => {
                    self.dismiss(id);
                    return self.give_up(&format!("its first answer is not understood: {error}"));
                }
            }
            debug!(pid = shepherd.pid, "lshepherd is ready");
        }
        let errands = std::mem::take(&mut self.errands);
        errands.iter().for_each(|order| shepherd.order(order));
        if shepherd.jobs >= JOBS || self.ready.len() >= *READY.end() {
            self.dismiss(id);
        } else {
            self.ready.push(id);
        }
        self.hand_over()
    }

    /// Ends a shepherd without a job.
    fn dismiss(&mut self, id: ShepherdId) {
        if let Some(shepherd) = self.all.remove(&id) {
            self.leaving.insert(id, shepherd.pid);
        }
    }

    /// Handles bytes that the shepherd of a job has moved.
    pub fn moved(&mut self, handle: Handle) -> Vec<Input> {
        let Some(job) = self.jobs.get_mut(&handle) else { return Vec::new() };
        let id = job.job();
        job.streams.as_mut().map(|streams| streams.moved(id)).unwrap_or_default()
    }

    /// Handles the end of a shepherd.
    pub fn lost(&mut self, id: ShepherdId) -> Vec<Input> {
        self.leaving.remove(&id);
        if self.all.remove(&id).is_none() {
            return Vec::new();
        }
        self.ready.retain(|ready| *ready != id);
        if self.starting.remove(&id) {
            self.failures += 1;
            if self.failures >= FAILURES {
                return vec![Input::ShepherdFailed("lshepherd ends as soon as it is started".to_owned())];
            }
        }
        let mut inputs = Vec::new();
        let held = self.jobs.iter_mut().find(|(_, job)| job.shepherd == Some(id));
        if let Some((&handle, job)) = held {
            warn!(job = job.claim.job, "the shepherd of the job has ended");
            job.shepherd = None;
            let name = job.job();
            if let Some(streams) = &mut job.streams {
                streams.end();
            }
            inputs.push(Input::ShepherdLost { handle });
            inputs.extend(job.streams.as_mut().map(|streams| streams.moved(name)).unwrap_or_default());
        }
        inputs.extend(self.replenish());
        inputs
    }

    /// Kills the children that this process inherited from killed shepherds.
    pub fn kill_orphans(&self) {
        let own: BTreeSet<i32> =
            self.all.values().map(|shepherd| shepherd.pid).chain(self.leaving.values().copied()).collect();
        let children = limo_shepherd::processes::children().unwrap_or_default();
        for child in children.into_iter().filter(|child| !own.contains(&child.as_raw())) {
            let _ = kill(child, Signal::SIGKILL);
        }
    }

    /// Translates an answer about launches; `None` for others.
    pub fn is_of(&self, id: ShepherdId, handle: Handle) -> bool {
        self.jobs.get(&handle).is_some_and(|job| job.shepherd == Some(id))
    }

    /// Returns the handle of an answer about a job.
    pub fn handle_of(answer: &Answer) -> Option<Handle> {
        match answer {
            Answer::Started { handle, .. }
            | Answer::NotStarted { handle, .. }
            | Answer::Stopping { handle, .. }
            | Answer::Exited { handle, .. }
            | Answer::Emptied { handle, .. }
            | Answer::Moved { handle } => Some(*handle),
            Answer::Hello { .. } | Answer::Trouble { .. } | Answer::Ready => None,
        }
    }
}
