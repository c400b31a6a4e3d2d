//! How jobs end, and why they are ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Became, Dependency, Outcome, Power, Span, UsedUp, Wait};

/// Why a running job is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum StopReason {
    /// Somebody does not want it any longer.
    Cancelled { by: String },
    /// It has run for as long as its time limit.
    TimeLimit { limit: Span },
    /// The upper limit leaves no room for it: it runs again from its beginning when there is room.
    Requeued { draw: Power, high: Power },
    /// Somebody wants it to run again from its beginning.
    RequeuedBy { by: String },
    /// It has used what its user allowed it.
    UsedUp { used_up: UsedUp },
}

impl StopReason {
    /// Returns true if the job is ended only to run again.
    pub fn runs_again(&self) -> bool {
        matches!(self, Self::Requeued { .. } | Self::RequeuedBy { .. })
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

/// How a job ended, for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum JobEnd {
    /// It was started at least once, and is not to run again. `stopped` says why it was ended, if it did not end by itself.
    Ran { outcome: Outcome, stopped: Option<StopReason> },
    /// Before it ran.
    Cancelled { by: String },
    /// `--immediate`, and it could not start at once.
    Refused { wait: Wait },
    /// Before it ran: what it depended on can never be, because of what became of that job.
    Unmet { dependency: Dependency, became: Became },
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
    /// Tasks that ended, in whatever way.
    pub fn all(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}
