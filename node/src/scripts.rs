//! Prolog and epilog of jobs: programs of the operator, which the node runs before the first process of a job and after
//! its last one. The shell runs them, with a time limit.
//!
//! The prolog runs before the node acknowledges an assignment, so that no node of a job starts it before all are
//! prepared. A failed prolog ends the attempt without a start, so that the job runs elsewhere. After any failure the node asks
//! for no more jobs. A program that the end of a daemon interrupted is run again by the next daemon.

use std::fmt;

use limo_model::{Attempt as Number, JobId, Outcome, Power, clip};
use limo_proto::{DoExec, NodeToMaster};
use tracing::error;

use super::Node;
use crate::attempt::{Attempt, Preparing, Recording, State};
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::records::{Found, Record};

/// Longest reason of a failure, in bytes.
const REASON: usize = 512;

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Runs before the first process of a job on the node.
    Prolog,
    /// Runs after the last process of a job on the node has ended.
    Epilog,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prolog => "prolog",
            Self::Epilog => "epilog",
        })
    }
}

/// The programs that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scripts {
    pub prolog: bool,
    pub epilog: bool,
}

/// The job of a prolog or epilog.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    pub name: String,
    pub user: String,
    pub uid: u32,
    /// Number of times that the job was ended to run again.
    pub restarts: u32,
}

impl Subject {
    fn of(exec: &DoExec) -> Self {
        let (name, user) = (exec.name.clone(), exec.user.clone());
        Self { name, user, uid: exec.launch.uid, restarts: exec.restarts }
    }
}

/// Run of a prolog or epilog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptOrder {
    pub script: Script,
    pub job: JobId,
    pub attempt: Number,
    pub subject: Subject,
    /// Random value of the attempt, which identifies the processes of the program.
    pub cookie: String,
    /// True if an earlier daemon may have started the program; its processes must be killed first.
    pub again: bool,
}

/// State of an attempt's prolog and epilog.
#[derive(Debug, Clone, Default)]
pub struct Preparation {
    subject: Subject,
    /// True if the prolog has succeeded under this daemon.
    is_prepared: bool,
    /// True if the prolog or the command may have been started, so that an epilog is due.
    begun: bool,
    /// True if it is a step, which needs neither.
    is_step: bool,
    /// True if that was by an earlier daemon.
    again: bool,
    /// Reason why the node must get no more jobs.
    unfit: Option<String>,
}

impl Preparation {
    pub fn of(exec: &DoExec) -> Self {
        Self { subject: Subject::of(exec), is_step: exec.step.is_some(), ..Self::default() }
    }

    /// Continues that of an earlier daemon.
    pub fn resumed(found: &Found, scripts: Scripts) -> Self {
        let of_end = found.end.as_ref().and_then(|end| match &end.outcome {
            Outcome::NotPrepared { reason } => Some(reason.clone()),
            _ => None,
        });
        let Some(intent) = &found.intent else { return Self::default() };
        // The failure of an epilog is recorded, so that it is not run again.
        let begun = (scripts.prolog || found.released.is_some() || found.going) && found.unfit.is_none();
        let unfit = found.unfit.clone().or(of_end);
        let (subject, is_step) = (Subject::of(&intent.exec), intent.exec.step.is_some());
        Self { subject, is_prepared: false, begun, is_step, again: begun, unfit }
    }
}

impl Attempt {
    /// Returns the reason for the master why the node must get no more jobs, once the end is recorded.
    pub(super) fn told_unfit(&self) -> Option<&str> {
        self.preparation.unfit.as_deref().filter(|_| matches!(self.state, State::Ended(_)))
    }

    /// Returns true if the prolog or the command may have been started, and no epilog has run.
    pub(super) fn owes_epilog(&self) -> bool {
        self.preparation.begun && !self.preparation.is_step
    }

    /// Returns true if the prolog must run before the command.
    pub(super) fn needs_prolog(&self, scripts: Scripts) -> bool {
        scripts.prolog && !self.preparation.is_prepared && !self.preparation.is_step
    }

    /// Notes that the prolog or the command may be started.
    pub(super) fn begins(&mut self) {
        self.preparation.begun = true;
    }
}

impl Node {
    fn run_script(&mut self, script: Script, job: JobId) {
        let Some(Attempt { number, cookie, preparation, .. }) = self.attempts.known.get(&job) else { return };
        let Preparation { subject, again, .. } = preparation.clone();
        let order = ScriptOrder { script, job, attempt: *number, subject, cookie: cookie.clone(), again };
        self.effect(Effect::RunScript(Box::new(order)));
    }

    /// Runs the prolog of a held attempt. `going` is the expected draw if the attempt is released.
    pub(super) fn prepare(&mut self, job: JobId, number: Number, going: Option<Power>) {
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Held(exec) = &attempt.state else { return };
        let exec = exec.clone();
        attempt.state = State::Preparing(Box::new(Preparing { exec, going, stopping: false }));
        attempt.begins();
        self.run_script(Script::Prolog, job);
    }

    /// Tells the master that an acknowledgement follows the prolog.
    pub(super) fn tell_preparing(&mut self, job: JobId, number: Number) {
        if let Some(Attempt { state: State::Preparing(_), .. }) = self.attempts.find(job, number) {
            self.send(NodeToMaster::Preparing { job, attempt: number });
        }
    }

    pub(super) fn script_ended(&mut self, script: Script, (job, number): (JobId, Number), result: Result<(), String>) {
        let most = if faults::has(Fault::ReasonUnbounded) { usize::MAX } else { REASON };
        let result = result.map_err(|reason| clip(format!("the {script} of job {job} {reason}"), most));
        match script {
            Script::Prolog => self.prolog_ended(job, number, result),
            Script::Epilog => self.epilog_ended(job, number, result),
        }
    }

    fn prolog_ended(&mut self, job: JobId, number: Number, result: Result<(), String>) {
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Preparing(preparing) = &mut attempt.state else { return };
        if preparing.stopping {
            return self.stopped_early(job, number);
        }
        if let Err(reason) = result
            && !faults::has(Fault::PrologIgnored)
        {
            error!(%job, attempt = %number, reason, "prolog failed: the node gets no more jobs");
            attempt.preparation.unfit = Some(reason.clone());
            // The streams continue where the job runs next.
            self.drop_streams(job);
            return self.never_runs(job, number, Outcome::NotPrepared { reason });
        }
        let Preparing { exec, going, .. } = &**preparing;
        let (exec, going) = (exec.clone(), *going);
        attempt.preparation.is_prepared = true;
        attempt.state = State::Held(exec);
        self.acknowledge(job, number);
        if let Some(expected) = going {
            self.go((job, number), expected);
        }
    }

    /// Records the end of an attempt, after the epilog if one is due.
    pub(super) fn conclude(&mut self, job: JobId, number: Number, recording: Recording) {
        let has_epilog = self.scripts.epilog && !faults::has(Fault::EpilogSkipped);
        let Some(attempt) = self.attempts.find(job, number) else { return };
        if has_epilog && attempt.owes_epilog() {
            attempt.state = State::Concluding(recording);
            self.run_script(Script::Epilog, job);
        } else {
            self.record_end(job, number, recording);
        }
    }

    fn epilog_ended(&mut self, job: JobId, number: Number, result: Result<(), String>) {
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Concluding(recording) = &attempt.state else { return };
        let recording = recording.clone();
        attempt.preparation.begun = false;
        if let Err(reason) = result {
            error!(%job, attempt = %number, reason, "epilog failed: the node gets no more jobs");
            attempt.preparation.unfit.get_or_insert_with(|| reason.clone());
            self.record(Record::Unfit { job, attempt: number, reason });
        }
        self.record_end(job, number, recording);
    }

    /// Tells the master that the node must get no more jobs, if the attempt has shown that.
    pub(super) fn tell_unfit(&mut self, job: JobId, number: Number) {
        let unfit = self.attempts.find(job, number).and_then(|attempt| attempt.preparation.unfit.clone());
        if let Some(reason) = unfit {
            self.send(NodeToMaster::Unfit { reason: reason.into() });
        }
    }
}
