//! No job delays a promised start, for any request. Under `easy` and its family this is the first job's start, under
//! `conservative` every job's. Walltimes are exact, or under `easy` too long. No node sleeps or is lost meanwhile.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use limo_model::{
    Arrange, Band, Cores, Curve, JobId, Memory, Meter, NodeSpec, Power, Preset, Request, Span, Time, UnitKind,
    UnitSpec, Wait,
};
use limo_sched::{Allocation, Command, Event, Options, Phase};
use proptest::prelude::*;

use crate::random::config;
use crate::world::World;

#[derive(Debug, Clone)]
struct Ask {
    gap: i64,
    nodes: u32,
    cores: u32,
    accelerators: u32,
    /// True if the job takes cores next to its accelerators.
    with_cores: bool,
    memory: u64,
    exclusive: bool,
    /// Number of chunks beyond that of nodes, if the job is packed.
    packed: Option<u32>,
    /// A node that the job excludes, if it exists.
    exclude: Option<usize>,
    walltime: i64,
    /// Time by which the run is shorter than the walltime.
    early: i64,
}

/// Cores, accelerators of two types, memory.
type Node = (u32, (u32, u32), u64);

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![Just((4, (0, 0), 8)), Just((4, (2, 0), 8)), Just((2, (1, 2), 4))]
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    proptest::collection::vec(node(), 1..5)
}

/// Few different lengths and gaps, so that many events coincide.
fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let accelerators = (prop_oneof![2 => Just(0), 2 => 1..=2_u32], any::<bool>());
    let size = (1..=3_u32, 1..=4_u32, accelerators, prop_oneof![Just(0), 1..=8_u64]);
    let more = (
        proptest::bool::weighted(0.1),
        proptest::option::weighted(0.2, 0..4_usize),
        proptest::option::weighted(0.3, 0..5_u32),
    );
    let ask = (0..6_i64, size, more, 1..8_i64, 0..20_i64).prop_map(
        |(gap, size, (exclusive, exclude, packed), walltime, early)| {
            let (nodes, cores, (accelerators, with_cores), memory) = size;
            let gap = (gap - 3).max(0);
            Ask {
                gap,
                nodes,
                cores,
                accelerators,
                with_cores,
                memory,
                exclusive,
                packed,
                exclude,
                walltime: 5 * walltime,
                early,
            }
        },
    );
    proptest::collection::vec(ask, 1..25)
}

fn request(ask: &Ask) -> Request {
    Request {
        nodes: NonZeroU32::new(ask.nodes + ask.packed.unwrap_or(0)).expect("at least one"),
        arrange: if ask.packed.is_some() { Arrange::Pack } else { Arrange::Spread },
        cores: Cores::Count(NonZeroU32::new(ask.cores).expect("at least one")),
        accelerators: NonZeroU32::new(ask.accelerators),
        with_cores: ask.with_cores,
        memory: Memory::from_bytes(ask.memory),
        exclusive: ask.exclusive,
        exclude: ask.exclude.map(|index| format!("n{index}")).into_iter().collect(),
        time_limit: Some(Span::from_secs(ask.walltime)),
        ..Request::one_core("app")
    }
}

fn unit(index: usize, (hardware, kind, cores): (&str, UnitKind, u32)) -> UnitSpec {
    let nameplate = Power::from_watts(10);
    UnitSpec { name: format!("unit{index}"), hardware: hardware.into(), kind, cores, nameplate, caps: None }
}

fn world(preset: Preset, options: Options, nodes: &[Node]) -> World {
    let mut world = World::new(preset, options);
    for (index, (cores, (few, many), memory)) in nodes.iter().enumerate() {
        let gpus = (0..*few).map(|_| "p4").chain((0..*many).map(|_| "k80"));
        let units =
            std::iter::once(("cpu", UnitKind::Cpu, *cores)).chain(gpus.map(|of| (of, UnitKind::Accelerator, 1)));
        let units = units.enumerate().map(|(index, of)| unit(index, of)).collect();
        let (memory, idle) = (Memory::from_bytes(*memory), Power::from_watts(5));
        let spec = NodeSpec { name: format!("n{index}"), units, memory, idle, meter: Meter::None, rest: None };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    world
}

/// A run that records every promised start and checks it.
struct Run {
    world: World,
    /// True if the promise holds for every job, not only for the first.
    all: bool,
    told: BTreeMap<JobId, Time>,
}

impl Run {
    fn round(&mut self) {
        loop {
            let round = self.world.round();
            let starts = round.commands.iter().filter_map(|command| match command {
                Command::Start { job, .. } => Some(*job),
                _ => None,
            });
            for job in starts {
                let (now, told) = (self.world.now, self.told.remove(&job));
                assert!(told.is_none_or(|told| now <= told), "{job} starts at {now:?} and was told {told:?}");
            }
            if round.commands.is_empty() {
                break;
            }
        }
        let first = self.world.core.jobs().find(|(_, job)| job.is_waiting()).map(|(id, _)| id);
        for (id, job) in self.world.core.jobs().filter(|(id, _)| self.all || Some(*id) == first) {
            let Phase::Waiting(Some(wait)) = &job.phase else { continue };
            let (Wait::Resources { until } | Wait::Band { until, .. } | Wait::Behind { until, .. }) = wait else {
                continue;
            };
            let Some(until) = *until else { continue };
            let told = *self.told.entry(id).or_insert(until);
            assert!(until <= told, "{id} was told {told:?}, and is told {until:?} at {:?}", self.world.now);
        }
    }

    fn pass(&mut self, to: Time) {
        while let Some(at) = self.world.next().filter(|at| *at <= to) {
            self.world.advance(at);
            self.round();
        }
        self.world.advance(to);
    }
}

fn nobody_is_delayed(preset: Preset, options: Options, high: Option<i64>, (nodes, asks): (&[Node], &[Ask])) {
    let mut run =
        Run { world: world(preset, options, nodes), all: preset == Preset::Conservative, told: BTreeMap::new() };
    if let Some(high) = high {
        let idle = run.world.core.idle();
        let limits = Curve::constant(Band::new(Power::ZERO, idle + Power::from_watts(high)).expect("a band"));
        run.world.apply(Event::LimitsSet { limits, by: "root".into() }).expect("limits");
    }
    for ask in asks {
        let to = run.world.now + Span::from_secs(ask.gap);
        run.pass(to);
        let job = run.world.core.next_job();
        // Some requests do not fit any node.
        if run.world.apply(Event::Submitted { job, request: Box::new(request(ask)) }).is_ok() {
            let early = if run.all { 0 } else { ask.early };
            run.world.takes.insert(job, Span::from_secs((ask.walltime - early).max(1)));
        }
        run.round();
    }
    let end = run.world.now + Span::from_secs(10_000);
    run.pass(end);
}

fn options() -> impl Strategy<Value = Options> {
    let allocation = prop_oneof![4 => Just(Allocation::Any), 1 => Just(Allocation::Contiguous)];
    allocation.prop_map(|allocation| Options { allocation, ..Options::default() })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_job_is_delayed_under_conservative(nodes in nodes(), asks in asks(), options in options()) {
        nobody_is_delayed(Preset::Conservative, options, None, (&nodes, &asks));
    }

    #[test]
    fn the_first_job_is_not_delayed_under_easy(nodes in nodes(), asks in asks(), options in options()) {
        nobody_is_delayed(Preset::Easy, options, None, (&nodes, &asks));
    }

    /// With equal nodes, the first job's draw is known before its nodes are chosen.
    #[test]
    fn the_first_job_is_not_delayed_under_a_limit(
        preset in prop_oneof![Just(Preset::Powercap), Just(Preset::Energybud), Just(Preset::Reducepc)],
        ((node, count), asks, options) in ((node(), 1..5_usize), asks(), options()),
        high in proptest::option::weighted(0.8, 10..120_i64),
    ) {
        nobody_is_delayed(preset, options, high, (&vec![node; count], &asks));
    }
}
