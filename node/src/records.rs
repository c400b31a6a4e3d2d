//! The records of attempts, which outlive the daemon: the intent to run, the start, the end. Whoever keeps them decides
//! nothing.

use limo_model::{Attempt, JobId, Outcome, Usage};
use limo_proto::DoExec;
use serde::{Deserialize, Serialize};

/// That an attempt will run here when the master says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub exec: DoExec,
    /// The value of `LIMO_ATTEMPT` in the environment of its processes.
    pub cookie: String,
    /// The boot id of the kernel under which it was written.
    pub boot: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub outcome: Outcome,
    pub usage: Usage,
}

/// What the records say of one attempt.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// `None` where the record cannot be read.
    pub intent: Option<Intent>,
    /// Whether the command was about to be started.
    pub going: bool,
    pub end: Option<End>,
}

/// One record to be kept. Nodes keep it in its stored form: a new variant stands at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    Intent(Box<Intent>),
    /// The command is about to be started: from here on the attempt never runs again.
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
}

impl Record {
    /// The attempt that it is about.
    pub fn key(&self) -> (JobId, Attempt) {
        match self {
            Self::Intent(intent) => (intent.exec.job, intent.exec.attempt),
            Self::Going { job, attempt } | Self::End { job, attempt, .. } | Self::Forget { job, attempt } => {
                (*job, *attempt)
            }
        }
    }
}
