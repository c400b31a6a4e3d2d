//! The processes of this daemon's shepherds: starts them, keeps a few ready, gives them jobs in turn, and notices their
//! ends.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use limo_model::Span;
use limo_node::{Input, Resumed, Survivor};
use limo_shepherd::{Claim, Handle};
use nix::sys::signal::{Signal, kill};
use tokio::sync::mpsc;
use tracing::{debug, error, warn};

use super::attach;
use super::process::{Shepherd, ShepherdError, ShepherdId, open_rings};
use super::streams::JobStreams;
use super::{FAILURES, Herded, JOBS, READY, SESSION_PATIENCE, Shepherds, Waiting};
use crate::shell::Event;

impl Shepherds {
    fn next_id(&mut self) -> ShepherdId {
        self.next += 1;
        ShepherdId(self.next)
    }

    /// Continues with a shepherd of an earlier daemon; returns what it holds.
    pub(super) fn adopt(
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
    pub(super) fn start_some(&mut self, events: &mpsc::Sender<Event>) -> Result<(), ShepherdError> {
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
    pub(super) fn give_up(&mut self, reason: &str) -> Vec<Input> {
        error!(reason, "no shepherd can be started");
        let waiting = std::mem::take(&mut self.waiting);
        let failed = waiting.into_iter().map(|Waiting { handle, .. }| {
            self.forget(handle);
            Input::NotStarted { handle, code: Some(126), reason: format!("cannot start lshepherd: {reason}") }
        });
        failed.collect()
    }

    /// Gives the waiting jobs to ready shepherds, and starts more shepherds if few are left.
    pub(super) fn hand_over(&mut self) -> Vec<Input> {
        while !self.waiting.is_empty()
            && let Some(id) = self.ready.pop()
        {
            let Some(shepherd) = self.all.get_mut(&id) else { continue };
            let Some(Waiting { handle, has_session, messages }) = self.waiting.pop_front() else { break };
            let Some(job) = self.jobs.get_mut(&handle) else { continue };
            job.shepherd = Some(id);
            if job.kept.has_streams()
                && let Some(rings) = shepherd.rings.take()
            {
                job.streams = Some(JobStreams::new(rings, job.kept));
            }
            shepherd.jobs += 1;
            shepherd.has_session = has_session;
            for (bytes, descriptors) in messages {
                shepherd.put(bytes, descriptors);
            }
            if has_session {
                self.watch_session(id, Some(handle));
            }
        }
        self.replenish()
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

    /// Sends [`Event::SessionOverdue`] after [`SESSION_PATIENCE`].
    pub(super) fn watch_session(&self, id: ShepherdId, handle: Option<Handle>) {
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SESSION_PATIENCE).await;
            if let Some(events) = events.upgrade() {
                // The loop has ended if the daemon has ended.
                let _ = events.send(Event::SessionOverdue(id, handle)).await;
            }
        });
    }

    /// Kills a shepherd that does not answer, if it has not ended. Its job has no shepherd then.
    pub fn kill(&mut self, id: ShepherdId) {
        let Some(shepherd) = self.all.remove(&id) else { return };
        warn!(pid = shepherd.pid, "a PAM module blocks a shepherd; it is killed");
        shepherd.kill();
        self.leaving.insert(id, shepherd.pid);
        for job in self.jobs.values_mut().filter(|job| job.shepherd == Some(id)) {
            job.shepherd = None;
            job.streams.iter_mut().for_each(JobStreams::end);
        }
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
}
