//! Work for a job's user, which runs in workers: carried files, and remaining processes of jobs.

use limo_shepherd::processes::Mark;
use limo_shepherd::{Answer, BootTime, Handle, Step};
use nix::libc;

use super::{Shepherd, Work};
use crate::attempt::{Attempt, Phase};
use crate::carried;
use crate::child::begin;
use crate::removals::{Removal, Removals};
use crate::worker::{self, Finished};

impl Shepherd {
    /// Removes the file that came with an attempt.
    pub(super) fn remove_carried(&mut self, handle: Handle) {
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        let Attempt { mark: Mark { uid, .. }, identity, carried, .. } = attempt;
        if let Some(directory) = carried.take() {
            let removal = Removal { directory, uid: *uid, identity: identity.clone() };
            self.remove(removal);
        }
    }

    pub(super) fn remove(&mut self, removal: Removal) {
        if let Some(refused) = self.removals.add(removal) {
            self.trouble(format!("too many files wait to be removed: {refused} stays"));
        }
        self.next_removals();
    }

    pub(super) fn next_removals(&mut self) {
        while let Some(removal) = self.removals.next() {
            let deadline = BootTime::now().plus(Removals::PATIENCE);
            match worker::start(removal.identity.as_ref(), deadline, || {
                // SAFETY: no memory is involved. Cleaning up is less urgent than any job.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
                carried::remove(&removal.directory).map(|()| 0)
            }) {
                Ok(worker) => {
                    self.workers.insert(worker.pid, (worker, Work::Remove(removal)));
                }
                Err(error) => {
                    self.removals.done(removal.uid);
                    self.trouble(format!("{} stays: {error}", removal.shown()));
                }
            }
        }
    }

    pub(super) fn worked(&mut self, work: Work, finished: Finished) {
        match work {
            Work::Carry(handle) => self.carried(handle, finished),
            Work::Sweep(handle) => {
                let left = match finished {
                    Finished::Code(left) => left.into(),
                    Finished::Failed(_) | Finished::Killed => 1,
                };
                self.emptied(handle, left);
            }
            Work::Remove(removal) => {
                self.removals.done(removal.uid);
                match finished {
                    Finished::Code(_) => {}
                    Finished::Failed(reason) => self.trouble(format!("a file that came with a job stays: {reason}")),
                    Finished::Killed => self.trouble(format!("{} stays: removing it took too long", removal.shown())),
                }
                self.next_removals();
            }
        }
    }

    pub(super) fn carried(&mut self, handle: Handle, finished: Finished) {
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        let now = BootTime::now();
        let Phase::Carrying { plan, descriptors, .. } = std::mem::replace(&mut attempt.phase, Phase::Idle) else {
            return;
        };
        match finished {
            Finished::Code(0) if !attempt.watch.is_stopping() => match begin(*plan, descriptors, self.files) {
                Ok(child) => attempt.phase = Phase::Launching { child: Box::new(child), since: now },
                Err(error) => self.cannot_begin(handle, &error),
            },
            Finished::Failed(reason) => self.not_started(handle, Step::Carried, 0, reason),
            _ if attempt.watch.is_stopping() => self.not_started(handle, Step::Other, 0, "stopped".into()),
            _ => self.not_started(handle, Step::Deadline, 0, String::new()),
        }
    }

    pub(super) fn emptied(&mut self, handle: Handle, left: u32) {
        if self.attempts.contains_key(&handle) {
            self.tell(handle, Answer::Emptied { handle, left });
            self.over(handle);
        }
    }
}
