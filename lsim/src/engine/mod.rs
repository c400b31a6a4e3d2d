//! Runs a scheduling core over a workload in simulated time.
//!
//! The calls are those of the live master: events are applied, then a round is run, and its commands are obeyed by
//! nodes that exist as numbers only. At equal times what is submitted comes before what ends, each with a round of its
//! own; whatever switches or is measured at that time comes with what ends. Nothing waits for a clock.

mod machine;
mod request;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use limo_model::{
    Attempt, Band, Budgets, Curve, Energy, JobId, Money, NodeId, Outcome, Placement, Price, Span, Time, Usage,
};
use limo_sched::{Command, Core, Event, Options, Preset, Refused, Round};
use limo_trace::{Platform, Workload};
use thiserror::Error;

use crate::record::{BudgetPeriod, BudgetSample, Fate, HostUse, JobRow, Sample, Sink, Summary, Window, WriteError};
use machine::Machine;
pub use request::node_specs;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub preset: Preset,
    pub options: Options,
    pub budgets: Budgets,
    pub limits: Option<Curve<Band>>,
    pub prices: Option<Curve<Price>>,
}

/// Why a simulation ended early.
#[derive(Debug, Error)]
pub enum SimulationError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the core refuses what the simulation knows to have happened at {} ms: {refused}", at.unix_ms())]
    Refused { at: Time, refused: Refused },
    #[error(
        "job {number} asks for {processors} processors, which is {nodes} nodes: the policy `{policy}` puts a job on one node; take another policy, or a platform with larger nodes"
    )]
    OneNode { number: i64, processors: u32, nodes: u32, policy: Preset },
}

/// A job that was assigned.
struct Run {
    /// In the workload.
    index: usize,
    attempt: Attempt,
    placement: Placement,
    started: Option<Time>,
}

/// What happens by itself, in this order at equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Nodes are awake; the number is that of the entry in `switches`.
    Awake(u64),
    Asleep(u64),
    Start(JobId),
    /// Of jobs that end together the one that started first ends first. `full`: it has run for all of its walltime.
    End {
        started: u64,
        job: JobId,
        attempt: Attempt,
        full: bool,
    },
    Meter,
}

struct Simulation<'a, S> {
    scenario: &'a Scenario<'a>,
    core: Core,
    machine: Machine,
    sink: &'a mut S,
    start: Time,
    now: Time,
    /// Next job of the workload.
    next: usize,
    due: BinaryHeap<Reverse<(Time, Due)>>,
    wake_at: Option<Time>,
    /// Assigned jobs.
    runs: BTreeMap<JobId, Run>,
    /// The workload's index of waiting and assigned jobs.
    indices: BTreeMap<JobId, usize>,
    switches: BTreeMap<u64, Vec<(NodeId, u32)>>,
    switched: u64,
    started: u64,
    /// The energy of the machine at the last reading of its meter, in µJ.
    metered_uj: i128,
    spent: Vec<i128>,
    rounds: u64,
    last: Option<Sample>,
    intervals: Vec<(u32, u32)>,
}

/// Simulates `scenario` to its end and hands everything to `sink`.
///
/// # Errors
/// [`SimulationError`]: the sink cannot write, or a job cannot be expressed with the policy.
pub fn simulate<S: Sink>(scenario: &Scenario<'_>, sink: &mut S) -> Result<Summary, SimulationError> {
    let begun = std::time::Instant::now();
    let start = scenario.workload.start.unwrap_or(Time::from_unix_ms(0));
    let mut simulation = Simulation {
        scenario,
        core: Core::new(start, scenario.preset, scenario.options),
        machine: Machine::new(scenario.platform, start),
        sink,
        start,
        now: start,
        next: 0,
        due: BinaryHeap::new(),
        wake_at: None,
        runs: BTreeMap::new(),
        indices: BTreeMap::new(),
        switches: BTreeMap::new(),
        switched: 0,
        started: 0,
        metered_uj: 0,
        spent: vec![0; scenario.budgets.iter().count()],
        rounds: 0,
        last: None,
        intervals: Vec::new(),
    };
    simulation.set_up()?;
    while let Some(at) = simulation.next_time() {
        simulation.instant(at)?;
    }
    let mut summary = simulation.finish()?;
    summary.host = HostUse { wall: span_of(begun.elapsed()), peak_rss_bytes: peak_rss() };
    sink.finish(&summary)?;
    Ok(summary)
}

fn span_of(elapsed: std::time::Duration) -> Span {
    Span::from_ms(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// The largest resident set of this process so far, as the kernel tells it; 0 where it does not.
pub fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

impl<S: Sink> Simulation<'_, S> {
    fn apply(&mut self, event: &Event) -> Result<(), SimulationError> {
        self.core.apply(self.now, event).map_err(|refused| SimulationError::Refused { at: self.now, refused })
    }

    fn set_up(&mut self) -> Result<(), SimulationError> {
        let by = || "lsim".to_owned();
        for spec in node_specs(self.scenario.platform) {
            self.apply(&Event::NodeUp { spec })?;
        }
        if let Some(limits) = &self.scenario.limits {
            self.apply(&Event::LimitsSet { limits: limits.clone(), by: by() })?;
        }
        if self.scenario.prices.is_some() {
            self.apply(&Event::PricesSet { prices: self.scenario.prices.clone(), by: by() })?;
        }
        if !self.scenario.budgets.is_empty() {
            self.apply(&Event::BudgetsSet { budgets: self.scenario.budgets.clone(), by: by() })?;
            let first = self.scenario.budgets.iter().next();
            self.due.extend(first.map(|budget| Reverse((budget.from.max(self.start), Due::Meter))));
        }
        Ok(())
    }

    fn next_time(&self) -> Option<Time> {
        let submit = self.scenario.workload.jobs.get(self.next).map(|job| self.start + job.submit);
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        // Meters and wake-ups go on for ever; they matter only while there is work.
        if submit.is_none() && self.indices.is_empty() && self.switches.is_empty() {
            return None;
        }
        let stuck = submit.is_none() && due.is_none() && self.wake_at.is_none();
        if stuck { None } else { [submit, due, self.wake_at].into_iter().flatten().min() }
    }

    /// Everything that happens at `at`.
    fn instant(&mut self, at: Time) -> Result<(), SimulationError> {
        self.machine.advance(at);
        self.book_spending(at);
        self.now = at;
        // Who has run for all of the walltime is gone before anybody asks for the processors.
        let mut due = Vec::new();
        while let Some(Reverse(next)) = self.due.peek().copied().filter(|Reverse((due, _))| *due <= at) {
            self.due.pop();
            if let (_, Due::End { full: true, .. }) = next {
                self.happen(next.1)?;
            }
            due.push(next.1);
        }
        if self.submit_all()? {
            self.round()?;
        }
        for due in due {
            if !matches!(due, Due::End { full: true, .. }) {
                self.happen(due)?;
            }
            self.round()?;
        }
        if self.wake_at.is_some_and(|wake_at| wake_at <= at) {
            self.round()?;
        }
        self.sample()
    }

    /// Submits what is due; whether there was anything.
    fn submit_all(&mut self) -> Result<bool, SimulationError> {
        let before = self.next;
        while let Some(job) =
            self.scenario.workload.jobs.get(self.next).filter(|job| self.start + job.submit <= self.now)
        {
            let job = *job;
            self.next += 1;
            self.submit(self.next - 1, &job)?;
        }
        Ok(self.next > before)
    }

    fn submit(&mut self, index: usize, job: &limo_trace::Job) -> Result<(), SimulationError> {
        let request = request::request(self.scenario.platform, job);
        let nodes = request.nodes.get();
        if nodes > 1 && !self.scenario.preset.takes_several_nodes() {
            let (number, processors, policy) = (job.number, job.processors, self.scenario.preset);
            return Err(SimulationError::OneNode { number, processors, nodes, policy });
        }
        let id = self.core.next_job();
        match self.core.apply(self.now, &Event::Submitted { job: id, request }) {
            Ok(()) => {
                self.indices.insert(id, index);
            }
            // Larger than the platform.
            Err(_) => self.sink.job(&row(job, self.start, Fate::Refused))?,
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), SimulationError> {
        let round: Round = self.core.round(self.now);
        self.rounds += 1;
        self.wake_at = round.wake_at.filter(|at| *at > self.now);
        round.commands.into_iter().try_for_each(|command| self.obey(command))
    }

    fn obey(&mut self, command: Command) -> Result<(), SimulationError> {
        match command {
            Command::Start { job, attempt, placement, .. } => {
                let Some(index) = self.indices.get(&job).copied() else { return Ok(()) };
                let waking = self.machine.awake_at(&placement);
                self.runs.insert(job, Run { index, attempt, placement, started: None });
                match waking {
                    Some(at) => self.due.push(Reverse((at, Due::Start(job)))),
                    None => self.start(job)?,
                }
            }
            // A job ends by itself at its walltime, at the latest.
            Command::Stop { .. } => {}
            Command::Sleep { nodes } => {
                for (at, runs) in self.machine.sleep(&nodes) {
                    self.switched += 1;
                    self.switches.insert(self.switched, runs);
                    self.due.push(Reverse((at, Due::Asleep(self.switched))));
                }
            }
            Command::Wake { nodes } => {
                for (at, runs) in self.machine.wake(&nodes) {
                    self.switched += 1;
                    self.switches.insert(self.switched, runs);
                    self.due.push(Reverse((at, Due::Awake(self.switched))));
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, id: JobId) -> Result<(), SimulationError> {
        let Some(run) = self.runs.get_mut(&id) else { return Ok(()) };
        run.started = Some(self.now);
        let attempt = run.attempt;
        let job = &self.scenario.workload.jobs[run.index];
        let takes = job.walltime.map_or(job.run, |walltime| job.run.min(walltime));
        self.machine.compute(&run.placement);
        self.started += 1;
        let full = job.walltime == Some(takes);
        self.due.push(Reverse((self.now + takes, Due::End { started: self.started, job: id, attempt, full })));
        self.apply(&Event::Started { job: id, attempt })
    }

    fn happen(&mut self, due: Due) -> Result<(), SimulationError> {
        match due {
            Due::Awake(switch) => {
                let nodes = self.switches.remove(&switch).unwrap_or_default();
                self.machine.awake(&nodes);
                self.apply(&Event::Awake { nodes })
            }
            Due::Asleep(switch) => {
                let nodes = self.switches.remove(&switch).unwrap_or_default();
                self.machine.asleep(&nodes);
                self.apply(&Event::Asleep { nodes })
            }
            Due::Start(id) => self.start(id),
            Due::End { job, attempt, .. } => self.end(job, attempt),
            Due::Meter => self.meter(),
        }
    }

    fn end(&mut self, id: JobId, attempt: Attempt) -> Result<(), SimulationError> {
        let Some(run) = self.runs.remove(&id) else { return Ok(()) };
        self.indices.remove(&id);
        let job = &self.scenario.workload.jobs[run.index];
        let killed = job.walltime.is_some_and(|walltime| job.run > walltime);
        self.machine.give(&run.placement);
        let started = run.started.unwrap_or(self.now);
        let energy = self.machine.energy_of(&run.placement, self.now - started);
        let prices = self.scenario.prices.as_ref();
        let cost: Option<Money> = prices.map(|_| limo_sched::cost_of(energy, started, self.now - started, prices));
        self.intervals.clear();
        for part in &run.placement {
            let (first, last) = (part.unit.node.0, part.unit.node.0 + part.count - 1);
            match self.intervals.last_mut() {
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => self.intervals.push((first, last)),
            }
        }
        self.intervals.sort_unstable();
        let fate = if killed { Fate::Killed } else { Fate::Completed };
        let (start, end) = (Some(started), Some(self.now));
        self.sink.job(&JobRow {
            start,
            end,
            allocated: &self.intervals,
            energy,
            cost,
            ..row(job, self.start, fate)
        })?;
        let outcome = if killed { Outcome::Signaled(15) } else { Outcome::Exited(0) };
        let usage = Usage { elapsed: self.now - started, ..Usage::default() };
        self.apply(&Event::Ended { job: id, attempt, outcome, usage })
    }

    /// The site's meter is read: at the start of each budget period, every monitoring stage, and at its end.
    fn meter(&mut self) -> Result<(), SimulationError> {
        let uj = self.machine.energy_uj() - self.metered_uj;
        self.metered_uj += uj;
        let in_period = |budget: &&limo_model::Budget| budget.from < self.now && self.now <= budget.until;
        if self.scenario.budgets.iter().any(|budget| in_period(&budget)) {
            // Rounded up: what was used is never told as less.
            let mj = uj.div_euclid(1_000) + i128::from(uj.rem_euclid(1_000) != 0);
            self.apply(&Event::Metered { energy: Energy::from_mj(i64::try_from(mj).unwrap_or(i64::MAX)) })?;
        }
        let every = self.scenario.options.monitor_every.max(Span::from_ms(1));
        let budgets = &self.scenario.budgets;
        let next = match budgets.at(self.now) {
            Some(budget) => Some((self.now + every).min(budget.until)),
            None => budgets.iter().map(|budget| budget.from).find(|from| *from > self.now),
        };
        self.due.extend(next.map(|at| Reverse((at, Due::Meter))));
        Ok(())
    }

    /// What the machine uses until `to`, for each budget period.
    fn book_spending(&mut self, to: Time) {
        for (spent, budget) in self.spent.iter_mut().zip(self.scenario.budgets.iter()) {
            let (from, until) = (budget.from.max(self.now), budget.until.min(to));
            if until > from {
                *spent += i128::from(self.machine.draw_before().mw()) * i128::from((until - from).ms());
            }
        }
    }

    /// Hands over what has changed.
    fn sample(&mut self) -> Result<(), SimulationError> {
        let settings = self.core.settings();
        let band = *settings.limits.at(self.now);
        let known = |power: limo_model::Power| Some(power).filter(|power| !power.is_unlimited());
        let period = settings.budgets.iter().position(|budget| budget.contains(self.now));
        let budget = self.core.counter().zip(period).map(|(counter, period)| BudgetSample {
            released: counter.released(),
            spent: energy(self.spent[period]),
            reserved: counter.reserved(),
        });
        let sample = Sample {
            at: self.now,
            draw: self.machine.draw(),
            believed: self.core.sums().draw,
            limit: known(band.high()),
            lower: Some(band.low()).filter(|low| !low.is_zero()),
            budget,
            price: settings.prices.as_ref().map(|prices| *prices.at(self.now)),
            queued: u32::try_from(self.core.waiting()).unwrap_or(u32::MAX),
            running: u32::try_from(self.core.active()).unwrap_or(u32::MAX),
            processors: self.machine.processors(),
        };
        if self.last.as_ref().is_none_or(|last| Sample { at: sample.at, ..*last } != sample) {
            self.sink.sample(&sample)?;
            self.last = Some(sample);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Summary, SimulationError> {
        for (id, index) in std::mem::take(&mut self.indices) {
            let job = &self.scenario.workload.jobs[index];
            let start = self.runs.get(&id).and_then(|run| run.started);
            self.sink.job(&JobRow { start, ..row(job, self.start, Fate::Unfinished) })?;
        }
        let budgets = self.scenario.budgets.iter().zip(&self.spent).map(|(budget, spent)| BudgetPeriod {
            window: Window { from: budget.from, until: budget.until },
            energy: budget.energy,
            spent: energy(*spent),
        });
        Ok(Summary {
            end: self.now,
            energy_by_state: self.machine.energy_by_state(),
            switches: self.machine.switches(),
            budgets: budgets.collect(),
            rounds: self.rounds,
            violations: self.core.sums().rejected_plans,
            host: HostUse::default(),
        })
    }
}

/// µJ as energy, rounded up.
fn energy(uj: i128) -> Energy {
    Energy::from_mj(i64::try_from(uj.div_euclid(1_000) + i128::from(uj.rem_euclid(1_000) != 0)).unwrap_or(i64::MAX))
}

/// What the workload says of a job.
fn row<'a>(job: &limo_trace::Job, start: Time, fate: Fate) -> JobRow<'a> {
    JobRow {
        number: job.number,
        submit: start + job.submit,
        processors: job.processors,
        walltime: job.walltime,
        user: job.user,
        fate,
        start: None,
        end: None,
        allocated: &[],
        energy: Energy::ZERO,
        cost: None,
    }
}
