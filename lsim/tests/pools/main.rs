//! Simulated pools against other ways to the same figures: a naive simulator in steps of a second, and formulas.

mod cases;
mod differential;
mod events;
mod formulas;
mod learned;
mod naive;
mod ranks;

use std::cell::RefCell;

use limo_model::{
    Estimate, Groups, NodeSpec, Overrides, Part, PlacementRule, Preset, Request, RestartLimits, Span, Time, nodes,
};
use limo_sched::{Knowledge, Options, PoolOptions, PoolRank, RestRule, Ties};
use limo_trace::{Job, Platform, Workload};
use lsim::engine::{Load, Rules, Running, SimulationError, Trace, Transfer, Visits, simulate_load};
use lsim::record::{Fate, JobRow, Sample, Sink, Summary, WriteError};

/// A time of some seconds since 1970.
fn at(seconds: i64) -> Time {
    Time::from_unix_ms(seconds * 1_000)
}

/// A trace that notes the nodes of each attempt.
struct NotedTrace<'a> {
    trace: Trace<'a>,
    /// By job: the first node of each of its attempts.
    attempts: RefCell<Vec<Vec<u32>>>,
}

impl Load for NotedTrace<'_> {
    fn start(&self) -> Time {
        self.trace.start()
    }

    fn platform(&self) -> &Platform {
        self.trace.platform()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = NodeSpec> + '_> {
        self.trace.nodes()
    }

    fn submitted(&self, index: usize) -> Option<Time> {
        self.trace.submitted(index)
    }

    fn request(&self, index: usize) -> Request {
        self.trace.request(index)
    }

    fn asked(&self, index: usize) -> Option<Job> {
        self.trace.asked(index)
    }

    fn row(&self, index: usize, fate: Fate) -> JobRow<'static> {
        self.trace.row(index, fate)
    }

    fn running(&self, index: usize, placement: &[Part], estimate: &Estimate) -> Running {
        let first = nodes(placement).next().expect("a job has a node");
        self.attempts.borrow_mut()[index].push(first.0);
        self.trace.running(index, placement, estimate)
    }

    fn removed(&self, index: usize) -> Option<Time> {
        self.trace.removed(index)
    }

    fn transfer(&self, index: usize) -> Transfer {
        self.trace.transfer(index)
    }

    fn visits(&self) -> Option<&Visits> {
        self.trace.visits()
    }
}

/// Rows of the jobs that have started, by number, and the summary.
#[derive(Default)]
struct Rows {
    rows: Vec<(i64, Option<Time>, Option<Time>, Fate)>,
    /// Time integral of the number of waiting jobs, in job milliseconds, and the last sample of it.
    queued_ms: i64,
    queued: Option<(Time, u32)>,
    summary: Option<Summary>,
}

impl Sink for Rows {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.rows.push((job.number, job.start, job.end, job.fate));
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        if let Some((since, queued)) = self.queued.replace((sample.at, sample.queued)) {
            self.queued_ms += (sample.at - since).ms() * i64::from(queued);
        }
        Ok(())
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.summary = Some(summary.clone());
        Ok(())
    }
}

/// Rules of a pool under the order of submission. Of equal nodes, the first is taken.
fn rules(groups: Groups, (rank, window): (PoolRank, Span), rest: Option<Span>, until: Option<Time>) -> Rules {
    let parts = Overrides { placement: Some(PlacementRule::Pool), ..Overrides::default() };
    let pool = PoolOptions { rank, knowledge: Knowledge::Trace, window, ties: Ties::First, seed: 0 };
    let restarts = RestartLimits { restarts: None, ..RestartLimits::default() };
    let mut options = Options { parts, pool, restarts, ..Options::default() };
    if let Some(rest) = rest {
        options.rest_by(RestRule::Idle(rest));
    }
    Rules {
        preset: Preset::Fifo,
        options,
        budgets: Default::default(),
        limits: None,
        prices: None,
        explore: Default::default(),
        queues: Default::default(),
        groups,
        until,
    }
}

/// Returns a trace of jobs on a pool.
fn trace<'a>(workload: &'a Workload, platform: &'a Platform, visits: &'a Visits) -> Trace<'a> {
    Trace {
        workload,
        platform,
        start: workload.start.expect("it begins"),
        profiles: &[],
        variation: None,
        predict: false,
        changes: &[],
        mispredict: None,
        visits: Some(visits),
    }
}

/// Simulates a trace. Returns the rows, and the nodes of each attempt.
fn simulated(trace: Trace<'_>, rules: Rules) -> Result<(Rows, Vec<Vec<u32>>), SimulationError> {
    let noted = NotedTrace { trace, attempts: RefCell::new(vec![Vec::new(); trace.workload.jobs.len()]) };
    let mut rows = Rows::default();
    simulate_load(&noted, rules, &mut rows)?;
    Ok((rows, noted.attempts.into_inner()))
}
