//! Writes on a thread of its own, so that a simulation does not wait for its results to be put into words.
//!
//! Records go over in batches, in their order; a writer that falls behind holds the simulation up. What cannot be
//! written ends the simulation at the next batch.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::{io, panic};

use crate::record::{JobRow, Sample, Sink, Summary, WriteError};

/// Records in a batch, and batches on their way: about a megabyte.
const RECORDS: usize = 1024;
const BATCHES: usize = 4;

enum Record {
    /// With how many intervals of the batch.
    Job(JobRow<'static>, usize),
    Sample(Sample),
    End(Box<Summary>),
}

#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    intervals: Vec<(u32, u32)>,
}

/// What the simulation has of a sink that works on another thread.
pub struct Beside<'scope> {
    /// Until the writer has ended.
    writer: Option<Writer<'scope>>,
    batch: Batch,
}

struct Writer<'scope> {
    full: SyncSender<Batch>,
    /// Batches to fill again.
    empty: Receiver<Batch>,
    thread: ScopedJoinHandle<'scope, Result<(), WriteError>>,
}

/// Does `work` with a sink that hands everything to `sink` on another thread.
///
/// # Errors
/// There can be no other thread.
pub fn beside<S: Sink + Send, T>(sink: &mut S, work: impl FnOnce(&mut Beside<'_>) -> T) -> io::Result<T> {
    scope(|scope| {
        let (full, batches) = sync_channel(BATCHES);
        let (back, empty) = sync_channel(BATCHES);
        let writer = Builder::new().name("results".to_owned());
        let thread = writer.spawn_scoped(scope, move || write(sink, &batches, &back))?;
        Ok(work(&mut Beside { writer: Some(Writer { full, empty, thread }), batch: Batch::default() }))
    })
}

/// The other thread: ends with the simulation, or where the sink cannot go on.
fn write(sink: &mut impl Sink, batches: &Receiver<Batch>, back: &SyncSender<Batch>) -> Result<(), WriteError> {
    for mut batch in batches {
        let mut intervals = batch.intervals.as_slice();
        for record in batch.records.drain(..) {
            match record {
                Record::Job(row, count) => {
                    let (allocated, rest) = intervals.split_at(count);
                    intervals = rest;
                    sink.job(&JobRow { allocated, ..row })?;
                }
                Record::Sample(sample) => sink.sample(&sample)?,
                Record::End(summary) => sink.finish(&summary)?,
            }
        }
        batch.intervals.clear();
        // Where nobody fills it again it is not needed.
        let _ = back.try_send(batch);
    }
    Ok(())
}

impl Beside<'_> {
    fn add(&mut self, record: Record) -> Result<(), WriteError> {
        self.batch.records.push(record);
        if self.batch.records.len() < RECORDS { Ok(()) } else { self.hand_over() }
    }

    fn hand_over(&mut self) -> Result<(), WriteError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let next = writer.empty.try_recv().unwrap_or_default();
        match writer.full.send(std::mem::replace(&mut self.batch, next)) {
            Ok(()) => Ok(()),
            // It takes no more: it says why.
            Err(_) => self.end(),
        }
    }

    /// Waits until all is written.
    fn end(&mut self) -> Result<(), WriteError> {
        let Some(Writer { full, thread, .. }) = self.writer.take() else { return Ok(()) };
        drop(full);
        thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    }
}

impl Sink for Beside<'_> {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.batch.intervals.extend_from_slice(job.allocated);
        let JobRow { number, submit, processors, walltime, user, fate, start, end, energy, cost, allocated } = *job;
        let row = JobRow { number, submit, processors, walltime, user, fate, start, end, energy, cost, allocated: &[] };
        self.add(Record::Job(row, allocated.len()))
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.add(Record::Sample(*sample))
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.add(Record::End(Box::new(summary.clone())))?;
        self.hand_over()?;
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use limo_model::{Energy, Time};

    use super::*;
    use crate::record::{ByState, Fate, HostUse, Switches};

    /// Remembers what comes, and fails at a job of that number.
    #[derive(Default)]
    struct Memory {
        jobs: Vec<(i64, Vec<(u32, u32)>)>,
        ends: usize,
        fails_at: Option<i64>,
    }

    impl Sink for Memory {
        fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
            if self.fails_at == Some(job.number) {
                return Err(WriteError::new(Path::new("jobs.csv"), io::ErrorKind::StorageFull.into()));
            }
            self.jobs.push((job.number, job.allocated.to_vec()));
            Ok(())
        }

        fn sample(&mut self, _: &Sample) -> Result<(), WriteError> {
            Ok(())
        }

        fn finish(&mut self, _: &Summary) -> Result<(), WriteError> {
            self.ends += 1;
            Ok(())
        }
    }

    fn run(sink: &mut impl Sink, jobs: u32) -> Result<(), WriteError> {
        let at = Time::from_unix_ms(0);
        for number in 0..jobs {
            let allocated: Vec<(u32, u32)> = (0..number % 3).map(|at| (number + 2 * at, number + 2 * at)).collect();
            sink.job(&JobRow {
                number: i64::from(number),
                submit: at,
                processors: 1,
                walltime: None,
                user: 0,
                fate: Fate::Completed,
                start: Some(at),
                end: Some(at),
                allocated: &allocated,
                energy: Energy::ZERO,
                cost: None,
            })?;
        }
        let (energy_by_state, switches, host) = (ByState::default(), Switches::default(), HostUse::default());
        sink.finish(&Summary { end: at, energy_by_state, switches, budgets: vec![], rounds: 0, violations: 0, host })
    }

    #[test]
    fn everything_comes_in_its_order() {
        for jobs in [0, 1, 1_023, 1_024, 10_000] {
            let (mut here, mut there) = (Memory::default(), Memory::default());
            run(&mut here, jobs).expect("written");
            beside(&mut there, |sink| run(sink, jobs)).expect("a thread").expect("written");
            assert_eq!((there.jobs.len(), there.ends), (jobs as usize, 1));
            assert!(here.jobs == there.jobs, "{jobs} jobs");
        }
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        for fails_at in [0, 1_500, 9_999] {
            let mut full = Memory { fails_at: Some(fails_at), ..Memory::default() };
            let error = beside(&mut full, |sink| run(sink, 10_000)).expect("a thread").expect_err("full");
            assert!(error.to_string().starts_with("cannot write jobs.csv: "), "{error}");
            assert_eq!((full.jobs.len() as i64, full.ends), (fails_at, 0));
        }
    }
}
