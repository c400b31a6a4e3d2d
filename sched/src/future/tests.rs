//! Caches of searches do not change results: each search is compared with one over every node and the whole draw.

use limo_model::{
    Band, Curve, Estimate, EstimateSource, Memory, Meter, NodeId, NodeSpec, Part, Power, Preset, Span, Time, UnitId,
    UnitKind, UnitSpec,
};
use proptest::prelude::*;

use super::{Future, NodeNeed, Units};
use crate::options::Options;
use crate::view::Choice;
use crate::{Core, Event};

const NOW: Time = Time::from_unix_ms(1_000);

/// Makes nodes of two classes in turns, more than a block of each, with a changing upper limit.
fn core(limits: Vec<(i64, i64)>) -> Core {
    let mut core = Core::new(NOW, Preset::Limo, Options::default());
    for index in 0..70_u32 {
        let unit = |name: &str, hardware: &str, kind, cores| UnitSpec {
            name: name.into(),
            hardware: hardware.into(),
            kind,
            cores,
            nameplate: Power::from_watts(10),
            caps: None,
        };
        let gpu = |name| unit(name, "k80", UnitKind::Accelerator, 1);
        let cpu = unit("cpu", "xeon", UnitKind::Cpu, 2 + 2 * (index % 2));
        let spec = NodeSpec {
            name: format!("n{index}"),
            units: vec![cpu, gpu("k80-0"), gpu("k80-1")],
            memory: Memory::from_bytes(4),
            idle: Power::ZERO,
            meter: Meter::None,
            rest: None,
        };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    }
    let band = |watts| Band::new(Power::ZERO, Power::from_watts(watts)).expect("a band");
    let mut steps = vec![(NOW, band(60))];
    let later: std::collections::BTreeMap<i64, i64> = limits.into_iter().collect();
    steps.extend(later.into_iter().map(|(ms, watts)| (NOW + Span::from_ms(ms), band(watts))));
    let limits = Curve::new(steps, None).expect("a curve");
    core.apply(NOW, &Event::LimitsSet { limits, by: "root".into() }).expect("limits");
    core
}

/// A placement or a request: node, unit, cores, memory, true if alone, number of units.
#[derive(Debug, Clone)]
struct FutureStep {
    plans: bool,
    node: u32,
    need: NodeNeed,
    draw: Power,
    from: Time,
    span: Span,
    latest: Option<Time>,
}

fn step() -> impl Strategy<Value = FutureStep> {
    let from = prop_oneof![Just(0_i64), 0..600_000_i64];
    let span = prop_oneof![Just(1_i64), Just(30_000), Just(300_000), 1..400_000_i64];
    let need = (prop_oneof![4 => Just(0_u16), 1 => Just(1)], 1..=4_u32, prop_oneof![3 => Just(0_i64), 1 => 1..4_i64]);
    let latest = proptest::option::weighted(0.3, 0..700_000_i64);
    (any::<bool>(), 0..70_u32, need, 0..12_u8, (0..25_i64, from, span, latest)).prop_map(
        |(plans, node, (unit, cores, memory), kind, (watts, from, span, latest))| {
            // A job that is alone on its node has all cores of the unit.
            let (alone, units) = (kind == 0, if unit == 1 && (1..4).contains(&kind) { 2 } else { 1 });
            let all = if unit == 1 { 1 } else { 2 + 2 * (node % 2) };
            let cores = if alone || unit == 1 { all } else { cores };
            let of = match (alone, units) {
                (true, _) => Units::All,
                (false, 1) => Units::Cores { unit, cores },
                (false, count) => Units::Any { like: unit, count, host: None },
            };
            let after = |ms| NOW + Span::from_ms(ms);
            FutureStep {
                plans,
                node,
                need: NodeNeed { of, memory },
                // A lower draw leaves power for others.
                draw: Power::from_watts(watts - 2),
                from: after(from),
                span: Span::from_ms(span),
                latest: latest.map(after),
            }
        },
    )
}

/// Plans a step if it fits.
fn plan(future: &mut Future<'_>, step: &FutureStep) {
    let node = NodeId(step.node);
    let Some(at) = future.earliest_on(node, &step.need, step.from, step.span) else { return };
    let (units, cores) = match step.need.of {
        Units::Cores { unit, cores } => (vec![unit], cores),
        Units::Any { .. } => (future.units_at(node, &step.need, (at, step.span)), 1),
        Units::All => (vec![0], 2),
    };
    let part = |(index, unit): (usize, u16)| Part {
        unit: UnitId { node, unit },
        count: 1,
        cores,
        memory: Memory::from_bytes(if index == 0 { step.need.memory.unsigned_abs() } else { 0 }),
        cap: None,
    };
    let placement = units.into_iter().enumerate().map(part).collect();
    let (power, duration, source) = (step.draw, step.span, EstimateSource::Nameplate);
    let estimate = Estimate { duration, power, energy: power * duration, source, runs: 0 };
    future.plan(&Choice { placement, estimate, alone: step.need.of == Units::All, waking: Power::ZERO }, at);
}

/// Asks every node of a class.
fn plain(future: &Future<'_>, nodes: &[NodeId], step: &FutureStep, best: (Time, NodeId)) -> Option<(Time, NodeId)> {
    let at = |node: &NodeId| Some((future.earliest_on(*node, &step.need, step.from, step.span)?, *node));
    nodes.iter().filter_map(at).min().filter(|found| *found < best)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn caches_do_not_change_results(
        limits in proptest::collection::vec((1_i64..900_000, 0_i64..120), 0..3),
        steps in proptest::collection::vec(step(), 1..160),
        some in proptest::collection::vec(any::<bool>(), 70),
    ) {
        let core = core(limits);
        let view = core.view(NOW);
        let mut future = Future::new(&view);
        for step in &steps {
            if step.plans {
                plan(&mut future, step);
                continue;
            }
            let of = |class: u32| (0..70).filter(move |node| node % 2 == class).map(NodeId);
            let is_some = |node: &NodeId| step.node % 3 > 0 || some[node.0 as usize];
            let nodes: Vec<NodeId> = of(step.node % 2).filter(is_some).collect();
            let best = (step.latest.unwrap_or(Time::MAX), NodeId(if step.latest.is_some() { step.node } else { u32::MAX }));
            let found = future.first_on(&nodes, &step.need, (step.from, step.span), best);
            prop_assert_eq!(found, plain(&future, &nodes, step, best), "{:?}", step);
            let powered = future.earliest_power(step.draw, (step.from, Time::MAX), step.span);
            let plain = future.power.as_ref().expect("a line").draw.earliest(step.draw, (step.from, Time::MAX), step.span);
            prop_assert_eq!(powered, plain, "{:?}", step);
            let until = step.latest.unwrap_or(step.from);
            let soon = future.earliest_power(step.draw, (step.from, until), step.span);
            prop_assert_eq!(soon.filter(|at| *at <= until), plain.filter(|at| *at <= until), "{:?}", step);
            // A job that could begin now passes `free_now` and `has_power_now`.
            for node in &nodes {
                let begins = future.earliest_on(*node, &step.need, NOW, step.span) == Some(NOW);
                if let Units::Cores { unit, cores } = step.need.of {
                    let free = future.free_now(*node, unit).expect("a unit");
                    prop_assert!(!begins || free >= i64::from(cores), "{:?}", step);
                }
            }
            let begins = future.earliest_power(step.draw, (NOW, NOW), step.span) == Some(NOW);
            prop_assert!(!begins || future.has_power_now(step.draw), "{:?}", step);
        }
    }
}
