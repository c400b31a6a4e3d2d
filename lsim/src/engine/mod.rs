//! Runs a scheduling core over a workload in simulated time.
//!
//! The engine makes the calls of the live master: it applies events, runs a round, and lets simulated nodes obey the
//! commands. At equal times submissions come before ends, each with its own round. Switches and measurements come
//! together with ends. Uses no clock.

mod checkpoints;
mod happen;
mod host;
mod ledger;
mod load;
mod machine;
mod mispredict;
mod pool;
mod predict;
mod request;
mod run;
mod sections;
mod spending;
mod steer;
mod submit;
mod task;
mod visits;
mod watch;
mod worked;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use limo_model::{
    Band, Budgets, Curve, Groups, JobEnd, JobShare, NodeId, Preset, Price, Profile, ProfileKey, Queues, Time, Variation,
};
use limo_sched::{Command, Core, Event, JobMap, Options, Refused, Round};
use limo_trace::{Platform, Workload};
use thiserror::Error;

use crate::record::{Fate, HostUse, Sample, Sink, Summary, WriteError};
pub use checkpoints::Checkpointing;
use happen::Due;
pub use host::peak_rss;
use host::span_of;
pub use ledger::{NodeActivity, Spent, SpentByGroup};
pub use load::{Change, Load, Running, Trace};
use machine::Machine;
pub use mispredict::Mispredict;
pub use pool::{DailyReboot, OwnerVisit, Visits};
use predict::Predictions;
pub use request::node_specs;
use run::Run;
pub use sections::{Bandwidth, Transfer};
pub use spending::Spending;
use steer::Steered;
use submit::KnownRequests;
use visits::Visiting;
pub use visits::{GroupBill, PoolFigures};
pub use worked::RunTime;

/// Inputs of a simulation.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub preset: Preset,
    pub options: Options,
    pub budgets: Budgets,
    pub limits: Option<Curve<Band>>,
    /// True if the scheduler sees each limit only when it comes into force.
    pub unwarned: bool,
    pub prices: Option<Curve<Price>>,
    /// Profiles that the scheduler has.
    pub profiles: &'a [(ProfileKey, Profile)],
    /// Differences between equal units, if there are any.
    pub variation: Option<&'a Variations>,
    /// Predictions of draws, some of them wrong; without it the scheduler has none.
    pub mispredict: Option<Mispredict>,
    /// True if a model predicts the jobs from those that have ended.
    pub predict: bool,
    /// Share of the jobs that allow it that explore caps.
    pub explore: JobShare,
    /// Queues of the jobs; without any, jobs have no queue.
    pub queues: Queues,
    /// Groups of nodes with limits of their own.
    pub groups: Groups,
    /// Owners and reboots of nodes, if there are any.
    pub visits: Option<&'a Visits>,
    /// Time until which the simulation continues even without work, so that measurements are complete.
    pub until: Option<Time>,
}

/// Differences between equal units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variations {
    /// The true ones, from which draws and durations follow.
    pub actual: Variation,
    /// Those that the scheduler knows.
    pub believed: Variation,
}

/// Settings from the start of a simulation, as in [`Scenario`].
#[derive(Debug, Clone)]
pub struct Rules {
    pub preset: Preset,
    pub options: Options,
    pub budgets: Budgets,
    pub limits: Option<Curve<Band>>,
    pub prices: Option<Curve<Price>>,
    pub explore: JobShare,
    pub queues: Queues,
    pub groups: Groups,
    pub until: Option<Time>,
}

/// Reason why a simulation ended early.
#[derive(Debug, Error)]
pub enum SimulationError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the core refuses an event of the simulation at {} ms: {refused}", at.unix_ms())]
    Refused { at: Time, refused: Refused },
}

/// Waiting or running job.
struct Present {
    /// Index in the load.
    index: usize,
    /// Run of the job; `None` until it is assigned. In a box, because most jobs may wait.
    run: Option<Box<Run>>,
}

struct Simulation<'a, L, S> {
    load: &'a L,
    core: Core,
    machine: Machine,
    sink: &'a mut S,
    now: Time,
    /// Next job of the load.
    next: usize,
    requests: KnownRequests,
    /// Next change of the load.
    next_change: usize,
    due: BinaryHeap<Reverse<(Time, Due)>>,
    /// Events that are due now.
    due_now: Vec<Due>,
    wake_at: Option<Time>,
    until: Option<Time>,
    /// Next step of the limits or the prices, which changes the samples of the platform.
    step_at: Option<Time>,
    /// Waiting and assigned jobs.
    jobs: JobMap<Present>,
    switches: BTreeMap<u64, Vec<(NodeId, u32)>>,
    switched: u64,
    started: u64,
    steered: Steered,
    /// Owners and reboots of nodes, with the ledger of the nodes, if the load has owners.
    visiting: Option<Visiting>,
    /// Model of the jobs so far, if there is one.
    predictions: Option<Predictions>,
    /// True if the meter is to be read again.
    metering: bool,
    /// Energy of the machine at the last reading of its meter, in µJ.
    metered_uj: i128,
    spending: Spending,
    rounds: u64,
    last: Option<Sample>,
    intervals: Vec<(u32, u32)>,
}

/// Simulates `scenario` to its end and hands everything to `sink`.
///
/// # Errors
/// [`SimulationError`]: the sink cannot write, or a job cannot be expressed with the policy.
pub fn simulate<S: Sink>(scenario: &Scenario<'_>, sink: &mut S) -> Result<Summary, SimulationError> {
    let Scenario { workload, platform, preset, options, .. } = *scenario;
    let start = workload.start.unwrap_or(Time::from_unix_ms(0));
    let (budgets, limits, prices) = (scenario.budgets.clone(), scenario.limits.clone(), scenario.prices.clone());
    let (limits, changes) = match limits {
        Some(limits) if scenario.unwarned => one_by_one(&limits, start),
        limits => (limits, Vec::new()),
    };
    let Scenario { profiles, variation, predict, mispredict, explore, until, visits, .. } = *scenario;
    let load = Trace { workload, platform, start, profiles, variation, predict, changes: &changes, mispredict, visits };
    let (queues, groups) = (scenario.queues.clone(), scenario.groups.clone());
    simulate_load(&load, Rules { preset, options, budgets, limits, prices, explore, queues, groups, until }, sink)
}

/// Splits the limits: those at the start, and later ones as changes without notice.
fn one_by_one(limits: &Curve<Band>, start: Time) -> (Option<Curve<Band>>, Vec<(Time, Change)>) {
    let set = |band: Band| Event::LimitsSet { limits: Curve::constant(band), by: "lsim".to_owned() };
    let changes = limits.bands(start).map(|(at, band)| (at, Change::Event(Box::new(set(band))))).collect();
    (Some(Curve::constant(limits.band(start))), changes)
}

/// Simulates any load.
///
/// # Errors
/// The same as for [`simulate`].
pub fn simulate_load<L: Load, S: Sink>(load: &L, rules: Rules, sink: &mut S) -> Result<Summary, SimulationError> {
    let begun = std::time::Instant::now();
    let start = load.start();
    let mut simulation = Simulation {
        load,
        core: Core::new(start, rules.preset, rules.options),
        machine: Machine::new(load.platform(), start),
        sink,
        now: start,
        next: 0,
        requests: KnownRequests::default(),
        next_change: 0,
        due: BinaryHeap::new(),
        due_now: Vec::new(),
        wake_at: None,
        until: rules.until,
        step_at: None,
        jobs: JobMap::default(),
        switches: BTreeMap::new(),
        switched: 0,
        started: 0,
        steered: Steered::default(),
        visiting: None,
        predictions: load.predicts().then(Predictions::default),
        metering: false,
        metered_uj: 0,
        spending: Spending::default(),
        rounds: 0,
        last: None,
        intervals: Vec::new(),
    };
    simulation.set_up(rules)?;
    if simulation.visiting.is_some() {
        // Idle nodes may fall asleep long before the first job.
        simulation.round()?;
    }
    // The draw before the first event also counts.
    simulation.sample()?;
    while let Some(at) = simulation.next_time() {
        simulation.instant(at)?;
    }
    let mut summary = simulation.finish()?;
    summary.host = HostUse { wall: span_of(begun.elapsed()), peak_rss_bytes: peak_rss() };
    sink.finish(&summary)?;
    Ok(summary)
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    fn apply(&mut self, event: &Event) -> Result<(), SimulationError> {
        self.core.apply(self.now, event).map_err(|refused| SimulationError::Refused { at: self.now, refused })
    }

    fn set_up(&mut self, rules: Rules) -> Result<(), SimulationError> {
        let by = || "lsim".to_owned();
        let Rules { budgets, limits, prices, explore, queues, groups, .. } = rules;
        let load = self.load;
        for spec in load.nodes() {
            self.apply(&Event::NodeUp { spec })?;
        }
        let nodes = self.core.nodes().len();
        self.machine.only(nodes);
        if let Some(visits) = load.visits() {
            self.apply(&Event::SessionsKnown { nodes: visits.sums(nodes, self.now) })?;
            self.visiting = Some(Visiting::new(load, visits, nodes, (self.now, prices.clone())));
        }
        for (key, profile) in load.profiles() {
            self.apply(&Event::ProfileSet { key: key.clone(), profile: Some(*profile), by: by() })?;
        }
        if let Some(variation) = load.variation().filter(|variation| !variation.is_empty()) {
            let factors = variation.iter().map(|(key, factor)| (key, Some(factor))).collect();
            self.apply(&Event::VariationSet { factors, by: by() })?;
        }
        if let Some(limits) = limits {
            self.apply(&Event::LimitsSet { limits, by: by() })?;
        }
        if prices.is_some() {
            self.apply(&Event::PricesSet { prices, by: by() })?;
        }
        if !budgets.is_empty() {
            self.apply(&Event::BudgetsSet { budgets, by: by() })?;
        }
        let queues = (!queues.is_empty()).then(|| Event::QueuesSet { queues, by: by() });
        let groups = (!groups.is_empty()).then(|| Event::GroupsSet { groups, by: by() });
        queues.iter().chain(&groups).try_for_each(|event| self.apply(event))?;
        if !explore.is_none() {
            self.apply(&Event::ExploreSet { share: explore, by: by() })?;
        }
        self.follow_settings();
        Ok(())
    }

    fn next_time(&self) -> Option<Time> {
        let submit = self.load.submitted(self.next);
        let change = self.load.changes().get(self.next_change).map(|(at, _)| *at);
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        let visits = self.visiting.as_ref().zip(self.load.visits());
        let owner = visits.and_then(|(visiting, visits)| visiting.next_time(visits));
        // Meters and wake-ups never end, so they matter only while there is work or a measurement.
        let comes = submit.is_some() || change.is_some() || visits.is_some_and(|(of, visits)| !of.is_over(visits));
        let over = !comes && self.jobs.is_empty() && self.switches.is_empty();
        let stuck = !comes && due.is_none() && self.wake_at.is_none();
        let next = Time::first_of(&[submit, change, owner, due, self.wake_at, self.step_at]);
        match self.until.filter(|until| *until > self.now) {
            Some(until) if over || stuck => Some(next.map_or(until, |next| next.min(until))),
            _ if over || stuck => None,
            _ => next,
        }
    }

    /// Handles all events at `at`.
    fn instant(&mut self, at: Time) -> Result<(), SimulationError> {
        self.machine.advance(at);
        self.spending.book(self.machine.draw_before(), self.now, at);
        self.now = at;
        if self.step_at.is_some_and(|step| step <= at) {
            self.follow_steps();
        }
        // Jobs that reach their walltime leave before other jobs ask for processors.
        let mut due = std::mem::take(&mut self.due_now);
        while let Some(Reverse(next)) = self.due.peek().copied().filter(|Reverse((due, _))| *due <= at) {
            self.due.pop();
            if let (_, Due::End { full: true, .. }) = next {
                self.happen(next.1)?;
            }
            due.push(next.1);
        }
        let changed = self.visit_all()? | self.change_all()?;
        if self.submit_all()? || changed {
            self.round()?;
        }
        for due in due.drain(..) {
            if !matches!(due, Due::End { full: true, .. }) {
                self.happen(due)?;
            }
            self.round()?;
        }
        self.due_now = due;
        if self.wake_at.is_some_and(|wake_at| wake_at <= at) {
            self.round()?;
        }
        self.sample()
    }

    fn round(&mut self) -> Result<(), SimulationError> {
        let round: Round = self.core.round(self.now);
        self.rounds += 1;
        self.sink.round(self.core.state());
        self.wake_at = round.wake_at.filter(|at| *at > self.now);
        for finished in &round.finished {
            let fate = match finished.end {
                JobEnd::Ran { .. } => continue,
                JobEnd::Cancelled { .. } | JobEnd::Unmet { .. } => Fate::Unfinished,
                JobEnd::Refused { .. } => Fate::Refused,
            };
            if let Some(present) = self.jobs.remove(finished.job).filter(|of| self.load.counts(of.index)) {
                self.sink.job(&self.load.row(present.index, fate))?;
            }
        }
        let waits = |command: &Command| matches!(command, Command::Start { after, .. } if !after.is_empty());
        let releases = round.commands.iter().any(waits);
        round.commands.into_iter().try_for_each(|command| self.obey(command))?;
        // Nodes have confirmed their orders at once, so the next round releases these starts.
        if releases { self.round() } else { Ok(()) }
    }
}
