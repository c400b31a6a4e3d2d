//! What a simulation hands over while it runs, in order of time: one row per job that left, one sample of the platform
//! whenever a value changed, and a summary at the end. Whoever wants them implements [`Sink`].
//!
//! Plain data: computes nothing, writes nothing, keeps nothing. Times are those of the simulation's own clock
//! ([`Time`]); who prints them subtracts [`Heading::start`].

use std::io;
use std::path::{Path, PathBuf};

use limo_model::{Energy, Money, Power, Price, Span, Time};

/// What is known of a run before its first event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Name of the workload, usually its file name; Batsim's `workload_name`.
    pub workload: String,
    pub platform: String,
    pub processors: u32,
    pub policy: String,
    /// What was set for the run, in the order in which it is to be printed.
    pub options: Vec<(String, String)>,
    pub seed: Option<u64>,
    /// The workload's start, from which output counts its seconds.
    pub start: Time,
    /// Where utilisation and energy are measured besides the whole run; `[from, until)`.
    pub window: Option<Window>,
}

impl Heading {
    /// Of a run that nobody reads about: for its sums and means.
    pub fn unnamed(processors: u32, start: Time) -> Self {
        Self {
            workload: String::new(),
            platform: String::new(),
            processors,
            policy: String::new(),
            options: Vec::new(),
            seed: None,
            start,
            window: None,
        }
    }
}

/// The times `[from, until)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Time,
    pub until: Time,
}

/// How a job left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Completed,
    /// It ran longer than its walltime.
    Killed,
    /// It needs more processors than the platform has; never queued.
    Refused,
    /// The simulation ended before the job did; it has a start if it was running.
    Unfinished,
}

/// One job, handed over once: when it ended, was refused, or was left at the end of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRow<'a> {
    /// The workload's number for it.
    pub number: i64,
    pub submit: Time,
    pub processors: u32,
    /// The requested time; none where the workload has none.
    pub walltime: Option<Span>,
    pub user: i32,
    pub fate: Fate,
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// Node numbers as inclusive intervals, ascending and apart; empty for a job that never started.
    pub allocated: &'a [(u32, u32)],
    /// What its nodes drew while it ran, idle draw included.
    pub energy: Energy,
    /// What that energy cost; none without a price.
    pub cost: Option<Money>,
}

/// One value for each state of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByState<T> {
    pub idle: T,
    pub computing: T,
    pub off: T,
    pub switching_on: T,
    pub switching_off: T,
}

/// The energy budget at one moment, counted from the start of its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSample {
    /// Energy that the period has made available until now.
    pub released: Energy,
    pub spent: Energy,
    /// Held back for the first waiting job.
    pub reserved: Energy,
}

/// The platform from `at` until the next sample. Given whenever a value changed; of several at one instant, the last
/// one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at: Time,
    /// What the platform really draws.
    pub draw: Power,
    /// What the scheduler believes that it draws.
    pub believed: Power,
    /// The upper limit in force.
    pub limit: Option<Power>,
    /// The lower limit in force.
    pub lower: Option<Power>,
    pub budget: Option<BudgetSample>,
    pub price: Option<Price>,
    /// Jobs that wait.
    pub queued: u32,
    /// Jobs that run.
    pub running: u32,
    pub processors: ByState<u32>,
}

/// How often nodes were switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    pub on: u64,
    pub off: u64,
}

/// How often something was done to jobs that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steering {
    /// Nodes were told other caps.
    pub caps: u64,
    pub suspended: u64,
    pub resumed: u64,
    /// Ended, and run again from their beginning.
    pub requeued: u64,
}

/// One period of an energy budget, after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetPeriod {
    pub window: Window,
    pub energy: Energy,
    pub spent: Energy,
}

/// What depends on the machine that simulated; the only figures that differ between equal runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostUse {
    pub wall: Span,
    pub peak_rss_bytes: u64,
}

/// What is known of a run after its last event and is in no row or sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The end of the simulation, until which the last sample holds.
    pub end: Time,
    pub energy_by_state: ByState<Energy>,
    pub switches: Switches,
    pub steering: Steering,
    pub budgets: Vec<BudgetPeriod>,
    /// Rounds of the policy.
    pub rounds: u64,
    /// Plans that the checker refused.
    pub violations: u64,
    pub host: HostUse,
}

/// A record could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}{}", path.display(), hint(source))]
pub struct WriteError {
    pub path: PathBuf,
    pub source: io::Error,
}

impl WriteError {
    pub fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; the result is discarded; free space or name another place with --out"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; name another place with --out",
        _ => "",
    }
}

/// Receives a run. `job` and `sample` come in order of time (the end of a job, the time of a sample), `finish` once,
/// last.
pub trait Sink {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError>;
    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError>;
    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError>;
}
