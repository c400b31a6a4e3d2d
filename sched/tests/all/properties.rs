//! Guarantees of every policy over many random clusters, jobs and events.
//!
//! `PROPTEST_CASES` sets the number of cases of each property; default 500.

use crate::backfill;
use crate::random::run::{keeps_in, keeps_the_rules};
use crate::random::{HARDWARE, cases, learn, narrow_step, wide_step, with_cores};
use crate::world::World;
use limo_model::{
    AdmissionRule, IdleRule, JobShare, Memory, Meter, NodeSpec, OrderRule, Overrides, Parts, PlacementRule, Power,
    Preset, Span, UnitKind, UnitSpec,
};
use limo_sched::{Event, Knowledge, ListOptions, MarginRule, Options, PoolOptions, PoolRank, Ties};
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

/// The same cluster, in which every job that allows it explores.
fn exploring(preset: Preset, options: Options, draws: [i64; 6]) -> World {
    let mut world = cluster(preset, options, draws);
    world.apply(Event::ExploreSet { share: JobShare::ALL, by: "root".into() }).expect("a share");
    world
}

/// The checker finds each start at a cap that a policy may not choose for a job that does not explore.
#[test]
fn jobs_that_explore_keep_the_rules_of_every_preset() {
    for preset in Preset::ALL {
        keeps_in(cases(500), (preset, options()), with_cores(narrow_step()), exploring);
    }
}

/// Predicted jobs count with shares of the margin of their sum.
#[test]
fn margins_of_sums_keep_the_rules() {
    let options = || backfill::options().prop_map(|options| Options { margin: MarginRule::Sum, ..options });
    for preset in Preset::ALL {
        keeps_in(cases(100), (preset, options()), with_cores(wide_step()), backfill::cluster);
    }
    keeps_in(cases(300), (Preset::Limo, options()), with_cores(wide_step()), backfill::capped_cluster);
}

/// Presets that have a test of their own, here or in `backfill`, so that these run side by side.
const ALONE: [Preset; 8] = {
    use Preset::{Conservative, Easy, Energybud, Fifo, Limo, LimoPrototype, Powercap, Reducepc};
    [Fifo, LimoPrototype, Limo, Easy, Conservative, Powercap, Energybud, Reducepc]
};

#[test]
fn every_other_preset_keeps_the_rules() {
    for preset in Preset::ALL.into_iter().filter(|preset| !ALONE.contains(preset)) {
        match preset.parts().order {
            OrderRule::Easy => keeps_the_rules(preset, backfill::options(), wide_step(), backfill::cluster),
            _ => check(preset),
        }
    }
}

/// Returns the valid combinations of an order and a placement that are no presets.
fn combined(order: OrderRule, placement: PlacementRule) -> impl Iterator<Item = Parts> {
    let is_preset = |parts: &Parts| Preset::ALL.into_iter().any(|preset| preset.parts() == *parts);
    let all = Parts::all().filter(move |parts| (parts.order, parts.placement) == (order, placement));
    all.filter(move |parts| parts.senseless().is_none() && !is_preset(parts))
}

/// Returns options of the placement `pool`.
fn pool() -> impl Strategy<Value = PoolOptions> {
    let rank = proptest::sample::select(PoolRank::NAMES.map(|(_, rank)| rank).to_vec());
    let (knowledge, ties) = (
        prop_oneof![Just(Knowledge::Past), Just(Knowledge::Trace)],
        prop_oneof![Just(Ties::Random), Just(Ties::First)],
    );
    (rank, knowledge, ties, 0..3_u32).prop_map(|(rank, knowledge, ties, seed)| PoolOptions {
        rank,
        knowledge,
        ties,
        seed,
        ..PoolOptions::default()
    })
}

/// Checks each valid combination of an order and a placement, by default in 80 cases; in 40 for `pool`, whose index is
/// compared with a new one in each step.
fn check_parts(order: OrderRule, placement: PlacementRule) {
    assert!(GROUPS.contains(&(order, placement)));
    let usual = if placement == PlacementRule::Pool { 40 } else { 80 };
    for parts in combined(order, placement) {
        let overrides = Overrides::of(&parts.rules()).expect("each part once");
        // A short search saves time.
        let lists = ListOptions { plan_steps: 50, ..ListOptions::default() };
        let with = move |(options, pool)| Options { chosen: overrides, lists, pool, ..options };
        let preset = Preset::Fifo;
        match (order, parts.idle) {
            _ if parts.starts_capped() || (parts.divides() && parts.admission == AdmissionRule::Relaxed) => {
                let options = (backfill::options(), pool()).prop_map(with);
                keeps_in(cases(usual), (preset, options), with_cores(wide_step()), backfill::capped_cluster);
            }
            (OrderRule::Easy | OrderRule::Rule | OrderRule::Program, ..) | (.., IdleRule::PowerOff) => {
                let options = (backfill::options(), pool()).prop_map(with);
                keeps_in(cases(usual), (preset, options), wide_step(), backfill::cluster);
            }
            _ => {
                keeps_in(cases(usual), (preset, (options(), pool()).prop_map(with)), with_cores(narrow_step()), cluster)
            }
        }
    }
}

/// The orders with their placements, each with a test of its own, so that these run side by side.
const GROUPS: [(OrderRule, PlacementRule); 25] = {
    use OrderRule::{Conservative, Easy, Program, Rule, Strict};
    use PlacementRule::{Assignment, ByPrice, FirstFit, LeastEnergy, LeastRoom, Pool, Ranked, Window};
    [
        (Strict, FirstFit),
        (Strict, LeastEnergy),
        (Strict, Ranked),
        (Strict, Window),
        (Strict, Assignment),
        (Strict, Pool),
        (Easy, LeastRoom),
        (Easy, LeastEnergy),
        (Easy, Ranked),
        (Easy, Window),
        (Easy, Pool),
        (Conservative, FirstFit),
        (Conservative, ByPrice),
        (Conservative, LeastRoom),
        (Conservative, LeastEnergy),
        (Rule, LeastRoom),
        (Rule, LeastEnergy),
        (Rule, Ranked),
        (Rule, Window),
        (Rule, Pool),
        (Program, LeastRoom),
        (Program, LeastEnergy),
        (Program, Ranked),
        (Program, Window),
        (Program, Pool),
    ]
};

#[test]
fn each_combination_of_parts_is_tested() {
    let mut valid: Vec<_> = Parts::all().filter(|parts| parts.senseless().is_none()).collect();
    let is_tested = |parts: Parts| GROUPS.contains(&(parts.order, parts.placement));
    // By arrivals one of two other orders is in force.
    valid.retain(|parts| ![false, true].into_iter().all(|are_rare| is_tested(parts.at_arrivals(are_rare))));
    assert_eq!(valid, []);
}

#[test]
fn strict_by_first_fit_keeps_the_rules() {
    check_parts(OrderRule::Strict, PlacementRule::FirstFit);
}

#[test]
fn strict_by_least_energy_keeps_the_rules() {
    check_parts(OrderRule::Strict, PlacementRule::LeastEnergy);
}

#[test]
fn easy_by_least_room_keeps_the_rules() {
    check_parts(OrderRule::Easy, PlacementRule::LeastRoom);
}

#[test]
fn easy_by_least_energy_keeps_the_rules() {
    check_parts(OrderRule::Easy, PlacementRule::LeastEnergy);
}

#[test]
fn strict_by_rank_keeps_the_rules() {
    check_parts(OrderRule::Strict, PlacementRule::Ranked);
}

#[test]
fn strict_by_window_keeps_the_rules() {
    check_parts(OrderRule::Strict, PlacementRule::Window);
}

#[test]
fn strict_by_assignment_keeps_the_rules() {
    check_parts(OrderRule::Strict, PlacementRule::Assignment);
}

#[test]
fn easy_by_rank_keeps_the_rules() {
    check_parts(OrderRule::Easy, PlacementRule::Ranked);
}

#[test]
fn easy_by_window_keeps_the_rules() {
    check_parts(OrderRule::Easy, PlacementRule::Window);
}

#[test]
fn conservative_by_first_fit_keeps_the_rules() {
    check_parts(OrderRule::Conservative, PlacementRule::FirstFit);
}

#[test]
fn conservative_by_price_keeps_the_rules() {
    check_parts(OrderRule::Conservative, PlacementRule::ByPrice);
}

#[test]
fn conservative_by_least_room_keeps_the_rules() {
    check_parts(OrderRule::Conservative, PlacementRule::LeastRoom);
}

#[test]
fn conservative_by_least_energy_keeps_the_rules() {
    check_parts(OrderRule::Conservative, PlacementRule::LeastEnergy);
}

#[test]
fn lists_by_least_room_keep_the_rules() {
    check_parts(OrderRule::Rule, PlacementRule::LeastRoom);
    check_parts(OrderRule::Program, PlacementRule::LeastRoom);
}

#[test]
fn lists_by_least_energy_keep_the_rules() {
    check_parts(OrderRule::Rule, PlacementRule::LeastEnergy);
    check_parts(OrderRule::Program, PlacementRule::LeastEnergy);
}

#[test]
fn lists_by_rank_keep_the_rules() {
    check_parts(OrderRule::Rule, PlacementRule::Ranked);
    check_parts(OrderRule::Program, PlacementRule::Ranked);
}

#[test]
fn lists_by_window_keep_the_rules() {
    check_parts(OrderRule::Rule, PlacementRule::Window);
    check_parts(OrderRule::Program, PlacementRule::Window);
}

#[test]
fn strict_by_pool_keeps_the_rules() {
    check_parts(OrderRule::Strict, PlacementRule::Pool);
}

#[test]
fn easy_by_pool_keeps_the_rules() {
    check_parts(OrderRule::Easy, PlacementRule::Pool);
}

#[test]
fn lists_by_pool_keep_the_rules() {
    check_parts(OrderRule::Rule, PlacementRule::Pool);
    check_parts(OrderRule::Program, PlacementRule::Pool);
}

#[test]
fn parts_that_do_not_go_together_are_refused() {
    let mut world = cluster(Preset::Easy, Options::default(), [0; 6]);
    let chosen = Overrides { placement: Some(PlacementRule::ByPrice), ..Overrides::default() };
    let options = Options { chosen, ..Options::default() };
    let event = Event::PolicySet { preset: Preset::Easy, options, by: "root".into() };
    let refused = world.core.apply(world.now, &event).expect_err("no sense");
    assert_eq!(
        refused.to_string(),
        "the parts of the policy do not go together: the order `easy` reserves by the placement `least-room`, `least-energy`, `ranked`, `window` or `pool`, not by `by-price`"
    );
    assert_eq!(world.core.settings().options, Options::default());
}
