//! Ends that somebody asked for: of one job, and of the daemon.

use std::time::Duration;

use limo_model::{Attempt as Number, JobId, Outcome, Usage};
use nix::libc;
use tokio::time::Instant;
use tracing::info;

use super::Node;
use crate::attempt::{Attempt, State};
use crate::kill;
use crate::spool::End;

/// What jobs get between TERM and KILL when the daemon ends.
const GRACE: Duration = Duration::from_secs(5);

/// How long the daemon then waits for the master to take the ends and the last output.
const FAREWELL: Duration = Duration::from_secs(2);

/// The daemon is ending.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Set once nothing runs any more: when to go even if the master has not taken everything.
    pub(super) until: Option<Instant>,
    done: bool,
}

impl Node {
    /// TERM to the job, and after `grace` KILL to everything of it. Asked again, the earlier KILL counts.
    pub(super) fn stop(&mut self, job: JobId, number: Number, grace: Duration) {
        let Some(attempt) = self.attempts.find(job, number) else {
            return self.not_here(job, number);
        };
        let deadline = Instant::now() + grace;
        match &mut attempt.state {
            State::Running(running) | State::Suspended(running) => {
                let running = *running;
                let suspended = matches!(attempt.state, State::Suspended(_));
                info!(%job, ?grace, "stopping the job");
                attempt.state = State::Stopping { running, kill_at: Some(deadline) };
                kill::group(running.leader, libc::SIGTERM);
                if running.terminal {
                    // An interactive shell ignores TERM.
                    kill::group(running.leader, libc::SIGHUP);
                }
                // A job that is stopped would otherwise get it only with the KILL.
                kill::group(running.leader, libc::SIGCONT);
                if suspended {
                    self.goes_on(job);
                }
            }
            State::Stopping { kill_at: Some(kill_at), .. } => *kill_at = deadline.min(*kill_at),
            State::Held(_) => {
                // It was never let go, and never will be.
                if let Some(streams) = self.streams.get_mut(&job) {
                    streams.close();
                }
                self.send_output(job);
                let end = End { outcome: Outcome::Signaled(libc::SIGTERM), usage: Usage::default() };
                self.ended(job, number, end);
            }
            State::Stopping { .. } | State::Sweeping(_) | State::Ended(_) => {}
        }
    }

    pub(super) fn kill_overdue(&mut self, now: Instant) {
        for (job, attempt) in &mut self.attempts.known {
            if let State::Stopping { running, kill_at } = &mut attempt.state
                && kill_at.is_some_and(|at| at <= now)
            {
                info!(%job, "killing the job");
                *kill_at = None;
                // What is outside the group follows when the leader is collected.
                kill::group(running.leader, libc::SIGKILL);
            }
        }
    }

    /// The daemon shall end: so do its jobs, in order.
    pub(super) fn terminate(&mut self) {
        if self.closing.is_some() {
            return;
        }
        info!("the node ends; jobs are stopped");
        self.closing = Some(Closing::default());
        // Those that are being stopped, too: their grace may be longer than the daemon's.
        let running = self.attempts.known.iter().filter(|(_, attempt)| attempt.running().is_some());
        let jobs: Vec<_> = running.map(|(&job, attempt)| (job, attempt.number)).collect();
        for (job, number) in jobs {
            self.stop(job, number, GRACE);
        }
    }

    /// Ends the daemon once nothing runs and the master has everything, or cannot take it.
    pub(super) fn close_when_done(&mut self) {
        let alive = self.attempts.known.values().any(Attempt::is_alive);
        let untold = self.attempts.known.values().any(|attempt| matches!(attempt.state, State::Ended(_)));
        let held = |job| matches!(self.attempts.known.get(job), Some(Attempt { state: State::Held(_), .. }));
        let undelivered = self.streams.keys().any(|job| !held(job));
        let registered = self.is_registered();
        let Some(closing) = &mut self.closing else { return };
        if alive || closing.done {
            return;
        }
        let now = Instant::now();
        let until = *closing.until.get_or_insert(now + FAREWELL);
        if !registered || !(untold || undelivered) || now >= until {
            closing.done = true;
            closing.until = Some(now + FAREWELL);
            // Without a sender the connection ends after everything has been written out.
            self.link = None;
        }
    }

    pub fn is_finished(&self) -> bool {
        let late = |closing: &Closing| closing.until.is_some_and(|until| until <= Instant::now());
        let gone = |closing: &Closing| closing.done && (!self.connected || late(closing));
        self.refused.is_some() || self.closing.as_ref().is_some_and(gone)
    }

    /// # Errors
    /// Where the master refused the node.
    pub fn result(self) -> anyhow::Result<()> {
        match self.refused {
            Some(reason) => anyhow::bail!("the master refuses this node: {reason}"),
            None => Ok(()),
        }
    }
}
