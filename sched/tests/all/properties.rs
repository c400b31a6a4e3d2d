//! Guarantees of every policy over many random clusters, jobs and events.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; default 10,000.

use crate::backfill;
use crate::random::run::{keeps_in, keeps_the_rules};
use crate::random::{HARDWARE, cases, learn, narrow_step, wide_step, with_cores};
use crate::world::World;
use limo_model::{
    AdmissionRule, CapRule, IdleRule, Memory, Meter, NodeSpec, OrderRule, Overrides, Parts, PlacementRule, Power,
    Preset, Span, UnitKind, UnitSpec,
};
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
    keeps_the_rules(preset, options(), with_cores(narrow_step()), cluster);
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

/// Checks a valid combination of parts that is not a preset, by default in 500 cases.
fn check_parts(parts: Parts) {
    let parts = overrides(parts);
    let options = options().prop_map(move |options| Options { parts, ..options });
    keeps_in(cases(500), (Preset::Fifo, options), with_cores(narrow_step()), cluster);
}

fn overrides(Parts { order, admission, placement, caps, idle }: Parts) -> Overrides {
    let (order, admission) = (Some(order), Some(admission));
    Overrides { order, admission, placement: Some(placement), caps: Some(caps), idle: Some(idle) }
}

/// Checks a valid combination of an order with idle nodes that sleep, by default in 500 cases.
fn check_power_off(order: OrderRule) {
    let sleeps = |parts: &Parts| parts.order == order && parts.powers_off() && parts.senseless().is_none();
    for parts in Parts::all().filter(sleeps).map(overrides) {
        let options = backfill::options().prop_map(move |options| Options { parts, ..options });
        keeps_in(cases(500), (Preset::Fifo, options), wide_step(), backfill::cluster);
    }
}

#[test]
fn strict_keeps_the_rules_with_nodes_off() {
    check_power_off(OrderRule::Strict);
}

#[test]
fn easy_keeps_the_rules_with_nodes_off() {
    check_power_off(OrderRule::Easy);
}

#[test]
fn conservative_keeps_the_rules_with_nodes_off() {
    check_power_off(OrderRule::Conservative);
}

/// Combinations that these properties test.
const COMBINED: [Parts; 9] = {
    use AdmissionRule::{Band, Ledger, LedgerReduced, Rate, Resources};
    use CapRule::{FromProfile, Moved, Untouched};
    use OrderRule::{Conservative, Easy, Strict};
    use PlacementRule::{ByPrice, FirstFit, LeastRoom};
    const fn parts(order: OrderRule, admission: AdmissionRule, placement: PlacementRule, caps: CapRule) -> Parts {
        Parts { order, admission, placement, caps, idle: IdleRule::StayOn }
    }
    [
        parts(Strict, Band, FirstFit, Untouched),
        parts(Strict, Band, FirstFit, Moved),
        // `backfill` tests these three with budgets.
        parts(Easy, Rate, LeastRoom, FromProfile),
        parts(Easy, Ledger, LeastRoom, FromProfile),
        parts(Easy, LedgerReduced, LeastRoom, FromProfile),
        parts(Conservative, Resources, FirstFit, Untouched),
        parts(Conservative, Band, FirstFit, Untouched),
        parts(Conservative, Band, FirstFit, Moved),
        parts(Conservative, Band, ByPrice, Untouched),
    ]
};

#[test]
fn each_combination_of_parts_is_tested() {
    let presets: Vec<Parts> = Preset::ALL.into_iter().map(Preset::parts).collect();
    let others: Vec<Parts> = Parts::all()
        .filter(|parts| parts.senseless().is_none() && !presets.contains(parts) && !parts.powers_off())
        .collect();
    assert_eq!(others, COMBINED);
}

#[test]
fn strict_band_first_fit_keeps_the_rules() {
    check_parts(COMBINED[0]);
}

#[test]
fn strict_band_first_fit_with_caps_keeps_the_rules() {
    check_parts(COMBINED[1]);
}

#[test]
fn conservative_first_fit_keeps_the_rules() {
    check_parts(COMBINED[5]);
}

#[test]
fn conservative_band_first_fit_keeps_the_rules() {
    check_parts(COMBINED[6]);
}

#[test]
fn conservative_band_first_fit_with_caps_keeps_the_rules() {
    check_parts(COMBINED[7]);
}

#[test]
fn conservative_band_by_price_keeps_the_rules() {
    check_parts(COMBINED[8]);
}

#[test]
fn parts_that_do_not_go_together_are_refused() {
    let mut world = cluster(Preset::Easy, Options::default(), [0; 6]);
    let parts = Overrides { placement: Some(PlacementRule::ByPrice), ..Overrides::default() };
    let options = Options { parts, ..Options::default() };
    let event = Event::PolicySet { preset: Preset::Easy, options, by: "root".into() };
    let refused = world.core.apply(world.now, &event).expect_err("no sense");
    assert_eq!(
        refused.to_string(),
        "the parts of the policy do not go together: the order `easy` reserves by the placement `least-room`, not by `by-price`"
    );
    assert_eq!(world.core.settings().options.parts, Overrides::default());
}
