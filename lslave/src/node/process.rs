//! What runs: starts, ends, and what is left after an end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limo_model::{Attempt as Number, JobId, Outcome, Span, Usage};
use limo_proto::{DoExec, NodeToMaster};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::{Input, Node};
use crate::attempt::{Attempt, Running, State};
use crate::io;
use crate::kill;
use crate::launch::{Pipes, Surroundings, remove_carried, spawn};
use crate::reap::{self, Collected};
use crate::spool::End;

/// How long what a job left behind gets to be gone after KILL: only a process in an uninterruptible wait takes longer.
const SWEEP: Duration = Duration::from_secs(5);

/// By the clock of this machine; 0 where that was never set.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Node {
    /// The master let a held attempt go.
    pub(super) fn start(&mut self, exec: &DoExec, cookie: &str) {
        let (job, number) = (exec.job, exec.attempt);
        // From here on a daemon that comes after this one believes that the command has run.
        if let Err(error) = self.spool.going(job, number) {
            return self.not_started(job, number, 126, error.to_string());
        }
        let plan = self.plan(exec);
        let emulated_work = plan.as_ref().is_some_and(|plan| plan.work.is_some());
        match spawn(exec, &Surroundings { spec: &self.spec, cookie, emulated_work, now_s: now_s() }) {
            Ok(process) => {
                info!(%job, attempt = %number, pid = process.leader.as_raw(), "job started");
                let terminal = process.pipes.as_ref().is_some_and(|pipes| pipes.terminal.is_some());
                let running = Running { leader: process.leader, since: Instant::now(), halted: false, terminal };
                if let Some(attempt) = self.attempts.find(job, number) {
                    attempt.state = State::Running(running);
                }
                if let Some(pipes) = process.pipes {
                    self.connect_pipes(job, pipes);
                }
                if let Some(plan) = plan {
                    self.work_begins(job, plan, process.work);
                }
                self.send(NodeToMaster::Started { job, attempt: number });
                self.send_reading();
            }
            Err(error) => self.not_started(job, number, error.code(), error.to_string()),
        }
    }

    fn connect_pipes(&mut self, job: JobId, pipes: Pipes) {
        let connected = match (self.streams.get_mut(&job), self.inputs.upgrade()) {
            (Some(streams), Some(inputs)) => streams.start(job, pipes, &inputs),
            // Nobody wants them any more.
            _ => io::drain(pipes),
        };
        if let Err(error) = connected {
            error!(%job, %error, "the job's stdio is not connected");
        }
        // The ends of the streams that go to files.
        self.send_output(job);
    }

    fn not_started(&mut self, job: JobId, number: Number, code: u8, reason: String) {
        warn!(%job, attempt = %number, code, reason, "job not started");
        if let Some(streams) = self.streams.get_mut(&job) {
            streams.close();
        }
        self.send_output(job);
        self.ended(job, number, End { outcome: Outcome::NotStarted { code, reason }, usage: Usage::default() });
    }

    /// The attempt is over for good.
    pub(super) fn ended(&mut self, job: JobId, number: Number, end: End) {
        let end = End { outcome: end.outcome.clipped(), ..end };
        self.record_end(job, number, &end);
        self.send_end(job, number, end.clone());
        if let Some(attempt) = self.attempts.find(job, number) {
            remove_carried(&attempt.cookie);
            attempt.state = State::Ended(end);
        }
        self.tidy(job);
    }

    pub(super) fn collect_children(&mut self) {
        while let Some(child) = reap::ended_child() {
            let job = self.attempts.known.iter().find_map(|(&job, attempt)| {
                attempt.running().filter(|running| running.leader == child).map(|running| (job, running))
            });
            if job.is_some() {
                // Before it is collected, while the number of the group is surely its own.
                kill::group(child, nix::libc::SIGKILL);
            }
            match (reap::collect(child), job) {
                (Some(collected), Some((job, running))) => self.leader_ended(job, running, &collected),
                (Some(_), None) => {}
                (None, _) => return,
            }
        }
    }

    fn leader_ended(&mut self, job: JobId, running: Running, collected: &Collected) {
        let energy = self.run_ends(job);
        let elapsed = i64::try_from(running.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let usage = Usage {
            elapsed: Span::from_ms(elapsed),
            user_cpu: collected.user_cpu,
            system_cpu: collected.system_cpu,
            max_rss: collected.max_rss,
            energy,
        };
        info!(%job, outcome = ?collected.outcome, elapsed = %usage.elapsed, "job ended");
        if let Some(streams) = self.streams.get_mut(&job) {
            streams.job_over();
        }
        let Some(attempt) = self.attempts.known.get_mut(&job) else { return };
        attempt.state = State::Sweeping(End { outcome: collected.outcome.clone(), usage });
        let cookie = attempt.cookie.clone();
        let leads = |child| {
            let mut running = self.attempts.known.values().filter_map(Attempt::running);
            running.any(|running| running.leader == child)
        };
        // Most jobs leave nothing behind, and then all of /proc need not be read.
        if kill::is_alone_with(leads) {
            self.swept(job);
        } else {
            self.sweep(job, cookie);
        }
    }

    /// Kills what carries the cookie, outside the loop, because it reads all of /proc.
    fn sweep(&self, job: JobId, cookie: String) {
        let Some(inputs) = self.inputs.upgrade() else { return };
        tokio::task::spawn_blocking(move || {
            let left = kill::sweep(&cookie, SWEEP);
            if left > 0 {
                error!(%job, left, "processes of the job cannot be killed");
            }
            // A loop that is gone has ended with the daemon.
            let _ = inputs.blocking_send(Input::Swept { job });
        });
    }

    pub(super) fn swept(&mut self, job: JobId) {
        let Some(Attempt { number, state: State::Sweeping(end), .. }) = self.attempts.known.get(&job) else { return };
        let (number, end) = (*number, end.clone());
        self.ended(job, number, end);
        self.send_reading();
    }
}
