//! Packed jobs: the checker finds broken plans, impossible requests are refused, and each node draws the power of the
//! chunks that it has.

use std::num::NonZeroU32;

use limo_model::{
    Arrange, Cores, Estimate, EstimateSource, JobId, Memory, Meter, NodeId, NodeSpec, Part, Power, Preset, Request,
    Reservation, Span, Time, UnitId, UnitKind, UnitSpec,
};
use limo_sched::{Command, Core, Event, Options, Plan, Start, Violation};

const NOW: Time = Time::from_unix_ms(1_000);
const JOB: JobId = JobId(1);

/// Two nodes with a CPU of 4 cores, a p4 and two k80.
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
        let units = ["cpu", "p4", "k80", "k80"].iter().enumerate().map(|(index, of)| unit(index, of)).collect();
        let memory = Memory::from_bytes(10);
        let spec = NodeSpec { name: name.into(), units, memory, idle: Power::ZERO, meter: Meter::None, rest: None };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    }
    core
}

fn count(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).expect("at least one")
}

/// Chunks of some cores and 3 bytes.
fn request(chunks: u32, cores: u32) -> Request {
    let (cores, memory) = (Cores::Count(count(cores)), Memory::from_bytes(3));
    Request { nodes: count(chunks), cores, memory, arrange: Arrange::Pack, ..Request::one_core("a") }
}

/// The same with an accelerator in each chunk.
fn with_accelerators(request: Request) -> Request {
    Request { accelerators: Some(count(1)), with_cores: true, ..request }
}

fn part((node, unit): (u32, u16), cores: u32, bytes: u64) -> Part {
    let unit = UnitId { node: NodeId(node), unit };
    Part { unit, count: 1, cores, memory: Memory::from_bytes(bytes), cap: None }
}

/// Checks a plan that starts the only job.
fn check(request: &Request, placement: &[Part], expected: &[Violation]) {
    let mut core = core();
    core.apply(NOW, &Event::Submitted { job: JOB, request: Box::new(request.clone()) }).expect("a job");
    let (duration, power, source) = (Span::from_secs(60), Power::from_watts(5), EstimateSource::Nameplate);
    let estimate = Estimate { duration, power, energy: power * duration, source, runs: 0 };
    let start = Start { job: JOB, placement: placement.to_vec(), estimate, waits_for_relief: false, explores: false };
    let plan = Plan { starts: vec![start], ..Plan::default() };
    assert_eq!(core.check(NOW, &plan), expected, "{plan:?}");
}

#[test]
fn a_packed_job_gets_all_its_chunks_and_each_in_full() {
    let job = JOB;
    let (three, one) = (request(3, 2), part((1, 0), 2, 3));
    check(&three, &[part((0, 0), 4, 6), one], &[]);
    check(&three, &[part((0, 0), 4, 6)], &[Violation::Chunks { job, chunks: 2 }]);
    check(&three, &[Part { count: 2, ..part((0, 0), 4, 6) }], &[Violation::Chunks { job, chunks: 4 }]);
    check(&three, &[part((0, 0), 3, 6), one], &[Violation::Cores { job, cores: 3 }]);
    check(&three, &[part((0, 0), 4, 3), one], &[Violation::Memory { job, memory: Memory::from_bytes(3) }]);
    check(&three, &[part((0, 0), 2, 3), part((0, 0), 2, 3), one], &[Violation::NodeTwice { job }]);
    let unit = UnitId { node: NodeId(0), unit: 0 };
    check(&three, &[part((0, 0), 6, 9)], &[Violation::CoresTaken { unit, cores: 6, total: 4 }]);
    check(&three, &[], &[Violation::NoPart { job }]);
}

#[test]
fn accelerators_and_cores_of_a_chunk_are_on_one_node() {
    let job = JOB;
    let three = with_accelerators(request(3, 2));
    let n0 = [part((0, 2), 1, 6), part((0, 3), 1, 0), part((0, 0), 4, 0)];
    let n1 = [part((1, 2), 1, 3), part((1, 0), 2, 0)];
    let both = |n0: &[Part]| [n0, &n1].concat();
    check(&three, &both(&n0), &[]);
    check(&three, &both(&n0[..2]), &[Violation::HostCores { job }]);
    let beside = part((0, 0), 2, 0);
    check(&three, &both(&[n0[0], n0[1], beside]), &[Violation::HostCores { job }]);
    check(&three, &both(&[n0[0], part((0, 1), 1, 0), n0[2]]), &[Violation::Accelerators { job }]);
    let once = Violation::Accelerators { job };
    let shared = |unit| Violation::AcceleratorShared { unit: UnitId { node: NodeId(0), unit } };
    let taken = Violation::CoresTaken { unit: UnitId { node: NodeId(0), unit: 2 }, cores: 2, total: 1 };
    check(&three, &both(&[n0[0], part((0, 2), 1, 0), n0[2]]), &[once, taken, shared(2)]);
    check(&three, &both(&[n0[0], beside]), &[Violation::Memory { job, memory: Memory::from_bytes(6) }]);
    let two = with_accelerators(request(2, 2));
    check(&two, &both(&n0), &[Violation::Chunks { job, chunks: 3 }]);
}

#[test]
fn more_chunks_than_the_nodes_have_room_for_are_refused() {
    let mut core = core();
    let mut check = |request: Request, expected: Result<(), &str>| {
        let submitted = Event::Submitted { job: core.next_job(), request: Box::new(request) };
        let refused = core.apply(NOW, &submitted).map_err(|refused| refused.to_string());
        assert_eq!(refused, expected.map_err(str::to_owned));
    };
    let too_many = |chunks, offered| {
        format!("the job asks for {chunks} packed tasks: the nodes that it may use have room for {offered}")
    };
    // Two by cores, three by memory.
    check(request(4, 2), Ok(()));
    check(request(5, 2), Err(&too_many(5, 4)));
    check(request(6, 1), Ok(()));
    check(request(7, 1), Err(&too_many(7, 6)));
    check(Request { include: vec!["n1".into()], ..request(4, 1) }, Err(&too_many(4, 3)));
    check(with_accelerators(request(4, 1)), Ok(()));
    check(with_accelerators(request(5, 1)), Err(&too_many(5, 4)));
    let too_large = "the job asks for 5 cores and 3 B of memory: the largest node it may use, `n1`, offers 4 cores";
    check(request(2, 5), Err(&format!("{too_large} and 10 B of memory")));
}

#[test]
fn more_chunks_than_a_reservation_has_room_for_are_refused() {
    let mut core = core();
    let (from, until) = (NOW + Span::from_secs(60), NOW + Span::from_secs(3_660));
    let (nodes, users) = (vec!["n0".into()], vec!["ada".into()]);
    let reservation = Some(Box::new(Reservation { nodes, from, until, users, reason: String::new() }));
    core.apply(NOW, &Event::ReservationSet { name: "r".into(), reservation, by: "root".into() }).expect("possible");
    let mut submit = |chunks| {
        let of_ada = Request { user: "ada".into(), reservation: Some("r".into()), ..request(chunks, 2) };
        let request = Box::new(Request { time_limit: Some(Span::from_secs(60)), ..of_ada });
        core.apply(NOW, &Event::Submitted { job: core.next_job(), request }).map_err(|refused| refused.to_string())
    };
    assert_eq!(submit(2), Ok(()));
    let refused = "the job asks for 3 packed tasks: the reservation `r` has room for 2";
    assert_eq!(submit(3), Err(refused.to_owned()));
}

/// A chunk of 2 of 4 cores draws half of a nameplate of 10 W.
#[test]
fn a_node_draws_the_power_of_its_chunks() {
    let mut core = core();
    core.apply(NOW, &Event::Submitted { job: JOB, request: Box::new(request(3, 2)) }).expect("a job");
    let round = core.round(NOW);
    let [Command::Start { attempt, placement, estimate, .. }] = &round.commands[..] else {
        panic!("it starts: {round:?}");
    };
    assert_eq!(placement, &[part((0, 0), 4, 6), part((1, 0), 2, 3)]);
    assert_eq!(estimate.power, Power::from_watts(15));
    core.apply(NOW, &Event::Started { job: JOB, attempt: *attempt }).expect("it was started");
    assert_eq!([0, 1].map(|node| core.node_draw(NodeId(node))), [10, 5].map(Power::from_watts));
}
