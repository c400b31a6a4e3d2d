//! Checkpoints of jobs: by their processes at a signal, or by a command.

use limo_containment::Group;
use limo_shepherd::{Answer, BootTime, CommandFailure, Handle};
use nix::libc;
use nix::unistd::Pid;

use super::Shepherd;
use crate::attempt::Phase;
use crate::watch::Due;

/// Status, as in `waitpid(2)`, of a command that could not be started: code 127, as of a shell.
const NOT_STARTED: i32 = 127 << 8;

impl Shepherd {
    /// Makes a checkpoint after `ran` milliseconds of running. The end of a signal's is unknown.
    pub(super) fn checkpoint(&mut self, handle: Handle, signal: Option<i32>, ran: u64) {
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        if let Some(signal) = signal {
            attempt.signal(signal);
            attempt.kept = (ran, 0);
            return self.tell_checkpoint(handle, None);
        }
        let Phase::Running { leader, .. } = attempt.phase else { return };
        let entry = attempt.group.as_ref().map(Group::entry).transpose().map_err(std::io::Error::other);
        let started = match &mut attempt.command {
            Some(command) => entry.and_then(|entry| command.start(leader, entry)),
            None => Err(std::io::Error::other("the plan has none")),
        };
        if let Err(error) = started {
            self.trouble(format!("cannot start the command for checkpoints: {error}"));
            self.command_over(handle, NOT_STARTED);
        }
    }

    /// Ends a job after a checkpoint, if it makes any. It must run for that, even if it is suspended.
    pub(super) fn evict(&mut self, handle: Handle, grace: u64) {
        let now = BootTime::now();
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        let due = attempt.watch.evict(grace, now);
        if due == Some(Due::Term(limo_shepherd::Why::Stop)) {
            return attempt.terminate();
        }
        if let Some(Due::Checkpoint(signal @ Some(_), ran)) = due {
            // Processes act on it as soon as they continue.
            self.checkpoint(handle, signal, ran);
        }
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        attempt.signal(libc::SIGCONT);
        let thawed = attempt.freeze(false, now);
        thawed.unwrap_or_else(|error| self.trouble(format!("the job does not continue for its checkpoint: {error}")));
        if let Some(Due::Checkpoint(None, ran)) = due {
            self.checkpoint(handle, None, ran);
        }
    }

    /// Returns the job for which a process makes a checkpoint.
    pub(super) fn checkpointer(&self, child: Pid) -> Option<Handle> {
        let commands = self.attempts.iter().filter_map(|(handle, attempt)| Some((handle, attempt.command.as_ref()?)));
        commands.into_iter().find(|(_, command)| command.pid() == Some(child)).map(|(handle, _)| *handle)
    }

    /// Handles the end of the command for a checkpoint. A failed one keeps the last checkpoint.
    pub(super) fn command_over(&mut self, handle: Handle, status: i32) {
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        let is_late = attempt.command.as_mut().is_some_and(|command| command.ended());
        let Some((ran, took)) = attempt.watch.command_ended(BootTime::now()) else { return };
        // After the end of the job, nothing needs the checkpoint.
        let Phase::Running { .. } = attempt.phase else { return };
        if status == 0 {
            attempt.kept = (ran, took);
        }
        self.tell_checkpoint(handle, (status != 0).then_some(CommandFailure { status, is_late }));
    }

    /// Tells about the last checkpoint. This answer replaces earlier ones, so that their number does not grow.
    fn tell_checkpoint(&mut self, handle: Handle, failed: Option<CommandFailure>) {
        let is_later = |answer: &Answer| !matches!(answer, Answer::Checkpointed { handle: of, .. } if *of == handle);
        self.answers.retain(is_later);
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        attempt.told.retain(is_later);
        let (ran, took) = attempt.kept;
        self.tell(handle, Answer::Checkpointed { handle, ran, took, failed });
    }
}
