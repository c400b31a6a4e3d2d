//! What runs: starts, ends, and what is left after an end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limo_model::{Attempt as Number, JobId, Memory, Outcome, Power, Span, Usage};
use limo_power::Attributed;
use limo_proto::{DoExec, MasterToNode, NodeToMaster};
use limo_shepherd::processes::{Mark, children, sweep};
use limo_shepherd::{Answer, Ended, Handle, Identity, Launch, Order, Step, Why};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::{debug, error, info, warn};

use super::lease::ms;
use super::{Input, Node};
use crate::attempt::{Attempt, Running, Starting, State, Swept, lost};
use crate::io;
use crate::launch::{LaunchError, Pipes, Surroundings, prepare};
use crate::shepherd::Shepherd;
use crate::spool::End;
use crate::users::{Found, PATIENCE_S};

/// How long what a job left behind gets to be gone after KILL: only a process in an uninterruptible wait takes longer.
const SWEEP: Duration = Duration::from_secs(5);

/// How long entering a job's directory, opening its files and executing its program may take, in seconds.
const LAUNCH_DEADLINE_S: u64 = 30;

/// Messages that wait for a command to run; more are dropped.
const DEFERRED: usize = 64;

/// The reason of jobs whose `lshepherd` was killed.
const SHEPHERD_KILLED: &str = "lshepherd, which ran the job on its node, was killed";

/// By the clock of this machine; 0 where that was never set.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Node {
    /// The master let a held attempt go.
    pub(super) fn start(&mut self, exec: DoExec, expected: Power) {
        let (job, number, uid) = (exec.job, exec.attempt, exec.launch.uid);
        if !self.begin_lease(job, number, exec.lease) {
            return;
        }
        // From here on a daemon that comes after this one believes that the command has run.
        if let Err(error) = self.spool.going(job, number) {
            return self.not_started(job, number, 126, error.to_string());
        }
        let work = self.plan(&exec);
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let starting = Starting { exec, expected, work, ordered: None, stopping: false, deferred: Vec::new() };
        attempt.state = State::Starting(Box::new(starting));
        match self.users.find(uid, &self.inputs) {
            Ok(Found::Known(identity)) => self.launch(job, number, identity),
            Ok(Found::Asked) => self.await_user(job, number),
            Err(error) => self.not_started(job, number, error.code(), error.to_string()),
        }
    }

    /// Has the launch given up if the user is not found in time.
    fn await_user(&self, job: JobId, number: Number) {
        let Some(inputs) = self.inputs.upgrade() else { return };
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(PATIENCE_S)).await;
            // A loop that is gone has ended with the daemon.
            let _ = inputs.send(Input::UserLate { job, attempt: number }).await;
        });
    }

    /// The jobs whose user is being looked up, with their users.
    fn awaiting_users(&self) -> impl Iterator<Item = (JobId, Number, u32)> {
        self.attempts.known.iter().filter_map(|(&job, attempt)| match &attempt.state {
            State::Starting(starting) if starting.ordered.is_none() => {
                Some((job, attempt.number, starting.exec.launch.uid))
            }
            _ => None,
        })
    }

    pub(super) fn user_found(&mut self, uid: u32, result: Result<Identity, LaunchError>) {
        self.users.found(uid, &result);
        let waiting: Vec<_> = self.awaiting_users().filter(|(_, _, own)| *own == uid).collect();
        for (job, number, _) in waiting {
            match &result {
                Ok(identity) => self.launch(job, number, Some(identity.clone())),
                Err(error) => self.not_started(job, number, error.code(), error.to_string()),
            }
        }
    }

    pub(super) fn user_late(&mut self, job: JobId, number: Number) {
        let waiting = self.awaiting_users().find(|(one, its, _)| (*one, *its) == (job, number));
        if let Some((_, _, uid)) = waiting {
            let error = LaunchError::LookUpLate { uid, limit_s: PATIENCE_S };
            self.not_started(job, number, error.code(), error.to_string());
        }
    }

    /// Orders the launch.
    fn launch(&mut self, job: JobId, number: Number, identity: Option<Identity>) {
        let lease = self.leases.get(&job).map(|leased| leased.lease);
        let lease_end = lease.and_then(|lease| self.lease_end(lease));
        let Some(Attempt { cookie, state: State::Starting(starting), .. }) = self.attempts.find(job, number) else {
            return;
        };
        let emulated_work = starting.work.as_ref().is_some_and(|plan| plan.work.is_some());
        let around = Surroundings { spec: &self.spec, cookie, identity, emulated_work, now_s: now_s() };
        let ordered = prepare(&starting.exec, around).and_then(|prepared| {
            let handle = self.shepherd.handle();
            let launch_deadline = LAUNCH_DEADLINE_S * 1000;
            let time_limit = starting.exec.time_limit.map(ms);
            let warning = starting.exec.warning.map(|warning| (warning.signal, ms(warning.before)));
            // The master counts on the grace of a lease, which none exceeds.
            let kill_grace = ms(starting.exec.kill_grace);
            let launch = Launch { handle, time_limit, warning, kill_grace, lease: lease_end, launch_deadline };
            let ordered = self.shepherd.launch(&launch, &prepared.plan, prepared.descriptors);
            ordered.map_err(|error| LaunchError::Launcher(error.to_string()))?;
            Ok((handle, prepared.ours))
        });
        match ordered {
            Ok(ordered) => starting.ordered = Some(ordered),
            Err(error) => self.not_started(job, number, error.code(), error.to_string()),
        }
    }

    /// Keeps a message until the command runs. Whether it does not run yet.
    pub(super) fn deferred(&mut self, job: JobId, number: Number, message: MasterToNode) -> bool {
        let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) else {
            return false;
        };
        if starting.deferred.len() < DEFERRED {
            starting.deferred.push(message);
        }
        true
    }

    /// An answer of `lshepherd` arrived.
    pub(super) fn answered(&mut self, answer: Answer) {
        let handle = match &answer {
            Answer::Hello { pid } => {
                self.shepherd_ready = true;
                return debug!(pid, "lshepherd is ready");
            }
            Answer::Trouble { text } => return warn!("lshepherd: {text}"),
            Answer::Started { handle, .. }
            | Answer::NotStarted { handle, .. }
            | Answer::Stopping { handle, .. }
            | Answer::Exited { handle, .. }
            | Answer::Emptied { handle, .. } => *handle,
        };
        let mut known = self.attempts.known.iter();
        let Some((&job, attempt)) = known.find(|(_, attempt)| attempt.handle() == Some(handle)) else {
            return debug!(%handle, "an answer about a job that is gone");
        };
        let number = attempt.number;
        match answer {
            Answer::Started { leader, .. } => self.launched(job, number, (handle, leader)),
            Answer::NotStarted { step, errno, reason, .. } => {
                self.not_launched(job, number, (Step::of(step), errno, reason));
            }
            Answer::Stopping { why, .. } => {
                self.lease_ends(job, why);
                self.stopping(job, why);
            }
            Answer::Exited { ended, .. } => {
                self.lease_ends(job, ended.why);
                self.leader_ended(job, handle, &ended);
            }
            Answer::Emptied { left, .. } => {
                if left > 0 {
                    error!(%job, left, "processes of the job cannot be killed");
                }
                self.swept(job);
            }
            Answer::Hello { .. } | Answer::Trouble { .. } => {}
        }
    }

    fn launched(&mut self, job: JobId, number: Number, (handle, leader): (Handle, i32)) {
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Starting(starting) = &mut attempt.state else { return };
        let Some((_, ours)) = starting.ordered.take() else { return };
        info!(%job, attempt = %number, pid = leader, "job started");
        let terminal = ours.pipes.as_ref().is_some_and(|pipes| pipes.terminal.is_some());
        let uid = starting.exec.launch.uid;
        let running = Running { handle, leader: Pid::from_raw(leader), uid, halted: false, terminal };
        let (work, deferred) = (starting.work.take(), std::mem::take(&mut starting.deferred));
        let expected = starting.expected;
        attempt.state = if starting.stopping { State::Stopping(running) } else { State::Running(running) };
        if let Some(pipes) = ours.pipes {
            self.connect_pipes(job, pipes);
        }
        if let Some(work) = work {
            self.work_begins(job, work, ours.work);
        }
        self.energy_begins(job, expected);
        self.send(NodeToMaster::Started { job, attempt: number });
        self.send_reading();
        deferred.into_iter().for_each(|message| self.asked(message));
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

    fn not_launched(&mut self, job: JobId, number: Number, (step, errno, reason): (Step, i32, String)) {
        let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) else { return };
        if starting.stopping {
            return self.stopped_early(job, number);
        }
        let Some((_, ours)) = &starting.ordered else { return };
        let error = ours.explanation.of((step, errno), reason, LAUNCH_DEADLINE_S);
        self.not_started(job, number, error.code(), error.to_string());
    }

    fn not_started(&mut self, job: JobId, number: Number, code: u8, reason: String) {
        warn!(%job, attempt = %number, code, reason, "job not started");
        self.never_runs(job, number, Outcome::NotStarted { code, reason });
    }

    /// The job was stopped before its command ran.
    pub(super) fn stopped_early(&mut self, job: JobId, number: Number) {
        self.never_runs(job, number, Outcome::Signaled(libc::SIGTERM));
    }

    pub(super) fn never_runs(&mut self, job: JobId, number: Number, outcome: Outcome) {
        if let Some(streams) = self.streams.get_mut(&job) {
            streams.close();
        }
        self.send_output(job);
        self.ended(job, number, End { outcome, usage: Usage::default() });
    }

    /// The attempt is over for good.
    pub(super) fn ended(&mut self, job: JobId, number: Number, end: End) {
        let end = self.without_lease(job, number, end);
        let end = End { outcome: end.outcome.clipped(), ..end };
        self.record_end(job, number, &end);
        self.send_end(job, number, end.clone());
        if let Some(attempt) = self.attempts.find(job, number) {
            attempt.state = State::Ended(end);
        }
        self.tidy(job);
    }

    fn leader_ended(&mut self, job: JobId, handle: Handle, ended: &Ended) {
        let span = |ms: u64| Span::from_ms(i64::try_from(ms).unwrap_or(i64::MAX));
        let elapsed = span(ended.elapsed);
        self.energy_ends(job, Some(elapsed));
        let energy = self.work_ends(job, Some(elapsed));
        let usage = Usage {
            elapsed,
            user_cpu: span(ended.user_cpu),
            system_cpu: span(ended.system_cpu),
            max_rss: Memory::from_bytes(ended.max_rss),
            energy,
            confidence: energy.map_or(0, |_| 1_000),
        };
        let status = ExitStatus::from_raw(ended.status);
        let outcome = match (status.code(), status.signal()) {
            (Some(code), _) => Outcome::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => Outcome::Signaled(signal.unwrap_or(libc::SIGKILL)),
        };
        let outcome = if ended.why == Why::Limit { outcome.at_limit() } else { outcome };
        info!(%job, ?outcome, elapsed = %usage.elapsed, "job ended");
        if let Some(streams) = self.streams.get_mut(&job) {
            streams.job_over();
        }
        let Some(attempt) = self.attempts.known.get_mut(&job) else { return };
        attempt.state = State::Sweeping(Swept { end: End { outcome, usage }, handle: Some(handle) });
    }

    pub(super) fn swept(&mut self, job: JobId) {
        let Some(Attempt { number, state: State::Sweeping(swept), .. }) = self.attempts.known.get(&job) else { return };
        let (number, mut end) = (*number, swept.end.clone());
        if self.awaits_look(job, end.usage.elapsed) {
            return;
        }
        if let Some(Attributed { energy, confidence }) = self.energy_used(job) {
            (end.usage.energy, end.usage.confidence) = (Some(energy), confidence);
        }
        self.ended(job, number, end);
        self.send_reading();
    }

    /// `lshepherd` was killed: nothing of its jobs may be left, and nobody knows how they would have ended.
    pub(super) fn shepherd_lost(&mut self) {
        error!("lshepherd was killed; the jobs of this node are lost");
        // Its children have become this process's.
        for child in children().unwrap_or_default() {
            let _ = kill(child, Signal::SIGKILL);
        }
        let mut sweeps = Vec::new();
        for (&job, attempt) in self.attempts.known.iter_mut().filter(|(_, attempt)| attempt.handle().is_some()) {
            let uid = match &attempt.state {
                State::Starting(starting) => starting.exec.launch.uid,
                _ => attempt.running().map_or(0, |running| running.uid),
            };
            sweeps.push((job, Mark { cookie: attempt.cookie.clone(), uid }));
            attempt.state = match &attempt.state {
                State::Sweeping(swept) => State::Sweeping(Swept { handle: None, ..swept.clone() }),
                _ => State::Sweeping(Swept { end: lost(SHEPHERD_KILLED), handle: None }),
            };
        }
        for (job, mark) in sweeps {
            self.energy_ends(job, None);
            self.work_ends(job, None);
            if let Some(streams) = self.streams.get_mut(&job) {
                streams.job_over();
                // Those of a command that never ran end here.
                streams.close_unused();
            }
            self.sweep(job, mark);
        }
        self.restart_shepherd();
    }

    fn restart_shepherd(&mut self) {
        let Some(inputs) = self.inputs.upgrade() else { return };
        if !std::mem::take(&mut self.shepherd_ready) {
            self.failed = Some("lshepherd ends as soon as it is started".to_owned());
            return;
        }
        match Shepherd::start(self.spool.lock(), &inputs) {
            Ok(shepherd) => self.shepherd = shepherd,
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    /// Kills what carries the cookie, outside the loop, because it reads all of /proc.
    fn sweep(&self, job: JobId, mark: Mark) {
        let Some(inputs) = self.inputs.upgrade() else { return };
        tokio::task::spawn_blocking(move || {
            let left = sweep(&mark, SWEEP);
            if left > 0 {
                error!(%job, left, "processes of the job cannot be killed");
            }
            // A loop that is gone has ended with the daemon.
            let _ = inputs.blocking_send(Input::Swept { job });
        });
    }

    /// Sends a signal to the job's process group.
    pub(super) fn to_group(&self, running: &Running, signal: i32) {
        self.shepherd.order(&Order::Signal { handle: running.handle, signal });
    }
}
