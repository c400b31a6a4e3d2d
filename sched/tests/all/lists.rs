//! The search of the order `program` across rounds and snapshots.

use limo_model::{
    AdmissionRule, Band, CapRule, Curve, Memory, Meter, NodeSpec, OrderRule, Overrides, Power, Preset, Request, Span,
    Time, UnitKind, UnitSpec,
};
use limo_sched::{Core, Event, Options, State};

const NOW: Time = Time::from_unix_ms(0);

/// A node with a job of an hour, and forty waiting jobs that all take some of its cores.
fn core() -> Core {
    let chosen = Overrides { order: Some(OrderRule::Program), ..Overrides::default() };
    let mut core = Core::new(NOW, Preset::Easy, Options { chosen, ..Options::default() });
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "cpu".into(),
        kind: UnitKind::Cpu,
        cores: 16,
        nameplate: Power::from_watts(10),
        caps: None,
    };
    let (memory, idle) = (Memory::ZERO, Power::ZERO);
    let spec = NodeSpec { name: "n0".into(), units: vec![unit], memory, idle, meter: Meter::None, rest: None };
    core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    let cores = |count: u32| limo_model::Cores::Count(std::num::NonZeroU32::new(count).expect("not zero"));
    for job in 0..41_u32 {
        let (wanted, minutes) = if job == 0 { (16, 60) } else { (1 + job * 7 % 13, 1 + job * 11 % 37) };
        let time_limit = Some(Span::from_secs(60 * i64::from(minutes)));
        let request = Request { cores: cores(wanted), time_limit, ..Request::one_core("a") };
        core.submit(NOW, core.next_job(), request).expect("possible");
        if job == 0 {
            core.round(NOW);
        }
    }
    core
}

fn stored(core: &Core) -> String {
    serde_json::to_string(core.state()).expect("a snapshot")
}

/// Runs the rounds that the core asks for.
fn think(core: &mut Core, mut now: Time, rounds: usize) -> Time {
    for _ in 0..rounds {
        now = core.round(now).wake_at.expect("the search goes on");
    }
    now
}

#[test]
fn a_search_goes_on_from_a_snapshot_as_without_one() {
    let mut core = core();
    let now = think(&mut core, NOW, 10);
    assert_eq!(now, NOW + Span::from_secs(10), "once a second");
    let state: State = serde_json::from_str(&stored(&core)).expect("the snapshot");
    let mut restored = Core::from_state(state);
    assert_eq!(think(&mut core, now, 20), think(&mut restored, now, 20));
    assert_eq!(stored(&core), stored(&restored));
    let list = |core: &Core| serde_json::to_value(core.state()).expect("a snapshot")["program"]["best"].clone();
    let mut fresh = self::core();
    think(&mut fresh, NOW, 2);
    assert!(list(&fresh).as_array().is_some_and(|list| list.len() == 40), "{}", list(&fresh));
    assert_ne!(list(&fresh), list(&core), "thirty rounds find a better list than two");
}

#[test]
fn a_search_rests_once_it_finds_nothing_better() {
    let mut core = core();
    let mut now = NOW;
    for _ in 0..20_000 {
        let Some(next) = core.round(now).wake_at.filter(|at| *at <= now + Span::from_secs(1)) else {
            return;
        };
        now = next;
    }
    panic!("the search never rests");
}

#[test]
fn a_search_is_never_behind_the_list_of_the_paper() {
    let mut core = core();
    let mut now = NOW;
    for job in 0..30 {
        now = core.round(now).wake_at.expect("the search goes on");
        let found = core.state().search().expect("jobs to put in order");
        assert_eq!(found.jobs, 40 + job);
        assert!(found.cost <= found.of_rule, "{found:?}");
        let request = Request { time_limit: Some(Span::from_secs(600)), ..Request::one_core("a") };
        core.submit(now, core.next_job(), request).expect("possible");
    }
    let found = core.state().search().expect("jobs to put in order");
    assert!(found.cost < found.of_rule, "{found:?}");
}

/// DEC+RAPL: nodes of 10 W at rest have jobs of 40 W under 75 W. DEC keeps the limit for each start; while jobs arrive
/// rarely, three times the limit are enough for all nodes, and caps keep it.
#[test]
fn the_order_follows_the_arrivals() {
    let chosen = Overrides {
        order: Some(OrderRule::ByArrivals),
        admission: Some(AdmissionRule::Relaxed),
        caps: Some(CapRule::Ellsworth),
        ..Overrides::default()
    };
    let mut core = Core::new(NOW, Preset::Easy, Options { chosen, reserve_permille: 0, ..Options::default() });
    for node in 0..3 {
        let unit = UnitSpec {
            name: "cpu".into(),
            hardware: "cpu".into(),
            kind: UnitKind::Cpu,
            cores: 1,
            nameplate: Power::from_watts(40),
            caps: Some((Power::from_watts(5), Power::from_watts(60))),
        };
        let idle = Power::from_watts(10);
        let name = format!("n{node}");
        let spec = NodeSpec { name, units: vec![unit], memory: Memory::ZERO, idle, meter: Meter::None, rest: None };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    }
    let limits = Curve::constant(Band::new(Power::ZERO, Power::from_watts(75)).expect("a band"));
    core.apply(NOW, &Event::LimitsSet { limits, by: "test".to_owned() }).expect("limits");
    let mut now = NOW;
    let mut arrive = |core: &mut Core, gap_s: i64| {
        now = now + Span::from_secs(gap_s);
        let request = Request { time_limit: Some(Span::from_secs(360_000)), ..Request::one_core("a") };
        core.submit(now, core.next_job(), request).expect("possible");
        core.round(now);
        (core.settings().parts().order, core.active())
    };
    for _ in 0..21 {
        assert_eq!(arrive(&mut core, 120), (OrderRule::Program, 1), "a mean of 2 min is not above 2 min");
    }
    assert_eq!(arrive(&mut core, 121), (OrderRule::Easy, 3));
    let restored = Core::from_state(serde_json::from_str(&stored(&core)).expect("the snapshot"));
    assert_eq!(restored.settings().parts().order, OrderRule::Easy);
    assert_eq!(arrive(&mut core, 118).0, OrderRule::Program);
    assert_eq!(core.settings().chosen_parts().order, OrderRule::ByArrivals);
}
