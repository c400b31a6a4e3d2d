//! Start and end of jobs, and cleanup after an end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use limo_model::{Attempt as Number, JobId, Memory, Outcome, Power, Span, Usage};
use limo_power::Attributed;
use limo_proto::{DoExec, Io, MasterToNode, NodeToMaster};
use limo_shepherd::{Claim, Ended, Handle, Identity, Kept, Launch, Why};
use nix::libc;
use tracing::{debug, error, info, warn};

use super::Node;
use super::held::Holding;
use super::lease::ms;
use crate::attempt::{Attempt, Recording, Running, Stage, Starting, State, Swept};
use crate::exchange::{Connected, Effect, LaunchOrder};
use crate::faults::{self, Fault};
use crate::records::{End, Record};
use crate::survivor::Resumed;
use crate::users::{self, Account, Known, PATIENCE_S, UserError};

/// Deadline for entering a job's directory, opening its files and executing its program, in seconds.
pub const LAUNCH_DEADLINE_S: u64 = 30;

/// Most messages that wait for a command to run; more are dropped.
const DEFERRED: usize = 64;

impl Node {
    /// Starts a held attempt that the master has released.
    pub(super) fn start(&mut self, exec: Box<DoExec>, expected: Power) {
        let (job, number, uid) = (exec.job, exec.attempt, exec.launch.uid);
        if !self.begin_lease(job, number, exec.lease) {
            return;
        }
        let work = self.plan(&exec);
        let terminal = exec.launch.terminal.is_some() && exec.launch.io == Io::Attached;
        let Some(attempt) = self.attempts.find(job, number) else { return };
        attempt.begins();
        attempt.state = State::Starting(Box::new(Starting {
            exec: Some(exec),
            uid,
            terminal,
            expected,
            work,
            stage: Stage::Recording,
            stopping: false,
            resumed: Resumed::default(),
            deferred: Vec::new(),
        }));
        // From here on a later daemon asks the shepherds if the command has run.
        self.record(Record::Released { job, attempt: number, expected });
    }

    pub(super) fn going_recorded(&mut self, job: JobId, number: Number, result: Result<(), String>) {
        let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) else { return };
        if starting.stage != Stage::Recording {
            return;
        }
        let uid = starting.uid;
        if let Err(reason) = result {
            return self.give_back(job, number, format!("the start is not recorded: {reason}"));
        }
        match self.users.find(uid, self.now.since) {
            Ok(Known::Here(account)) => self.launch_as(job, number, account),
            Ok(Known::Awaited { begin }) => {
                let by = self.now.since + Duration::from_secs(PATIENCE_S);
                if let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) {
                    starting.stage = Stage::LookingUp { by };
                }
                if begin {
                    self.effect(Effect::LookUp { uid });
                }
            }
            Err(error) => self.not_started(job, number, users::CODE, error.to_string()),
        }
    }

    /// Returns the jobs whose user is being looked up, with their users and deadlines.
    fn awaiting_users(&self) -> impl Iterator<Item = (JobId, Number, u32, Duration)> {
        self.attempts.known.iter().filter_map(|(&job, attempt)| match &attempt.state {
            State::Starting(starting) => match starting.stage {
                Stage::LookingUp { by } => Some((job, attempt.number, starting.uid, by)),
                Stage::Recording | Stage::Ordered(_) => None,
            },
            _ => None,
        })
    }

    pub(super) fn user_found(&mut self, uid: u32, result: Result<Account, String>) {
        self.users.found(uid, result.as_ref().ok(), self.now.since);
        let waiting: Vec<_> = self.awaiting_users().filter(|(_, _, own, _)| *own == uid).collect();
        for (job, number, ..) in waiting {
            match &result {
                Ok(account) => self.launch_as(job, number, Some(account.clone())),
                Err(reason) => self.not_started(job, number, users::CODE, reason.clone()),
            }
        }
    }

    /// Returns the first deadline of a look-up.
    pub(super) fn users_due(&self) -> Option<Duration> {
        self.awaiting_users().map(|(.., by)| by).min()
    }

    /// Fails the launches of users that are not found in time.
    pub(super) fn users_late(&mut self) {
        let now = self.now.since;
        let late: Vec<_> = self.awaiting_users().filter(|(.., by)| *by <= now).collect();
        for (job, number, uid, _) in late {
            let error = UserError::Late { uid, limit_s: PATIENCE_S };
            self.not_started(job, number, users::CODE, error.to_string());
        }
    }

    /// Orders the launch if the user of the job is the one that the submitter was.
    fn launch_as(&mut self, job: JobId, number: Number, account: Option<Account>) {
        let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) else { return };
        let there = starting.exec.as_ref().map_or("", |exec| exec.user.as_str());
        match account.map(|account| account.named(there)).transpose() {
            Ok(identity) => self.launch(job, number, identity),
            Err(error) => self.not_started(job, number, users::CODE, error.to_string()),
        }
    }

    /// Orders the launch.
    fn launch(&mut self, job: JobId, number: Number, identity: Option<Identity>) {
        let lease = self.leases.get(&job).map(|leased| leased.lease);
        let lease = lease.and_then(|lease| self.lease_end(lease));
        let handle = self.next_handle;
        self.next_handle = Handle(handle.0 + 1);
        let Some(Attempt { cookie, state: State::Starting(starting), .. }) = self.attempts.find(job, number) else {
            return;
        };
        let Some(exec) = starting.exec.take() else { return };
        let uid = starting.uid;
        starting.stage = Stage::Ordered(handle);
        let launch = Launch {
            handle,
            time_limit: exec.time_limit.map(ms).filter(|_| !faults::has(Fault::LimitForgotten)),
            warning: exec.warning.map(|warning| (warning.signal, ms(warning.before))),
            checkpoint: exec.checkpoint.as_ref().map(super::checkpoints::timed),
            // The lease includes the grace, so the grace must not be longer.
            kill_grace: ms(exec.kill_grace),
            lease: lease.filter(|_| !faults::has(Fault::LeaseForgotten)),
            launch_deadline: LAUNCH_DEADLINE_S * 1000,
            claim: Some(Claim { job: job.0, attempt: number.0 }),
            // The shell knows which streams the job has.
            kept: Kept::default(),
        };
        let emulated_work = starting.work.as_ref().is_some_and(|plan| plan.work.is_some());
        let order_cookie = cookie.clone();
        self.holding.insert(job, Holding { number, handle: Some(handle), uid });
        let order = LaunchOrder { launch, exec, cookie: order_cookie, identity, emulated_work };
        self.effect(Effect::Launch(Box::new(order)));
    }

    /// Keeps a message until the command runs. Returns true if the command does not run yet.
    pub(super) fn deferred(&mut self, job: JobId, number: Number, message: MasterToNode) -> bool {
        let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) else {
            return false;
        };
        if starting.deferred.len() < DEFERRED {
            starting.deferred.push(message);
        }
        true
    }

    /// Returns the job with this name at `lshepherd`.
    pub(super) fn job_of(&self, handle: Handle) -> Option<(JobId, Number)> {
        let mut known = self.attempts.known.iter();
        let found = known.find(|(_, attempt)| attempt.handle() == Some(handle));
        if found.is_none() {
            debug!(%handle, "an answer about a job that is gone");
        }
        found.map(|(&job, attempt)| (job, attempt.number))
    }

    pub(super) fn started(&mut self, handle: Handle, leader: i32, connected: Connected, freezes: bool) {
        let Some((job, number)) = self.job_of(handle) else { return };
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Starting(starting) = &mut attempt.state else { return };
        info!(%job, attempt = %number, pid = leader, "job started");
        if faults::has(Fault::ReleasedEarly) {
            self.effects.push(Effect::Release { job, attempt: number, handle: Some(handle) });
        }
        let (uid, halted, terminal) = (starting.uid, starting.resumed.halted, starting.terminal);
        let running = Running { handle, leader, uid, halted, terminal, freezes };
        let (work, deferred) = (starting.work.take(), std::mem::take(&mut starting.deferred));
        let expected = starting.expected;
        let resumed = starting.resumed;
        attempt.state = match (starting.stopping, resumed.frozen) {
            (true, _) => State::Stopping(running),
            (false, true) => State::Suspended(running),
            (false, false) => State::Running(running),
        };
        self.connect_streams(job, connected);
        if let Some(work) = work {
            self.work_begins(job, work, resumed.elapsed);
        }
        self.energy_begins(job, expected);
        if resumed.frozen {
            self.energy_paused(job, true);
            self.work_paused(job, true);
        }
        self.send(NodeToMaster::Started { job, attempt: number });
        self.send_reading();
        self.started_beside_suspended(job, number);
        deferred.into_iter().for_each(|message| self.asked(message));
        self.started_beside_owner(job, number);
    }

    pub(super) fn launch_failed(&mut self, handle: Handle, code: Option<u8>, reason: String) {
        let Some((job, number)) = self.job_of(handle) else { return };
        let Some(Attempt { state: State::Starting(starting), .. }) = self.attempts.find(job, number) else { return };
        if starting.stopping {
            return self.stopped_early(job, number);
        }
        match code {
            Some(code) => self.not_started(job, number, code, reason),
            None => self.give_back(job, number, reason),
        }
    }

    /// Gives back a job that this machine cannot start.
    fn give_back(&mut self, job: JobId, number: Number, reason: String) {
        warn!(%job, attempt = %number, reason, "the job is not started: it may run on another node");
        // The streams continue where the job runs next.
        self.drop_streams(job);
        self.never_runs(job, number, Outcome::NotPrepared { reason });
    }

    fn not_started(&mut self, job: JobId, number: Number, code: u8, reason: String) {
        warn!(%job, attempt = %number, code, reason, "job not started");
        self.never_runs(job, number, Outcome::NotStarted { code, reason });
    }

    /// Ends a job that was stopped before its command ran.
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

    /// Runs the epilog if there is one, records the end of an attempt, and then reports it.
    pub(super) fn ended(&mut self, job: JobId, number: Number, end: End) {
        let end = self.without_lease(job, number, end);
        let end = End { outcome: end.outcome.clipped(), ..end };
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let ran = matches!(attempt.state, State::Sweeping(_));
        self.conclude(job, number, Recording { end, ran });
    }

    pub(super) fn record_end(&mut self, job: JobId, number: Number, recording: Recording) {
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let end = recording.end.clone();
        attempt.state = State::Recording(recording);
        if faults::has(Fault::ToldBeforeDurable) {
            self.send_end(job, number, end.clone());
        }
        self.record(Record::End { job, attempt: number, end: Box::new(end) });
    }

    pub(super) fn end_recorded(&mut self, job: JobId, number: Number, result: Result<(), String>) {
        match result {
            Ok(()) => self.release(job, number),
            // The end is still reported. The shepherd keeps it until the master has it.
            Err(error) => warn!(%job, attempt = %number, error, "the end of the job is not recorded"),
        }
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Recording(Recording { end, ran }) = &attempt.state else { return };
        let (end, ran, of) = (end.clone(), *ran, attempt.step);
        attempt.state = State::Ended(end.clone());
        self.tell_unfit(job, number);
        self.send_end(job, number, end);
        if faults::has(Fault::ForgottenEarly) {
            self.forget(job, number);
        }
        self.tidy(job);
        if ran {
            self.send_reading();
        }
        self.step_over(of);
    }

    /// Handles a timer of `lshepherd` that has begun to end a job.
    pub(super) fn timer_stops(&mut self, handle: Handle, why: Why) {
        let Some((job, _)) = self.job_of(handle) else { return };
        self.lease_ends(job, why);
        self.stopping(job, why);
    }

    pub(super) fn exited(&mut self, handle: Handle, ended: &Ended) {
        let Some((job, _)) = self.job_of(handle) else { return };
        self.lease_ends(job, ended.why);
        let span = |ms: u64| Span::from_ms(i64::try_from(ms).unwrap_or(i64::MAX));
        // A command that ran took some time, unlike one that was stopped before.
        let elapsed = span(ended.elapsed.max(1));
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
        let outcome = match (ended.why, ended.exceeded_memory) {
            (Why::Limit, _) => outcome.at_limit(),
            (Why::Stop, _) if self.has_lost_its_job(job) => Outcome::EndedWithJob { code: outcome.exit_code() },
            (Why::OfItself, Some(limit)) => {
                Outcome::ExceededMemory { code: outcome.exit_code(), limit: Memory::from_bytes(limit) }
            }
            _ => outcome,
        };
        info!(%job, ?outcome, elapsed = %usage.elapsed, "job ended");
        let Some(attempt) = self.attempts.known.get_mut(&job) else { return };
        attempt.state = State::Sweeping(Swept { end: End { outcome, usage }, handle: Some(handle) });
        self.end_steps(job);
    }

    pub(super) fn emptied(&mut self, handle: Handle, left: u32) {
        let Some((job, _)) = self.job_of(handle) else { return };
        if left > 0 {
            error!(%job, left, "processes of the job cannot be killed");
        }
        self.swept(job);
    }

    /// Handles the end of all processes of a job without `lshepherd`.
    pub(super) fn swept_away(&mut self, job: JobId, left: usize) {
        if left > 0 {
            error!(%job, left, "processes of the job cannot be killed");
        }
        // Hidden processes whose parents ended meanwhile are children of this daemon now.
        self.effect(Effect::KillOrphans);
        self.cleared(job);
        self.swept(job);
    }

    pub(super) fn swept(&mut self, job: JobId) {
        let Some(Attempt { number, state: State::Sweeping(swept), .. }) = self.attempts.known.get(&job) else { return };
        let (number, mut end) = (*number, swept.end.clone());
        if self.awaits_steps(job, number) || self.awaits_look(job, end.usage.elapsed) {
            return;
        }
        if let Some(Attributed { energy, confidence }) = self.energy_used(job) {
            (end.usage.energy, end.usage.confidence) = (Some(energy), confidence);
        }
        self.ended(job, number, end);
    }
}
