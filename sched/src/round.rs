//! What a round returns: commands, reasons for waiting, finished jobs, and when to ask again.

use std::fmt;

use limo_model::{
    Attempt, Dependency, Energy, Estimate, JobId, Money, NodeId, Outcome, Placement, Power, Span, Time, Usage, UsedUp,
};
use serde::{Deserialize, Serialize};

use crate::became::Became;
use crate::check::Violation;
use crate::wait::Wait;

/// The result of one run of the policy over all that is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub now: Time,
    pub commands: Vec<Command>,
    /// Jobs whose reason for waiting is new or changed since the last round.
    pub waits: Vec<(JobId, Wait)>,
    /// Jobs that are over since the last round, with their accounts.
    pub finished: Vec<Finished>,
    /// Ask again at this time, even if nothing happens until then.
    pub wake_at: Option<Time>,
    /// What the checker found in the plan. Where it is not empty, nothing of the plan was put into commands.
    pub violations: Vec<Violation>,
}

/// What to do. Repeating a command changes nothing: each names the attempt that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Start {
        job: JobId,
        attempt: Attempt,
        placement: Placement,
        estimate: Estimate,
    },
    /// End a running or starting attempt: TERM, grace, KILL.
    Stop {
        job: JobId,
        attempt: Attempt,
        why: StopReason,
    },
    /// Hold the units of a node at these caps, by unit; `None` lifts the cap. Of two, the higher generation holds.
    Cap {
        node: NodeId,
        generation: u64,
        caps: Vec<Option<Power>>,
    },
    /// Stop the processes of a running job until it is resumed.
    Suspend {
        job: JobId,
        attempt: Attempt,
    },
    Resume {
        job: JobId,
        attempt: Attempt,
    },
    /// Put free nodes to sleep: runs of neighbours, each the first and how many.
    Sleep {
        nodes: Vec<(NodeId, u32)>,
    },
    /// Wake nodes; the jobs assigned to them start when they are awake.
    Wake {
        nodes: Vec<(NodeId, u32)>,
    },
    /// A signal for the processes of a running job. The only command that is not told again.
    Signal {
        job: JobId,
        attempt: Attempt,
        signal: i32,
    },
    /// The job has used what its user allowed it, and goes on: that is to be told. Told once.
    UsedUp {
        job: JobId,
        attempt: Attempt,
        used_up: UsedUp,
    },
}

/// Why a running job is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Cancelled {
        by: String,
    },
    TimeLimit {
        limit: Span,
    },
    /// The upper limit leaves no room for it: it runs again from its beginning when there is room.
    Requeued {
        draw: Power,
        high: Power,
    },
    /// Somebody wants it to run again from its beginning.
    RequeuedBy {
        by: String,
    },
    /// It has used what its user allowed it.
    UsedUp {
        used_up: UsedUp,
    },
}

impl StopReason {
    /// Whether the job is ended only to run again.
    pub fn runs_again(&self) -> bool {
        matches!(self, Self::Requeued { .. } | Self::RequeuedBy { .. })
    }
}

/// How a job ended, for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    Ran {
        outcome: Outcome,
        stopped: Option<StopReason>,
    },
    /// Before it ran.
    Cancelled {
        by: String,
    },
    /// `--immediate`, and it could not start at once.
    Refused {
        wait: Wait,
    },
    /// Before it ran: what it depended on can never be, because of what became of that job.
    Unmet {
        dependency: Dependency,
        became: Became,
    },
}

/// A job that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub job: JobId,
    pub end: JobEnd,
    pub submitted: Time,
    pub started: Option<Time>,
    pub ended: Time,
    pub placement: Placement,
    pub usage: Usage,
    pub account: Account,
    /// Whether it ran from its start to its end as it was started: never suspended, under the same cap all the time.
    pub steady: bool,
    /// Of an array: how its tasks ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskCounts>,
}

/// How tasks of an array ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// With exit code 0.
    pub completed: u32,
    /// In any other way, once they ran.
    pub failed: u32,
    /// Before they ran, each by itself. What of a cancelled array had not begun is not counted.
    pub cancelled: u32,
}

impl TaskCounts {
    pub fn all(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}

/// Energy above idle and what it cost, beside what it would have cost to start at submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    pub energy: Energy,
    /// Of the time in which a price was known; `None` if none was.
    pub cost: Option<Money>,
    pub start_now_cost: Option<Money>,
}

impl Account {
    /// Takes the account of another job to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.energy += other.energy;
        self.cost = Money::of_known(self.cost, other.cost);
        self.start_now_cost = Money::of_known(self.start_now_cost, other.start_now_cost);
    }
}

/// For people who read journals.
impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::TimeLimit { limit } => write!(f, "time limit of {limit} reached"),
            Self::Requeued { draw, high } => write!(f, "requeued: the draw {draw} is above the upper limit {high}"),
            Self::RequeuedBy { by } => write!(f, "requeued by {by}"),
            Self::UsedUp { used_up } => used_up.fmt(f),
        }
    }
}
