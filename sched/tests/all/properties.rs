//! What every policy must keep, whatever happens to the cluster: over many random clusters, jobs and events.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; 10,000 unless told.


use limo_model::{EstimateSource, Memory, Meter, NodeSpec, Power, Profile, ProfileKey, Span, UnitKind, UnitSpec};
use limo_sched::{Event, Options, Preset};
use proptest::prelude::*;
use proptest::test_runner::Config;
use crate::random::run::Run;
use crate::random::{HARDWARE, narrow_step};
use crate::world::World;

fn options() -> Options {
    Options { max_delay: Span::from_secs(7200), ..Options::default() }
}

/// Three nodes, the last with an accelerator; profiles for two of three applications.
fn cluster(preset: Preset, draws: [i64; 6]) -> World {
    let mut world = World::new(preset, options());
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

fn check(preset: Preset) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let draws = proptest::array::uniform6(0..60_i64);
    proptest!(config, |(draws in draws, steps in proptest::collection::vec(narrow_step(), 1..25))| {
        let mut run = Run::new(cluster(preset, draws));
        for step in &steps {
            run.happen(step);
            run.round();
        }
        run.heal();
        run.check_energy();
        run.check_replay(preset, options());
        run.check_forgetful(preset, options());
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
