//! Nodes that are kept for some users for a time. Who gets them when is decided in `sched`.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// Nodes that in `[from, until)` only those jobs of these users may have that ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Names, each once.
    pub nodes: Vec<String>,
    pub from: Time,
    pub until: Time,
    /// Nobody at all where there is none: the nodes are kept free of jobs.
    pub users: Vec<String>,
    /// For whoever reads it; may be empty.
    pub reason: String,
}

impl Reservation {
    pub fn span(&self) -> Span {
        self.until - self.from
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}
