//! Jobs of other journals that nodes had and ended: jobs of a master that lost its state or was restored from a
//! backup. Operators see them for a day, or until the master starts again.

use std::collections::BTreeMap;

use limo_model::{Span, Time};
use limo_proto::{FOREIGN_LIMIT, ForeignReport};
use limo_sched::Clock;

/// Time for which these jobs are shown.
const SHOWN: Span = Span::from_secs(24 * 60 * 60);

/// Time and number of the last report of such jobs, by node.
#[derive(Debug, Default)]
pub(super) struct Foreign(BTreeMap<String, (Time, u32)>);

impl Foreign {
    /// Adds jobs of a node's report. A node reports each job once.
    pub(super) fn add(&mut self, node: &str, count: usize, now: Time) {
        if count == 0 {
            return;
        }
        let (at, sum) = self.0.entry(node.to_owned()).or_insert((now, 0));
        *sum = if now - *at < SHOWN { *sum } else { 0 }.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        *at = now;
    }

    pub(super) fn reports(&self, now: Time, clock: &Clock) -> Vec<ForeignReport> {
        let recent = self.0.iter().filter(|(_, (at, _))| now - *at < SHOWN);
        let report = |(node, (at, jobs)): (&String, &(Time, u32))| ForeignReport {
            node: node.clone(),
            at: clock.shown(*at),
            jobs: *jobs,
        };
        recent.take(FOREIGN_LIMIT).map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_jobs_are_shown_for_a_day() {
        let (mut foreign, clock) = (Foreign::default(), Clock::default());
        let hour = |hour: i64| Time::from_unix_ms(hour * 3_600_000);
        foreign.add("n1", 2, hour(0));
        foreign.add("n2", 0, hour(0));
        foreign.add("n1", 3, hour(23));
        let report = |at, jobs| ForeignReport { node: "n1".into(), at: hour(at), jobs };
        assert_eq!(foreign.reports(hour(46), &clock), [report(23, 5)]);
        assert_eq!(foreign.reports(hour(47), &clock), []);
        foreign.add("n1", 1, hour(48));
        assert_eq!(foreign.reports(hour(48), &clock), [report(48, 1)]);
    }
}
