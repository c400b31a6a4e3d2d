//! What every policy must keep, whatever happens to the cluster: over many random clusters, jobs and events.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; 10,000 unless told.

use crate::random::run::keeps_the_rules;
use crate::random::{HARDWARE, learn, narrow_step};
use crate::world::World;
use limo_model::{Memory, Meter, NodeSpec, Power, Preset, Span, UnitKind, UnitSpec};
use limo_sched::{Event, Options};
use proptest::prelude::*;

/// Three nodes, the last with two accelerators; profiles for two of three applications.
pub fn cluster(preset: Preset, options: Options, draws: [i64; 6]) -> World {
    let mut world = World::new(preset, options);
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
            units.push(unit("gpu0", HARDWARE[2], UnitKind::Accelerator, 1));
            units.push(unit("gpu1", HARDWARE[2], UnitKind::Accelerator, 1));
        }
        let memory = Memory::from_bytes(2);
        let spec = NodeSpec {
            name: format!("n{index}"),
            units,
            memory,
            idle: Power::from_watts(10),
            meter: if index == 1 { Meter::Emulated } else { Meter::None },
            rest: None,
        };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    learn(&mut world, draws, |index| (index == 4).then(|| Power::from_watts(8)));
    world
}

pub fn options() -> impl Strategy<Value = Options> {
    let depth = prop_oneof![2 => Just(512), 1 => 1..4_u32];
    let lead = prop_oneof![2 => Just(1), 1 => 1..600_i64];
    (depth, lead).prop_map(|(depth, lead)| Options {
        depth,
        lead: Span::from_secs(lead),
        max_delay: Span::from_secs(7200),
        ..Options::default()
    })
}

fn check(preset: Preset) {
    keeps_the_rules(preset, options(), narrow_step(), cluster);
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
