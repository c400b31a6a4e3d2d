//! Registration of a node: its description, then its attempts in pieces, then their number. The pieces allow thousands
//! of jobs after a long absence of the master.

use limo_model::{Attempt, Containment, JobId, JournalId, NodeSpec, Outcome, Usage};
use serde::{Deserialize, Serialize};

use crate::bound::List;
use crate::message::{NodeToMaster, Reason};

/// Most attempts in one message. A report takes at most 1.2 kB, mostly for the reason of an end, so a piece stays
/// below a third of a frame.
pub const ATTEMPTS_PIECE: usize = 256;

/// A node's description when it registers: limo-2018's NewSlave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSlave {
    /// The master's journal, from the greeting.
    pub journal: JournalId,
    /// Name, units, memory and draws.
    pub spec: NodeSpec,
    /// Random identity, made once per state directory. It distinguishes this node from another with the same name.
    pub instance: String,
    /// The kernel's boot id. A new one proves that no earlier process is left.
    pub boot: String,
    /// The hold on the processes of its jobs.
    pub containment: Containment,
    /// See [`NodeToMaster::Unfit`]; kept until the master has acknowledged the end of the job that showed it.
    pub unfit: Option<Reason>,
    /// True if the owner of the node is there; `None` if the node cannot tell.
    pub owner: Option<bool>,
}

/// A whole registration, which is sent in several messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The node's description.
    pub slave: NewSlave,
    /// Attempts of the master's jobs.
    pub attempts: Vec<AttemptReport>,
}

impl Registration {
    /// Returns its messages, in their order.
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

/// A node's knowledge of one attempt when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The journal of its order. If it differs from the master's journal, the node ends the attempt, and forgets it
    /// once it was reported. The master does not accept such attempts as its own.
    pub journal: JournalId,
    /// Number of the job in that journal.
    pub job: JobId,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// Progress of the attempt.
    pub state: AttemptState,
    /// Bytes of stdin that the job has consumed.
    pub stdin_offset: u64,
    /// Offsets of its streams.
    pub kept: Kept,
    /// True after [`NodeToMaster::Evicted`].
    pub is_evicted: bool,
    /// Content of the last [`NodeToMaster::Checkpointed`].
    pub checkpointed: Option<limo_model::Kept>,
}

/// Offsets at the node's ends of an attempt's streams. The end of a stream counts as one more byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Received stdin, including bytes that the job has not read yet.
    pub stdin: u64,
    /// True if the end of stdin was received.
    pub stdin_ended: bool,
    /// First offset of stdout and stderr that can still be sent.
    pub stdout: u64,
    /// See [`Kept::stdout`].
    pub stderr: u64,
}

/// The progress of an attempt on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum AttemptState {
    /// The attempt is acknowledged and waits for `Go`.
    Held,
    /// The command was started, and has not ended.
    Running,
    /// The attempt is over, and the master has not acknowledged the end.
    Ended {
        #[serde(with = "crate::bound::outcome")]
        outcome: Outcome,
        usage: Usage,
    },
}
