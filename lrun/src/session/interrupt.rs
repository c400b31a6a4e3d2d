//! Meaning of `lrun`'s signals for its job.
//!
//! Before the job runs, signals that would end a command cancel it. A running job gets them in its process group;
//! SIGINT twice within a second stops it. Several tasks behave as in srun: the first SIGINT only warns, the second
//! within a second reaches the tasks, and the third stops them. SIGTSTP reaches the job as SIGSTOP, because a process
//! group without a shell ignores SIGTSTP, and also stops `lrun`.

use std::time::Duration;

use limo_proto::ClientToMaster;
use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP};

use super::{Effect, Leave, News, Phase, Session};

/// Longest time between two interrupts that count together, as in srun.
const TWICE: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn signal(&mut self, now: Duration, signal: i32) {
        match signal {
            SIGTSTP => {
                self.forward(SIGSTOP);
                self.effects.push(Effect::StopSelf);
            }
            SIGINT | SIGTERM | SIGHUP | SIGQUIT => self.interrupted(now, signal),
            other => self.forward(other),
        }
    }

    fn forward(&mut self, signal: i32) {
        if let (Some(job), Phase::Running) = (self.job, self.phase) {
            self.send(ClientToMaster::Signal { job, signal });
        }
    }

    fn interrupted(&mut self, now: Duration, signal: i32) {
        let before = self.last_interrupt.replace((now, signal));
        let again = before.is_some_and(|(at, before)| before == signal && now.saturating_sub(at) <= TWICE);
        self.in_a_row = if again { self.in_a_row + 1 } else { 1 };
        let tasks = self.exec.request.spread.map_or(1, |spread| spread.tasks.get());
        match self.phase {
            // The exit code is known, and the user does not want to wait for the remaining output.
            Phase::Over => self.leave_over(),
            _ if again && !self.connected => self.leave(Leave::Interrupted { signal, job: self.job }),
            Phase::Submitting | Phase::Waiting if self.interrupt.is_some() => {
                self.leave(Leave::Interrupted { signal, job: self.job });
            }
            Phase::Submitting | Phase::Waiting => {
                self.interrupt = Some(signal);
                self.cancel();
            }
            Phase::Running if tasks > 1 && signal == SIGINT && self.connected => match self.in_a_row {
                1 => self.say(News::Asked { tasks, node: self.node.clone() }),
                2 => self.forward(signal),
                _ => self.cancel(),
            },
            Phase::Running if again && signal == SIGINT => self.cancel(),
            Phase::Running => self.forward(signal),
        }
    }
}
