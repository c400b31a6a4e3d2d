//! Reads the instances and the nodes of the published program (FORMAT.md): text, plain or gzipped.

use std::io;
use std::path::{Path, PathBuf};

use jiff::civil::{DateTime, date};
use limo_trace::input;

use super::job::{Job, JobLine};
use super::resources::{NodeList, Resources};

/// Endings of the files of instances.
const ENDINGS: [&str; 2] = [".log_crypt.gz", ".log_crypt"];
/// Most unpacked bytes of a file. 1,000 jobs have about 200 kB.
const FILE_LIMIT: u64 = 16 << 20;
const MOST_JOBS: usize = 10_000;
const MOST_NODES: usize = 10_000;
const MOST_UNITS: usize = 10_000;
/// Most of a resource of a unit or of a node: of cores, GPUs, MICs, KiB.
const MOST: i64 = 1_000_000_000;
/// Most hours of a requested time.
const MOST_HOURS: i64 = 999;
/// The program refuses jobs whose units ask for more, in the mean.
const UNIT_LIMITS: [(&str, i64); 4] = [("cores", 16), ("GPUs", 2), ("MICs", 2), ("KiB of memory", 33_554_432)];

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Name of the file without folder and ending.
    pub name: String,
    /// Jobs in the order of the file.
    pub jobs: Vec<Job>,
}

/// A job with its names, which no policy looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub id: String,
    pub queue: String,
    pub line: JobLine,
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
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

/// Fault of a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("{found} parts are separated by `{separator}`: {what} has {wanted}")]
    Parts { what: &'static str, separator: &'static str, found: usize, wanted: usize },
    #[error("{field} is `{value}`: write a whole number from 0 to {limit}")]
    Number { field: &'static str, value: String, limit: i64 },
    #[error("the {field} is `{value}`: write a time such as 2014-09-13 23:59:45")]
    Time { field: &'static str, value: String },
    #[error(
        "the requested time is `{value}`: write hours from 0 to {MOST_HOURS} and minutes from 00 to 59, such as 04:00"
    )]
    Requested { value: String },
    #[error("the run ends {seconds} s before it starts")]
    Ends { seconds: i64 },
    #[error("the job has no unit: write node;cores;GPUs;MICs;memory# for each")]
    NoUnits,
    #[error("the line is beyond the limit of {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
    #[error("a unit asks for {value} {what}: the published program accepts at most {limit}")]
    Unit { what: &'static str, value: i64, limit: i64 },
    #[error("a unit asks for GPUs and MICs: the published program accepts either")]
    Accelerators,
    #[error("the number of the node is {found}, the next one is {wanted}")]
    Node { found: i64, wanted: usize },
}

/// Reads an instance.
///
/// # Errors
/// If the file cannot be read, a line is invalid, the published program refuses a job, or the name of the file says another
/// number of jobs (`rndm_N_...`, `hist_N_...`).
pub fn read(path: &Path) -> Result<Instance, InstanceError> {
    let lines = lines(path, MOST_JOBS, "jobs", |line, _| job_line(line))?;
    let name = name(path).unwrap_or_else(|| path.display().to_string());
    if let Some(named) = named_jobs(&name).filter(|named| *named != lines.len()) {
        return Err(InstanceError::JobCount { file: path.to_owned(), found: lines.len(), named });
    }
    let first_s = lines.iter().map(|line| line.arrival_s).min().unwrap_or(0);
    Ok(Instance { name, jobs: lines.iter().map(|line| Job::new(line, first_s)).collect() })
}

/// Reads the lines of an instance.
///
/// # Errors
/// The same as for [`read`], except that the number of jobs may be any.
pub fn read_logged(path: &Path) -> Result<Vec<Logged>, InstanceError> {
    lines(path, MOST_JOBS, "jobs", |line, _| logged(line))
}

/// Reads the file of nodes: number, cores, GPUs, MICs, memory in KiB and a mark, separated by spaces.
///
/// # Errors
/// If the file cannot be read, or a line is invalid.
pub fn read_nodes(path: &Path) -> Result<NodeList, InstanceError> {
    lines(path, MOST_NODES, "nodes", node).map(NodeList::new)
}

/// Returns the name of an instance: that of its file without the ending. `None` for other files.
pub fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)).map(str::to_owned)
}

/// Parses all lines of a file, which has at least one.
fn lines<T>(
    path: &Path,
    limit: usize,
    what: &'static str,
    parse: impl Fn(&str, usize) -> Result<T, LineError>,
) -> Result<Vec<T>, InstanceError> {
    let file = path.to_owned();
    let text = match input::text(path, FILE_LIMIT) {
        Ok(text) => text,
        Err(source) => return Err(InstanceError::Read { file, source }),
    };
    let parsed = text.lines().enumerate().map(|(index, line)| {
        let parsed = if index < limit { parse(line, index) } else { Err(LineError::TooMany { what, limit }) };
        parsed.map_err(|fault| InstanceError::Line { file: file.clone(), line: index + 1, fault })
    });
    let parsed = parsed.collect::<Result<Vec<T>, _>>()?;
    if parsed.is_empty() { Err(InstanceError::Empty { file }) } else { Ok(parsed) }
}

/// Returns N of the names `rndm_N_...` and `hist_N_...`.
fn named_jobs(name: &str) -> Option<usize> {
    let mut words = name.split('_');
    words.next().filter(|kind| ["rndm", "hist"].contains(kind))?;
    words.next()?.parse().ok()
}

fn split<'t, const N: usize>(
    text: &'t str,
    separator: &'static str,
    what: &'static str,
) -> Result<[&'t str; N], LineError> {
    let parts: Vec<&str> = text.split(separator).collect();
    let found = parts.len();
    parts.try_into().map_err(|_| LineError::Parts { what, separator, found, wanted: N })
}

fn number(field: &'static str, value: &str) -> Result<i64, LineError> {
    let number = value.parse().ok().filter(|number| (0..=MOST).contains(number));
    number.ok_or_else(|| LineError::Number { field, value: input::shown(value.as_bytes()), limit: MOST })
}

/// Returns seconds since 1970 in any fixed zone.
fn time(field: &'static str, value: &str) -> Result<i64, LineError> {
    let time: Result<DateTime, _> = value.parse();
    match time {
        Ok(time) => Ok(time.duration_since(date(1970, 1, 1).at(0, 0, 0, 0)).as_secs()),
        Err(_) => Err(LineError::Time { field, value: input::shown(value.as_bytes()) }),
    }
}

fn requested(value: &str) -> Result<i64, LineError> {
    let number = |digits: &str, limit: i64| digits.parse().ok().filter(|number| (0..=limit).contains(number));
    let split = value.split_once(':');
    let both = split.and_then(|(hours, minutes)| Some((number(hours, MOST_HOURS)?, number(minutes, 59)?)));
    let seconds = both.map(|(hours, minutes)| hours * 3_600 + minutes * 60);
    seconds.ok_or_else(|| LineError::Requested { value: input::shown(value.as_bytes()) })
}

fn job_line(line: &str) -> Result<JobLine, LineError> {
    logged(line).map(|logged| logged.line)
}

fn logged(line: &str) -> Result<Logged, LineError> {
    let [head, units, log] = split::<3>(line, "__", "a job")?;
    let [id, _, _, queue, arrival] = split::<5>(head, ";", "the first part of a job")?;
    let [start, end, _, _, _, requested_time, _, _, _, _] = split::<10>(log, ";", "the third part of a job")?;
    let mut job = JobLine {
        arrival_s: time("arrival", arrival)?,
        units: 0,
        cores: 0,
        gpus: 0,
        mics: 0,
        memory_kib: 0,
        start_s: time("start", start)?,
        end_s: time("end", end)?,
        requested_s: requested(requested_time)?,
    };
    if job.end_s < job.start_s {
        return Err(LineError::Ends { seconds: job.start_s - job.end_s });
    }
    for (index, unit) in units.split_terminator('#').enumerate() {
        if index == MOST_UNITS {
            return Err(LineError::TooMany { what: "units of a job", limit: MOST_UNITS });
        }
        let [_, cores, gpus, mics, memory] = split::<5>(unit, ";", "a unit")?;
        job.units += 1;
        job.cores += number("the number of cores", cores)?;
        job.gpus += number("the number of GPUs", gpus)?;
        job.mics += number("the number of MICs", mics)?;
        job.memory_kib += number("the memory in KiB", memory)?;
    }
    check_units(&job)?;
    Ok(Logged { id: id.to_owned(), queue: queue.to_owned(), line: job })
}

/// Checks what the published program checks, for the mean unit.
fn check_units(job: &JobLine) -> Result<(), LineError> {
    if job.units == 0 {
        return Err(LineError::NoUnits);
    }
    let asked = [job.cores, job.gpus, job.mics, job.memory_kib].map(|total| total / job.units);
    for (value, (what, limit)) in asked.into_iter().zip(UNIT_LIMITS) {
        if value > limit {
            return Err(LineError::Unit { what, value, limit });
        }
    }
    if asked[1] > 0 && asked[2] > 0 { Err(LineError::Accelerators) } else { Ok(()) }
}

fn node(line: &str, index: usize) -> Result<Resources, LineError> {
    // One line of the published file has a space at its end.
    let [node, cores, gpus, mics, memory, _] = split::<6>(line.trim_end(), " ", "a node")?;
    let found = number("the number of the node", node)?;
    if usize::try_from(found) != Ok(index) {
        return Err(LineError::Node { found, wanted: index });
    }
    let memory_kib = number("the memory in KiB", memory)?;
    let [cores, gpus, mics] = [
        number("the number of cores", cores)?,
        number("the number of GPUs", gpus)?,
        number("the number of MICs", mics)?,
    ];
    Ok(Resources([cores, gpus, mics, memory_kib / 1024]))
}

#[cfg(test)]
mod tests;
