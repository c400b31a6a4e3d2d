//! `compat = "2017"`: the simulation of energy-budget-2017 as its authors ran it, with its faults, to reproduce the
//! printed figures.
//!
//! This scheduler is not the core of the master (nor is `y2018`), and it is not meant as a policy. The core
//! follows the paper's text. The published figures come from a program that differs from it: a sign error in the
//! expected savings of running jobs, a meter that charges the time before a switch at the draw after it, forgotten
//! hints and marks, and an order of events that comes from rounding. Each of these changes results, so the core
//! cannot have them. All are needed to compare a row. The paper's policies without faults are presets of
//! `limo_sched`.
//!
//! Method: contiguous processors, first fit, a pass after every event, and EASY backfilling with a test of energy
//! (section IV). The workload is read with [`limo_trace::swf::Options::COMPAT_2017`]. Nodes with several processors,
//! prices and users are ignored. Jobs are never killed: requests are at least twice the run.
//!
//! Cost of a pass: the running jobs up to the one that makes room for the head, the free intervals, and the part of the
//! queue that its index cannot exclude.

mod account;
mod clock;
mod counter;
mod growth;
mod head;
mod intervals;
mod nodes;
mod platform;
mod published;
mod queue;
mod running;
mod scheduler;
#[cfg(test)]
mod tests;

use limo_model::{Energy, Power, Span, Time};
use limo_trace::{CompactSpan, Workload};

use account::Account;
pub use counter::Algorithm;
use lsim::record::{
    BudgetPeriod, BudgetSample, Fate, HostUse, JobRow, Sample, Sink, Steering, Summary, Window, WriteError,
};
use platform::Platform;
pub use published::{COLUMNS, PublishedRow};
use queue::Request;
use scheduler::{Scheduler, Variant};

/// Start of the budget, in ms: energy-budget-2017, section V-C, has it on three days in the middle of the week.
const BUDGET_FROM_MS: i64 = 2 * 86_400_000;
const BUDGET_UNTIL_MS: i64 = 5 * 86_400_000;
/// The scheduler's assumed draw of a busy node, in mW. The next value is that of an idle node.
const BUSY_MW: i64 = 203_120;
const IDLE_MW: i64 = 100_000;
/// Published budget with exactly the idle draw, in percent: 100 of 203.12 W.
const IDLE_PERCENT: u32 = 49;

/// The input of a simulation. [`Config::published`] has the published values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Processors of the machine; a node has one.
    pub processors: u32,
    pub algorithm: Algorithm,
    /// True to switch free nodes off within the budget's window.
    pub shutdown: bool,
    /// Budget in percent of the believed draw of the busy machine, 1 to 100; the idle draw is exactly 49.
    pub budget_percent: u32,
    pub faults: Faults,
}

/// The faults that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// True to count the draw of running jobs above the cap as saved, not as used.
    pub sign: bool,
    /// True to charge the time before a switch at the draw after it; only relevant with `shutdown`.
    pub meter: bool,
}

impl Faults {
    pub const PUBLISHED: Self = Self { sign: true, meter: true };
}

impl Config {
    /// Returns the published configuration, with both errors.
    pub fn published(processors: u32, algorithm: Algorithm, shutdown: bool, budget_percent: u32) -> Self {
        Self { processors, algorithm, shutdown, budget_percent, faults: Faults::PUBLISHED }
    }

    fn window(&self) -> counter::Window {
        let node_mw =
            if self.budget_percent == IDLE_PERCENT { IDLE_MW } else { BUSY_MW * i64::from(self.budget_percent) / 100 };
        let cap_mw = node_mw * i64::from(self.processors);
        counter::Window { from: BUDGET_FROM_MS, until: BUDGET_UNTIL_MS, cap_mw }
    }

    fn check(&self, workload: &Workload) -> Result<(), CompatError> {
        let Self { processors, budget_percent, .. } = *self;
        if !(1..=100).contains(&budget_percent) {
            return Err(CompatError::Budget { percent: budget_percent });
        }
        for job in &workload.jobs {
            if job.processors > processors {
                return Err(CompatError::TooWide { number: job.number, asked: job.processors, processors });
            }
            let twice = job.run + job.run;
            if job.run < Span::from_secs(1) || job.walltime.is_none_or(|walltime| walltime.span() < twice) {
                return Err(CompatError::Rules { number: job.number });
            }
        }
        Ok(())
    }
}

/// Reason why the simulation failed or ended early.
#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the budget is {percent} %: that is out of range (1 to 100)")]
    Budget { percent: u32 },
    #[error(
        "job {number} asks for {asked} processors, the platform has {processors}: what was published has no rule for that; name a larger platform with --nodes"
    )]
    TooWide { number: i64, asked: u32, processors: u32 },
    #[error(
        "job {number} runs for less than 1 s or has a requested time below twice its run: read the workload with the rules of 2017"
    )]
    Rules { number: i64 },
}

/// The results.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationResult {
    pub summary: Summary,
    pub row: PublishedRow,
}

/// Simulates `workload` to its end and passes everything to `sink`. Leaves `host` of the summary empty.
///
/// # Errors
/// [`CompatError`]: the workload does not suit the setup, or the sink cannot write.
pub fn simulate(workload: &Workload, config: &Config, sink: &mut impl Sink) -> Result<SimulationResult, CompatError> {
    config.check(workload)?;
    let requests = workload.jobs.iter().map(|job| {
        // Every job has a requested time, as checked above.
        Request { processors: job.processors, ms: job.walltime.map_or(0, |walltime| walltime.span().ms()) }
    });
    let variant = Variant { algorithm: config.algorithm, shutdown: config.shutdown, sign_error: config.faults.sign };
    let window = config.window();
    let scheduler = Scheduler::new(config.processors, variant, window, requests.collect());
    let account = Account::new(config.processors, window, config.faults.meter && config.shutdown);
    let mut run = Simulation {
        workload,
        window,
        platform: Platform::new(workload, scheduler, account),
        start: workload.start.unwrap_or_default(),
        last: None,
    };
    let mut end = 0;
    while let Some(now) = run.platform.instant() {
        end = now;
        run.report(now, sink)?;
    }
    run.report_unfinished(sink)?;
    let summary = run.summary(end);
    sink.finish(&summary)?;
    let (lives, switched) = (&run.platform.lives, &run.platform.switched);
    let (nodes, budget_percent) = (config.processors, config.budget_percent);
    let row = published::Schedule { workload, lives, switched, nodes, budget_percent }.row();
    Ok(SimulationResult { summary, row })
}

/// A simulation that reports to a sink.
struct Simulation<'a> {
    workload: &'a Workload,
    window: counter::Window,
    platform: Platform<'a>,
    start: Time,
    last: Option<Sample>,
}

impl Simulation<'_> {
    fn at(&self, ms: i64) -> Time {
        self.start + Span::from_ms(ms)
    }

    fn is_budgeted(&self) -> bool {
        self.platform.scheduler.counter.is_budgeted()
    }

    /// Reports the changes of this instant.
    fn report(&mut self, now: i64, sink: &mut impl Sink) -> Result<(), WriteError> {
        for &job in &self.platform.ended {
            self.report_job(job, sink)?;
        }
        let sample = self.sample(now);
        let same = self.last.is_some_and(|last| Sample { at: sample.at, ..last } == sample);
        if !same {
            sink.sample(&sample)?;
            self.last = Some(sample);
        }
        Ok(())
    }

    fn report_job(&self, index: usize, sink: &mut impl Sink) -> Result<(), WriteError> {
        let (job, life) = (&self.workload.jobs[index], &self.platform.lives[index]);
        let ran = life.start.zip(life.end).map_or(Span::ZERO, |(start, end)| Span::from_ms(end - start));
        let allocated = life.at.map(|at| [(at.first, at.last)]);
        sink.job(&JobRow {
            number: job.number,
            submit: self.start + job.submit,
            processors: job.processors,
            walltime: job.walltime.map(CompactSpan::span),
            user: job.user,
            fate: if life.end.is_some() { Fate::Completed } else { Fate::Unfinished },
            start: life.start.map(|ms| self.at(ms)),
            end: life.end.map(|ms| self.at(ms)),
            allocated: allocated.as_ref().map_or(&[], |at| at.as_slice()),
            energy: account::COMPUTING.scaled(i64::from(job.processors), 1) * ran,
            cost: None,
        })
    }

    /// Reports the jobs that the scheduler left waiting.
    fn report_unfinished(&mut self, sink: &mut impl Sink) -> Result<(), WriteError> {
        let lives = &self.platform.lives;
        let left: Vec<usize> = (0..lives.len()).filter(|job| lives[*job].end.is_none()).collect();
        left.into_iter().try_for_each(|job| self.report_job(job, sink))
    }

    fn sample(&self, now: i64) -> Sample {
        let Platform { scheduler, account, running, .. } = &self.platform;
        let counter = &scheduler.counter;
        let within = self.is_budgeted() && (self.window.from..self.window.until).contains(&now);
        let spends = counter.algorithm.spends();
        Sample {
            at: self.at(now),
            draw: account.draw(),
            believed: Power::from_mw(counter.power_mw(i64::from(scheduler.free.processors()))),
            limit: (within && !spends).then_some(Power::from_mw(self.window.cap_mw)),
            lower: None,
            budget: (within && spends).then(|| BudgetSample {
                released: Power::from_mw(self.window.cap_mw) * Span::from_ms(now - self.window.from),
                spent: account.in_window(),
                reserved: Energy::ZERO,
            }),
            price: None,
            // Both are at most the number of jobs, which fits in 32 bits.
            queued: scheduler.queued() as u32,
            running: *running,
            processors: account.nodes,
        }
    }

    fn summary(&self, end: i64) -> Summary {
        let Platform { account, rounds, .. } = &self.platform;
        let (from, until) = (self.window.from, self.window.until);
        let period = BudgetPeriod {
            window: Window { from: self.at(from), until: self.at(until) },
            energy: Power::from_mw(self.window.cap_mw) * Span::from_ms(until - from),
            spent: account.in_window(),
        };
        Summary {
            end: self.at(end),
            energy_by_state: account.by_state(),
            switches: account.switches,
            steering: Steering::default(),
            budgets: if self.is_budgeted() { vec![period] } else { Vec::new() },
            pool: None,
            predictions: None,
            rounds: *rounds,
            violations: 0,
            host: HostUse::default(),
        }
    }
}
