//! Records of a simulation, in order of time: a row for each job at its end, a sample of the platform after each
//! change, and a summary at the end. [`Sink`] receives them.
//!
//! Plain data. Times are on the simulation's own clock ([`Time`]); output subtracts [`Heading::start`].

use std::io;
use std::path::{Path, PathBuf};

use limo_model::{Attempt, Energy, Money, Power, Price, Span, Time};
use limo_sched::State;

use crate::engine::PoolFigures;

/// Data of a run before its first event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Name of the workload, usually its file name; Batsim's `workload_name`.
    pub workload: String,
    pub platform: String,
    pub processors: u32,
    pub policy: String,
    /// Settings of the run, in the order of the output.
    pub options: Vec<(String, String)>,
    pub seed: Option<u64>,
    /// Start of the workload; output counts seconds from it.
    pub start: Time,
    /// Window for utilisation and energy, besides the whole run; `[from, until)`.
    pub window: Option<Window>,
}

impl Heading {
    /// Makes a heading for sums and means, without names.
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

/// Times `[from, until)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Time,
    pub until: Time,
}

/// The fate of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Completed,
    /// The job ran longer than its walltime and was ended.
    Killed,
    /// The job was never queued, because it needs more processors than the platform has.
    Refused,
    /// The simulation ended before the job; it has a start if it was running.
    Unfinished,
}

/// Job, handed over once: when it ended, was refused, or remained at the end of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRow<'a> {
    /// Number in the workload.
    pub number: i64,
    pub submit: Time,
    pub processors: u32,
    /// Requested time; `None` if the workload has none.
    pub walltime: Option<Span>,
    pub user: i32,
    pub fate: Fate,
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// Node numbers as inclusive intervals, ascending and apart; empty for a job that never started.
    pub allocated: &'a [(u32, u32)],
    /// Energy of its nodes while it ran, including idle draw.
    pub energy: Energy,
    /// Cost of that energy; `None` without a price.
    pub cost: Option<Money>,
}

/// Value for each state of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByState<T> {
    pub idle: T,
    pub computing: T,
    pub off: T,
    pub switching_on: T,
    pub switching_off: T,
}

/// Energy budget at one moment, counted from the start of its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSample {
    /// Energy released so far.
    pub released: Energy,
    pub spent: Energy,
    /// Energy reserved for the first waiting job.
    pub reserved: Energy,
}

/// Platform from `at` until the next sample. Made after each change; the last one of an instant counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    pub at: Time,
    /// True draw of the platform.
    pub draw: Power,
    /// Draw as the scheduler believes it to be.
    pub believed: Power,
    /// Upper limit in force.
    pub limit: Option<Power>,
    /// Lower limit in force.
    pub lower: Option<Power>,
    pub budget: Option<BudgetSample>,
    pub price: Option<Price>,
    /// Number of waiting jobs.
    pub queued: u32,
    /// Number of running jobs.
    pub running: u32,
    pub processors: ByState<u32>,
}

/// Numbers of switches of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    pub on: u64,
    pub off: u64,
}

/// Numbers of changes to running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steering {
    /// Changes of a node's caps.
    pub caps: u64,
    pub suspended: u64,
    pub resumed: u64,
    /// Number of requeued jobs.
    pub requeued: u64,
}

/// Period of an energy budget, after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetPeriod {
    pub window: Window,
    pub energy: Energy,
    pub spent: Energy,
}

/// Errors of the predicted draws of jobs, each by the prediction with which the job started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredictionErrors {
    pub jobs: u64,
    /// Sum of the measured mean draws.
    measured: Power,
    /// Sum of the distances of the predicted and measured draws.
    distance: Power,
    /// Number of jobs whose draw was at most the predicted 90 % quantile.
    covered: u64,
}

impl PredictionErrors {
    /// Adds a job with its predicted mean and 90 % quantile.
    pub fn add(&mut self, measured: Power, (mean, high): (Power, Power)) {
        self.jobs += 1;
        self.measured += measured;
        self.distance += (mean - measured).max(measured - mean);
        self.covered += u64::from(measured <= high);
    }

    /// Returns the mean distance in millionths of the mean draw; `None` without a measured draw.
    pub fn error_millionths(&self) -> Option<i128> {
        let measured = i128::from(self.measured.mw());
        (measured > 0).then(|| i128::from(self.distance.mw()) * 1_000_000 / measured)
    }

    /// Returns the share of the jobs whose draw was at most the quantile, in millionths.
    pub fn covered_millionths(&self) -> i128 {
        i128::from(self.covered) * 1_000_000 / i128::from(self.jobs.max(1))
    }
}

/// Figures of the simulating machine, the only ones that differ between equal runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostUse {
    pub wall: Span,
    pub peak_rss_bytes: u64,
}

/// Data of a run after its last event, beyond rows and samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// End of the simulation and of the last sample.
    pub end: Time,
    pub energy_by_state: ByState<Energy>,
    pub switches: Switches,
    pub steering: Steering,
    pub budgets: Vec<BudgetPeriod>,
    /// Figures of the owners of nodes, if the nodes have some.
    pub pool: Option<PoolFigures>,
    /// Errors of predictions, if a model predicts the jobs.
    pub predictions: Option<PredictionErrors>,
    /// Rounds of the policy.
    pub rounds: u64,
    /// Plans that the checker refused.
    pub violations: u64,
    pub host: HostUse,
}

/// Error of writing a record.
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

/// Receives a run. `job` and `sample` come in order of time (the end of a job, the time of a sample). `finish` comes
/// once, at the end.
pub trait Sink {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError>;
    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError>;
    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError>;

    /// Sees the state after each round.
    fn round(&mut self, _state: &State) {}

    /// Sees an attempt that the owner of a node ends. The number is that of the job's row.
    fn evicted(&mut self, _number: i64, _attempt: Attempt, _node: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_predictions_are_relative_to_the_mean_draw() {
        let mut errors = PredictionErrors::default();
        assert_eq!((errors.error_millionths(), errors.covered_millionths()), (None, 0));
        // 3 W too much, 5 W too little and above the quantile, and exact: 8 W of 40 W.
        for (measured, mean, high) in [(10, 13, 15), (20, 15, 19), (10, 10, 10)] {
            errors.add(Power::from_watts(measured), (Power::from_watts(mean), Power::from_watts(high)));
        }
        assert_eq!(errors.error_millionths(), Some(200_000));
        assert_eq!((errors.jobs, errors.covered_millionths()), (3, 666_666));
    }
}
