//! Lines of a `log_crypt` file: three parts with two underscores between them.

use std::num::NonZeroU32;

use jiff::civil::{DateTime, date};

use crate::input;

const MOST_UNITS: u32 = 10_000;
/// Most of a resource of a unit or of a node: of cores, GPUs, MICs, KiB.
const MOST: u64 = 1_000_000_000;
/// Most hours of a requested time.
const MOST_HOURS: i64 = 999;

/// A job as a line has it. All counts are sums over the units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedJob {
    /// Name of the job at its site.
    pub id: String,
    /// Name of its queue.
    pub queue: String,
    /// What limits its speed.
    pub kind: ApplicationKind,
    /// Seconds since 1970 in any fixed zone, as are `start_s` and `end_s`.
    pub arrival_s: i64,
    /// Number of units.
    pub units: NonZeroU32,
    /// Cores.
    pub cores: u64,
    /// GPUs.
    pub gpus: u64,
    /// MICs.
    pub mics: u64,
    /// Memory.
    pub memory_kib: u64,
    /// Start of the logged run. Only the difference from the end matters; it is 0 or more.
    pub start_s: i64,
    /// End of the logged run.
    pub end_s: i64,
    /// Requested time; 0 for none.
    pub requested_s: i64,
}

/// What limits the speed of an application (power-capping-2018, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationKind {
    /// Both, the CPU slightly more.
    Average,
    /// The CPU.
    CpuBound,
    /// The memory.
    MemoryBound,
}

impl ApplicationKind {
    /// All, in the order of their numbers in the files.
    pub const ALL: [Self; 3] = [Self::Average, Self::CpuBound, Self::MemoryBound];

    /// Returns the name by which a platform may know such applications.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::CpuBound => "cpu-bound",
            Self::MemoryBound => "memory-bound",
        }
    }
}

/// Fault of a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum LineError {
    #[error("{found} parts are separated by `{separator}`: {what} has {wanted}")]
    Parts { what: &'static str, separator: &'static str, found: usize, wanted: usize },
    #[error("{field} is `{value}`: write a whole number from 0 to {limit}")]
    Number { field: &'static str, value: String, limit: u64 },
    #[error("the {field} is `{value}`: write a time such as 2014-09-13 23:59:45")]
    Time { field: &'static str, value: String },
    #[error(
        "the requested time is `{value}`: write hours from 0 to {MOST_HOURS} and minutes from 00 to 59, such as 04:00"
    )]
    Requested { value: String },
    #[error("the kind of application is `{value}`: write 0 (average), 1 (CPU-bound) or 2 (memory-bound)")]
    Kind { value: String },
    #[error("the run ends {seconds} s before it starts")]
    Ends { seconds: i64 },
    #[error("the job has no unit: write node;cores;GPUs;MICs;memory# for each")]
    NoUnits,
    #[error("the line is beyond the limit of {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
    #[error("the number of the node is {found}, the next one is {wanted}")]
    Node { found: u64, wanted: usize },
}

/// Splits a text into a fixed number of parts.
///
/// # Errors
/// [`LineError::Parts`] if it has another number of them.
pub fn split<'t, const N: usize>(
    text: &'t str,
    separator: &'static str,
    what: &'static str,
) -> Result<[&'t str; N], LineError> {
    let parts: Vec<&str> = text.split(separator).collect();
    let found = parts.len();
    parts.try_into().map_err(|_| LineError::Parts { what, separator, found, wanted: N })
}

/// Parses a whole number.
///
/// # Errors
/// [`LineError::Number`] if it is not one, or too large.
pub fn number(field: &'static str, value: &str) -> Result<u64, LineError> {
    let number = value.parse().ok().filter(|number| *number <= MOST);
    number.ok_or_else(|| LineError::Number { field, value: input::shown(value.as_bytes()), limit: MOST })
}

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

fn kind(value: &str) -> Result<ApplicationKind, LineError> {
    let index = value.parse().ok();
    let kind = index.and_then(|index: usize| ApplicationKind::ALL.get(index).copied());
    kind.ok_or_else(|| LineError::Kind { value: input::shown(value.as_bytes()) })
}

/// Parses a line.
pub(super) fn job(line: &str) -> Result<LoggedJob, LineError> {
    let [head, units, log] = split::<3>(line, "__", "a job")?;
    let [id, _, _, queue, arrival] = split::<5>(head, ";", "the first part of a job")?;
    let [start, end, _, _, _, requested_time, _, _, _, of] = split::<10>(log, ";", "the third part of a job")?;
    let mut job = LoggedJob {
        id: id.to_owned(),
        queue: queue.to_owned(),
        kind: kind(of)?,
        arrival_s: time("arrival", arrival)?,
        units: NonZeroU32::MIN,
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
    let mut count = 0;
    for unit in units.split_terminator('#') {
        if count == MOST_UNITS {
            return Err(LineError::TooMany { what: "units of a job", limit: MOST_UNITS as usize });
        }
        let [_, cores, gpus, mics, memory] = split::<5>(unit, ";", "a unit")?;
        count += 1;
        job.cores += number("the number of cores", cores)?;
        job.gpus += number("the number of GPUs", gpus)?;
        job.mics += number("the number of MICs", mics)?;
        job.memory_kib += number("the memory in KiB", memory)?;
    }
    job.units = NonZeroU32::new(count).ok_or(LineError::NoUnits)?;
    Ok(job)
}
