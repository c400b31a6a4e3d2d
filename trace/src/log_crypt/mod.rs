//! Instances of the simulator PA-HPC-SIM of power-capping-2018: `log_crypt` files, plain or gzipped. A job has equal units,
//! which may share nodes; each takes cores, accelerators of one type and memory.

mod line;

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use limo_model::{Chunk, Cores, Memory, Span, Time};

use crate::compact::CompactSpan;
use crate::input;
use crate::workload::{Application, Chunks, Job, Treatment, Workload};

pub use line::{ApplicationKind, LineError, LoggedJob, number, split};

/// Endings of the files.
const ENDINGS: [&str; 2] = [".log_crypt.gz", ".log_crypt"];
/// Most unpacked bytes of a file. 1,000 jobs have about 200 kB.
const FILE_LIMIT: u64 = 16 << 20;
const MOST_JOBS: usize = 10_000;
/// Used for a job that asks for no cores, or for no memory, as by the authors' program.
const DEFAULT_CORES: u64 = 4;
const DEFAULT_MEMORY_KIB: u64 = 204_800;
/// Hardware of GPUs and MICs, by which a platform has them.
const ACCELERATORS: [&str; 2] = ["gpu", "mic"];

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum LogCryptError {
    #[error("{}: the file cannot be read", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}:{line}: {fault}", file.display())]
    Line { file: PathBuf, line: usize, fault: LineError },
    #[error("{}: the file has no lines", file.display())]
    Empty { file: PathBuf },
    #[error(
        "{}: the file has {found} jobs, its name says {named}: two runs were written to one file; use another instance",
        file.display()
    )]
    JobCount { file: PathBuf, found: usize, named: usize },
}

/// Returns the name of an instance: that of its file without the ending. `None` for other files.
pub fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)).map(str::to_owned)
}

/// Reads the jobs of a file in their order.
///
/// # Errors
/// If the file cannot be read, a line is invalid, or the name of the file says another number of jobs (`rndm_N_...`,
/// `hist_N_...`).
pub fn read(path: &Path) -> Result<Vec<LoggedJob>, LogCryptError> {
    let jobs = lines(path, (MOST_JOBS, "jobs"), |line, _| line::job(line))?;
    match name(path).and_then(|name| named_jobs(&name)).filter(|named| *named != jobs.len()) {
        Some(named) => Err(LogCryptError::JobCount { file: path.to_owned(), found: jobs.len(), named }),
        None => Ok(jobs),
    }
}

/// Parses all lines of a file, which has 1 to `limit`.
///
/// # Errors
/// If the file cannot be read, or `parse` refuses a line, which it gets with its index.
pub fn lines<T>(
    path: &Path,
    (limit, what): (usize, &'static str),
    parse: impl Fn(&str, usize) -> Result<T, LineError>,
) -> Result<Vec<T>, LogCryptError> {
    let file = path.to_owned();
    let text = match input::text(path, FILE_LIMIT) {
        Ok(text) => text,
        Err(source) => return Err(LogCryptError::Read { file, source }),
    };
    let parsed = text.lines().enumerate().map(|(index, line)| {
        let parsed = if index < limit { parse(line, index) } else { Err(LineError::TooMany { what, limit }) };
        parsed.map_err(|fault| LogCryptError::Line { file: file.clone(), line: index + 1, fault })
    });
    let parsed = parsed.collect::<Result<Vec<T>, _>>()?;
    if parsed.is_empty() { Err(LogCryptError::Empty { file }) } else { Ok(parsed) }
}

/// Returns N of the names `rndm_N_...` and `hist_N_...`.
fn named_jobs(name: &str) -> Option<usize> {
    let mut words = name.split('_');
    words.next().filter(|kind| ["rndm", "hist"].contains(kind))?;
    words.next()?.parse().ok()
}

/// Reads a file as a workload. The application of a job is its kind. The number of a job is that of its line.
///
/// # Errors
/// The same as for [`read`].
pub fn load(path: &Path) -> Result<Workload, LogCryptError> {
    Ok(workload(&read(path)?))
}

/// Makes a workload of jobs. The resources of a job are divided evenly among its units, rounded down, as by the authors'
/// program.
pub fn workload(logged: &[LoggedJob]) -> Workload {
    let first_s = logged.iter().map(|job| job.arrival_s).min().unwrap_or(0);
    let applications = ApplicationKind::ALL.map(|kind| Application { name: kind.name().to_owned(), variants: vec![] });
    let mut workload = Workload {
        applications: applications.to_vec(),
        start: Some(Time::from_unix_ms(first_s.saturating_mul(1_000))),
        ..Workload::default()
    };
    let names: BTreeSet<&str> = logged.iter().map(|job| job.queue.as_str()).collect();
    workload.queues = names.into_iter().map(str::to_owned).collect();
    for (number, job) in (1..).zip(logged) {
        let queue = workload.queues.binary_search(&job.queue).ok().and_then(|queue| i32::try_from(queue).ok());
        let chunks = workload.add_chunks(chunks(job));
        workload.jobs.push(Job {
            number,
            submit: Span::from_secs(job.arrival_s - first_s),
            wait: None,
            run: Span::from_secs((job.end_s - job.start_s).max(1)),
            walltime: Some(CompactSpan::of(Span::from_secs(job.requested_s()))),
            processors: small(job.cores_or_default()),
            user: -1,
            application: job.kind as i32,
            queue: queue.unwrap_or(-1),
            treatment: Treatment::default(),
            chunks: Some(chunks),
            moldable: None,
            removed: None,
            bytes: None,
        });
    }
    workload.jobs.sort_by_key(|job| job.submit);
    workload
}

fn chunks(job: &LoggedJob) -> Chunks {
    let each = |total: u64| small(total / u64::from(job.units.get()));
    let types = [job.gpus, job.mics].map(|total| NonZeroU32::new(each(total)));
    let accelerators = types.iter().zip(ACCELERATORS).find_map(|(count, name)| Some(((*count)?, name)));
    let kib = job.kib_or_default() / u64::from(job.units.get());
    Chunks {
        count: job.units,
        each: Chunk {
            cores: Cores::Count(NonZeroU32::new(each(job.cores_or_default())).unwrap_or(NonZeroU32::MIN)),
            with_cores: accelerators.is_some(),
            accelerators: accelerators.map(|(count, _)| count),
            memory: Memory::from_bytes(kib.saturating_mul(1024)),
        },
        hardware: accelerators.map(|(_, name)| name.to_owned()).into_iter().collect(),
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl LoggedJob {
    /// Returns the cores of all units: 4 if it asks for none.
    pub fn cores_or_default(&self) -> u64 {
        if self.cores == 0 { DEFAULT_CORES } else { self.cores }
    }

    /// Returns the memory of all units in KiB: 200 MiB if it asks for none.
    pub fn kib_or_default(&self) -> u64 {
        if self.memory_kib == 0 { DEFAULT_MEMORY_KIB } else { self.memory_kib }
    }

    /// Returns the requested time in s: if there is none, the logged one in whole minutes, rounded up to more.
    pub fn requested_s(&self) -> i64 {
        if self.requested_s == 0 { ((self.end_s - self.start_s) / 60 + 1) * 60 } else { self.requested_s }
    }
}

#[cfg(test)]
mod tests;
