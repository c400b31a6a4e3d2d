//! Jobs of a pool, made from the records of a history.

use super::attribute::Attribute;
use super::record::{PoolRecord, Slot};
use super::tally::Tally;

/// Result of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It ran to its end.
    Completed {
        /// Seconds that it ran without a pause.
        duration: i64,
    },
    /// It was removed; until then it would never have ended.
    Removed {
        /// Seconds since 1970.
        at: i64,
    },
}

/// Job of a pool. Ordered by submission; equal jobs of overlapping files are neighbours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolJob {
    /// Submission, in seconds since 1970.
    pub submit: i64,
    /// Number of its batch: HTCondor's cluster.
    pub batch: i64,
    /// Number within the batch: HTCondor's process.
    pub process: i64,
    /// Identifier over several pools; empty if the file has none.
    pub global: Vec<u8>,
    /// Time of its last change, in seconds since 1970: of two equal jobs, the later one counts.
    pub changed: i64,
    /// Result.
    pub outcome: Outcome,
    /// User, as the file names it; empty if it does not.
    pub user: Vec<u8>,
    /// Bytes that were sent to the job.
    pub bytes_in: Option<i64>,
    /// Bytes that the job sent.
    pub bytes_out: Option<i64>,
}

impl PoolJob {
    /// Returns true if both are the same job, perhaps at different times.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.submit, self.batch, self.process, &self.global)
            == (other.submit, other.batch, other.process, &other.global)
    }
}

/// Meaning of `BytesSent` and `BytesRecvd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transfers {
    /// HTCondor counts from the side of the job: it receives its input.
    #[default]
    OfJob,
    /// As in Table II of htc-sim-2015: `BytesSent` is the input.
    Compat2015,
}

impl Transfers {
    /// Returns input and output.
    pub(super) fn sides(self, sent: Option<i64>, received: Option<i64>) -> (Option<i64>, Option<i64>) {
        match self {
            Self::OfJob => (received, sent),
            Self::Compat2015 => (sent, received),
        }
    }
}

/// States of HTCondor in which a job is over.
const REMOVED: i64 = 3;
const COMPLETED: i64 = 4;

/// Values of a record. Missing and mistyped ones are counted.
struct Values<'r>(&'r PoolRecord, &'r mut Tally);

impl Values<'_> {
    fn number(&mut self, attribute: Attribute) -> Option<i64> {
        self.1.count(attribute, self.0.slot(attribute));
        self.0.number(attribute)
    }

    fn bytes(&mut self, attribute: Attribute) -> Option<i64> {
        self.number(attribute).filter(|bytes| *bytes >= 0)
    }

    /// Returns a time; 0 stands for one that never came.
    fn time(&mut self, attribute: Attribute) -> Option<i64> {
        self.number(attribute).filter(|seconds| *seconds > 0)
    }
}

/// Makes the job of a record of a history. Returns `None`, and counts why, if the record does not say when the job was
/// submitted and how it ended.
pub(super) fn of(record: &PoolRecord, transfers: Transfers, tally: &mut Tally) -> Option<PoolJob> {
    let mut values = Values(record, tally);
    let (batch, process) = (values.number(Attribute::ClusterId), values.number(Attribute::ProcId));
    let (submit, status) = (values.time(Attribute::QDate), values.number(Attribute::JobStatus));
    let entered = values.time(Attribute::EnteredCurrentStatus);
    let started = values.time(Attribute::JobCurrentStartDate);
    let (sent, received) = (values.bytes(Attribute::BytesSent), values.bytes(Attribute::BytesRecvd));
    values.1.count(Attribute::Owner, record.slot(Attribute::Owner));
    let (Some(batch), Some(process), Some(submit), Some(status)) = (batch, process, submit, status) else {
        tally.incomplete += 1;
        return None;
    };
    let completed_at = || entered.or_else(|| record.number(Attribute::CompletionDate).filter(|seconds| *seconds > 0));
    let (changed, outcome) = match status {
        COMPLETED => {
            let Some(duration) = duration(record, started, completed_at()) else {
                tally.incomplete += 1;
                return None;
            };
            if duration < 0 {
                tally.impossible += 1;
                return None;
            }
            (completed_at().unwrap_or(submit), Outcome::Completed { duration })
        }
        REMOVED => match entered {
            Some(at) if at >= submit => (at, Outcome::Removed { at }),
            Some(_) => {
                tally.impossible += 1;
                return None;
            }
            None => {
                tally.incomplete += 1;
                return None;
            }
        },
        _ => {
            tally.unfinished += 1;
            return None;
        }
    };
    let (bytes_in, bytes_out) = transfers.sides(sent, received);
    let text = |attribute| record.text(attribute).unwrap_or_default().to_vec();
    let (global, user) = (text(Attribute::GlobalJobId), text(Attribute::Owner));
    Some(PoolJob { submit, batch, process, global, changed, outcome, user, bytes_in, bytes_out })
}

/// Returns the time of the last run without suspensions. Without its start, it is the time of all runs, if there was one,
/// else the time of those that were not evicted.
fn duration(record: &PoolRecord, started: Option<i64>, ended: Option<i64>) -> Option<i64> {
    // Histories before 6.7 do not count runs.
    let is_first = record.number(Attribute::NumJobStarts).is_none_or(|starts| starts <= 1);
    let run = match (started, ended) {
        (Some(started), Some(ended)) => ended.checked_sub(started)?,
        _ if is_first => record.number(Attribute::RemoteWallClockTime)?,
        _ => record.number(Attribute::CommittedTime)?,
    };
    // `CumulativeSuspensionTime` is the sum over all runs.
    let suspension = if is_first { Attribute::CumulativeSuspensionTime } else { Attribute::CommittedSuspensionTime };
    run.checked_sub(record.number(suspension).unwrap_or(0).max(0))
}

impl Tally {
    /// Counts a value that cannot be used.
    fn count(&mut self, attribute: Attribute, slot: Slot) {
        match slot {
            Slot::Missing => self.missing[attribute as usize] += 1,
            Slot::Mistyped => self.mistyped[attribute as usize] += 1,
            Slot::Number(_) | Slot::Text(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Literal;
    use super::*;

    /// A job of cluster 7 that was submitted at 100, started at 200, and ended at 1,000.
    fn record(changes: &[(Attribute, i64)]) -> PoolRecord {
        use Attribute::{ClusterId, EnteredCurrentStatus, JobCurrentStartDate, JobStatus, ProcId, QDate};
        let mut record = PoolRecord::default();
        record.begin(1);
        let own =
            [(ClusterId, 7), (ProcId, 0), (QDate, 100), (JobCurrentStartDate, 200), (EnteredCurrentStatus, 1_000)];
        for (attribute, value) in own.iter().chain(&[(JobStatus, 4)]).chain(changes) {
            record.set(*attribute, &Literal::Number { value: *value, whole: true });
        }
        record
    }

    fn outcome(changes: &[(Attribute, i64)]) -> Option<Outcome> {
        of(&record(changes), Transfers::OfJob, &mut Tally::default()).map(|job| job.outcome)
    }

    #[test]
    fn durations_are_without_suspensions_of_the_last_run() {
        use Attribute::{CommittedSuspensionTime, CumulativeSuspensionTime, NumJobStarts};
        let completed = |duration| Some(Outcome::Completed { duration });
        assert_eq!(outcome(&[]), completed(800));
        assert_eq!(outcome(&[(CumulativeSuspensionTime, 50)]), completed(750));
        assert_eq!(outcome(&[(CumulativeSuspensionTime, 50), (NumJobStarts, 1)]), completed(750));
        let twice = [(CumulativeSuspensionTime, 50), (CommittedSuspensionTime, 20), (NumJobStarts, 2)];
        assert_eq!(outcome(&twice), completed(780));
        assert_eq!(outcome(&[(CumulativeSuspensionTime, 900)]), None);
    }

    #[test]
    fn without_its_start_a_run_takes_what_the_history_counts() {
        use Attribute::{CommittedTime, JobCurrentStartDate, NumJobStarts, RemoteWallClockTime};
        let completed = |duration| Some(Outcome::Completed { duration });
        let times = [(JobCurrentStartDate, 0), (RemoteWallClockTime, 900), (CommittedTime, 600)];
        assert_eq!(outcome(&times), completed(900));
        assert_eq!(outcome(&[times.as_slice(), &[(NumJobStarts, 2)]].concat()), completed(600));
        assert_eq!(outcome(&[(JobCurrentStartDate, 0)]), None);
    }

    #[test]
    fn a_removed_job_ends_when_it_is_removed() {
        use Attribute::{EnteredCurrentStatus, JobStatus};
        assert_eq!(outcome(&[(JobStatus, 3)]), Some(Outcome::Removed { at: 1_000 }));
        assert_eq!(outcome(&[(JobStatus, 3), (EnteredCurrentStatus, 99)]), None);
        assert_eq!(outcome(&[(JobStatus, 5)]), None);
    }

    #[test]
    fn the_input_is_what_the_job_received() {
        let record = record(&[(Attribute::BytesSent, 1), (Attribute::BytesRecvd, 2)]);
        let bytes = |transfers| {
            let job = of(&record, transfers, &mut Tally::default()).expect("a job");
            (job.bytes_in, job.bytes_out)
        };
        assert_eq!(bytes(Transfers::OfJob), (Some(2), Some(1)));
        assert_eq!(bytes(Transfers::Compat2015), (Some(1), Some(2)));
    }

    #[test]
    fn what_cannot_be_used_is_counted() {
        let mut tally = Tally::default();
        let mut wrong = record(&[]);
        wrong.set(Attribute::QDate, &Literal::Other);
        assert_eq!(of(&wrong, Transfers::OfJob, &mut tally), None);
        of(&record(&[(Attribute::JobStatus, 2)]), Transfers::OfJob, &mut tally);
        of(&record(&[(Attribute::EnteredCurrentStatus, 150)]), Transfers::OfJob, &mut tally);
        assert_eq!((tally.incomplete, tally.unfinished, tally.impossible), (1, 1, 1));
        assert_eq!(tally.mistyped[Attribute::QDate as usize], 1);
        assert_eq!(tally.missing[Attribute::Owner as usize], 3);
    }
}
