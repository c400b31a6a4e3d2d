//! Requested ends of jobs and of the daemon.

use std::time::Duration;

use limo_model::{Attempt as Number, JobId};
use limo_shepherd::{Order, Why};
use tracing::info;

use super::Node;
use crate::attempt::{Attempt, Running, Stage, State};
use crate::exchange::{Effect, JobsAtExit};

/// Time between TERM and KILL when the daemon ends.
const GRACE: Duration = Duration::from_secs(5);

/// Longest time for the master to take the ends and the last output.
const FAREWELL: Duration = Duration::from_secs(2);

/// State of the ending daemon.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Deadline for the master to take everything; set as soon as all processes have ended.
    pub(super) until: Option<Duration>,
    /// True if the jobs go on.
    keeps_jobs: bool,
    done: bool,
}

impl Node {
    /// Sends TERM to the job, and KILL to all of its processes after `grace`. A repeated request does not postpone
    /// KILL.
    pub(super) fn stop(&mut self, job: JobId, number: Number, grace: Duration) {
        self.end_job((job, number), grace, false);
    }

    /// Like [`Node::stop`], but a job that makes checkpoints makes one first, within `grace`.
    pub(super) fn evict(&mut self, job: JobId, number: Number, grace: Duration) {
        self.end_job((job, number), grace, true);
    }

    fn end_job(&mut self, (job, number): (JobId, Number), grace: Duration, evicts: bool) {
        let Some(attempt) = self.attempts.find(job, number) else {
            return self.not_here(job, number);
        };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        match &mut attempt.state {
            State::Running(running) | State::Suspended(running) => {
                let running = *running;
                let suspended = matches!(attempt.state, State::Suspended(_));
                info!(%job, ?grace, "stopping the job");
                attempt.state = State::Stopping(running);
                self.order(Order::Stop { handle: running.handle, grace: grace_ms, evicts });
                if suspended {
                    self.goes_on(job);
                }
            }
            State::Stopping(Running { handle, .. }) => {
                let handle = *handle;
                self.order(Order::Stop { handle, grace: grace_ms, evicts });
            }
            State::Starting(starting) => {
                starting.stopping = true;
                match starting.stage {
                    Stage::Ordered(handle) => self.order(Order::Stop { handle, grace: grace_ms, evicts }),
                    Stage::Recording | Stage::LookingUp { .. } => self.stopped_early(job, number),
                }
            }
            State::Preparing(preparing) => {
                preparing.stopping = true;
                self.effect(Effect::EndProlog { job, attempt: number });
            }
            // The attempt was never released, and never will be.
            State::Accepting(_) | State::Held(_) => self.stopped_early(job, number),
            State::Sweeping(_) | State::Concluding(_) | State::Recording(_) | State::Ended(_) => {}
        }
    }

    /// Handles a timer of `lshepherd` that ends the job.
    pub(super) fn stopping(&mut self, job: JobId, why: Why) {
        let Some(attempt) = self.attempts.known.get_mut(&job) else { return };
        match &mut attempt.state {
            State::Running(running) | State::Suspended(running) => {
                let running = *running;
                let suspended = matches!(attempt.state, State::Suspended(_));
                info!(%job, ?why, "the job is being stopped");
                attempt.state = State::Stopping(running);
                if suspended {
                    self.goes_on(job);
                }
            }
            State::Starting(starting) => starting.stopping = true,
            State::Accepting(_)
            | State::Preparing(_)
            | State::Held(_)
            | State::Stopping(_)
            | State::Sweeping(_)
            | State::Concluding(_)
            | State::Recording(_)
            | State::Ended(_) => {}
        }
    }

    /// Begins to end the daemon.
    pub(super) fn terminate(&mut self, jobs: JobsAtExit) {
        if let Some(closing) = &self.closing
            && (!closing.keeps_jobs || closing.done || jobs == JobsAtExit::Keep)
        {
            return;
        }
        if jobs == JobsAtExit::Keep {
            info!("the node ends; its jobs go on");
            self.closing = Some(Closing { keeps_jobs: true, ..Closing::default() });
            return;
        }
        info!("the node ends; jobs are stopped");
        self.closing = Some(Closing::default());
        // These include jobs that are being stopped: their grace may be longer than the daemon's.
        let running = self.attempts.known.iter().filter(|(_, attempt)| attempt.is_stoppable());
        let jobs: Vec<_> = running.map(|(&job, attempt)| (job, attempt.number)).collect();
        for (job, number) in jobs {
            self.stop(job, number, GRACE);
        }
    }

    /// Returns true if a job runs, or is accepted.
    pub fn has_jobs(&self) -> bool {
        self.attempts.known.values().any(Attempt::is_alive)
    }

    /// Ends the daemon once no job runs and the master has everything, or cannot take it.
    pub(super) fn close_when_done(&mut self) {
        let alive = self.has_jobs();
        let untold = self.attempts.known.values().any(|attempt| matches!(attempt.state, State::Ended(_)));
        let held = |job| {
            let attempt = self.attempts.known.get(job);
            attempt.is_some_and(|attempt| {
                matches!(attempt.state, State::Accepting(_) | State::Preparing(_) | State::Held(_))
            })
        };
        let undelivered = self.streams.keys().any(|job| !held(job));
        let registered = self.is_registered();
        let is_writing = !self.writing.is_empty();
        let Some(closing) = &mut self.closing else { return };
        if (alive && !closing.keeps_jobs) || closing.done {
            return;
        }
        let now = self.now.since;
        let until = *closing.until.get_or_insert(now + FAREWELL);
        // The next daemon tells what this one does not.
        let is_waiting = if closing.keeps_jobs { is_writing } else { registered && (untold || undelivered) };
        if !is_waiting || now >= until {
            closing.done = true;
            closing.until = Some(now + FAREWELL);
            self.link = None;
            self.effect(Effect::HangUp);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        let late = |closing: &Closing| closing.until.is_some_and(|until| until <= self.now.since);
        let gone = |closing: &Closing| closing.done && (!self.connected || late(closing));
        self.refused.is_some() || self.failed.is_some() || self.closing.as_ref().is_some_and(gone)
    }
}
