//! What every policy must keep, whatever happens to the cluster: over many random clusters, jobs and events.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; 10,000 unless told.

mod world;

use limo_model::{
    Band, Cores, Curve, EstimateSource, JobId, Memory, Meter, NodeId, NodeSpec, Power, Price, Profile, ProfileKey,
    Request, Span, Time, UnitKind, UnitSpec,
};
use limo_sched::{Core, Event, ModeSetting, Options, Preset, State};
use proptest::prelude::*;
use proptest::test_runner::Config;
use world::{Call, World};

const HARDWARE: [&str; 3] = ["slow", "fast", "accelerator"];

#[derive(Debug, Clone)]
enum Step {
    Submit(Ask),
    Cancel(u8),
    Pass(i64),
    Away(u8),
    Up(u8),
    Drain(u8),
    Resume(u8),
    Limits(i64, i64, i64),
    Prices(Vec<i64>),
    Mode(ModeSetting),
    Reading(u8, i64),
    Silence(u8),
    TakeBack,
}

/// The parts of a request that vary.
#[derive(Debug, Clone)]
struct Ask {
    app: u8,
    cores: u32,
    memory: u64,
    immediate: bool,
    limit: Option<i64>,
    deadline: Option<i64>,
    start_by: Option<i64>,
    variant: bool,
    takes: i64,
}

fn ask() -> impl Strategy<Value = Ask> {
    let maybe = |most: i64| proptest::option::weighted(0.2, 1..most);
    (
        0..3_u8,
        0..4_u32,
        0..3_u64,
        proptest::bool::weighted(0.1),
        maybe(400),
        maybe(3000),
        maybe(3000),
        any::<bool>(),
        1..600_i64,
    )
        .prop_map(|(app, cores, memory, immediate, limit, deadline, start_by, variant, takes)| Ask {
            app,
            cores,
            memory,
            immediate,
            limit,
            deadline,
            start_by,
            variant,
            takes,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => ask().prop_map(Step::Submit),
        5 => (0..600_i64).prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => (0..3_u8).prop_map(Step::Away),
        2 => (0..3_u8).prop_map(Step::Up),
        1 => (0..3_u8).prop_map(Step::Drain),
        1 => (0..3_u8).prop_map(Step::Resume),
        1 => (0..80_i64, 0..300_i64, 60..600_i64).prop_map(|(low, above, until)| Step::Limits(low, above, until)),
        1 => proptest::collection::vec(-90..90_i64, 1..5).prop_map(Step::Prices),
        1 => prop_oneof![Just(ModeSetting::Auto), Just(ModeSetting::High), Just(ModeSetting::Low)].prop_map(Step::Mode),
        1 => (0..3_u8, 0..200_i64).prop_map(|(node, draw)| Step::Reading(node, draw)),
        1 => (0..3_u8).prop_map(Step::Silence),
        1 => Just(Step::TakeBack),
    ]
}

/// Three nodes, the last with an accelerator; profiles for two of three applications.
fn cluster(preset: Preset, draws: [i64; 6]) -> World {
    let mut world = World::new(preset, Options { max_delay: Span::from_secs(7200), ..Options::default() });
    for index in 0..3_usize {
        let unit = |name: &str, hardware: &str, kind, cores| UnitSpec {
            name: name.into(),
            hardware: hardware.into(),
            kind,
            cores,
            nameplate: Power::from_watts(30),
            caps: (kind == UnitKind::Cpu).then(|| (Power::from_watts(5), Power::from_watts(60))),
        };
        let mut units =
            vec![unit("cpu", HARDWARE[index.min(1)], UnitKind::Cpu, 2 + u32::try_from(index).expect("small"))];
        if index == 2 {
            units.push(unit("gpu", HARDWARE[2], UnitKind::Accelerator, 1));
        }
        let memory = Memory::from_bytes(2);
        let spec = NodeSpec {
            name: format!("n{index}"),
            units,
            memory,
            idle: Power::from_watts(10),
            meter: Meter::None,
            rest: None,
        };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    for (index, draw) in draws.into_iter().enumerate() {
        let (power, duration) = (Power::from_watts(draw), Span::from_secs(30 + 1000 / (draw + 1)));
        let cap = (index == 4).then(|| Power::from_watts(8));
        let key = ProfileKey {
            application: format!("app{}", index % 2),
            size: String::new(),
            hardware: HARDWARE[index / 2].into(),
            cap,
        };
        let (energy, source) = (power * duration, EstimateSource::Learned);
        let profile = Profile { duration, power, energy, spread_permille: 0, runs: 3, source };
        world.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() }).expect("a profile");
    }
    world
}

fn request(now: Time, ask: &Ask) -> Request {
    let later = |secs: Option<i64>| secs.map(|secs| now + Span::from_secs(secs));
    Request {
        user: "user".into(),
        name: "job".into(),
        application: format!("app{}", ask.app),
        size: String::new(),
        nodes: std::num::NonZeroU32::MIN,
        cores: std::num::NonZeroU32::new(ask.cores).map_or(Cores::All, Cores::Count),
        memory: Memory::from_bytes(ask.memory),
        time_limit: ask.limit.map(Span::from_secs),
        immediate: ask.immediate,
        deadline: later(ask.deadline),
        start_by: later(ask.start_by),
        include: Vec::new(),
        exclude: Vec::new(),
        hardware: Vec::new(),
        variants: if ask.variant { vec![HARDWARE[2].into()] } else { Vec::new() },
    }
}

/// A random run, with the properties that hold after every step.
struct Run {
    world: World,
    /// The believed draw integrated by hand, in mW x ms.
    work: i128,
}

impl Run {
    fn pass(&mut self, to: Time) {
        while let Some(at) = self.world.next().filter(|at| *at <= to) {
            self.go(at);
            self.round();
        }
        self.go(to);
    }

    fn go(&mut self, to: Time) {
        let span = (to - self.world.now).max(Span::ZERO);
        self.work += i128::from(self.world.core.sums().draw.mw()) * i128::from(span.ms());
        self.world.advance(to);
    }

    fn round(&mut self) {
        let first = self.world.round();
        assert_eq!(first.violations, [], "the checker found something");
        // What the nodes did at once are events; after those, nothing is left to do.
        let _ = self.world.round();
        let again = self.world.round();
        assert!(again.commands.is_empty(), "a second round starts something: {again:?}");
        assert_eq!((again.waits, again.finished, again.violations), (vec![], vec![], vec![]));
    }

    fn happen(&mut self, step: &Step) {
        let by = || "root".to_owned();
        let node = |index: u8| NodeId(u32::from(index));
        let now = self.world.now;
        // Whether an event is possible at this moment is the core's business.
        let _ = match step {
            Step::Submit(ask) => {
                let job = self.world.core.next_job();
                self.world.takes.insert(job, Span::from_secs(ask.takes));
                self.world.apply(Event::Submitted { job, request: request(now, ask) })
            }
            Step::Cancel(index) => {
                let jobs: Vec<JobId> = self.world.core.jobs().map(|(id, _)| id).collect();
                let Some(job) = jobs.get(usize::from(*index) % jobs.len().max(1)) else { return };
                self.world.apply(Event::CancelRequested { job: *job, by: by() })
            }
            Step::Pass(secs) => {
                self.pass(now + Span::from_secs(*secs));
                Ok(())
            }
            Step::Away(index) => self.world.apply(Event::NodeAway { node: node(*index) }),
            Step::Up(index) => {
                let spec = self.world.core.nodes()[usize::from(*index)].spec().clone();
                self.world.silent.remove(&node(*index));
                self.world.apply(Event::NodeUp { spec })
            }
            Step::Drain(index) => {
                self.world.apply(Event::NodeDrained { node: node(*index), reason: "test".into(), by: by() })
            }
            Step::Resume(index) => self.world.apply(Event::NodeResumed { node: node(*index), by: by() }),
            Step::Limits(low, above, until) => {
                let band =
                    |low: i64, high: i64| Band::new(Power::from_watts(low), Power::from_watts(high)).expect("a band");
                let steps = vec![
                    (now, band(*low, low + above)),
                    (now + Span::from_secs(*until), band(low / 2, low + above / 2)),
                ];
                let limits = Curve::new(steps, Some(now + Span::from_secs(2 * until))).expect("a curve");
                self.world.apply(Event::LimitsSet { limits, by: by() })
            }
            Step::Prices(eur) => {
                let step = |(index, eur): (i64, &i64)| {
                    (now + Span::from_secs(600 * index), Price::from_milli_per_mwh(eur * 1000))
                };
                let prices = Curve::new((0..).zip(eur).map(step).collect(), None).expect("a curve");
                self.world.apply(Event::PricesSet { prices: Some(prices), by: by() })
            }
            Step::Mode(mode) => self.world.apply(Event::ModeSet { mode: *mode, by: by() }),
            Step::Reading(index, draw) => {
                self.world.apply(Event::Readings { draws: vec![(node(*index), Power::from_watts(*draw))] })
            }
            Step::Silence(index) => {
                self.world.silent.insert(node(*index));
                Ok(())
            }
            Step::TakeBack => self.take_back(),
        };
    }

    fn take_back(&mut self) -> Result<(), limo_sched::Refused> {
        let starting = |job: &limo_sched::Job| match &job.phase {
            limo_sched::Phase::Starting(assignment) => Some(assignment.attempt),
            _ => None,
        };
        let found = self.world.core.jobs().find_map(|(id, job)| starting(job).map(|attempt| (id, attempt)));
        let Some((job, attempt)) = found else { return Ok(()) };
        self.world.apply(Event::TakenBack { job, attempt, reason: "test".into(), suspect: true })
    }

    /// Everything is put right; then every job must come to its end.
    fn heal(&mut self) {
        self.world.silent.clear();
        while self.world.core.jobs().any(|(_, job)| matches!(job.phase, limo_sched::Phase::Starting(_))) {
            self.take_back().expect("it was starting");
        }
        for index in 0..3 {
            self.happen(&Step::Up(index));
            self.happen(&Step::Resume(index));
        }
        let limits = Curve::constant(Band::UNLIMITED);
        self.world.apply(Event::LimitsSet { limits, by: "root".into() }).expect("limits");
        self.world.apply(Event::ModeSet { mode: ModeSetting::Auto, by: "root".into() }).expect("a mode");
        self.world.apply(Event::PricesSet { prices: None, by: "root".into() }).expect("no prices");
        self.round();
        let end = self.world.now + Span::from_secs(100_000);
        self.pass(end);
        self.round();
        let left: Vec<_> = self.world.core.jobs().collect();
        assert!(left.is_empty(), "these wait for ever: {left:?}");
    }

    fn check_energy(&self) {
        let energy = self.world.core.sums().bill.energy();
        assert_eq!(i128::from(energy.mj()), self.work.div_euclid(1000), "energy is the integral of the draw");
    }

    /// The same calls to another core give the same answers, byte for byte, from the start and from a snapshot.
    fn check_replay(&self, preset: Preset) {
        let options = Options { max_delay: Span::from_secs(7200), ..Options::default() };
        let mut core = Core::new(Time::from_unix_ms(0), preset, options);
        let half = self.world.calls.len() / 2;
        for (index, call) in self.world.calls.iter().enumerate() {
            if index == half {
                let text = serde_json::to_string(core.state()).expect("a snapshot");
                core = Core::from_state(serde_json::from_str::<State>(&text).expect("read back"));
            }
            match call {
                Call::Apply(at, event) => core.apply(*at, event).expect("it was accepted before"),
                Call::Round(round) => {
                    let bytes = |round| serde_json::to_vec(round).expect("a round");
                    assert!(bytes(&core.round(round.now)) == bytes(round), "another round");
                }
            }
        }
        assert!(core == self.world.core, "another state");
    }
}

fn check(preset: Preset) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let draws = proptest::array::uniform6(0..60_i64);
    proptest!(config, |(draws in draws, steps in proptest::collection::vec(step(), 1..25))| {
        let mut run = Run { world: cluster(preset, draws), work: 0 };
        for step in &steps {
            run.happen(step);
            run.round();
        }
        run.heal();
        run.check_energy();
        run.check_replay(preset);
    });
}

#[test]
fn fifo_keeps_the_rules() {
    check(Preset::Fifo);
}

#[test]
fn limo_prototype_keeps_the_rules() {
    check(Preset::LimoPrototype);
}

#[test]
fn limo_keeps_the_rules() {
    check(Preset::Limo);
}
