//! Checkpoints of jobs in a pool. They follow from the running time of an attempt, so they cost no events.

use limo_model::{CheckpointEvery, Span};

/// Checkpoints of all jobs of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointing {
    pub every: CheckpointEvery,
    /// Time for which a job makes no progress, at its full draw.
    pub cost: Span,
}

/// Checkpoints of an attempt: one after each `every` of work, except at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoints {
    pub every: Span,
    pub cost: Span,
}

/// Division of the running time of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointedRun {
    /// Number of complete checkpoints.
    pub checkpoints: i64,
    /// Work up to the last of them.
    pub kept: Span,
    /// Time of the checkpoints themselves.
    pub cost: Span,
}

impl Checkpoints {
    /// Returns the running time of an attempt that has this work to do.
    pub fn running(self, work: Span) -> Span {
        work + self.of((work.ms() - 1).max(0) / self.every.ms().max(1)).cost
    }

    /// Returns the division of an attempt that took `ran` from its begin to its end.
    pub fn after_running(self, ran: Span) -> CheckpointedRun {
        self.of((ran.ms() - 1).max(0) / (self.every + self.cost).ms().max(1))
    }

    /// Returns the division of an attempt that has run for `ran` and not ended.
    pub fn during(self, ran: Span) -> CheckpointedRun {
        self.of(ran.ms() / (self.every + self.cost).ms().max(1))
    }

    fn of(self, checkpoints: i64) -> CheckpointedRun {
        CheckpointedRun { checkpoints, kept: self.every.scaled(checkpoints, 1), cost: self.cost.scaled(checkpoints, 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_checkpoint_is_made_at_the_end() {
        let minutes = |count: i64| Span::from_secs(60 * count);
        let checkpoints = Checkpoints { every: minutes(15), cost: minutes(1) };
        assert_eq!(checkpoints.running(minutes(60)), minutes(63));
        assert_eq!(checkpoints.running(minutes(61)), minutes(65));
        assert_eq!(checkpoints.running(Span::ZERO), Span::ZERO);
        // The second checkpoint begins after 31 min and takes until 32 min.
        let done = |ran| checkpoints.during(minutes(ran));
        assert_eq!(done(31), CheckpointedRun { checkpoints: 1, kept: minutes(15), cost: minutes(1) });
        assert_eq!(done(32), CheckpointedRun { checkpoints: 2, kept: minutes(30), cost: minutes(2) });
    }
}
