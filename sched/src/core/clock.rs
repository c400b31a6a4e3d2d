//! The core's knowledge of wall time.

use super::Core;
use crate::state::Clock;

impl Core {
    /// Relation of cluster time to wall time. Except for requests, all output of the core is in cluster time.
    pub fn clock(&self) -> &Clock {
        &self.cluster.state.clock
    }
}
