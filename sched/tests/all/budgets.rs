//! Budgets are kept (energy-budget-2017, section IV-B, rule 2), for any submissions. The account is the true one of a
//! cluster that never draws more than believed. Every job has a time limit. A budget that does not bind changes
//! nothing (IV-C.4).
//!
//! `PROPTEST_CASES` sets the number of cases of each property; default 500.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::random::{Period, allocation, budgets, cases, config, hold_after, period, rest_rule};
use crate::world::World;
use limo_model::{
    Budgets, CapRule, Cores, Curve, Energy, EstimateSource, JobId, Memory, Meter, NodeSpec, Placement, Power, Preset,
    Price, Profile, ProfileKey, Release, Request, Rest, Span, Switch, Time, UnitKind, UnitSpec,
};
use limo_sched::{Command, Event, Options, Phase, Sleep};
use proptest::prelude::*;

const IDLE: Power = Power::from_watts(10);

#[derive(Debug, Clone)]
struct Case {
    options: Options,
    /// Draws in watts while asleep, falling asleep and waking, and the durations of both changes.
    rest: (i64, i64, i64, i64, i64),
    periods: Vec<Period>,
    prices: Vec<Vec<i64>>,
    jobs: Vec<Job>,
}

#[derive(Debug, Clone)]
struct Job {
    gap: i64,
    nodes: u32,
    cores: u32,
    limit: i64,
    takes: i64,
    /// True draw in percent of the believed draw.
    draws: i64,
}

fn job() -> impl Strategy<Value = Job> {
    let gap = prop_oneof![Just(0), 0..200_i64];
    (gap, 1..=4_u32, 0..3_u32, 1..500_i64, 1..600_i64, prop_oneof![Just(100), 0..100_i64])
        .prop_map(|(gap, nodes, cores, limit, takes, draws)| Job { gap, nodes, cores, limit, takes, draws })
}

fn case() -> impl Strategy<Value = Case> {
    let options =
        (allocation(), rest_rule(), 30..700_i64, hold_after()).prop_map(|(allocation, rest, every, hold_after)| {
            let monitor_every = Span::from_secs(every);
            Options { allocation, rest, monitor_every, hold_after, ..Options::default() }
        });
    let prices = proptest::collection::vec(proptest::collection::vec(-90..90_i64, 1..5), 0..3);
    let rest = (0..10_i64, 0..=10_i64, 0..25_i64, 0..20_i64, 0..90_i64);
    let (periods, jobs) = (proptest::collection::vec(period(), 1..4), proptest::collection::vec(job(), 1..20));
    (options, rest, periods, prices, jobs).prop_map(|(options, rest, periods, prices, jobs)| Case {
        options,
        rest,
        periods,
        prices,
        jobs,
    })
}

/// Makes two nodes of one core that stay on and four of two cores that can sleep. Full load draws 30 W above idle.
fn cluster(case: &Case, preset: Preset) -> World {
    let mut world = World::new(preset, case.options);
    let (asleep, down, up, falls, wakes) = case.rest;
    let way = |draw, secs| Switch { span: Span::from_secs(secs), draw: Power::from_watts(draw) };
    let rest = Rest { draw: Power::from_watts(asleep), down: way(down, falls), up: way(up, wakes), wake: None };
    for index in 0..6 {
        let sleeps = index > 1;
        let cpu = UnitSpec {
            name: "cpu".into(),
            hardware: "cpu".into(),
            kind: UnitKind::Cpu,
            cores: if sleeps { 2 } else { 1 },
            nameplate: Power::from_watts(30),
            caps: case.options.parts.caps.map(|_| (Power::from_watts(4), Power::from_watts(30))),
        };
        let (memory, rest) = (Memory::from_bytes(1), sleeps.then_some(Arc::new(rest)));
        let name = format!("n{index}");
        let spec = NodeSpec { name, units: vec![cpu], memory, idle: IDLE, meter: Meter::None, rest };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    if case.options.parts.caps.is_some() {
        // Every second job has the nameplate as its estimate.
        [4, 12].into_iter().for_each(|watts| learn_at_cap(&mut world, Power::from_watts(watts)));
    }
    world
}

/// Adds a profile of a run that draws `cap` on all cores of a unit with that cap.
fn learn_at_cap(world: &mut World, cap: Power) {
    let (application, hardware) = ("app".into(), "cpu".into());
    let key = ProfileKey { application, size: String::new(), hardware, cores: None, nodes: None, cap: Some(cap) };
    let (power, duration, source) = (cap, Span::from_secs(1), EstimateSource::Learned);
    let profile = Profile { duration, power, energy: power * duration, spread_permille: 0, runs: 3, source };
    world.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() }).expect("a profile");
}

fn request(job: &Job) -> Request {
    Request {
        user: "user".into(),
        name: "job".into(),
        nodes: NonZeroU32::new(job.nodes).expect("at least one"),
        cores: NonZeroU32::new(job.cores).map_or(Cores::All, Cores::Count),
        time_limit: Some(Span::from_secs(job.limit)),
        ..Request::one_core("app")
    }
}

/// A started job: time, number, placement.
type Started = (Time, JobId, Placement);

/// A cluster with a true draw, and a meter that is read at every stage of a period.
struct Truth<'a> {
    world: World,
    case: &'a Case,
    /// True if prices change while jobs run.
    changes: bool,
    budgets: Budgets,
    /// True draw of each job, in percent of the believed draw.
    draws: Vec<i64>,
    /// Energy in µJ: in each period, in total, and in total at the last reading of the meter.
    spent: Vec<i128>,
    used: i128,
    read: i128,
    meter: Option<Time>,
    started: Vec<Started>,
}

impl<'a> Truth<'a> {
    fn new(case: &'a Case, preset: Preset, budgets: Budgets) -> Self {
        let mut world = cluster(case, preset);
        world.apply(Event::BudgetsSet { budgets: budgets.clone(), by: "root".into() }).expect("budgets");
        let meter = budgets.iter().next().map(|budget| budget.from);
        let spent = vec![0; budgets.iter().count()];
        let (draws, started) = (Vec::new(), Vec::new());
        // A cap has no account, so it does not compensate for running jobs when prices change.
        let changes = preset != Preset::Powercap;
        Self { world, case, changes, budgets, draws, spent, used: 0, read: 0, meter, started }
    }

    /// Returns the true draw. Idle nodes draw two watts less than believed.
    fn draw(&self) -> Power {
        let core = &self.world.core;
        let node = |node: &limo_sched::Node| match (node.sleep(), node.spec().rest()) {
            (Sleep::GoingDown, Some(rest)) => rest.down.draw,
            (Sleep::Asleep, Some(rest)) => rest.draw,
            (Sleep::Waking, Some(rest)) => rest.up.draw,
            _ => IDLE - Power::from_watts(2),
        };
        let job = |(id, job): (JobId, &limo_sched::Job)| match &job.phase {
            Phase::Running(assignment, _) => {
                let percent = self.draws[usize::try_from(id.0 - 1).expect("few")];
                assignment.estimate.power.scaled(percent, 100)
            }
            _ => Power::ZERO,
        };
        core.nodes().iter().map(node).sum::<Power>() + core.jobs().map(job).sum::<Power>()
    }

    fn go(&mut self, to: Time) {
        let (now, draw) = (self.world.now, i128::from(self.draw().mw()));
        for (spent, budget) in self.spent.iter_mut().zip(&self.budgets) {
            *spent += draw * i128::from((to.min(budget.until) - now.max(budget.from)).ms().max(0));
        }
        self.used += draw * i128::from((to - now).ms());
        self.world.advance(to);
    }

    /// Reads the meter, and reports the usage if a period runs or ends now.
    fn read(&mut self) {
        let (now, uj) = (self.world.now, self.used - self.read);
        self.read = self.used;
        if self.budgets.iter().any(|budget| budget.from < now && now <= budget.until) {
            let mj = i64::try_from(uj.div_euclid(1_000) + i128::from(uj.rem_euclid(1_000) != 0)).expect("little");
            self.world.apply(Event::Metered { energy: Energy::from_mj(mj) }).expect("a reading");
        }
        self.meter = match self.budgets.at(now) {
            Some(budget) => Some((now + self.case.options.monitor_every).min(budget.until)),
            None => self.budgets.next_change(now),
        };
    }

    fn rounds(&mut self) {
        loop {
            let round = self.world.round();
            assert_eq!(round.violations, [], "the checker found something");
            for command in &round.commands {
                if let Command::Start { job, placement, .. } = command {
                    self.started.push((round.now, *job, placement.clone()));
                }
            }
            if round.commands.is_empty() {
                return;
            }
        }
    }

    fn submit(&mut self, job: &Job) {
        let id = self.world.core.next_job();
        self.world.takes.insert(id, Span::from_secs(job.takes));
        self.draws.push(job.draws);
        // With adjacent nodes only, not every number of nodes fits somewhere.
        let nodes = job.nodes.min(if self.world.core.settings().options.allocation == limo_sched::Allocation::Any {
            4
        } else {
            2
        });
        let request = request(&Job { nodes, ..job.clone() });
        self.world.apply(Event::Submitted { job: id, request: Box::new(request) }).expect("it fits");
    }

    fn price(&mut self, eur: &[i64]) {
        let now = self.world.now;
        let step =
            |(index, eur): (i64, &i64)| (now + Span::from_secs(300 * index), Price::from_milli_per_mwh(eur * 1000));
        let prices = Curve::new((0..).zip(eur).map(step).collect(), None).expect("a curve");
        self.world.apply(Event::PricesSet { prices: Some(prices), by: "root".into() }).expect("prices");
    }

    fn run(mut self) -> (Vec<i128>, Vec<Started>) {
        let mut at = Time::from_unix_ms(0);
        let submit = |job: &Job| {
            at = at + Span::from_secs(job.gap);
            (at, job.clone())
        };
        let mut jobs: std::collections::VecDeque<(Time, Job)> = self.case.jobs.iter().map(submit).collect();
        // Prices come before every third job, or once before all jobs.
        let mut prices = self.case.prices.iter().take(if self.changes { usize::MAX } else { 1 });
        if !self.changes
            && let Some(eur) = prices.next()
        {
            self.price(eur);
        }
        let mut steps = 0;
        self.rounds();
        loop {
            let submitted = jobs.front().map(|(at, _)| *at);
            let Some(next) = [submitted, self.world.next(), self.meter].into_iter().flatten().min() else { break };
            self.go(next.max(self.world.now));
            while let Some((_, job)) = jobs.pop_front_if(|(at, _)| *at <= next) {
                if jobs.len().is_multiple_of(3)
                    && let Some(eur) = prices.next()
                {
                    self.price(eur);
                }
                self.submit(&job);
            }
            if self.meter.is_some_and(|at| at <= next) {
                self.read();
            }
            self.rounds();
            steps += 1;
            assert!(steps < 5_000, "it does not end");
        }
        assert_eq!(
            self.world.core.jobs().count(),
            0,
            "these wait for ever: {:?}",
            self.world.core.jobs().collect::<Vec<_>>()
        );
        (self.spent, self.started)
    }
}

/// Runs a case and checks that it stays within its budgets.
fn keeps_its_budgets(case: &Case, preset: Preset) -> Vec<Started> {
    let budgets = budgets(Time::from_unix_ms(0), IDLE.scaled(6, 1), &case.periods);
    let (spent, started) = Truth::new(case, preset, budgets.clone()).run();
    for (spent, budget) in spent.into_iter().zip(&budgets) {
        assert!(spent <= i128::from(budget.energy.mj()) * 1_000, "{spent} µJ of {budget:?}");
    }
    started
}

fn check(preset: Preset) {
    proptest!(config(), |(case in case())| {
        keeps_its_budgets(&case, preset);
    });
}

#[test]
fn energybud_keeps_its_budget_with_caps_from_profiles() {
    let capped = Cell::new(0);
    proptest!(cases(500), |(mut case in case())| {
        case.options.parts.caps = Some(CapRule::FromProfile);
        let started = keeps_its_budgets(&case, Preset::Energybud);
        let parts = started.iter().flat_map(|(_, _, placement)| placement);
        capped.set(capped.get() + parts.filter(|part| part.cap.is_some()).count());
    });
    assert!(capped.get() > 100, "only {} starts had a cap", capped.get());
}

#[test]
fn powercap_keeps_its_budget() {
    check(Preset::Powercap);
}

#[test]
fn energybud_keeps_its_budget() {
    check(Preset::Energybud);
}

#[test]
fn reducepc_keeps_its_budget() {
    check(Preset::Reducepc);
}

#[test]
fn a_budget_that_does_not_bind_changes_nothing() {
    proptest!(config(), |(mut case in case())| {
        // With a release by price, even the largest budget releases nothing for jobs while energy is most expensive.
        for period in &mut case.periods {
            (period.above, period.release) = (1_000_000_000, Release::Even);
        }
        let budgets = budgets(Time::from_unix_ms(0), IDLE.scaled(6, 1), &case.periods);
        let with = Truth::new(&case, Preset::Energybud, budgets.clone()).run().1;
        let without = Truth::new(&case, Preset::Easy, budgets).run().1;
        assert_eq!(with, without);
    });
}
