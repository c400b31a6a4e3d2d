//! Import of histories and event logs.

use std::path::{Path, PathBuf};

use super::attribute::Attribute;
use super::clock::PoolClock;
use super::error::PoolError;
use super::job::{self, Transfers};
use super::lives::Lives;
use super::prepared;
use super::reader::RecordReader;
use super::record::{PoolRecord, Slot};
use super::sort::Sorter;
use super::tally::Tally;

/// Reads histories and event logs, and writes their jobs once each, in order of submission. Event logs must come in
/// order of time.
///
/// # Errors
/// [`PoolError`] if a file cannot be read or written; an earlier file of that name is then unchanged.
pub fn import(files: &[PathBuf], output: &Path, transfers: Transfers, clock: PoolClock) -> Result<Tally, PoolError> {
    let mut import = JobImport::new(transfers, clock);
    for file in files {
        import.read(RecordReader::open(file)?)?;
    }
    import.write(output)
}

/// Jobs of the files so far.
pub(super) struct JobImport {
    transfers: Transfers,
    clock: PoolClock,
    lives: Lives,
    sorter: Sorter,
    tally: Tally,
}

impl JobImport {
    pub fn new(transfers: Transfers, clock: PoolClock) -> Self {
        Self { transfers, clock, lives: Lives::default(), sorter: Sorter::new(), tally: Tally::default() }
    }

    pub fn read(&mut self, mut reader: RecordReader) -> Result<(), PoolError> {
        let mut record = PoolRecord::default();
        while reader.advance(&mut record, &mut self.clock)? {
            self.tally.records += 1;
            let job = if record.slot(Attribute::EventTypeNumber) == Slot::Missing {
                job::of(&record, self.transfers, &mut self.tally)
            } else {
                self.lives.apply(&record, reader.file(), self.transfers, &mut self.tally)?
            };
            if let Some(job) = job {
                self.sorter.push(job)?;
            }
        }
        self.tally.unreadable += reader.unreadable();
        Ok(())
    }

    pub fn write(self, output: &Path) -> Result<Tally, PoolError> {
        let Self { lives, sorter, mut tally, .. } = self;
        lives.finish(&mut tally);
        prepared::file(output, |out| {
            let fault = |source| PoolError::Write { file: output.display().to_string(), source };
            prepared::jobs_head(out).map_err(fault)?;
            let duplicates = sorter.finish(|job| {
                tally.jobs += 1;
                prepared::job(out, job)
            });
            tally.duplicates += duplicates.map_err(fault)?;
            Ok(())
        })?;
        Ok(tally)
    }
}
