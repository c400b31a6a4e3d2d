//! Jobs of other journals that nodes had and ended: jobs of a master that lost its state or was restored from a
//! backup. Operators see them for a day, or until the master starts again.

use std::collections::BTreeMap;

use limo_model::{JobId, JournalId, Span, Time};
use limo_proto::{AttemptReport, AttemptState, FOREIGN_LIMIT, ForeignReport, Registration};
use limo_sched::{Clock, Event};

use super::Controller;

/// End of valid job numbers. Larger ones would be inexact in JSON, whose readers may use 64-bit floating point.
const NUMBERS_END: u64 = 1 << 53;

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

impl Controller {
    /// Removes from a registration the attempts of other journals, which the node ends by itself. Logs them, and blocks
    /// numbers of this cluster from an earlier incarnation.
    pub(super) fn set_apart(&mut self, registration: &mut Registration) -> Result<(), String> {
        let own = |report: &AttemptReport| self.tx.journal.owns(report.journal);
        let (own, foreign): (Vec<_>, Vec<_>) = std::mem::take(&mut registration.attempts).into_iter().partition(own);
        let node = registration.slave.spec.name.as_str();
        for AttemptReport { journal, job, attempt, state, .. } in &foreign {
            let ended = matches!(state, AttemptState::Ended { .. });
            tracing::error!(
                node, %job, %attempt, %journal, ended,
                "a node had a job of another journal, and not of this master: it is ended there"
            );
        }
        self.nodes.foreign.add(node, foreign.len(), self.tx.now);
        let of_cluster = |report: &&AttemptReport| report.journal.cluster == self.tx.journal.cluster;
        // This includes own jobs: unknown numbers show that this journal was restored to an earlier state.
        let named = |report: &&AttemptReport| report.journal != JournalId::default();
        let highest = foreign.iter().filter(of_cluster).chain(own.iter().filter(named)).map(|report| report.job).max();
        registration.attempts = own;
        let Some(highest) = highest.filter(|highest| *highest >= self.tx.core.next_job()) else { return Ok(()) };
        if highest.0 >= NUMBERS_END {
            return Err(format!("node `{node}` reports job {highest}: numbers end at {NUMBERS_END}"));
        }
        let next = JobId(highest.0 + 1);
        tracing::warn!(node, %highest, %next, "job numbers continue above those of an earlier incarnation");
        self.tx.must(Event::NumbersRaised { next });
        Ok(())
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
