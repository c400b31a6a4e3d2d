//! The components of a waiting job's priority. `apply` ranks the queue by it.

use serde::{Deserialize, Serialize};

/// The parts of a priority; it is their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Standing {
    /// The given priority: by `--priority` or `--nice`, or changed since.
    pub own: i64,
    /// Points for its waiting time.
    pub age: i64,
    /// Points for its user's low use.
    pub share: i64,
}

impl Standing {
    /// The priority.
    pub fn total(&self) -> i64 {
        self.own + self.age + self.share
    }
}
