//! Sorts jobs by submission in limited memory: sorted runs in temporary files, which are merged. Duplicates are left out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};

use super::error::PoolError;
use super::job::{Outcome, PoolJob};

/// Bytes of jobs in memory, after which they are written to a run.
const BUDGET: usize = 16 * 1024 * 1024;
/// Most runs; then they become one.
const RUNS: usize = 64;

/// Jobs in the order of their arrival.
pub(super) struct Sorter {
    jobs: Vec<PoolJob>,
    bytes: usize,
    budget: usize,
    runs: Vec<File>,
    pub duplicates: u64,
}

impl Sorter {
    pub fn new() -> Self {
        Self::with_budget(BUDGET)
    }

    fn with_budget(budget: usize) -> Self {
        Self { jobs: Vec::new(), bytes: 0, budget, runs: Vec::new(), duplicates: 0 }
    }

    pub fn push(&mut self, job: PoolJob) -> Result<(), PoolError> {
        // Each text is a piece of memory of its own.
        self.bytes += size_of::<PoolJob>() + job.global.len() + job.user.len() + 32;
        self.jobs.push(job);
        if self.bytes >= self.budget { self.spill().map_err(|source| PoolError::Sorting { source }) } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.jobs.sort_unstable();
        let jobs = std::mem::take(&mut self.jobs);
        self.bytes = 0;
        let run = written(|out| jobs.iter().try_for_each(|job| write(out, job)))?;
        self.runs.push(run);
        if self.runs.len() < RUNS {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.runs);
        let mut duplicates = 0;
        let one = written(|out| merge(runs, &[], &mut duplicates, |job| write(out, job)))?;
        self.duplicates += duplicates;
        self.runs.push(one);
        Ok(())
    }

    /// Passes each job once to `take`, in order of submission. Returns the number of duplicates.
    pub fn finish(mut self, take: impl FnMut(&PoolJob) -> io::Result<()>) -> io::Result<u64> {
        self.jobs.sort_unstable();
        merge(self.runs, &self.jobs, &mut self.duplicates, take)?;
        Ok(self.duplicates)
    }
}

/// Writes a temporary file, which has no name and vanishes with the process.
fn written(write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::new(tempfile::tempfile()?);
    write(&mut out)?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

/// Merges runs and sorted jobs. Of the records of one job, the last one counts.
fn merge(
    runs: Vec<File>,
    jobs: &[PoolJob],
    duplicates: &mut u64,
    mut take: impl FnMut(&PoolJob) -> io::Result<()>,
) -> io::Result<()> {
    let mut runs: Vec<_> = runs.into_iter().map(BufReader::new).collect();
    let mut jobs = jobs.iter();
    let mut next = |run: usize| match runs.get_mut(run) {
        Some(run) => read(run),
        None => Ok(jobs.next().cloned()),
    };
    let mut heap = BinaryHeap::new();
    let mut pending: Option<PoolJob> = None;
    let count = RUNS + 1;
    for run in 0..count {
        heap.extend(next(run)?.map(|job| Reverse((job, run))));
    }
    while let Some(Reverse((job, run))) = heap.pop() {
        heap.extend(next(run)?.map(|job| Reverse((job, run))));
        if let Some(earlier) = pending.take() {
            if earlier.is_same(&job) {
                *duplicates += 1;
            } else {
                take(&earlier)?;
            }
        }
        pending = Some(job);
    }
    pending.iter().try_for_each(take)
}

fn write(out: &mut impl Write, job: &PoolJob) -> io::Result<()> {
    let (is_removed, time) = match job.outcome {
        Outcome::Completed { duration } => (0, duration),
        Outcome::Removed { at } => (1, at),
    };
    let numbers = [
        job.submit,
        job.batch,
        job.process,
        job.changed,
        is_removed,
        time,
        // Bytes are not negative.
        job.bytes_in.unwrap_or(-1),
        job.bytes_out.unwrap_or(-1),
        job.global.len() as i64,
        job.user.len() as i64,
    ];
    for number in numbers {
        out.write_all(&number.to_le_bytes())?;
    }
    out.write_all(&job.global)?;
    out.write_all(&job.user)
}

fn read(run: &mut impl Read) -> io::Result<Option<PoolJob>> {
    let mut bytes = [0; 80];
    match run.read_exact(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|number| i64::from_le_bytes(*number));
    let mut number = || numbers.next().unwrap_or_default();
    let (submit, batch, process, changed) = (number(), number(), number(), number());
    let (is_removed, time) = (number(), number());
    let outcome = if is_removed == 1 { Outcome::Removed { at: time } } else { Outcome::Completed { duration: time } };
    let bytes = |value: i64| (value >= 0).then_some(value);
    let (bytes_in, bytes_out) = (bytes(number()), bytes(number()));
    let mut text = |length: i64| {
        let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
        run.read_exact(&mut text).map(|()| text)
    };
    let (global, user) = (text(number())?, text(number())?);
    Ok(Some(PoolJob { submit, batch, process, global, changed, outcome, user, bytes_in, bytes_out }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit: i64, process: i64, changed: i64) -> PoolJob {
        let outcome =
            if process % 2 == 0 { Outcome::Removed { at: changed } } else { Outcome::Completed { duration: 5 } };
        let (global, user) = (format!("a#{process}").into_bytes(), b"ann".to_vec());
        PoolJob { submit, batch: 1, process, global, changed, outcome, user, bytes_in: Some(3), bytes_out: None }
    }

    /// Sorts with so little memory that every few jobs are a run, and the runs are merged more than once.
    #[test]
    fn runs_are_merged_in_order_and_the_last_record_of_a_job_counts() {
        for (budget, runs) in [(BUDGET, 0), (1_000, 1)] {
            let mut sorter = Sorter::with_budget(budget);
            for changed in [9, 7] {
                for number in 0..500 {
                    // A permutation: 173 has no common divisor with 500.
                    let process = number * 173 % 500;
                    sorter.push(job(process / 10, process, changed)).expect("room");
                }
            }
            assert!(sorter.runs.len() >= runs);
            let mut sorted = Vec::new();
            let duplicates = sorter.finish(|job| {
                sorted.push(job.clone());
                Ok(())
            });
            assert_eq!(duplicates.expect("room"), 500);
            let expected: Vec<_> = (0..500).map(|process| job(process / 10, process, 9)).collect();
            assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn no_job() {
        assert_eq!(Sorter::new().finish(|_| panic!("a job")).expect("nothing to do"), 0);
    }
}
