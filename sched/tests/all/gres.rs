//! Jobs that request several accelerators on each node: the checker finds broken plans, and impossible requests are
//! refused.

use std::num::NonZeroU32;

use limo_model::{
    Cores, Estimate, EstimateSource, JobId, Memory, Meter, NodeId, NodeSpec, Part, Power, Preset, Request, Span, Time,
    UnitId, UnitKind, UnitSpec,
};
use limo_sched::{Core, Event, Options, Plan, Start, Violation};

const NOW: Time = Time::from_unix_ms(1_000);

/// Two nodes with a CPU, a p4 and three k80.
fn core() -> Core {
    let mut core = Core::new(NOW, Preset::Fifo, Options::default());
    let unit = |index: usize, hardware: &str| UnitSpec {
        name: format!("unit{index}"),
        hardware: hardware.into(),
        kind: if index == 0 { UnitKind::Cpu } else { UnitKind::Accelerator },
        cores: if index == 0 { 4 } else { 1 },
        nameplate: Power::from_watts(10),
        caps: None,
    };
    for name in ["n0", "n1"] {
        let units = ["cpu", "p4", "k80", "k80", "k80"].iter().enumerate().map(|(index, of)| unit(index, of)).collect();
        let memory = Memory::from_bytes(10);
        let spec = NodeSpec { name: name.into(), units, memory, idle: Power::ZERO, meter: Meter::None, rest: None };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    }
    core
}

fn request(accelerators: u32, nodes: u32) -> Request {
    Request {
        accelerators: NonZeroU32::new(accelerators),
        nodes: NonZeroU32::new(nodes).expect("at least one"),
        memory: Memory::from_bytes(6),
        ..Request::one_core("a")
    }
}

#[test]
fn a_job_gets_as_many_accelerators_of_each_node_as_it_asked_for() {
    let job = JobId(1);
    let mut core = core();
    core.apply(NOW, &Event::Submitted { job, request: Box::new(request(2, 2)) }).expect("a job");
    let on = |unit: u16, memory: u64| {
        let unit = UnitId { node: NodeId(0), unit };
        Part { unit, count: 2, cores: 1, memory: Memory::from_bytes(memory), cap: None }
    };
    let check = |placement: Vec<Part>, expected: &[Violation]| {
        let (duration, power, source) = (Span::from_secs(60), Power::from_watts(5), EstimateSource::Nameplate);
        let estimate = Estimate { duration, power, energy: power * duration, source, runs: 0 };
        let plan = Plan {
            starts: vec![Start { job, placement, estimate, waits_for_relief: false, explores: false }],
            ..Plan::default()
        };
        assert_eq!(core.check(NOW, &plan), expected, "{plan:?}");
    };
    let wrong = || Violation::Accelerators { job };
    check(vec![on(2, 6), on(4, 0)], &[]);
    check(vec![on(2, 6)], &[wrong()]);
    check(vec![on(2, 6), on(3, 0), on(4, 0)], &[wrong()]);
    check(vec![on(1, 6), on(2, 0)], &[wrong()]);
    // The request is for memory of the node, not of each accelerator.
    check(vec![on(2, 0), on(3, 0)], &[wrong()]);
    check(vec![on(2, 6), on(3, 4)], &[wrong()]);
    check(vec![on(2, 6), Part { count: 1, ..on(3, 0) }], &[wrong()]);
    let first = Part { count: 1, ..on(2, 6) };
    check(vec![first, Part { count: 1, ..on(3, 0) }], &[Violation::Nodes { job, nodes: 1 }]);
    check(vec![on(0, 6), on(2, 0)], &[Violation::NotAllowed { job }, Violation::Accelerators { job }]);
}

#[test]
fn a_job_gets_the_cores_beside_its_accelerators_that_it_asked_for() {
    let job = JobId(1);
    let mut core = core();
    let request = with_cores(3, request(2, 2));
    core.apply(NOW, &Event::Submitted { job, request: Box::new(request) }).expect("a job");
    let on = |unit: u16, cores: u32, memory: u64| {
        let unit = UnitId { node: NodeId(0), unit };
        Part { unit, count: 2, cores, memory: Memory::from_bytes(memory), cap: None }
    };
    let check = |placement: Vec<Part>, expected: &[Violation]| {
        let (duration, power, source) = (Span::from_secs(60), Power::from_watts(5), EstimateSource::Nameplate);
        let estimate = Estimate { duration, power, energy: power * duration, source, runs: 0 };
        let plan = Plan {
            starts: vec![Start { job, placement, estimate, waits_for_relief: false, explores: false }],
            ..Plan::default()
        };
        assert_eq!(core.check(NOW, &plan), expected, "{plan:?}");
    };
    let wrong = || Violation::HostCores { job };
    let both = || vec![on(2, 1, 6), on(4, 1, 0)];
    let beside = |part: Part| [both(), vec![part]].concat();
    check(beside(on(0, 3, 0)), &[]);
    check(both(), &[wrong()]);
    check(beside(on(0, 2, 0)), &[Violation::Cores { job, cores: 2 }, wrong()]);
    check([both(), vec![on(0, 3, 0), on(0, 3, 0)]].concat(), &{
        let taken = |node| Violation::CoresTaken { unit: UnitId { node: NodeId(node), unit: 0 }, cores: 6, total: 4 };
        [wrong(), taken(0), taken(1)]
    });
    check(beside(Part { count: 1, ..on(0, 3, 0) }), &[wrong()]);
    // The memory of the node counts once.
    check(beside(on(0, 3, 6)), &[Violation::Accelerators { job }, memory_taken(0), memory_taken(1)]);
    check(vec![on(0, 3, 6)], &[Violation::Accelerators { job }]);
}

fn memory_taken(node: u32) -> Violation {
    Violation::MemoryTaken { node: NodeId(node), memory: Memory::from_bytes(12), total: Memory::from_bytes(10) }
}

fn with_cores(cores: u32, request: Request) -> Request {
    Request { with_cores: true, cores: Cores::Count(NonZeroU32::new(cores).expect("at least one")), ..request }
}

#[test]
fn impossible_requests_for_accelerators_are_refused() {
    let mut core = core();
    let mut check = |request: Request, expected: Result<(), &str>| {
        let submitted = Event::Submitted { job: core.next_job(), request: Box::new(request) };
        let refused = core.apply(NOW, &submitted).map_err(|refused| refused.to_string());
        assert_eq!(refused, expected.map_err(str::to_owned));
    };
    let typed = |accelerators, hardware: &str| Request { hardware: vec![hardware.into()], ..request(accelerators, 1) };
    check(request(3, 2), Ok(()));
    check(typed(1, "p4"), Ok(()));
    let most = "on each node: the most of one type that a node offers it are";
    let four = format!("the job asks for 4 accelerators of one type {most} 3 (k80), on `n0`");
    check(request(4, 1), Err(&four));
    let on_n1 = Request { include: vec!["n1".into()], ..request(4, 1) };
    check(on_n1, Err(&four.replace("`n0`", "`n1`")));
    check(typed(2, "p4"), Err(&format!("the job asks for 2 accelerators of p4 {most} 1 (p4), on `n0`")));
    check(typed(1, "a100"), Err("no node has the hardware a100 (hardware: cpu, k80, p4)"));
    check(typed(1, "cpu"), Err("no node has the hardware cpu (hardware: cpu, k80, p4)"));
    check(with_cores(4, request(3, 2)), Ok(()));
    let cores = "the job asks for 5 cores and 6 B of memory: the largest node it may use, `n1`, offers 4 cores";
    check(with_cores(5, request(3, 1)), Err(&format!("{cores} and 10 B of memory")));
    check(with_cores(5, request(4, 1)), Err(&four));
    check(request(3, 3), Err("the job asks for 3 nodes: 2 could run a part of it"));
}
