//! The times that the dispatcher visits, with their events. Decides nothing.

use std::collections::BTreeMap;

/// Seconds between two measurements.
const MEASURED_EVERY_S: i64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarEvent {
    Arrival(usize),
    End(usize),
}

/// A visited time.
#[derive(Debug, PartialEq, Eq)]
pub struct Visit {
    pub at_s: i64,
    /// True if the list begins with a measurement.
    pub is_measured: bool,
    /// The other events in the order in which they were added. They are the state at the begin of the visit.
    pub events: Vec<CalendarEvent>,
}

impl Visit {
    /// Returns true if the visit has no event at all: the begin, and times from which the last event was removed.
    pub fn is_empty(&self) -> bool {
        !self.is_measured && self.events.is_empty()
    }
}

/// Future events. Times are in seconds after the first arrival.
#[derive(Debug)]
pub struct Calendar {
    now_s: i64,
    last_measurement_s: i64,
    lists: BTreeMap<i64, Vec<CalendarEvent>>,
}

impl Calendar {
    /// Makes the calendar for jobs that arrive at these times. It has measurements up to the first multiple of 5 s at or
    /// after `requested_s`, the sum of all requested times. The first visit is at 0 s and has no events: jobs that arrive
    /// then get none.
    pub fn new(arrivals_s: impl Iterator<Item = i64>, requested_s: i64) -> Self {
        let mut lists = BTreeMap::from([(0, Vec::new())]);
        for (job, arrival_s) in arrivals_s.enumerate().filter(|(_, arrival_s)| *arrival_s > 0) {
            lists.entry(arrival_s).or_insert_with(Vec::new).push(CalendarEvent::Arrival(job));
        }
        let last_measurement_s = (requested_s + MEASURED_EVERY_S - 1) / MEASURED_EVERY_S * MEASURED_EVERY_S;
        Self { now_s: -1, last_measurement_s, lists }
    }

    /// Moves to the next time with a list, which may be empty.
    pub fn advance(&mut self) -> Option<Visit> {
        let measurement_s =
            if self.now_s < 0 { MEASURED_EVERY_S } else { (self.now_s / MEASURED_EVERY_S + 1) * MEASURED_EVERY_S };
        let measurement_s = Some(measurement_s).filter(|at_s| *at_s <= self.last_measurement_s);
        let listed_s = self.lists.keys().next().copied();
        let at_s = measurement_s.into_iter().chain(listed_s).min()?;
        self.now_s = at_s;
        let events = self.lists.remove(&at_s).unwrap_or_default();
        Some(Visit { at_s, is_measured: measurement_s == Some(at_s), events })
    }

    /// Adds the end of a job. An end at or before the current time is never seen.
    pub fn add_end(&mut self, job: usize, at_s: i64) {
        if at_s > self.now_s {
            self.lists.entry(at_s).or_default().push(CalendarEvent::End(job));
        }
    }

    /// Removes the end of a job from the list at `at_s`. The time is visited even if the list is then empty.
    pub fn remove_end(&mut self, job: usize, at_s: i64) {
        if let Some(events) = self.lists.get_mut(&at_s) {
            events.retain(|event| *event != CalendarEvent::End(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(at_s: i64, is_measured: bool, events: &[CalendarEvent]) -> Option<Visit> {
        Some(Visit { at_s, is_measured, events: events.to_vec() })
    }

    #[test]
    fn a_list_that_lost_its_last_event_is_visited() {
        // The sum of the requests is 6 s, so there are measurements at 5 and 10 s.
        let mut calendar = Calendar::new([0, 3, 3, 10].into_iter(), 6);
        assert!(calendar.advance().is_some_and(|first| first.is_empty() && first.at_s == 0));
        calendar.add_end(0, 7);
        calendar.add_end(1, 3);
        use CalendarEvent::{Arrival, End};
        assert_eq!(calendar.advance(), visit(3, false, &[Arrival(1), Arrival(2), End(1)]));
        // Neither the present nor the past is visited.
        calendar.add_end(2, 3);
        calendar.add_end(2, 2);
        assert_eq!(calendar.advance(), visit(5, true, &[]));
        calendar.remove_end(0, 7);
        assert!(calendar.advance().is_some_and(|emptied| emptied.is_empty() && emptied.at_s == 7));
        calendar.add_end(0, 10);
        assert_eq!(calendar.advance(), visit(10, true, &[Arrival(3), End(0)]));
        assert_eq!(calendar.advance(), None);
    }
}
