//! The states of jobs and nodes in reports.

use limo_model::{JobEnd, Outcome};
use serde::{Deserialize, Serialize};

/// The state of a job in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobState {
    /// The job is not assigned to a node.
    Waiting,
    /// The job is assigned; its node has not confirmed the start.
    Starting,
    /// The job's command runs, at least on one of its nodes.
    Running,
    /// The job's processes are suspended.
    Suspended,
    /// The job was ordered to stop, but is not over yet.
    Stopping,
    /// The command ended with exit code 0.
    Completed,
    /// The job ended with another exit code, by a signal, or without a start of the command.
    Failed,
    /// The job was ended by a user, or because of another job's end.
    Cancelled,
    /// The job reached its time limit.
    TimedOut,
    /// The job was lost by its node.
    Lost,
    /// The job was refused: `--immediate` was set, and it could not start at once.
    Refused,
    /// The job ended because it had used up its allowance of energy or money.
    UsedUp,
    /// The job ended with the loss of its node.
    NodeFailed,
}

impl JobState {
    /// Returns the word of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::UsedUp => "used_up",
            Self::NodeFailed => "node_failed",
        }
    }

    /// Returns true if the state is final.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Starting | Self::Running | Self::Suspended | Self::Stopping)
    }

    /// Returns the state for an end.
    pub fn of(end: &JobEnd) -> Self {
        use limo_model::StopReason::{Cancelled, TimeLimit, UsedUp};
        match end {
            JobEnd::Cancelled { .. } | JobEnd::Unmet { .. } => Self::Cancelled,
            JobEnd::Refused { .. } => Self::Refused,
            JobEnd::Ran { outcome: Outcome::Lost { .. }, .. } => Self::Lost,
            JobEnd::Ran { outcome: Outcome::NodeFailed { .. }, .. } => Self::NodeFailed,
            JobEnd::Ran { stopped: Some(Cancelled { .. }), .. } => Self::Cancelled,
            JobEnd::Ran { stopped: Some(TimeLimit { .. }), .. } => Self::TimedOut,
            JobEnd::Ran { stopped: Some(UsedUp { .. }), .. } => Self::UsedUp,
            JobEnd::Ran { outcome: Outcome::Exited(0), .. } => Self::Completed,
            JobEnd::Ran { outcome: Outcome::EndedWithJob { .. }, .. } => Self::Cancelled,
            JobEnd::Ran { .. } => Self::Failed,
        }
    }
}

/// The state of a node, which decides if it gets new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// The node is connected, and gets jobs.
    Up,
    /// The node is not connected; its jobs are believed to continue.
    Unreachable,
    /// An operator drained the node, so it gets no new jobs.
    Drained,
    /// The node did not acknowledge an assignment; it gets none for a while.
    Suspect,
    /// The node was unreachable for longer than its lease, or was declared dead. Its jobs ended without its report.
    Lost,
    /// The policy put the node to sleep. It is disconnected, as expected.
    Sleeps(NodeSleep),
    /// Its owner is there, or has just left: it gets no new jobs.
    Owner,
}

/// The stage of a node's sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeSleep {
    /// The machine was ordered to sleep, and is still awake.
    FallingAsleep,
    /// The machine is off or suspended.
    Asleep,
    /// The machine was woken, and has not registered yet.
    Waking,
}

impl NodeSleep {
    /// Returns the word of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::FallingAsleep => "falling_asleep",
            Self::Asleep => "asleep",
            Self::Waking => "waking",
        }
    }

    /// Returns the words of listings.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::FallingAsleep => "falling asleep",
            other => other.name(),
        }
    }
}

impl NodeState {
    /// Returns the word of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Drained => "drained",
            Self::Suspect => "suspect",
            Self::Owner => "owner",
            Self::Sleeps(sleep) => sleep.name(),
        }
    }
}
