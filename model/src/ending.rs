//! Ends of jobs, and their reasons.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Became, Dependency, Outcome, Power, RestartLimit, Span, UsedUp, Wait};

/// Reason for ending a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum StopReason {
    /// A person cancelled the job.
    Cancelled { by: String },
    /// The job reached its time limit.
    TimeLimit { limit: Span },
    /// The upper limit is too low for the job, which runs again from its beginning when power is available.
    Requeued { draw: Power, high: Power },
    /// A person requeued the job, so it runs again from its beginning.
    RequeuedBy { by: String },
    /// The job has used up its allowance.
    UsedUp { used_up: UsedUp },
    /// A node did not confirm an order on which the start of the job depends, so it waits again.
    Unconfirmed { node: String },
    /// A node was needed for something else, so the job runs again from its beginning.
    Evicted { node: String, why: Eviction },
    /// It was evicted, and exceeds a limit of restarts, so it does not run again.
    GivenUp { node: String, why: Eviction, limit: RestartLimit },
}

/// Reason why a node evicts a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// Its owner came.
    Owner,
    /// It starts anew.
    Reboot,
}

impl Eviction {
    fn on(self, node: &str) -> String {
        match self {
            Self::Owner => format!("the owner of node {node} came"),
            Self::Reboot => format!("node {node} starts anew"),
        }
    }
}

impl StopReason {
    /// Returns true if the job is ended only to run again.
    pub fn runs_again(&self) -> bool {
        matches!(
            self,
            Self::Requeued { .. } | Self::RequeuedBy { .. } | Self::Unconfirmed { .. } | Self::Evicted { .. }
        )
    }
}

/// Formats it for readers of journals.
impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::TimeLimit { limit } => write!(f, "time limit of {limit} reached"),
            Self::Requeued { draw, high } => write!(f, "requeued: the draw {draw} is above the upper limit {high}"),
            Self::RequeuedBy { by } => write!(f, "requeued by {by}"),
            Self::UsedUp { used_up } => used_up.fmt(f),
            Self::Unconfirmed { node } => write!(f, "waits again: node {node} did not confirm its caps"),
            Self::Evicted { node, why } => write!(f, "evicted: {}", why.on(node)),
            Self::GivenUp { node, why, limit } => write!(f, "given up: {}, and {limit}", why.on(node)),
        }
    }
}

/// The final end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum JobEnd {
    /// The job was started at least once. `stopped` is the reason if it did not end by itself.
    Ran { outcome: Outcome, stopped: Option<StopReason> },
    /// A person cancelled the job before it ran.
    Cancelled { by: String },
    /// The job required an immediate start (`--immediate`), which was impossible.
    Refused { wait: Wait },
    /// The job did not run, because the end of another job made its dependency impossible.
    Unmet { dependency: Dependency, became: Became },
}

/// Counts of an array's tasks by their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// Tasks that ended with exit code 0.
    pub completed: u32,
    /// Tasks that ended in any other way after their start.
    pub failed: u32,
    /// Tasks cancelled one by one before they ran. If the whole array was cancelled, tasks that had not begun are not
    /// counted.
    pub cancelled: u32,
}

impl TaskCounts {
    /// Returns the number of all ended tasks.
    pub fn all(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}
