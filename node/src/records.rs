//! Records of attempts, which outlive the daemon: the intent to run, the start, the end.

use limo_model::{Attempt, JobId, Outcome, Power, Usage};
use limo_proto::DoExec;
use serde::{Deserialize, Serialize};

/// Intent to run an attempt once the master releases it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub exec: DoExec,
    /// Value of `LIMO_ATTEMPT` in the environment of its processes.
    pub cookie: String,
    /// Boot id of the kernel under which it was written.
    pub boot: String,
}

/// End of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub outcome: Outcome,
    pub usage: Usage,
}

/// Records of one attempt.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Intent; `None` if its record cannot be read.
    pub intent: Option<Intent>,
    /// True if the command may have been started: an earlier release says so, or records are lost.
    pub going: bool,
    /// Expected draw, if a shepherd may have started the command. Before that, it takes the attempt's name.
    pub released: Option<Power>,
    pub end: Option<End>,
    /// Reason of the epilog's failure.
    pub unfit: Option<String>,
    /// True if the node has evicted the attempt for its owner.
    pub is_evicted: bool,
}

/// Record of an attempt. Nodes store its encoding: add new variants at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    Intent(Box<Intent>),
    /// The command may have been started, so the attempt never runs again. Written by earlier releases, and after records
    /// were lost.
    Going {
        job: JobId,
        attempt: Attempt,
    },
    End {
        job: JobId,
        attempt: Attempt,
        end: Box<End>,
    },
    /// The records of the attempt are no longer needed.
    Forget {
        job: JobId,
        attempt: Attempt,
    },
    /// A shepherd may start the command. It holds the attempt from before that until the end is recorded.
    Released {
        job: JobId,
        attempt: Attempt,
        expected: Power,
    },
    /// The epilog of the attempt failed; the end follows.
    Unfit {
        job: JobId,
        attempt: Attempt,
        reason: String,
    },
    /// The node ends the attempt for its owner; the end follows.
    Evicted {
        job: JobId,
        attempt: Attempt,
    },
}

impl Record {
    /// Returns the attempt of the record.
    pub fn key(&self) -> (JobId, Attempt) {
        match self {
            Self::Intent(intent) => (intent.exec.job, intent.exec.attempt),
            Self::Going { job, attempt }
            | Self::End { job, attempt, .. }
            | Self::Forget { job, attempt }
            | Self::Released { job, attempt, .. }
            | Self::Unfit { job, attempt, .. }
            | Self::Evicted { job, attempt } => (*job, *attempt),
        }
    }
}
