//! The components of a waiting job's priority. `apply` ranks the queue by it.

use serde::{Deserialize, Serialize};

/// The components of a priority, which is their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Standing {
    /// The given priority: from `--priority` or `--nice`, or changed since.
    pub own: i64,
    /// Points for waiting time.
    pub age: i64,
    /// Points for the low use of its user.
    pub share: i64,
}

impl Standing {
    /// Returns the priority.
    pub fn total(&self) -> i64 {
        self.own + self.age + self.share
    }
}
