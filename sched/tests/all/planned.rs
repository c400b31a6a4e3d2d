//! The starts that policies plan for later, as `lq explain` shows them.

use limo_model::{
    JobId, Memory, Meter, NodeId, NodeSpec, OrderRule, Overrides, Power, Preset, Request, Span, Time, UnitKind,
    UnitSpec,
};
use limo_sched::{Core, Event, Options, PlannedPlace, PlannedStart};

const NOW: Time = Time::from_unix_ms(0);

/// Two nodes of one core with a job of ten minutes each; jobs 3 and 4 wait for one node and for two.
fn core(preset: Preset, options: Options) -> Core {
    let mut core = Core::new(NOW, preset, options);
    for name in ["n0", "n1"] {
        let unit = UnitSpec {
            name: "cpu".into(),
            hardware: "cpu".into(),
            kind: UnitKind::Cpu,
            cores: 1,
            nameplate: Power::from_watts(10),
            caps: None,
        };
        let (memory, idle) = (Memory::ZERO, Power::ZERO);
        let spec = NodeSpec { name: name.into(), units: vec![unit], memory, idle, meter: Meter::None, rest: None };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    }
    let limit = Some(Span::from_secs(600));
    for nodes in [1, 1, 1, 2] {
        let nodes = std::num::NonZeroU32::new(nodes).expect("not zero");
        let request = Request { time_limit: limit, nodes, ..Request::one_core("a") };
        core.submit(NOW, core.next_job(), request).expect("possible");
    }
    core.round(NOW);
    for job in [1, 2] {
        core.apply(NOW, &Event::Started { job: JobId(job), attempt: limo_model::Attempt(1) }).expect("assigned");
    }
    core
}

#[test]
fn each_order_plans_the_starts_that_it_promises() {
    let at = |minutes: i64| NOW + Span::from_secs(60 * minutes);
    let any = |minutes, count| Some(PlannedStart { at: at(minutes), place: PlannedPlace::Any(count) });
    let named = |minutes, nodes: &[u32]| {
        let nodes = nodes.iter().map(|node| NodeId(*node)).collect();
        Some(PlannedStart { at: at(minutes), place: PlannedPlace::Named(nodes) })
    };
    let planned_with = |preset, options| [3, 4].map(|job| core(preset, options).planned_start(NOW, JobId(job)));
    let planned = |preset| planned_with(preset, Options::default());
    assert_eq!(planned(Preset::Easy), [any(10, 1), None], "for the first job that waits");
    assert_eq!(planned(Preset::Conservative), [any(10, 1), any(20, 2)], "for each job");
    assert_eq!(planned(Preset::Limo), [named(10, &[0]), named(20, &[0, 1])]);
    for order in [OrderRule::Rule, OrderRule::Program] {
        let chosen = Overrides { order: Some(order), ..Overrides::default() };
        let options = Options { chosen, ..Options::default() };
        assert_eq!(planned_with(Preset::Easy, options), [any(10, 1), any(20, 2)], "for each job");
    }
    assert_eq!(core(Preset::Easy, Options::default()).planned_start(NOW, JobId(1)), None, "it runs");
}
