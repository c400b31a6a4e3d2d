//! Cluster time and the wall clock. The controller works in cluster time, which only goes forward. It records the wall
//! clock's offset after a jump, so that prices, begin times and displayed times follow the wall clock.

use limo_model::{Now, Span, Time};
use limo_sched::{Clock, Event};

use super::Controller;

/// Largest ignored difference: clocks under a time service drift by milliseconds.
const TOLERANCE: Span = Span::from_secs(1);

impl Controller {
    /// Returns the wall-clock time by the recorded offset.
    pub(super) fn wall(&self) -> Time {
        self.core.clock().shown(self.now)
    }

    /// Records a jump of the wall clock.
    pub(super) fn follow_clock(&mut self, now: Now) {
        if !self.commits.is_open() {
            return;
        }
        let (old, new) = (self.core.clock().offset, now.wall.ahead_of(now.at));
        let jump = new - old;
        if jump > TOLERANCE || jump < Span::ZERO - TOLERANCE {
            tracing::warn!(by = %jump, old_offset = %old, new_offset = %new,
                "the wall clock has jumped: prices, begins and displayed times follow it, running jobs do not");
            self.keep_clock(new);
            self.follow_grid();
        }
    }

    /// Records `offset` and the clock of this process as the cluster's.
    pub(super) fn keep_clock(&mut self, offset: Span) {
        let clock = Clock { offset, ..self.clock.clone() };
        if *self.core.clock() != clock {
            let Clock { offset, boot, since } = clock;
            self.must(Event::ClockOffset { offset, boot, since });
        }
        self.metering.follow_clock(offset);
        self.grid.follow_clock(offset);
    }
}
