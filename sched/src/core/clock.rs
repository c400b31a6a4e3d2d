//! What the core knows of wall time.

use super::Core;
use crate::state::Clock;

impl Core {
    /// How cluster time relates to wall time. All that the core tells is in cluster time, but for requests.
    pub fn clock(&self) -> &Clock {
        &self.cluster.state.clock
    }
}
