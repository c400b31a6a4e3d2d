//! Times in which the master does not run: its process is stopped, or its machine is suspended. Peers cannot reach it
//! then, so these times do not count as silence of nodes and clients.

use limo_model::{Span, Time};

use super::{Controller, Fault, faults};

/// Longest time between two steps while peers are awaited.
pub(super) const BEAT: Span = Span::from_secs(1);

/// The steps of the master.
#[derive(Debug, Default)]
pub(super) struct Presence {
    last: Option<Time>,
}

impl Presence {
    /// Returns the time of the next step while peers are awaited.
    pub(super) fn next(&self) -> Option<Time> {
        self.last.map(|last| last + BEAT)
    }

    /// Records a step. Returns the time since the step before if the master missed at least one beat.
    fn step(&mut self, now: Time) -> Option<Span> {
        let passed = now - self.last.replace(now)?;
        (passed > BEAT + BEAT).then_some(passed)
    }
}

impl Controller {
    /// Returns true if something happens unless a peer answers or connects in time.
    fn awaits_peers(&self) -> bool {
        self.liveness.next().is_some()
            || self.sleepers.next().is_some()
            || self.assignments.next_missed().is_some()
            || self.assignments.next_late().is_some()
            || self.routes.next_orphan().is_some()
    }

    /// Records a step, and gives peers more time if the master did not run before it.
    pub(super) fn notice_absence(&mut self) {
        let Some(absent) = self.presence.step(self.tx.now).filter(|_| self.awaits_peers()) else { return };
        tracing::warn!("the master did not run for {absent}: nodes and clients get this time in addition");
        if faults::has(Fault::AbsenceOverlooked) {
            return;
        }
        self.liveness.extend(absent);
        self.sleepers.extend(absent);
        self.assignments.extend(absent);
        self.routes.extend(absent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_misses_beats_was_absent() {
        let mut presence = Presence::default();
        let at = |ms| Time::from_unix_ms(ms);
        assert_eq!((presence.next(), presence.step(at(5_000))), (None, None), "the first step");
        assert_eq!((presence.step(at(7_000)), presence.next()), (None, Some(at(8_000))));
        assert_eq!(presence.step(at(9_001)), Some(Span::from_ms(2_001)));
        assert_eq!(presence.step(at(9_001)), None);
    }
}
