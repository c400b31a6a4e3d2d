//! Runs the simulations on all cores, and keeps the values for the paper's figures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use limo_model::{Preset, Span, Time};
use limo_sched::{Horizon, Options};
use limo_trace::{Platform, Workload, swf};

use super::{Condition, WEEK, Week, budgets, conditions};
use crate::y2017::{self, Algorithm, Config, Faults};
use lsim::engine::{Scenario, simulate};
use lsim::output::Metrics;
use lsim::record::{Heading, JobRow, Sample, Sink, Summary, Window, WriteError};

/// The result of one simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Index of the week.
    pub week: usize,
    pub condition: Condition,
    /// Share of the processors that computed in the week.
    pub utilisation: f64,
    pub avebsld: f64,
    /// Number of jobs that started within the week.
    pub started: f64,
    /// Energy of the week, divided by the energy of the machine with all processors computing.
    pub energy: f64,
    /// Energy used in the budget's period, divided by the budget; `None` without a budget.
    pub spent: Option<f64>,
    pub violations: u64,
    /// Mean wait, in hours.
    pub mean_wait: f64,
    pub longest_wait: f64,
}

fn published(condition: Condition, processors: u32, faults: Faults) -> Config {
    let algorithm = match condition.way.preset {
        Preset::Powercap => Algorithm::PowerCap,
        Preset::Reducepc => Algorithm::ReducePc,
        Preset::Energybud => Algorithm::EnergyBud,
        _ => Algorithm::Easy,
    };
    Config { faults, ..Config::published(processors, algorithm, condition.way.shutdown, condition.budget) }
}

/// Metrics, jobs that started within the week, and jobs that also ended within it.
pub struct Measured {
    pub metrics: Metrics,
    until: Time,
    started: u64,
    pub ended: u64,
}

impl Sink for Measured {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.started += u64::from(job.start.is_some_and(|start| start < self.until));
        self.ended += u64::from(job.end.is_some_and(|end| end < self.until));
        self.metrics.job(job)
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.metrics.sample(sample)
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.metrics.finish(summary)
    }
}

/// Differences of `energybud` and `reducepc` from the published settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreSettings {
    /// Value of the option with this name.
    pub hold_after: Option<Span>,
    pub horizon: Horizon,
}

/// The scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulerChoice {
    /// The core of the master.
    Core(CoreSettings),
    /// The published scheduler with these faults.
    Published(Faults),
}

/// Runs all simulations of the campaign over these weeks. Passes the number of finished simulations to `progress`.
///
/// # Errors
/// If a week cannot be read, or a simulation fails; the first failure ends the campaign.
pub fn run(
    weeks: &[Week],
    scheduler: SchedulerChoice,
    workers: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Vec<Outcome>> {
    let loaded: Vec<Workload> = weeks
        .iter()
        .map(|week| swf::load(&week.path, swf::Options::COMPAT_2017).context("a week cannot be read"))
        .collect::<Result<_>>()?;
    let conditions = conditions();
    let mut tasks: Vec<(usize, Condition)> =
        (0..weeks.len()).flat_map(|week| conditions.iter().map(move |condition| (week, *condition))).collect();
    // The longest simulations come first, so that no worker starts a long one at the end.
    tasks.sort_by_key(|(week, _)| std::cmp::Reverse(loaded[*week].jobs.len()));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes = Mutex::new(Vec::with_capacity(tasks.len()));
    let work = || -> Result<()> {
        while let Some((week, condition)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let of = &weeks[week];
            let outcome = one(week, &loaded[week], of.processors, (scheduler, condition))
                .with_context(|| format!("{} with {} at {} %", of.name, condition.way.name(), condition.budget))?;
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.push(outcome);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, tasks.len());
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => anyhow::bail!("a worker panicked"),
        })
    })?;
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    outcomes.sort_by_key(|outcome| (outcome.week, outcome.condition));
    Ok(outcomes)
}

/// Runs one simulation and measures its week.
///
/// # Errors
/// If the simulation fails.
pub fn simulated(
    workload: &Workload,
    processors: u32,
    scheduler: SchedulerChoice,
    condition: Condition,
) -> Result<(Measured, Summary)> {
    let platform = Platform::taurus(processors);
    let start = workload.start.unwrap_or(Time::from_unix_ms(0));
    let options = match scheduler {
        SchedulerChoice::Core(CoreSettings { hold_after, horizon }) => {
            let options = condition.way.options();
            Options { hold_after: hold_after.unwrap_or(options.hold_after), horizon, ..options }
        }
        SchedulerChoice::Published(_) => condition.way.options(),
    };
    let scenario = Scenario {
        workload,
        platform: &platform,
        preset: condition.way.preset,
        options,
        budgets: budgets(condition, processors, start),
        limits: None,
        unwarned: false,
        prices: None,
        profiles: &[],
        variation: None,
        mispredict: None,
        predict: false,
        explore: limo_model::JobShare::NONE,
        queues: limo_model::Queues::default(),
        groups: limo_model::Groups::default(),
        visits: None,
        until: Some(start + WEEK),
    };
    let window = Window { from: start, until: start + WEEK };
    let heading = Heading { window: Some(window), ..Heading::unnamed(processors, start) };
    let mut sink = Measured { metrics: Metrics::new(&heading), until: window.until, started: 0, ended: 0 };
    let summary = match scheduler {
        SchedulerChoice::Core(..) => simulate(&scenario, &mut sink)?,
        SchedulerChoice::Published(faults) => {
            y2017::simulate(workload, &published(condition, processors, faults), &mut sink)?.summary
        }
    };
    Ok((sink, summary))
}

fn one(
    week: usize,
    workload: &Workload,
    processors: u32,
    (scheduler, condition): (SchedulerChoice, Condition),
) -> Result<Outcome> {
    let (sink, summary) = simulated(workload, processors, scheduler, condition)?;
    let millionths = |value: i128| value as f64 / 1e6;
    let platform = Platform::taurus(processors);
    let full = platform.groups.iter().map(|group| group.draw.busy.scaled(i64::from(group.count), 1) * WEEK).sum();
    let joules = |energy: limo_model::Energy| energy.mj() as f64;
    Ok(Outcome {
        week,
        condition,
        utilisation: millionths(sink.metrics.utilisation_millionths()),
        avebsld: millionths(sink.metrics.avebsld_millionths()),
        started: sink.started as f64,
        energy: joules(sink.metrics.energy_in_window().unwrap_or_default()) / joules(full),
        spent: summary.budgets.first().map(|period| joules(period.spent) / joules(period.energy)),
        violations: summary.violations,
        mean_wait: millionths(sink.metrics.mean_wait_us()) / 3_600.0,
        longest_wait: sink.metrics.max_wait().ms() as f64 / 3.6e6,
    })
}
