//! Work for a job's user, which runs in workers: carried files, and remaining processes of jobs.

use std::time::Duration;

use limo_containment::Group;
use limo_shepherd::processes::{Mark, children, sweep};
use limo_shepherd::{Answer, BootTime, Handle, Step};
use nix::libc;
use nix::unistd::Pid;

use super::{Shepherd, Work};
use crate::attempt::{Attempt, Phase};
use crate::carried;
use crate::removals::{Removal, Removals};
use crate::worker::{self, Finished};

/// Longest wait for the remaining processes of a job after KILL, in ms: only an uninterruptible wait takes longer.
const SWEEP: u64 = 5_000;

/// Additional ms until a sweeping worker is killed itself, because a process of the job blocks it.
const SWEEP_STUCK: u64 = 2_000;

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
                    Finished::Failed(reason) => {
                        self.trouble(format!("cannot kill the remains of a job: {reason}"));
                        1
                    }
                    Finished::Killed => 1,
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
        let Phase::Carrying { plan, descriptors, .. } = std::mem::replace(&mut attempt.phase, Phase::Idle) else {
            return;
        };
        match finished {
            Finished::Code(0) if !attempt.watch.is_stopping() => self.begin(handle, *plan, descriptors),
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

    /// Kills the remaining processes of a job in a worker, if there may be any.
    pub(super) fn kill_rest(&mut self, handle: Handle, group: Option<Group>, mark: Mark, now: BootTime) {
        // Most jobs leave nothing behind, so reading all of /proc can be avoided. Jobs of root can leave their groups.
        let is_clean = group.as_ref().is_none_or(|group| group.is_empty().unwrap_or(false));
        if is_clean && self.is_alone_with_leaders() {
            return self.emptied(handle, 0);
        }
        let patience = Duration::from_millis(SWEEP);
        let code = move || {
            let in_group = group.map_or(Ok(0), |group| group.kill(patience)).map_err(|error| error.to_string())?;
            Ok(u8::try_from(in_group.max(sweep(&mark, patience))).unwrap_or(u8::MAX))
        };
        match worker::start(None, now.plus(SWEEP + SWEEP_STUCK), code) {
            Ok(worker) => {
                self.workers.insert(worker.pid, (worker, Work::Sweep(handle)));
            }
            Err(error) => {
                self.trouble(format!("cannot search for the remains of a job: {error}"));
                self.emptied(handle, 0);
            }
        }
    }

    /// Returns true if all remaining processes of jobs are led by leaders. A process that outlives its parent becomes
    /// a child of this process. Returns false also if the kernel does not answer.
    fn is_alone_with_leaders(&self) -> bool {
        let own = |child: &Pid| {
            self.workers.contains_key(child)
                || self.abandoned.iter().any(|one| one.pid == *child)
                || self.attempts.values().any(|attempt| attempt.child() == Some(*child))
        };
        children().is_some_and(|children| children.iter().all(own))
    }
}
