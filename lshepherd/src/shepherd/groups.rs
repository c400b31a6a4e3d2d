//! Control groups of attempts: the resources that were used in them, and their removal.

use limo_containment::{ContainError, Group, Usage};
use limo_shepherd::{Ended, Handle};
use nix::libc;

use super::Shepherd;

impl Shepherd {
    /// Replaces the usage of the leader and its awaited children by that of all processes in the group, and notes if the
    /// job failed because it exceeded its memory.
    pub(super) fn measure(&mut self, group: &Group, ended: &mut Ended) {
        match group.usage() {
            Ok(Some(Usage { user_cpu, system_cpu })) => (ended.user_cpu, ended.system_cpu) = (user_cpu, system_cpu),
            Ok(None) => {}
            Err(error) => self.trouble(format!("the CPU time of a job is incomplete: {error}")),
        }
        match group.peak_memory() {
            Ok(peak) => ended.max_rss = peak.unwrap_or(ended.max_rss),
            Err(error) => self.trouble(format!("the memory of a job is that of one process: {error}")),
        }
        let has_succeeded = libc::WIFEXITED(ended.status) && libc::WEXITSTATUS(ended.status) == 0;
        if has_succeeded {
            return;
        }
        match group.exceeded_memory() {
            Ok(limit) => ended.exceeded_memory = limit,
            Err(error) => self.trouble(format!("it is unknown if a job exceeded its memory: {error}")),
        }
    }

    /// Has the group of an attempt removed, as nothing of the attempt is left.
    pub(super) fn leave_group(&mut self, handle: Handle) {
        self.closing.extend(self.attempts.get_mut(&handle).and_then(|attempt| attempt.group.take()));
    }

    /// Removes groups of attempts that are over. A group whose last process has not ended is tried again after the next
    /// end of a child; at last, `lslave` removes it when it starts.
    pub fn close_groups(&mut self) {
        for group in std::mem::take(&mut self.closing) {
            match group.close() {
                Ok(()) => {}
                Err(ContainError::Busy { .. }) => self.closing.push(group),
                Err(error) => self.trouble(format!("the control group of a job stays: {error}")),
            }
        }
    }
}
