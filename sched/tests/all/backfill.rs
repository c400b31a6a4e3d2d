//! Guarantees of every policy that backfills, under any events. These include jobs on several nodes of several
//! classes, nodes that sleep, limits, prices and budgets.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; default 500.

use crate::random::run::keeps_the_rules;
use crate::random::{HARDWARE, allocation, hold_after, learn, rest_rule, wide_step, with_cores};
use crate::world::World;
use limo_model::{Memory, Meter, NodeSpec, Power, Preset, Rest, Span, Switch, UnitKind, UnitSpec};
use limo_sched::{Allocation, Event, Options, RestRule};
use proptest::prelude::*;
use std::sync::Arc;

/// Makes six nodes of four classes. The last has an accelerator, and every other one can sleep. Two of three
/// applications have profiles.
pub fn cluster(preset: Preset, options: Options, draws: [i64; 6]) -> World {
    built(preset, options, draws, None)
}

/// Makes the same cluster with CPUs that obey caps. One application has profiles under a cap on each type of CPU.
pub fn capped_cluster(preset: Preset, options: Options, draws: [i64; 6]) -> World {
    let watts = Power::from_watts;
    built(preset, options, draws, Some((watts(5), watts(60))))
}

fn built(preset: Preset, options: Options, draws: [i64; 6], caps: Option<(Power, Power)>) -> World {
    let mut world = World::new(preset, options);
    for index in 0..6_usize {
        let unit = |name: &str, hardware: &str, kind, cores| UnitSpec {
            name: name.into(),
            hardware: hardware.into(),
            kind,
            cores,
            nameplate: Power::from_watts(30),
            caps: caps.filter(|_| kind == UnitKind::Cpu),
        };
        let cores = [2, 2, 3, 3, 2, 2][index];
        let mut units = vec![unit("cpu", HARDWARE[usize::from(index > 3)], UnitKind::Cpu, cores)];
        if index == 5 {
            units.push(unit("gpu", HARDWARE[2], UnitKind::Accelerator, 1));
        }
        let way = |draw, secs| Switch { span: Span::from_secs(secs), draw: Power::from_watts(draw) };
        let rest =
            Rest { draw: Power::from_watts(1), down: way(draws[0], 6), up: way(draws[1], 40 + draws[2]), wake: None };
        let spec = NodeSpec {
            name: format!("n{index}"),
            units,
            memory: Memory::from_bytes(2),
            idle: Power::from_watts(10),
            meter: if index == 3 { Meter::Emulated } else { Meter::None },
            rest: (index % 2 == 1).then_some(Arc::new(rest)),
        };
        world.apply(Event::NodeUp { spec }).expect("a node");
    }
    learn(&mut world, draws, |index| (caps.is_some() && [0, 3].contains(&index)).then(|| Power::from_watts(8)));
    world
}

pub fn options() -> impl Strategy<Value = Options> {
    let of = |allocation: Allocation, rest: RestRule, depth: u32, hold_after: Span| {
        let default_duration = Span::from_secs(900);
        Options { allocation, rest, depth, hold_after, default_duration, ..Options::default() }
    };
    (allocation(), rest_rule(), prop_oneof![Just(512_u32), 1..4_u32], hold_after())
        .prop_map(move |(allocation, rest, depth, hold_after)| of(allocation, rest, depth, hold_after))
}

fn check(preset: Preset) {
    keeps_the_rules(preset, options(), with_cores(wide_step()), cluster);
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
