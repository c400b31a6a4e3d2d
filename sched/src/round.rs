//! The result of a round: commands, wait reasons, finished jobs, and the time of the next round.

use limo_model::{
    Attempt, Energy, Estimate, Evictions, JobEnd, JobId, Kept, Money, NodeId, Placement, Power, Span, StopReason,
    TaskCounts, Time, Usage, UsedUp, Wait,
};
use serde::{Deserialize, Serialize};

use crate::plan::Violation;

/// The result of one run of the policy over the recorded state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub now: Time,
    pub commands: Vec<Command>,
    /// Jobs with a new or changed wait reason since the last round.
    pub waits: Vec<(JobId, Wait)>,
    /// Jobs that ended since the last round, with their accounts.
    pub finished: Vec<Finished>,
    /// Time of the next round if nothing happens before.
    pub wake_at: Option<Time>,
    /// Rules that the plan broke. If there are any, no part of the plan became a command.
    pub violations: Vec<Violation>,
}

/// The confirmation of an order, for which a start waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Await {
    /// A node holds its units at the caps of this order.
    Capped { node: NodeId, generation: u64 },
    /// The processes of an attempt are stopped.
    Paused { job: JobId, attempt: Attempt },
}

/// A command to a node. A command names its attempt, so repeating it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Start {
        job: JobId,
        attempt: Attempt,
        placement: Placement,
        estimate: Estimate,
        /// Confirmations without which its processes must not run. [`Command::Release`] follows the last one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        after: Vec<Await>,
    },
    /// Let an attempt run that had to wait for confirmations.
    Release {
        job: JobId,
        attempt: Attempt,
    },
    /// End a running or starting attempt: TERM, grace, KILL.
    Stop {
        job: JobId,
        attempt: Attempt,
        why: StopReason,
    },
    /// Cap the units of a node, by unit; `None` lifts the cap. The highest generation is valid.
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
    /// Put free nodes to sleep, as runs of adjacent nodes: the first and their number.
    Sleep {
        nodes: Vec<(NodeId, u32)>,
    },
    /// Wake nodes; the jobs assigned to them start when they are awake.
    Wake {
        nodes: Vec<(NodeId, u32)>,
    },
    /// Continue a running malleable job on these nodes. Only simulations have such jobs.
    Resize {
        job: JobId,
        attempt: Attempt,
        placement: Placement,
    },
    /// Send a signal to the processes of a running job. The only command that is not repeated.
    Signal {
        job: JobId,
        attempt: Attempt,
        signal: i32,
    },
    /// The job has used up its allowance and continues. Its user is informed once.
    UsedUp {
        job: JobId,
        attempt: Attempt,
        used_up: UsedUp,
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
    /// True if it was never suspended and kept the same cap from its start to its end.
    pub steady: bool,
    /// Counts of the ends of an array's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskCounts>,
    #[serde(default, skip_serializing_if = "Evictions::is_none")]
    pub evictions: Evictions,
    #[serde(default, skip_serializing_if = "Kept::is_none")]
    pub kept: Kept,
    /// Its last time limit, if that differs from the one of its submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_limit: Option<NewLimit>,
    /// Number of steps that it has had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u32,
}

pub(crate) fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A time limit that was set after the submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLimit {
    /// The limit; `None` for no limit.
    pub limit: Option<Span>,
}

/// Energy above idle, its cost, and the cost of a start at submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    pub energy: Energy,
    /// Cost for the time with a known price; `None` if no price was known.
    pub cost: Option<Money>,
    pub start_now_cost: Option<Money>,
}

impl Account {
    /// Adds the account of another job.
    pub(crate) fn add(&mut self, other: &Self) {
        self.energy += other.energy;
        self.cost = Money::of_known(self.cost, other.cost);
        self.start_now_cost = Money::of_known(self.start_now_cost, other.start_now_cost);
    }
}
