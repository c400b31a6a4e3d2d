//! What a node says of itself when it registers.

use limo_model::{Attempt, JobId, NodeSpec, Outcome, Usage};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSlave {
    pub spec: NodeSpec,
    /// Random, made once per state directory: tells this node from another that claims its name.
    pub instance: String,
    /// The kernel's boot id: if it changed, no process of before is left.
    pub boot: String,
    pub attempts: Vec<AttemptReport>,
}

/// What a node knows of one attempt when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptReport {
    pub job: JobId,
    pub attempt: Attempt,
    pub state: AttemptState,
    /// Bytes of stdin that the job has taken.
    pub stdin_offset: u64,
    pub kept: Kept,
}

/// Where the node's ends of an attempt's streams are. Ends count as one more byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Stdin that has come, whether or not the job has taken it.
    pub stdin: u64,
    /// Whether the end of stdin has come.
    pub stdin_ended: bool,
    /// From here on stdout and stderr can be sent.
    pub stdout: u64,
    pub stderr: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptState {
    /// Acknowledged; waits for `Go`.
    Held,
    Running,
    Ended {
        outcome: Outcome,
        usage: Usage,
    },
}
