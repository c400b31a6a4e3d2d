//! The run of a job on its nodes.

use limo_model::{Attempt, Energy, Placement, Time};

use super::Running;

/// Assignment of a job.
pub struct Run {
    pub attempt: Attempt,
    pub placement: Placement,
    pub running: Running,
    pub started: Option<Time>,
    /// Rank among all started jobs; 0 before the start.
    pub order: u64,
    /// Time since which it has its nodes, if it had others before, and its share of the idle energy of those.
    pub moved: Option<Time>,
    pub before: Energy,
}

impl Run {
    /// Returns the time since which it runs on its nodes; meaningful once it has started.
    pub fn since(&self) -> Time {
        self.moved.or(self.started).unwrap_or(Time::MAX)
    }
}
