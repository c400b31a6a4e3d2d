//! What makes up the priority of a waiting job. Decides nothing: the queue is ranked by it in `apply`.

use serde::{Deserialize, Serialize};

/// The parts of a priority; it is their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Standing {
    /// What it was given: by `--priority` or `--nice`, or since.
    pub own: i64,
    /// For how long it waits.
    pub age: i64,
    /// For how little its user used.
    pub share: i64,
}

impl Standing {
    /// The priority.
    pub fn total(&self) -> i64 {
        self.own + self.age + self.share
    }
}
