//! Every rule about the caps of started jobs finds a plan that breaks it, and no other plan.

use limo_model::{
    Attempt, Band, CapRule, Curve, Energy, Estimate, EstimateSource, JobId, JobShare, Memory, Meter, NodeId, NodeSpec,
    Overrides, Part, PartRule, Power, Preset, Profile, ProfileKey, Request, Span, Time, UnitId, UnitKind, UnitSpec,
};
use limo_sched::{Command, Core, Event, Options, Plan, Start, Violation};

const NOW: Time = Time::from_unix_ms(1_000);
/// Jobs that allow exploration, that do not, and that have only a part of their unit.
const ALLOWS: JobId = JobId(1);
const FORBIDS: JobId = JobId(2);
const SHARES: JobId = JobId(3);

fn watts(watts: i64) -> Power {
    Power::from_watts(watts)
}

fn apply(core: &mut Core, event: &Event) {
    core.apply(NOW, event).expect("a possible event");
}

fn know(core: &mut Core, (cap, runs): (Option<i64>, u32), draw: i64) {
    let key = ProfileKey {
        application: "a".into(),
        size: String::new(),
        hardware: "cpu".into(),
        cores: Some(4),
        nodes: None,
        cap: cap.map(watts),
    };
    let (duration, power, source) = (Span::from_secs(600), watts(draw), EstimateSource::Learned);
    let profile = Profile { duration, power, energy: power * duration, spread_permille: 0, runs, source };
    apply(core, &Event::ProfileSet { key, profile: Some(profile), by: "learning".into() });
}

/// A node of 4 cores that obeys caps of 20 W to 60 W. Without a cap, `a` draws 50 W for 10 min there; its jobs have
/// 15 min.
fn core(preset: Preset, share: JobShare) -> Core {
    let mut core = Core::new(NOW, preset, Options::default());
    let (name, hardware) = ("cpu".to_owned(), "cpu".to_owned());
    let caps = Some((watts(20), watts(60)));
    let unit = UnitSpec { name, hardware, kind: UnitKind::Cpu, cores: 4, nameplate: watts(60), caps };
    let (units, memory) = (vec![unit], Memory::from_bytes(1));
    let spec = NodeSpec { name: "n0".into(), units, memory, idle: watts(10), meter: Meter::None, rest: None };
    apply(&mut core, &Event::NodeUp { spec });
    apply(&mut core, &Event::ExploreSet { share, by: "root".into() });
    know(&mut core, (None, 3), 50);
    for (job, cores, explore) in [(ALLOWS, "4", true), (FORBIDS, "4", false), (SHARES, "2", true)] {
        let time_limit = Some(Span::from_secs(900));
        let request = Request { cores: cores.parse().expect("cores"), time_limit, explore, ..Request::one_core("a") };
        apply(&mut core, &Event::Submitted { job, request: Box::new(request) });
    }
    core
}

fn plan(job: JobId, cap: i64, explores: bool) -> Plan {
    let (duration, power) = (Span::from_secs(900), watts(cap.min(50)));
    let source = EstimateSource::Learned;
    let estimate = Estimate { duration, power, energy: Energy::ZERO, source, runs: 3 };
    let (unit, cores) = (UnitId { node: NodeId(0), unit: 0 }, if job == SHARES { 2 } else { 4 });
    let part = Part { unit, count: 1, cores, memory: Memory::ZERO, cap: Some(watts(cap)) };
    let start = Start { job, placement: vec![part], estimate, waits_for_relief: false, explores };
    Plan { starts: vec![start], is_unfinished: true, ..Plan::default() }
}

fn explores(job: JobId, cap: i64) -> Vec<Violation> {
    vec![Violation::Explores { job, cap: watts(cap) }]
}

#[test]
fn only_an_allowed_job_in_the_share_explores_a_cap_that_is_not_measured() {
    let core_of = |share| core(Preset::Easy, share);
    let core = core_of(JobShare::ALL);
    assert_eq!(core.check(NOW, &plan(ALLOWS, 40, true)), []);
    assert_eq!(core.check(NOW, &plan(FORBIDS, 40, true)), explores(FORBIDS, 40), "its user does not allow it");
    assert_eq!(core.check(NOW, &plan(SHARES, 40, true)), explores(SHARES, 40), "others may share its unit");
    assert_eq!(core.check(NOW, &plan(ALLOWS, 50, true)), explores(ALLOWS, 50), "not below its draw");
    // 10 min x 50 W / 33 W are more than 15 min.
    assert_eq!(core.check(NOW, &plan(ALLOWS, 34, true)), []);
    assert_eq!(core.check(NOW, &plan(ALLOWS, 33, true)), explores(ALLOWS, 33), "it may miss its time limit");
    let none = core_of(JobShare::NONE);
    assert_eq!(none.check(NOW, &plan(ALLOWS, 40, true)), explores(ALLOWS, 40), "no job is in the share");
    let mut measured = core_of(JobShare::ALL);
    know(&mut measured, (Some(40), 2), 38);
    assert_eq!(measured.check(NOW, &plan(ALLOWS, 40, true)), []);
    know(&mut measured, (Some(40), 3), 38);
    assert_eq!(measured.check(NOW, &plan(ALLOWS, 40, true)), explores(ALLOWS, 40), "three runs are enough");
}

#[test]
fn a_job_that_does_not_explore_gets_no_cap_that_the_policy_may_not_choose() {
    let not_its = |job, cap| vec![Violation::NotItsCap { job, cap: watts(cap) }];
    let mut core = core(Preset::Easy, JobShare::ALL);
    assert_eq!(core.check(NOW, &plan(ALLOWS, 40, false)), not_its(ALLOWS, 40), "it does not explore now");
    know(&mut core, (Some(40), 3), 38);
    assert_eq!(core.check(NOW, &plan(FORBIDS, 40, false)), not_its(FORBIDS, 40), "`easy` leaves caps untouched");
    let chosen = Overrides::of(&[PartRule::Caps(CapRule::FromProfile)]).expect("one part");
    let options = Options { chosen, ..Options::default() };
    apply(&mut core, &Event::PolicySet { preset: Preset::Powercap, options, by: "root".into() });
    assert_eq!(core.check(NOW, &plan(FORBIDS, 40, false)), [], "it has a profile");
    assert_eq!(core.check(NOW, &plan(FORBIDS, 41, false)), not_its(FORBIDS, 41), "it has none");
    apply(&mut core, &Event::PolicySet { preset: Preset::Limo, options: Options::default(), by: "root".into() });
    assert_eq!(core.check(NOW, &plan(FORBIDS, 40, false)), []);
    assert_eq!(core.check(NOW, &plan(FORBIDS, 41, false)), not_its(FORBIDS, 41), "without a lower limit");
    let limits = Curve::constant(Band::new(watts(40), watts(100)).expect("a band"));
    apply(&mut core, &Event::LimitsSet { limits, by: "root".into() });
    assert_eq!(core.check(NOW, &plan(FORBIDS, 41, false)), [], "`limo` fits a job below the band");
}

/// At 40 W of 50 W and F = 0.75 a job takes as long as at full speed, at 30 W a quarter longer than 15 min.
#[test]
fn a_start_at_what_is_left_lowers_the_draw_and_counts_the_slowdown() {
    let not_its = |cap| vec![Violation::NotItsCap { job: FORBIDS, cap: watts(cap) }];
    let mut core = core(Preset::Easy, JobShare::NONE);
    for caps in [CapRule::AtStart, CapRule::FixedShare] {
        let chosen = Overrides::of(&[PartRule::Caps(caps)]).expect("one part");
        let options = Options { chosen, ..Options::default() };
        apply(&mut core, &Event::PolicySet { preset: Preset::Powercap, options, by: "root".into() });
        assert_eq!(core.check(NOW, &plan(FORBIDS, 40, false)), []);
        assert_eq!(core.check(NOW, &plan(FORBIDS, 50, false)), not_its(50), "it draws no less");
        let mut slowed = plan(FORBIDS, 30, false);
        assert_eq!(core.check(NOW, &slowed), not_its(30), "it takes longer");
        slowed.starts[0].estimate.duration = Span::from_secs(1_125);
        assert_eq!(core.check(NOW, &slowed), []);
        slowed.starts[0].estimate.duration = Span::from_secs(1_124);
        assert_eq!(core.check(NOW, &slowed), not_its(30), "it takes longer than that");
    }
}

/// Divides an upper limit of 45 W. With 10 W at rest and a reserve of 1 %, the job of 50 W starts at a cap of 34.55 W.
/// Returns the cap in mW and the number of its order.
fn divide(core: &mut Core, high: i64) -> (i64, u64) {
    let limits = Curve::constant(Band::new(Power::ZERO, watts(high)).expect("a band"));
    apply(core, &Event::LimitsSet { limits, by: "root".into() });
    let ordered = core.round(NOW).commands.into_iter().find_map(|command| match command {
        Command::Cap { generation, caps, .. } => Some((caps[0]?.mw(), generation)),
        _ => None,
    });
    ordered.expect("a cap")
}

/// Makes a core with equal caps.
fn even() -> Core {
    let mut core = core(Preset::Easy, JobShare::NONE);
    let chosen = Overrides::of(&[PartRule::Caps(CapRule::Even)]).expect("one part");
    let options = Options { chosen, ..Options::default() };
    apply(&mut core, &Event::PolicySet { preset: Preset::Easy, options, by: "root".into() });
    core
}

#[test]
fn caps_of_a_divided_limit_rise_only_by_power_that_is_free() {
    let mut core = even();
    let unit = UnitId { node: NodeId(0), unit: 0 };
    let (cap, generation) = divide(&mut core, 45);
    assert_eq!(cap, 34_550);
    let above = |draw, high| vec![Violation::UpperLimit { draw: Power::from_mw(draw), high: watts(high) }];
    let with_cap = |cap: i64| Plan { caps: vec![(unit, Some(watts(cap)))], ..Plan::default() };
    apply(&mut core, &Event::Capped { node: NodeId(0), generation, failed: Vec::new() });
    apply(&mut core, &Event::Started { job: ALLOWS, attempt: Attempt(1) });
    assert_eq!(core.check(NOW, &with_cap(35)), []);
    assert_eq!(core.check(NOW, &with_cap(36)), above(46_000, 45));
    assert_eq!(core.check(NOW, &with_cap(30)), []);
    let (cap, generation) = divide(&mut core, 40);
    assert_eq!(cap, 29_600);
    assert_eq!(core.check(NOW, &with_cap(30)), above(44_950, 40), "its node has not confirmed the cap");
    apply(&mut core, &Event::Capped { node: NodeId(0), generation, failed: Vec::new() });
    assert_eq!(core.check(NOW, &with_cap(30)), []);
}

#[test]
fn a_job_whose_cap_fails_may_draw_all_of_its_power_until_its_suspension_is_confirmed() {
    let mut core = even();
    let (_, generation) = divide(&mut core, 45);
    let unconfirmed = |core: &Core| core.view(NOW).unconfirmed();
    apply(&mut core, &Event::Capped { node: NodeId(0), generation, failed: Vec::new() });
    apply(&mut core, &Event::Started { job: ALLOWS, attempt: Attempt(1) });
    assert_eq!(unconfirmed(&core), watts(0));
    let (cap, generation) = divide(&mut core, 40);
    assert_eq!((cap, unconfirmed(&core).mw()), (29_600, 34_550 - 29_600));
    apply(&mut core, &Event::SuspendRequested { job: ALLOWS, by: "root".into() });
    core.round(NOW);
    assert_eq!(unconfirmed(&core).mw(), 34_550);
    apply(&mut core, &Event::Capped { node: NodeId(0), generation, failed: vec![0] });
    assert_eq!(unconfirmed(&core), watts(50));
    apply(&mut core, &Event::Paused { job: ALLOWS, attempt: Attempt(1), paused: true });
    assert_eq!(unconfirmed(&core), watts(0));
}

/// A job of 50 W may start with caps that keep the limit, or with the lowest cap of 20 W.
#[test]
fn starts_and_the_caps_of_a_divided_limit_are_checked_together() {
    let mut core = even();
    let limit = |core: &mut Core, high: i64| {
        let limits = Curve::constant(Band::new(Power::ZERO, watts(high)).expect("a band"));
        apply(core, &Event::LimitsSet { limits, by: "root".into() });
    };
    let unit = UnitId { node: NodeId(0), unit: 0 };
    let with_cap = |cap: Option<i64>| {
        let mut plan = plan(FORBIDS, 40, false);
        plan.starts[0].placement[0].cap = None;
        Plan { caps: cap.map(|cap| (unit, Some(watts(cap)))).into_iter().collect(), ..plan }
    };
    let above = |draw, high| vec![Violation::UpperLimit { draw: watts(draw), high: watts(high) }];
    limit(&mut core, 60);
    assert_eq!(core.check(NOW, &with_cap(None)), [], "10 W at rest and 50 W");
    limit(&mut core, 45);
    assert_eq!(core.check(NOW, &with_cap(None)), above(60, 45));
    assert_eq!(core.check(NOW, &with_cap(Some(36))), above(46, 45));
    assert_eq!(core.check(NOW, &with_cap(Some(35))), []);
    limit(&mut core, 25);
    assert_eq!(core.check(NOW, &with_cap(Some(21))), above(31, 25));
    assert_eq!(core.check(NOW, &with_cap(Some(20))), []);
}
