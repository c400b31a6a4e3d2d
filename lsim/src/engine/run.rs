//! The run of a job on its nodes.

use limo_model::{Attempt, Energy, Placement, Span, Time};

use super::Running;
use super::sections::{Done, Sections};

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
    /// Time for which it has stood still, and the time since which it does.
    pub still: Span,
    pub still_since: Option<Time>,
    pub sections: Sections,
}

impl Run {
    /// Returns the time for which it has worked.
    pub fn worked(&self, now: Time) -> Span {
        let still = self.still_since.map_or(self.still, |since| self.still + (now - since));
        self.started.map_or(Span::ZERO, |started| now - started - still)
    }

    /// Returns the division of the time for which it has worked.
    pub fn done(&self, worked: Span) -> Done {
        self.sections.done(self.running.run, worked)
    }

    /// Suspends or resumes it. Returns true if this changes anything.
    pub fn stand_still(&mut self, now: Time, paused: bool) -> bool {
        if paused == self.still_since.is_some() {
            return false;
        }
        match self.still_since.take() {
            None => self.still_since = Some(now),
            Some(since) => self.still = self.still + (now - since),
        }
        true
    }

    /// Returns the time since which it runs on its nodes; meaningful once it has started.
    pub fn since(&self) -> Time {
        self.moved.or(self.started).unwrap_or(Time::MAX)
    }
}
