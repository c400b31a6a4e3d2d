//! Requests, placements and ends of jobs.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{
    Allowance, Arrange, Conditions, Cores, Energy, Labels, LicenceCount, Mail, Memory, Power, Predicted, Restart, Span,
    Spread, Step, Time, Widths, clip,
};

/// The part of a job that decisions need. Launch data (arguments, environment, directory) is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Request {
    /// Name of the user who submitted it, as the machine of the master knows it.
    pub user: String,
    /// Name in listings; the application's name unless the user chose another.
    pub name: String,
    /// Name of the application, which selects the profiles: see [`crate::application`].
    pub application: String,
    /// Size class of the profile; empty if none was given.
    pub size: String,
    /// Number of its chunks. Spread ones are on as many nodes, packed ones on as many as have room.
    pub nodes: NonZeroU32,
    /// Cores of each chunk. A job that requests accelerators takes them only with [`Request::with_cores`].
    pub cores: Cores,
    /// Memory of each chunk; zero if not requested.
    pub memory: Memory,
    /// The job is ended after this time, if set.
    pub time_limit: Option<Span>,
    /// True to refuse the job unless it starts at once.
    pub immediate: bool,
    /// Latest desired end. The job may wait for a cheaper hour until it would miss this time.
    pub deadline: Option<Time>,
    /// Latest desired start: the job may wait for a cheaper hour until then.
    pub start_by: Option<Time>,
    /// Allowed nodes; empty allows all.
    pub include: Vec<String>,
    /// Excluded nodes, even if they are included.
    pub exclude: Vec<String>,
    /// Allowed types of units; empty allows all. A single entry `a&b` allows both, on nodes that have units of each.
    pub hardware: Vec<String>,
    /// Types of hardware for which the job has its own command. On other types its main command runs, on CPUs only.
    pub variants: Vec<String>,
    /// True if it may be suspended when the upper limit is too low for it.
    pub may_suspend: bool,
    /// True if it may be requeued when the upper limit is too low for it.
    pub may_requeue: bool,
    /// True for a job that only keeps the draw above the lower limit: it starts after all others, and is stopped
    /// first.
    pub filler: bool,
    /// Conditions for its start; in a box, because most jobs have none.
    #[serde(default)]
    pub conditions: Option<Box<Conditions>>,
    /// The signal before its time limit.
    #[serde(default)]
    pub warning: Option<Warning>,
    /// Time from TERM to KILL, if it differs from the cluster's.
    #[serde(default)]
    pub kill_grace: Option<Span>,
    /// Allowance of energy and money.
    #[serde(default)]
    pub allowance: Option<Allowance>,
    /// The tasks of the job, if it has several.
    #[serde(default)]
    pub spread: Option<Spread>,
    /// The name of the reservation in which it must run.
    #[serde(default)]
    pub reservation: Option<String>,
    /// Priority; higher values come first in the queue. Within plus and minus [`PRIORITY_LIMIT`].
    #[serde(default)]
    pub priority: i32,
    /// True if it shares no node with other jobs.
    #[serde(default)]
    pub exclusive: bool,
    /// Whole accelerators of one type in each chunk, on which its main command runs unless it has a variant for them. If
    /// unset, a chunk is on one unit of a node: its CPU, or an accelerator for which the job has a variant.
    #[serde(default)]
    pub accelerators: Option<NonZeroU32>,
    /// True if each chunk takes cores of the CPU of its node next to its accelerators. Has no effect without
    /// accelerators.
    #[serde(default)]
    pub with_cores: bool,
    /// The arrangement of its chunks on nodes.
    #[serde(default)]
    pub arrange: Arrange,
    /// Cap at which its units start, instead of one that the policy chooses. It runs only on units that obey this cap, and
    /// has its nodes alone.
    #[serde(default)]
    pub cap: Option<Power>,
    /// True if its user allows it to run slower, at a cap without a profile, to measure its application there.
    #[serde(default)]
    pub explore: bool,
    /// The name of its queue. The master fills it in for a job that names none, if queues are configured.
    #[serde(default)]
    pub queue: Option<String>,
    /// The range of its number of nodes, for a moldable job. While it waits, [`Request::nodes`] is the number that the last
    /// plan chose.
    #[serde(default)]
    pub widths: Option<Widths>,
    /// True if the number of nodes may also change while the job runs, within its range. Only simulations have such jobs.
    #[serde(default)]
    pub malleable: bool,
    /// Predicted draws by type of unit, for applications without a profile; at most [`crate::PREDICTED_LIMIT`].
    #[serde(default)]
    pub predicted: Vec<Predicted>,
    /// Options for its restarts.
    #[serde(default)]
    pub restart: Restart,
    /// The group of users by which its user may use its queue. The master sets it when it accepts the job.
    #[serde(default)]
    pub queue_group: Option<String>,
    /// Set if it is a step of a job: it runs in the allocation of that job, and no policy sees it.
    #[serde(default)]
    pub step: Option<Step>,
    /// Licences that it holds from its place in the queue until its end, each kind once; at most
    /// [`crate::JOB_LICENCES_LIMIT`] kinds.
    #[serde(default)]
    pub licences: Vec<LicenceCount>,
    /// The events about which its user wants to be told; in a box, because most jobs ask for none.
    #[serde(default)]
    pub mail: Option<Box<Mail>>,
    /// The account to which it belongs. The master fills it in for a job that names none, if accounts are configured.
    #[serde(default)]
    pub account: Option<String>,
    /// Its QOS, filled in likewise.
    #[serde(default)]
    pub qos: Option<String>,
    /// Texts of its user; in a box, because most jobs have none.
    #[serde(default)]
    pub labels: Option<Box<Labels>>,
}

/// The largest priority, and negated the smallest: as large as Slurm's adjustments by `--nice`.
pub const PRIORITY_LIMIT: i32 = 10_000;

/// A signal for the job's processes at a given time before its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Number of the signal on Linux.
    pub signal: i32,
    /// Time before the time limit.
    pub before: Span,
}

impl Request {
    /// Returns a request for one core of one node, without a user or other wishes.
    pub fn one_core(application: impl Into<String>) -> Self {
        Self {
            user: String::new(),
            name: String::new(),
            application: application.into(),
            size: String::new(),
            nodes: NonZeroU32::MIN,
            cores: Cores::Count(NonZeroU32::MIN),
            memory: Memory::ZERO,
            time_limit: None,
            immediate: false,
            deadline: None,
            start_by: None,
            include: Vec::new(),
            exclude: Vec::new(),
            hardware: Vec::new(),
            variants: Vec::new(),
            may_suspend: false,
            may_requeue: false,
            filler: false,
            conditions: None,
            warning: None,
            kill_grace: None,
            allowance: None,
            spread: None,
            reservation: None,
            priority: 0,
            exclusive: false,
            accelerators: None,
            with_cores: false,
            arrange: Arrange::Spread,
            cap: None,
            explore: false,
            queue: None,
            widths: None,
            malleable: false,
            predicted: Vec::new(),
            restart: Restart::default(),
            queue_group: None,
            step: None,
            licences: Vec::new(),
            mail: None,
            account: None,
            qos: None,
            labels: None,
        }
    }
}

/// The end of an attempt to run a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Outcome {
    /// The command ended with this exit code.
    Exited(u8),
    /// The command was ended by this signal.
    Signaled(i32),
    /// The command could not be started: code 126 (not executable) or 127 (not found), and the reason.
    NotStarted { code: u8, reason: String },
    /// The node lost the attempt: the command may or may not have run, and no longer runs.
    Lost { reason: String },
    /// The node was unreachable for longer than its lease, or an operator declared it dead.
    NodeFailed { reason: String },
    /// The command ended with this exit code, after its node ended it at its time limit.
    ExitedAtLimit(u8),
    /// The command was ended by this signal, after its node ended it at its time limit.
    SignaledAtLimit(i32),
    /// The command failed with this exit code after the kernel had killed one of its processes, because they exceeded the
    /// memory of the request together.
    ExceededMemory { code: u8, limit: Memory },
    /// The prolog of the node failed, so the command did not run; the job waits again.
    NotPrepared { reason: String },
    /// The command of a step ended with this exit code, after its node ended it because its job had ended.
    EndedWithJob { code: u8 },
}

/// Longest reason in an outcome, in bytes. It is kept in the journal and shown in listings.
pub const REASON_LIMIT: usize = 1024;

impl Outcome {
    /// Returns the same end, marked as ended at the time limit.
    #[must_use]
    pub fn at_limit(self) -> Self {
        match self {
            Self::Exited(code) => Self::ExitedAtLimit(code),
            Self::Signaled(signal) => Self::SignaledAtLimit(signal),
            other => other,
        }
    }

    /// Returns the end, and true if the node ended the command at its time limit.
    pub fn split_limit(self) -> (Self, bool) {
        match self {
            Self::ExitedAtLimit(code) => (Self::Exited(code), true),
            Self::SignaledAtLimit(signal) => (Self::Signaled(signal), true),
            other => (other, false),
        }
    }

    /// Returns it with a reason of at most [`REASON_LIMIT`] bytes.
    #[must_use]
    pub fn clipped(self) -> Self {
        match self {
            Self::NotStarted { code, reason } => Self::NotStarted { code, reason: clip(reason, REASON_LIMIT) },
            Self::Lost { reason } => Self::Lost { reason: clip(reason, REASON_LIMIT) },
            Self::NodeFailed { reason } => Self::NodeFailed { reason: clip(reason, REASON_LIMIT) },
            Self::NotPrepared { reason } => Self::NotPrepared { reason: clip(reason, REASON_LIMIT) },
            Self::Exited(_)
            | Self::Signaled(_)
            | Self::ExitedAtLimit(_)
            | Self::SignaledAtLimit(_)
            | Self::ExceededMemory { .. }
            | Self::EndedWithJob { .. } => self,
        }
    }

    /// Returns the reason if the command did not run, was lost or failed with its node.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NotStarted { reason, .. }
            | Self::Lost { reason }
            | Self::NodeFailed { reason }
            | Self::NotPrepared { reason } => Some(reason),
            Self::Exited(_)
            | Self::Signaled(_)
            | Self::ExitedAtLimit(_)
            | Self::SignaledAtLimit(_)
            | Self::ExceededMemory { .. }
            | Self::EndedWithJob { .. } => None,
        }
    }

    /// Returns the exit code of `lrun`: 128+n for signal n, 125 if the job was lost or its node failed or was not ready.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exited(code)
            | Self::ExitedAtLimit(code)
            | Self::NotStarted { code, .. }
            | Self::ExceededMemory { code, .. }
            | Self::EndedWithJob { code } => *code,
            Self::Signaled(signal) | Self::SignaledAtLimit(signal) => {
                u8::try_from(signal.saturating_add(128)).unwrap_or(255)
            }
            Self::Lost { .. } | Self::NodeFailed { .. } | Self::NotPrepared { .. } => 125,
        }
    }
}

/// Resources that a finished attempt used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Time from exec to exit, by the node's monotonic clock.
    pub elapsed: Span,
    /// CPU time in user mode, of all of its processes together.
    pub user_cpu: Span,
    /// CPU time in the kernel, of all of its processes together.
    pub system_cpu: Span,
    /// Most memory of all of its processes together, if its control group counts this; else the largest resident set of
    /// any of its processes that were waited for.
    pub max_rss: Memory,
    /// Energy above idle by the meter of the node, if it covered at least nine tenths of the run.
    pub energy: Option<Energy>,
    /// Confidence that this energy is the run's, in thousandths. It is 1000 if the run had its node alone, else its
    /// mean share of all jobs there. Lower if the meter gave only a few values; 0 without an energy.
    #[serde(default)]
    pub confidence: u16,
}

impl Usage {
    /// Adds the usage of another attempt or job.
    pub fn add(&mut self, other: &Self) {
        self.elapsed = self.elapsed + other.elapsed;
        self.user_cpu = self.user_cpu + other.user_cpu;
        self.system_cpu = self.system_cpu + other.system_cpu;
        self.max_rss = self.max_rss.max(other.max_rss);
        (self.energy, self.confidence) = match (self.energy, other.energy) {
            (Some(own), Some(more)) => (Some(own + more), self.confidence.min(other.confidence)),
            (None, Some(more)) => (Some(more), other.confidence),
            (own, None) => (own, self.confidence),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        let check = |outcome: Outcome, code| assert_eq!(outcome.exit_code(), code, "{outcome:?}");
        check(Outcome::Exited(7), 7);
        check(Outcome::Signaled(15), 143);
        check(Outcome::Signaled(i32::MAX), 255);
        check(Outcome::NotStarted { code: 127, reason: String::new() }, 127);
        check(Outcome::Lost { reason: String::new() }, 125);
        check(Outcome::NodeFailed { reason: String::new() }, 125);
    }
}
