//! Longest time for which the draw can be above the upper limit, for any profiles; docs/policies.md derives the bound.
//! The plant has a meter with fixed reading times, commands with delayed effects, and jobs with any draw. The limit
//! moves without warning.

use std::cell::Cell;
use std::collections::BTreeMap;

use limo_model::{
    Attempt, Band, Curve, EstimateSource, JobId, Memory, Meter, NodeId, NodeSpec, Overrides, PartRule, Power, Preset,
    Profile, ProfileKey, Request, Span, StopReason, Time, UnitKind, UnitSpec,
};
use limo_sched::{Command, Core, Event, Options};
use proptest::prelude::*;

use crate::random::config;

const IDLE: Power = Power::from_watts(10);
const LOWEST_CAP: Power = Power::from_watts(5);

/// Time from a command to its confirmed effect.
const LATENCY: Span = Span::from_ms(15);

/// A job on its node.
#[derive(Debug, Clone)]
struct Task {
    node: NodeId,
    draw: Power,
    suspended: bool,
}

/// An event of the plant. Simultaneous events come in the order of the variants.
#[derive(Debug, Clone)]
enum Happening {
    /// The effect of a command.
    Effect(Command),
    Limit(Power),
    Submit {
        believed: i64,
        real: i64,
        gives: bool,
    },
    Meter,
}

struct Plant {
    core: Core,
    now: Time,
    agenda: BTreeMap<(Time, u64), Happening>,
    next: u64,
    tasks: BTreeMap<JobId, Task>,
    real: BTreeMap<JobId, Power>,
    caps: Vec<Option<Power>>,
    high: Power,
    /// Last time at which the limit, or a change that only the meter shows, increased the overshoot.
    cause: Time,
    every: Span,
    /// Latencies of orders to running jobs, in turn; empty if all have [`LATENCY`].
    latencies: Vec<Span>,
    /// Time of the last effect of an order to running jobs, by node.
    busy: Vec<Time>,
    /// Starts that wait until they are released.
    held: BTreeMap<JobId, (Attempt, NodeId)>,
    /// Number of starts that were released.
    releases: u32,
    /// Number of jobs that began on a capped unit.
    capped: u32,
    /// Last fall of the limit.
    fell: Time,
}

impl Plant {
    fn new(nodes: u32, every: Span) -> Self {
        Self::under(Preset::Limo, Options::default(), (nodes, every))
    }

    fn under(preset: Preset, options: Options, (nodes, every): (u32, Span)) -> Self {
        let now = Time::from_unix_ms(0);
        let mut core = Core::new(now, preset, options);
        for index in 0..nodes {
            let unit = UnitSpec {
                name: "cpu".into(),
                hardware: "xeon".into(),
                kind: UnitKind::Cpu,
                cores: 1,
                nameplate: Power::from_watts(100),
                caps: Some((LOWEST_CAP, Power::from_watts(300))),
            };
            let spec = NodeSpec {
                name: format!("n{index}"),
                units: vec![unit],
                memory: Memory::from_bytes(1),
                idle: IDLE,
                meter: Meter::Emulated,
                rest: None,
            };
            core.apply(now, &Event::NodeUp { spec }).expect("a node");
        }
        let (high, caps) = (Power::MAX, vec![None; nodes as usize]);
        let (agenda, tasks, real) = Default::default();
        let mut plant = Self {
            core,
            now,
            agenda,
            next: 0,
            tasks,
            real,
            caps,
            high,
            cause: now,
            every,
            latencies: Vec::new(),
            busy: vec![now; nodes as usize],
            held: BTreeMap::new(),
            releases: 0,
            capped: 0,
            fell: now,
        };
        plant.plan(now, Happening::Meter);
        plant
    }

    fn plan(&mut self, at: Time, what: Happening) {
        self.next += 1;
        self.agenda.insert((at, self.next), what);
    }

    fn node_draw(&self, node: NodeId) -> Power {
        let on = self.tasks.values().filter(|task| task.node == node && !task.suspended);
        IDLE + on.map(|task| self.caps[node.0 as usize].map_or(task.draw, |cap| cap.min(task.draw))).sum::<Power>()
    }

    fn draw(&self) -> Power {
        (0..self.caps.len()).map(|node| self.node_draw(NodeId(u32::try_from(node).expect("few")))).sum()
    }

    fn run(&mut self, until: Time) {
        while let Some((&(at, number), _)) = self.agenda.first_key_value().filter(|((at, _), _)| *at <= until) {
            self.check(at);
            let what = self.agenda.remove(&(at, number)).expect("it is there");
            self.now = at;
            let before = self.draw();
            self.happen(what);
            if self.draw() > before {
                self.cause = at;
            }
            let round = self.core.round(at);
            assert_eq!(round.violations, []);
            for command in round.commands {
                let effect = self.effect_at(at, &command);
                self.plan(effect, Happening::Effect(command));
            }
        }
    }

    /// Returns the time of a command's effect. A node follows the orders to running jobs one after the other.
    fn effect_at(&mut self, at: Time, command: &Command) -> Time {
        let node = match command {
            Command::Cap { node, .. } => Some(*node),
            Command::Suspend { job, .. } | Command::Resume { job, .. } => self.tasks.get(job).map(|task| task.node),
            _ => None,
        };
        let Some(node) = node.filter(|_| !self.latencies.is_empty()) else { return at + LATENCY };
        self.latencies.rotate_left(1);
        let busy = &mut self.busy[node.0 as usize];
        *busy = (at + self.latencies[0]).max(*busy);
        *busy
    }

    /// Begins a job. If nodes are slow, checks that its start does not take the draw above the limit.
    fn begin(&mut self, job: JobId, (attempt, node): (Attempt, NodeId)) {
        self.tasks.insert(job, Task { node, draw: self.real[&job], suspended: false });
        self.capped += u32::from(self.caps[node.0 as usize].is_some());
        let was_decided_under_it = self.now - self.fell > LATENCY;
        if !self.latencies.is_empty() && was_decided_under_it {
            assert!(self.draw() <= self.high, "{} above {}: {:?}", self.draw(), self.high, self.tasks);
        }
        self.tell(Event::Started { job, attempt });
    }

    /// Checks that the draw is above the limit only until the meter and the commands have taken effect.
    fn check(&self, until: Time) {
        if !self.latencies.is_empty() {
            return;
        }
        let bound = self.every + LATENCY;
        assert!(
            self.draw() <= self.high || until - self.cause <= bound,
            "{} above {} at {} ms, {} after the cause: {:?}, caps {:?}",
            self.draw(),
            self.high,
            until.unix_ms(),
            until - self.cause,
            self.tasks,
            self.caps
        );
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Limit(high) => {
                if high < self.high {
                    (self.cause, self.fell) = (self.now, self.now);
                }
                self.high = high;
                let limits = Curve::constant(Band::new(Power::ZERO, high).expect("a band"));
                self.tell(Event::LimitsSet { limits, by: "root".into() });
            }
            Happening::Submit { believed, real, gives } => {
                let job = self.core.next_job();
                let application = format!("app{}", job.0);
                let key = ProfileKey {
                    application: application.clone(),
                    size: String::new(),
                    hardware: "xeon".into(),
                    cores: None,
                    nodes: None,
                    cap: None,
                };
                let (power, duration) = (Power::from_watts(believed), Span::from_secs(100_000));
                let source = EstimateSource::Imported;
                let profile =
                    Profile { duration, power, energy: power * duration, spread_permille: 0, runs: 1, source };
                self.tell(Event::ProfileSet { key, profile: Some(profile), by: "root".into() });
                self.real.insert(job, Power::from_watts(real));
                let request = Request { may_suspend: gives, ..Request::one_core(application) };
                self.tell(Event::Submitted { job, request: Box::new(request) });
            }
            Happening::Meter => {
                let node = |index: usize| NodeId(u32::try_from(index).expect("few"));
                let draws = (0..self.caps.len()).map(|index| (node(index), self.node_draw(node(index)))).collect();
                self.tell(Event::Readings { draws });
                self.plan(self.now + self.every, Happening::Meter);
            }
            Happening::Effect(command) => self.obey(command),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Start { job, attempt, placement, after, .. } => {
                let start = (attempt, placement[0].unit.node);
                match after.is_empty() {
                    true => self.begin(job, start),
                    false => drop(self.held.insert(job, start)),
                }
            }
            Command::Release { job, .. } => {
                let start = self.held.remove(&job).expect("it waits");
                self.releases += 1;
                self.begin(job, start);
            }
            Command::Stop { job, attempt, why: StopReason::Unconfirmed { .. } } => {
                self.held.remove(&job);
                let reason = String::new();
                self.tell(Event::TakenBack { job, attempt, reason, suspect: false, blame: None });
            }
            Command::Cap { node, generation, caps } => {
                self.caps[node.0 as usize] = caps[0];
                self.tell(Event::Capped { node, generation, failed: Vec::new() });
            }
            Command::Suspend { job, attempt } | Command::Resume { job, attempt } => {
                let paused = matches!(command, Command::Suspend { .. });
                self.tasks.get_mut(&job).expect("it runs").suspended = paused;
                self.tell(Event::Paused { job, attempt, paused });
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn tell(&mut self, event: Event) {
        self.core.apply(self.now, &event).expect("possible");
    }
}

/// Uses limits that the lowest caps can keep, so that every change is possible.
fn happening(nodes: i64) -> impl Strategy<Value = (i64, Happening)> {
    let least = nodes * (IDLE.mw() + LOWEST_CAP.mw()) / 1_000 + 2;
    let limit = (least..least + 100 * nodes).prop_map(|watts| Happening::Limit(Power::from_watts(watts)));
    let submit = (1..120_i64, 1..200_i64, any::<bool>()).prop_map(|(believed, real, gives)| Happening::Submit {
        believed,
        real,
        gives,
    });
    (0..4_000_i64, prop_oneof![limit, submit])
}

#[test]
fn above_the_limit_only_until_the_next_reading_has_an_effect() {
    let every = prop_oneof![Just(Span::from_ms(20)), Just(Span::from_secs(1))];
    let happenings =
        (1..4_i64).prop_flat_map(|nodes| (Just(nodes), proptest::collection::vec(happening(nodes), 1..20)));
    let cases = config().cases.min(500);
    proptest!(proptest::test_runner::Config { cases, ..config() }, |(every in every, (nodes, happenings) in happenings)| {
        let mut plant = Plant::new(u32::try_from(nodes).expect("few"), every);
        let mut at = Time::from_unix_ms(7);
        for (after, what) in happenings {
            at = at + Span::from_ms(after);
            plant.plan(at, what);
        }
        plant.run(at + Span::from_secs(10));
    });
}

/// Jobs draw what is believed, so that only unconfirmed orders make the draw differ from the belief.
#[test]
fn no_start_exceeds_the_limit_in_whatever_order_nodes_confirm() {
    let latencies = proptest::collection::vec((1..8_000_i64).prop_map(Span::from_ms), 1..6);
    let happenings =
        (2..5_i64).prop_flat_map(|nodes| (Just(nodes), proptest::collection::vec(happening(nodes), 1..30)));
    let cases = config().cases.min(1_000);
    let held = Cell::new(0);
    proptest!(proptest::test_runner::Config { cases, ..config() }, |(latencies in latencies, (nodes, happenings) in happenings)| {
        let mut plant = Plant::new(u32::try_from(nodes).expect("few"), Span::from_secs(1));
        plant.latencies = latencies;
        let mut at = Time::from_unix_ms(7);
        for (after, what) in happenings {
            at = at + Span::from_ms(after);
            let as_believed = match what {
                Happening::Submit { believed, gives, .. } => Happening::Submit { believed, real: believed, gives },
                what => what,
            };
            plant.plan(at, as_believed);
        }
        plant.run(at + Span::from_secs(20));
        held.set(held.get() + plant.releases);
    });
    assert!(held.get() > cases / 50, "only {} starts had to wait", held.get());
}

/// Returns options with these parts, such as `caps=even`.
fn with_parts(parts: &[&str]) -> Options {
    let parts: Vec<PartRule> = parts.iter().map(|part| part.parse().expect("a part")).collect();
    Options { chosen: Overrides::of(&parts).expect("each part once"), ..Options::default() }
}

/// Starts at what is left of one limit, by nodes that are slow to set caps. Jobs draw what is believed.
fn keeps_what_is_left(caps: &str) {
    let latencies = proptest::collection::vec((1..8_000_i64).prop_map(Span::from_ms), 1..6);
    let happenings = (2..5_i64).prop_flat_map(|nodes| {
        let submits = proptest::collection::vec((0..4_000_i64, 1..120_i64), 1..30);
        (Just(nodes), 0..60 * nodes, submits)
    });
    let (cases, capped) = (config().cases.min(1_000), Cell::new(0));
    proptest!(proptest::test_runner::Config { cases, ..config() }, |(latencies in latencies, (nodes, above, submits) in happenings)| {
        let place = (u32::try_from(nodes).expect("few"), Span::from_secs(1));
        let mut plant = Plant::under(Preset::Powercap, with_parts(&[caps]), place);
        plant.latencies = latencies;
        let mut at = Time::from_unix_ms(7);
        plant.plan(at, Happening::Limit(IDLE.scaled(nodes, 1) + LOWEST_CAP + Power::from_watts(above)));
        for (after, believed) in submits {
            at = at + Span::from_ms(after);
            plant.plan(at, Happening::Submit { believed, real: believed, gives: false });
        }
        plant.run(at + Span::from_secs(20));
        assert!(plant.draw() <= plant.high);
        capped.set(capped.get() + plant.capped);
    });
    assert!(capped.get() > cases / 4, "only {} jobs began at a cap", capped.get());
}

#[test]
fn at_start_never_exceeds_the_limit() {
    keeps_what_is_left("caps=at-start");
}

#[test]
fn fixed_share_never_exceeds_the_limit() {
    keeps_what_is_left("caps=fixed-share");
}

/// Jobs draw anything, the limit moves, and caps divide it.
#[test]
fn a_divided_limit_is_exceeded_only_until_caps_have_an_effect() {
    let parts = ["even", "equal-speed", "ellsworth"].map(|caps| format!("caps={caps}"));
    let happenings =
        (1..4_i64).prop_flat_map(|nodes| (Just(nodes), proptest::collection::vec(happening(nodes), 1..20)));
    let rules = (0..parts.len(), any::<bool>());
    let (cases, capped) = (config().cases.min(500), Cell::new(0));
    proptest!(proptest::test_runner::Config { cases, ..config() }, |((caps, relaxed) in rules, (nodes, happenings) in happenings)| {
        let admission = if relaxed { "admission=relaxed" } else { "admission=resources" };
        let place = (u32::try_from(nodes).expect("few"), Span::from_secs(1));
        let mut plant = Plant::under(Preset::Easy, with_parts(&[&parts[caps], admission]), place);
        let mut at = Time::from_unix_ms(7);
        for (after, what) in happenings {
            at = at + Span::from_ms(after);
            plant.plan(at, what);
        }
        plant.run(at + Span::from_secs(20));
        capped.set(capped.get() + u32::from(plant.caps.iter().any(Option::is_some)));
    });
    assert!(capped.get() > cases / 10, "only {} plants were capped at last", capped.get());
}
