//! The checker's rules about power, energy and sleep find plans that break them. Two nodes with an idle draw of 10 W
//! can both sleep; one job waits.

use limo_model::{
    Band, Budget, Budgets, CapRule, Cores, Curve, Energy, Estimate, EstimateSource, GroupSpec, Groups, JobId, Memory,
    Meter, NodeId, NodeSpec, Overrides, Part, PartRule, Power, Preset, Release, Request, Rest, SleepRules, Span,
    Switch, Time, UnitId, UnitKind, UnitSpec,
};
use limo_sched::{Core, Event, Options, Plan, RestRule, Start, Violation};
use std::sync::Arc;

const JOB: JobId = JobId(1);

const fn at(secs: i64) -> Time {
    Time::from_unix_ms(secs * 1_000)
}

fn watts(watts: i64) -> Power {
    Power::from_watts(watts)
}

/// Makes the core. The job ends after `limit` seconds.
fn core(preset: Preset, limit: Option<i64>) -> Core {
    let mut core = Core::new(at(0), preset, Options { rest: RestRule::Idle(Span::ZERO), ..Options::default() });
    let cpu = UnitSpec {
        name: "cpu".into(),
        hardware: "cpu".into(),
        kind: UnitKind::Cpu,
        cores: 1,
        nameplate: watts(5),
        caps: None,
    };
    let switch = Switch { span: Span::from_secs(5), draw: watts(10) };
    for (name, sleeps) in [("n0", true), ("n1", true), ("n2", false)] {
        let rest = Arc::new(Rest { draw: watts(1), down: switch, up: switch, wake: None });
        let (memory, rest) = (Memory::ZERO, sleeps.then_some(rest));
        let idle = if sleeps { watts(10) } else { Power::ZERO };
        let spec = NodeSpec { name: name.into(), units: vec![cpu.clone()], memory, idle, meter: Meter::None, rest };
        core.apply(at(0), &Event::NodeUp { spec }).expect("a node");
    }
    let request = Request {
        user: "user".into(),
        name: "a".into(),
        cores: Cores::All,
        time_limit: limit.map(Span::from_secs),
        ..Request::one_core("a")
    };
    core.apply(at(0), &Event::Submitted { job: JOB, request: Box::new(request) }).expect("a job");
    core
}

/// Makes a plan that starts the job on n0 with `draw` watts for `secs` seconds.
fn start(draw: i64, secs: i64) -> Plan {
    let unit = UnitId { node: NodeId(0), unit: 0 };
    let part = Part { unit, count: 1, cores: 1, memory: Memory::ZERO, cap: None };
    let (power, duration) = (watts(draw), Span::from_secs(secs));
    let estimate = Estimate { duration, power, energy: power * duration, source: EstimateSource::Nameplate, runs: 0 };
    Plan {
        starts: vec![Start { job: JOB, placement: vec![part], estimate, waits_for_relief: false, explores: false }],
        ..Plan::default()
    }
}

/// Sets a budget of 24 W from `from` on for 100 s.
fn budget(core: &mut Core, from: i64) {
    let (energy, release) = (Energy::from_joules(2_400), Release::Even);
    let budgets = Budgets::new(vec![Budget { from: at(from), until: at(from + 100), energy, release }]);
    let event = Event::BudgetsSet { budgets: budgets.expect("one period"), by: "root".into() };
    core.apply(at(0), &event).expect("budgets");
}

#[test]
fn the_estimated_draw_stays_below_the_limit() {
    let check_draw = |preset, draw, secs, expected: &[Violation]| {
        let mut core = core(preset, Some(secs));
        let band = |high| Band::new(Power::ZERO, watts(high)).expect("a band");
        // The limit is 100 W, and 50 W from 30 s on.
        let limits = Curve::new(vec![(at(0), band(100)), (at(30), band(50))], None).expect("a curve");
        core.apply(at(0), &Event::LimitsSet { limits, by: "root".into() }).expect("limits");
        assert_eq!(core.check(at(0), &start(draw, secs)), expected, "{preset} {draw} W {secs} s");
    };
    let above = |draw, high| Violation::UpperLimit { draw: watts(draw), high: watts(high) };
    for preset in [Preset::Powercap, Preset::Energybud, Preset::Reducepc] {
        check_draw(preset, 80, 30, &[]);
        check_draw(preset, 81, 30, &[above(101, 100)]);
        check_draw(preset, 30, 31, &[]);
        check_draw(preset, 31, 31, &[above(51, 50)]);
    }
    check_draw(Preset::Easy, 81, 31, &[]);
}

#[test]
fn powercap_stays_below_the_release() {
    let check_draw = |from, draw, secs: Option<i64>, expected: &[Violation]| {
        let mut core = core(Preset::Powercap, secs);
        budget(&mut core, from);
        assert_eq!(core.check(at(0), &start(draw, secs.unwrap_or(9))), expected, "{from} s {draw} W {secs:?} s");
    };
    let above = Violation::ReleaseRate { draw: watts(25), rate: watts(24) };
    check_draw(0, 4, None, &[]);
    check_draw(0, 5, Some(1), std::slice::from_ref(&above));
    // Energy before the start of the period is not counted.
    check_draw(60, 5, Some(60), &[]);
    check_draw(60, 5, Some(61), std::slice::from_ref(&above));
    check_draw(60, 5, None, &[above]);
}

#[test]
fn no_budget_is_overspent() {
    let check_at = |preset, now: i64, draw, secs: Option<i64>, expected: &[Violation]| {
        let mut core = core(preset, secs);
        budget(&mut core, 0);
        // The idle nodes save 4 W.
        let energy = Energy::from_joules(20 * now);
        core.apply(at(now), &Event::Metered { energy }).expect("a stage");
        assert_eq!(core.check(at(now), &start(draw, secs.unwrap_or(9))), expected, "{now} s {draw} W {secs:?} s");
    };
    let over = |joules, secs| Violation::Overspent { missing: Energy::from_joules(joules), at: at(secs) };
    for preset in [Preset::Energybud, Preset::Reducepc] {
        check_at(preset, 0, 4, None, &[]);
        check_at(preset, 0, 5, Some(60), &[over(60, 60)]);
        // 60 J are saved by 15 s; a draw 1 W above the release uses them up in 60 s.
        check_at(preset, 15, 5, Some(60), &[]);
        check_at(preset, 15, 5, Some(61), &[over(1, 76)]);
        check_at(preset, 15, 5, None, &[over(25, 100)]);
    }
    check_at(Preset::Easy, 0, 5, Some(60), &[]);
}

#[test]
fn only_free_nodes_sleep() {
    let check_sleeps = |core: &Core, sleeps: &[(u32, u32)], broken: &[u32]| {
        let sleeps = sleeps.iter().map(|(first, count)| (NodeId(*first), *count)).collect();
        let plan = Plan { sleeps, ..Plan::default() };
        let found = core.check(at(0), &plan);
        let found: Vec<_> = found.into_iter().filter(|found| !matches!(found, Violation::NoReason { .. })).collect();
        let expected: Vec<_> = broken.iter().map(|node| Violation::CannotSleep { node: NodeId(*node) }).collect();
        assert_eq!(found, expected, "{plan:?}");
    };
    let mut core = core(Preset::Easy, Some(60));
    check_sleeps(&core, &[(0, 2)], &[]);
    check_sleeps(&core, &[(0, 4)], &[2, 3]);
    check_sleeps(&core, &[(0, 2), (1, 1)], &[1]);
    let both = Plan { sleeps: vec![(NodeId(0), 2)], ..start(5, 60) };
    assert_eq!(core.check(at(0), &both), [Violation::CannotSleep { node: NodeId(0) }]);
    // The job takes n0, and n1 falls asleep at once.
    let round = core.round(at(0));
    assert_eq!((round.commands.len(), round.violations), (2, vec![]));
    check_sleeps(&core, &[(0, 1)], &[0]);
    check_sleeps(&core, &[(1, 1)], &[1]);
}

/// Three nodes draw 30 W, and one of them 35 W instead of 10 W while it falls asleep.
#[test]
fn a_node_does_not_fall_asleep_above_a_divided_limit() {
    let mut core = core(Preset::Easy, Some(60));
    let switch = |draw| Switch { span: Span::from_secs(5), draw: watts(draw) };
    let rest = Rest { draw: watts(1), down: switch(35), up: switch(10), wake: None };
    let of_first = core.node(NodeId(0)).expect("a node").spec().clone();
    let spec = NodeSpec { name: "n3".into(), rest: Some(Arc::new(rest)), ..of_first };
    core.apply(at(0), &Event::NodeUp { spec }).expect("a node");
    let sleeps = Plan { sleeps: vec![(NodeId(3), 1)], ..Plan::default() };
    let exceeds = |core: &Core| {
        let found = core.check(at(0), &sleeps).into_iter();
        found.filter(|found| !matches!(found, Violation::NoReason { .. })).collect::<Vec<_>>()
    };
    for (high, caps, expected) in
        [(54, CapRule::Even, true), (55, CapRule::Even, false), (54, CapRule::Untouched, false)]
    {
        let limits = Curve::constant(Band::new(Power::ZERO, watts(high)).expect("a band"));
        core.apply(at(0), &Event::LimitsSet { limits, by: "root".into() }).expect("limits");
        let chosen = Overrides::of(&[PartRule::Caps(caps)]).expect("one part");
        let options = Options { chosen, ..core.settings().options };
        core.apply(at(0), &Event::PolicySet { preset: Preset::Easy, options, by: "root".into() }).expect("a policy");
        let broken = Violation::UpperLimit { draw: watts(55), high: watts(high) };
        assert_eq!(exceeds(&core), if expected { vec![broken] } else { Vec::new() }, "{high} W, {caps:?}");
    }
}

#[test]
fn groups_keep_nodes_awake_or_asleep() {
    let mut core = core(Preset::Easy, Some(60));
    let set = |core: &mut Core, (now, after): (i64, &str), stays| {
        let sleep = SleepRules { after: Some(after.parse().expect("a time")), stays };
        let spec = GroupSpec { nodes: ["n1".to_owned()].into(), sleep, ..GroupSpec::default() };
        let groups = Groups::new([("desk".to_owned(), spec)].into()).expect("one group");
        core.apply(at(now), &Event::GroupsSet { groups, by: "root".into() }).expect("groups");
    };
    let sleeps = Plan { sleeps: vec![(NodeId(1), 1)], ..Plan::default() };
    let cannot = Violation::CannotSleep { node: NodeId(1) };
    for (after, now, expected) in [("never", 99, true), ("10s", 9, true), ("10s", 10, false)] {
        set(&mut core, (0, after), false);
        assert_eq!(core.check(at(now), &sleeps).contains(&cannot), expected, "{after} {now}");
    }
    let mut wakes = start(5, 60);
    wakes.starts[0].placement[0].unit.node = NodeId(1);
    let unavailable = Violation::NodeUnavailable { job: wakes.starts[0].job };
    core.apply(at(10), &Event::Asleep { nodes: vec![(NodeId(1), 1)] }).expect("asleep");
    assert!(!core.check(at(10), &wakes).contains(&unavailable));
    set(&mut core, (10, "10s"), true);
    assert!(core.check(at(10), &wakes).contains(&unavailable));
}

/// Sets a group of these nodes, with a limit in watts.
fn group(core: &mut Core, nodes: &[&str], limit: i64) {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    let spec = GroupSpec { nodes, limit: watts(limit), ..GroupSpec::default() };
    let groups = Groups::new([("rack".to_owned(), spec)].into()).expect("one group");
    core.apply(at(0), &Event::GroupsSet { groups, by: "root".into() }).expect("groups");
}

#[test]
fn a_group_stays_below_its_limit() {
    for preset in Preset::ALL {
        let check_start = |nodes: &[&str], limit, draw, expected: Option<i64>| {
            let mut core = core(preset, Some(60));
            group(&mut core, nodes, limit);
            let exceeds = |draw| Violation::GroupLimit { group: "rack".into(), draw: watts(draw), limit: watts(limit) };
            let found = core.check(at(0), &start(draw, 60));
            let found: Vec<_> = found.into_iter().filter(|of| matches!(of, Violation::GroupLimit { .. })).collect();
            assert_eq!(found, expected.map(exceeds).into_iter().collect::<Vec<_>>(), "{preset} {nodes:?} {limit} W");
        };
        // Each of these nodes draws 10 W without jobs.
        check_start(&["n0", "n1"], 30, 10, None);
        check_start(&["n0", "n1"], 30, 11, Some(31));
        // The job is on n0.
        check_start(&["n1", "n2"], 5, 11, None);
    }
    // A node draws 10 W while it falls asleep, as when it is idle.
    let mut core = core(Preset::Easy, Some(60));
    group(&mut core, &["n0"], 5);
    let asleep = Plan { sleeps: vec![(NodeId(0), 1)], ..Plan::default() };
    let found = core.check(at(0), &asleep);
    assert!(!found.iter().any(|of| matches!(of, Violation::GroupLimit { .. })), "{found:?}");
}
