//! What every policy that backfills must keep, whatever happens to the cluster: jobs on several nodes of several classes,
//! nodes that sleep, limits, prices and budgets.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; 10,000 unless told.


use limo_model::{
    EstimateSource, Memory, Meter, NodeSpec, Power, Profile, ProfileKey, Rest, Span, Switch, UnitKind, UnitSpec,
};
use limo_sched::{Allocation, Event, Options, Preset, RestRule};
use proptest::prelude::*;
use proptest::test_runner::Config;
use crate::random::run::Run;
use crate::random::{HARDWARE, allocation, rest_rule, wide_step};
use crate::world::World;

/// Six nodes of four classes; the last has an accelerator, every other one can sleep. Profiles for two of three
/// applications.
fn cluster(preset: Preset, options: Options, draws: [i64; 6]) -> World {
    let mut world = World::new(preset, options);
    for index in 0..6_usize {
        let unit = |name: &str, hardware: &str, kind, cores| UnitSpec {
            name: name.into(),
            hardware: hardware.into(),
            kind,
            cores,
            nameplate: Power::from_watts(30),
            caps: None,
        };
        let cores = [2, 2, 3, 3, 2, 2][index];
        let mut units = vec![unit("cpu", HARDWARE[usize::from(index > 3)], UnitKind::Cpu, cores)];
        if index == 5 {
            units.push(unit("gpu", HARDWARE[2], UnitKind::Accelerator, 1));
        }
        let way = |draw, secs| Switch { span: Span::from_secs(secs), draw: Power::from_watts(draw) };
        let rest = Rest { draw: Power::from_watts(1), down: way(draws[0], 6), up: way(draws[1], 40 + draws[2]) };
        let spec = NodeSpec {
            name: format!("n{index}"),
            units,
            memory: Memory::from_bytes(2),
            idle: Power::from_watts(10),
            meter: if index == 3 { Meter::Emulated } else { Meter::None },
            rest: (index % 2 == 1).then_some(rest),
        };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    for (index, draw) in draws.into_iter().enumerate() {
        let (power, duration) = (Power::from_watts(draw), Span::from_secs(30 + 1000 / (draw + 1)));
        let application = format!("app{}", index % 2);
        let key = ProfileKey { application, size: String::new(), hardware: HARDWARE[index / 2].into(), cap: None };
        let (energy, source) = (power * duration, EstimateSource::Learned);
        let profile = Profile { duration, power, energy, spread_permille: 0, runs: 3, source };
        world.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() }).expect("a profile");
    }
    world
}

fn options() -> impl Strategy<Value = Options> {
    let of = |allocation: Allocation, rest: RestRule, depth: u32| {
        let default_duration = Span::from_secs(900);
        Options { allocation, rest, depth, default_duration, ..Options::default() }
    };
    (allocation(), rest_rule(), prop_oneof![Just(512_u32), 1..4_u32])
        .prop_map(move |(allocation, rest, depth)| of(allocation, rest, depth))
}

fn check(preset: Preset) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let draws = proptest::array::uniform6(0..60_i64);
    proptest!(config, |(options in options(), draws in draws, steps in proptest::collection::vec(wide_step(), 1..25))| {
        let mut run = Run::new(cluster(preset, options, draws));
        for step in &steps {
            run.happen(step);
            run.round();
        }
        run.heal();
        run.check_energy();
        run.check_replay(preset, options);
        run.check_forgetful(preset, options);
    });
}

#[test]
fn easy_keeps_the_rules() {
    check(Preset::Easy);
}

#[test]
fn powercap_keeps_the_rules() {
    check(Preset::Powercap);
}

#[test]
fn energybud_keeps_the_rules() {
    check(Preset::Energybud);
}

#[test]
fn reducepc_keeps_the_rules() {
    check(Preset::Reducepc);
}

#[test]
fn conservative_keeps_the_rules() {
    check(Preset::Conservative);
}
