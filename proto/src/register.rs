//! What a node says of itself when it registers: what it is, then its attempts in pieces, then how many those were. A node
//! that ran thousands of jobs while no master was there registers like any other.

use limo_model::{Attempt, JobId, JournalId, NodeSpec, Outcome, Usage};
use serde::{Deserialize, Serialize};

use crate::bound::List;
use crate::message::NodeToMaster;

/// Most attempts in one message. A report takes at most 1.2 kB, most of it the reason of an end: a piece stays below a
/// third of a frame.
pub const ATTEMPTS_PIECE: usize = 256;

/// What a node says of itself when it registers: limo-2018's NewSlave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSlave {
    /// The master's, as the node knows it from the greeting.
    pub journal: JournalId,
    /// Its name, units, memory and draws.
    pub spec: NodeSpec,
    /// Random, made once per state directory: tells this node from another that claims its name.
    pub instance: String,
    /// The kernel's boot id: if it changed, no process of before is left.
    pub boot: String,
}

/// A whole registration, which travels in several messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// What the node is.
    pub slave: NewSlave,
    /// What it still has of the master's jobs.
    pub attempts: Vec<AttemptReport>,
}

impl Registration {
    /// The messages of it, in their order.
    pub fn into_messages(self) -> Vec<NodeToMaster> {
        let Self { slave, attempts } = self;
        let count = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        let mut messages = vec![NodeToMaster::NewSlave(Box::new(slave))];
        let mut rest = attempts.into_iter().peekable();
        while rest.peek().is_some() {
            messages.push(NodeToMaster::Attempts(List::clipped(rest.by_ref().take(ATTEMPTS_PIECE).collect())));
        }
        messages.push(NodeToMaster::RegisterEnd { count });
        messages
    }
}

/// What a node knows of one attempt when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// Of the order by which the node got it. One of another journal than the master's is being ended, or was: the master
    /// takes no such attempt for its own, and the node forgets it once it was reported.
    pub journal: JournalId,
    /// Its number in that journal.
    pub job: JobId,
    /// Which start of the job it is.
    pub attempt: Attempt,
    /// How far it has come.
    pub state: AttemptState,
    /// Bytes of stdin that the job has taken.
    pub stdin_offset: u64,
    /// Where its streams are.
    pub kept: Kept,
}

/// Where the node's ends of an attempt's streams are. Ends count as one more byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Stdin that has come, whether or not the job has taken it.
    pub stdin: u64,
    /// True if the end of stdin has come.
    pub stdin_ended: bool,
    /// From here on stdout and stderr can be sent.
    pub stdout: u64,
    /// See [`Kept::stdout`].
    pub stderr: u64,
}

/// How far an attempt has come on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum AttemptState {
    /// Acknowledged; waits for `Go`.
    Held,
    /// Its command was started, and has not ended.
    Running,
    /// It is over, and the master has not acknowledged that.
    Ended {
        #[serde(with = "crate::bound::outcome")]
        outcome: Outcome,
        usage: Usage,
    },
}
