//! Jobs made from the events of event logs, which come in order of time.

use std::collections::HashMap;

use super::OPEN_LIMIT;
use super::attribute::Attribute;
use super::error::PoolError;
use super::job::{Outcome, PoolJob, Transfers};
use super::record::PoolRecord;
use super::tally::Tally;

/// Event that changes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeEvent {
    Submitted,
    Started,
    Evicted,
    Terminated,
    Aborted,
    Suspended,
    Unsuspended,
}

impl LifeEvent {
    /// Finds the event of HTCondor's number. Checkpoints, sizes and all others change nothing here.
    fn of(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Submitted,
            1 => Self::Started,
            4 => Self::Evicted,
            5 => Self::Terminated,
            9 => Self::Aborted,
            10 => Self::Suspended,
            11 => Self::Unsuspended,
            _ => return None,
        })
    }
}

/// Job that has not ended.
#[derive(Debug, Default)]
struct OpenJob {
    submit: i64,
    /// Begin of the present run.
    started: Option<i64>,
    /// Begin of the present suspension.
    paused: Option<i64>,
    /// Seconds of earlier suspensions of the present run.
    suspended: i64,
}

impl OpenJob {
    fn resume(&mut self, at: i64) {
        if let Some(paused) = self.paused.take() {
            self.suspended = self.suspended.saturating_add(at.saturating_sub(paused).max(0));
        }
    }
}

/// Jobs that have not ended, by cluster and process.
#[derive(Debug, Default)]
pub(super) struct Lives {
    open: HashMap<(i64, i64), OpenJob>,
}

impl Lives {
    /// Applies an event. Returns the job that it ends.
    ///
    /// # Errors
    /// If too many jobs are open.
    pub fn apply(
        &mut self,
        record: &PoolRecord,
        file: &str,
        transfers: Transfers,
        tally: &mut Tally,
    ) -> Result<Option<PoolJob>, PoolError> {
        use Attribute::{Cluster, EventTime, EventTypeNumber, Proc};
        let values = [EventTypeNumber, Cluster, Proc, EventTime].map(|attribute| record.number(attribute));
        let [Some(number), Some(batch), Some(process), Some(at)] = values else {
            tally.incomplete += 1;
            return Ok(None);
        };
        let Some(event) = LifeEvent::of(number) else { return Ok(None) };
        let id = (batch, process);
        if event == LifeEvent::Submitted {
            if self.open.len() >= OPEN_LIMIT && !self.open.contains_key(&id) {
                return Err(PoolError::OpenJobs { file: file.to_owned(), line: record.line });
            }
            // Numbers are used once, so an earlier one is a duplicate.
            let earlier = self.open.insert(id, OpenJob { submit: at, ..OpenJob::default() });
            tally.duplicates += u64::from(earlier.is_some());
            return Ok(None);
        }
        let Some(job) = self.open.get_mut(&id) else {
            tally.unknown += 1;
            return Ok(None);
        };
        match event {
            LifeEvent::Started => (job.started, job.paused, job.suspended) = (Some(at), None, 0),
            // A submission has returned already.
            LifeEvent::Submitted | LifeEvent::Evicted => (job.started, job.paused, job.suspended) = (None, None, 0),
            LifeEvent::Suspended => job.paused = job.paused.or(Some(at)),
            LifeEvent::Unsuspended => job.resume(at),
            LifeEvent::Terminated | LifeEvent::Aborted => {
                let is_removed = event == LifeEvent::Aborted;
                return Ok(self.end(record, id, at, is_removed, transfers, tally));
            }
        }
        Ok(None)
    }

    fn end(
        &mut self,
        record: &PoolRecord,
        id: (i64, i64),
        at: i64,
        is_removed: bool,
        transfers: Transfers,
        tally: &mut Tally,
    ) -> Option<PoolJob> {
        let mut job = self.open.remove(&id)?;
        job.resume(at);
        let outcome = match (is_removed, job.started) {
            (true, _) => Outcome::Removed { at },
            (_, Some(started)) => {
                Outcome::Completed { duration: at.saturating_sub(started).saturating_sub(job.suspended) }
            }
            (_, None) => {
                tally.incomplete += 1;
                return None;
            }
        };
        if at < job.submit || matches!(outcome, Outcome::Completed { duration } if duration < 0) {
            tally.impossible += 1;
            return None;
        }
        let bytes = |total, run| record.number(total).or(record.number(run)).filter(|bytes| *bytes >= 0);
        let sent = bytes(Attribute::TotalSentBytes, Attribute::SentBytes);
        let received = bytes(Attribute::TotalReceivedBytes, Attribute::ReceivedBytes);
        let (bytes_in, bytes_out) = transfers.sides(sent, received);
        Some(PoolJob {
            submit: job.submit,
            batch: id.0,
            process: id.1,
            global: Vec::new(),
            changed: at,
            outcome,
            user: Vec::new(),
            bytes_in,
            bytes_out,
        })
    }

    /// Counts the jobs that have not ended.
    pub fn finish(self, tally: &mut Tally) {
        tally.unfinished += self.open.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Literal;
    use super::*;

    fn jobs(events: &[(i64, i64)]) -> (Vec<Outcome>, Tally) {
        let (mut lives, mut tally, mut record) = (Lives::default(), Tally::default(), PoolRecord::default());
        let mut outcomes = Vec::new();
        for (event, at) in events {
            record.begin(1);
            let values = [
                (Attribute::EventTypeNumber, *event),
                (Attribute::Cluster, 7),
                (Attribute::Proc, 0),
                (Attribute::EventTime, *at),
            ];
            for (attribute, value) in values {
                record.set(attribute, &Literal::Number { value, whole: true });
            }
            let job = lives.apply(&record, "f", Transfers::OfJob, &mut tally).expect("few jobs");
            outcomes.extend(job.map(|job| job.outcome));
        }
        lives.finish(&mut tally);
        (outcomes, tally)
    }

    #[test]
    fn the_last_run_counts_without_suspensions() {
        let (outcomes, tally) =
            jobs(&[(0, 10), (1, 20), (6, 25), (4, 50), (1, 60), (10, 70), (11, 75), (3, 80), (5, 100)]);
        assert_eq!(outcomes, [Outcome::Completed { duration: 35 }]);
        assert_eq!(tally, Tally::default());
        // A job that ends while it is suspended, and one that is removed while it waits.
        assert_eq!(jobs(&[(0, 10), (1, 20), (10, 70), (5, 100)]).0, [Outcome::Completed { duration: 50 }]);
        assert_eq!(jobs(&[(0, 10), (1, 20), (4, 30), (9, 40)]).0, [Outcome::Removed { at: 40 }]);
    }

    #[test]
    fn losses_are_counted() {
        let count = |events: &[(i64, i64)]| {
            let (outcomes, tally) = jobs(events);
            assert_eq!(outcomes, []);
            [tally.unfinished, tally.unknown, tally.incomplete, tally.impossible, tally.duplicates]
        };
        assert_eq!(count(&[(0, 10), (1, 20)]), [1, 0, 0, 0, 0]);
        assert_eq!(count(&[(8, 10), (1, 20), (5, 30)]), [0, 2, 0, 0, 0]);
        assert_eq!(count(&[(0, 10), (5, 30)]), [0, 0, 1, 0, 0]);
        assert_eq!(count(&[(0, 10), (1, 40), (5, 30)]), [0, 0, 0, 1, 0]);
        assert_eq!(count(&[(0, 10), (0, 10)]), [1, 0, 0, 0, 1]);
    }
}
