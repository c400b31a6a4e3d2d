//! Every rule of the checker finds a plan that breaks it, and no other plan.

mod accounts;
use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    Attempt, Band, Condition, Conditions, Cores, Curve, Dependency, Estimate, EstimateSource, JobId, Licences, Memory,
    Meter, NodeId, NodeSpec, Part, Power, Preset, QueueSpec, Queues, Request, Reservation, Span, Time, UnitId,
    UnitKind, UnitSpec, Wait, parse_licences,
};
use limo_sched::{Core, Event, Options, Plan, Start, Violation};

const NOW: Time = Time::from_unix_ms(1_000);

fn request(immediate: bool) -> Request {
    Request {
        user: "user".into(),
        name: "a".into(),
        cores: "2".parse::<Cores>().expect("cores"),
        memory: Memory::from_bytes(6),
        immediate,
        exclude: vec!["n1".into()],
        variants: vec!["gpu".into()],
        ..Request::one_core("a")
    }
}

/// Makes two nodes of 4 cores, 10 bytes and an accelerator. Jobs 1 and 2 wait, and job 3 requests an immediate start.
fn core() -> Core {
    let mut core = Core::new(NOW, Preset::Limo, Options::default());
    let unit = |name: &str, kind, cores| UnitSpec {
        name: name.into(),
        hardware: name.into(),
        kind,
        cores,
        nameplate: Power::from_watts(10),
        caps: Some((Power::from_watts(5), Power::from_watts(9))),
    };
    for name in ["n0", "n1"] {
        let units = vec![unit("cpu", UnitKind::Cpu, 4), unit("gpu", UnitKind::Accelerator, 1)];
        let memory = Memory::from_bytes(10);
        let spec =
            NodeSpec { name: name.into(), units, memory, idle: Power::from_watts(10), meter: Meter::None, rest: None };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    }
    // With a lower limit, `limo` may choose any cap.
    let limits = Curve::constant(Band::new(Power::from_watts(1), Power::from_watts(100)).expect("a band"));
    core.apply(NOW, &Event::LimitsSet { limits, by: "root".into() }).expect("limits");
    for (number, immediate) in [(1, false), (2, false), (3, true)] {
        core.apply(NOW, &Event::Submitted { job: JobId(number), request: Box::new(request(immediate)) })
            .expect("a job");
    }
    core
}

fn part(unit: u16, cores: u32) -> Part {
    Part { unit: UnitId { node: NodeId(0), unit }, cores, memory: Memory::from_bytes(6), cap: None, count: 1 }
}

fn start(job: u64, part: Part) -> Start {
    let (duration, power) = (Span::from_secs(60), Power::from_watts(5));
    let estimate = Estimate { duration, power, energy: power * duration, source: EstimateSource::Nameplate, runs: 0 };
    Start { job: JobId(job), placement: vec![part], estimate, waits_for_relief: false, explores: false }
}

/// Makes a plan that places job 1 on the CPU of n0 and gives reasons to the others.
fn sound() -> Plan {
    let resources = Wait::Resources { until: None };
    Plan {
        starts: vec![start(1, part(0, 2))],
        refusals: vec![(JobId(3), resources.clone())],
        waits: vec![(JobId(2), resources)],
        ..Plan::default()
    }
}

fn check_on(core: &Core, breaks: impl FnOnce(&mut Plan), expected: &[Violation]) {
    let mut plan = sound();
    breaks(&mut plan);
    assert_eq!(core.check(NOW, &plan), expected, "{plan:?}");
}

fn check_broken(breaks: impl FnOnce(&mut Plan), expected: &[Violation]) {
    check_on(&core(), breaks, expected);
}

#[test]
fn a_sound_plan() {
    check_broken(|_| {}, &[]);
}

#[test]
fn each_job_once_and_with_a_reason() {
    let (one, two, three, nine) = (JobId(1), JobId(2), JobId(3), JobId(9));
    let wait = || Wait::Resources { until: None };
    check_broken(|plan| plan.waits.clear(), &[Violation::NoReason { job: two }]);
    // A plan that follows may give the reason.
    let leaves_off = |plan: &mut Plan| {
        plan.waits.clear();
        plan.is_unfinished = true;
    };
    check_broken(leaves_off, &[]);
    let starts_nothing = |plan: &mut Plan| {
        leaves_off(plan);
        plan.starts.clear();
        plan.refusals.clear();
    };
    let nobody = [one, two, three].map(|job| Violation::NoReason { job });
    check_broken(starts_nothing, &nobody);
    check_broken(|plan| plan.waits.push((one, wait())), &[Violation::Twice { job: one }]);
    check_broken(|plan| plan.waits.push((nine, wait())), &[Violation::NotWaiting { job: nine }]);
    check_broken(|plan| plan.refusals.append(&mut plan.waits), &[Violation::RefusedPatient { job: two }]);
    check_broken(|plan| plan.waits.append(&mut plan.refusals), &[Violation::ImmediateWaits { job: three }]);
}

#[test]
fn an_ineligible_job_is_not_started_and_keeps_its_reason() {
    let wants = |conditions| Request { conditions: Some(Box::new(conditions)), ..request(false) };
    let begin = Time::from_unix_ms(2_000);
    let on = Dependency { condition: Condition::AfterAny, job: JobId(2) };
    let check = |conditions: Conditions, wait: Wait| {
        let mut core = core();
        let job = JobId(4);
        core.apply(NOW, &Event::Submitted { job, request: Box::new(wants(conditions)) }).expect("a job");
        check_on(&core, |_| {}, &[]);
        let not_yet = [Violation::NotEligible { job, wait: wait.clone() }];
        check_on(&core, |plan| plan.waits.push((job, Wait::Resources { until: None })), &not_yet);
        let free = |part: Part| Part { memory: Memory::ZERO, cores: 0, ..part };
        let plan = Plan { starts: vec![start(4, free(part(0, 0)))], ..sound() };
        assert!(core.check(NOW, &plan).contains(&not_yet[0]), "{plan:?}");
        core.apply(NOW, &Event::CancelRequested { job, by: "root".into() }).expect("it waits");
        check_on(&core, |plan| plan.waits.push((job, wait)), &[Violation::NotWaiting { job }]);
    };
    check(Conditions { hold: true, ..Conditions::default() }, Wait::Held { by: "user".into() });
    check(Conditions { begin: Some(begin), ..Conditions::default() }, Wait::Begin { at: begin });
    check(Conditions { singleton: true, ..Conditions::default() }, Wait::Singleton { job: JobId(3) });
    let (job, condition) = (on.job, on.condition);
    check(Conditions { dependencies: vec![on], ..Conditions::default() }, Wait::Dependency { job, condition });
}

#[test]
fn a_running_job_is_not_started_again() {
    let mut core = core();
    let round = core.round(NOW);
    assert_eq!(round.violations, []);
    let job = JobId(1);
    core.apply(NOW, &Event::Started { job, attempt: Attempt(1) }).expect("it was assigned");
    let plan = Plan { starts: vec![start(1, part(0, 2))], ..Plan::default() };
    assert!(core.check(NOW, &plan).contains(&Violation::NotWaiting { job }));
}

#[test]
fn where_a_job_is_put() {
    let job = JobId(1);
    let put = |change: fn(&mut Part)| move |plan: &mut Plan| change(&mut plan.starts[0].placement[0]);
    check_broken(|plan| plan.starts[0].placement.clear(), &[Violation::NoPart { job }]);
    check_broken(put(|part| part.unit.unit = 7), &[Violation::NoUnit { job }]);
    check_broken(put(|part| part.unit.node = NodeId(1)), &[Violation::NotAllowed { job }]);
    check_broken(put(|part| part.cores = 3), &[Violation::Cores { job, cores: 3 }]);
    let memory = Memory::from_bytes(5);
    check_broken(put(|part| part.memory = Memory::from_bytes(5)), &[Violation::Memory { job, memory }]);
    let cap = Power::from_watts(4);
    check_broken(put(|part| part.cap = Some(Power::from_watts(4))), &[Violation::Cap { job, cap }]);
    check_broken(put(|part| part.cap = Some(Power::from_watts(9))), &[]);
}

#[test]
fn a_job_on_several_nodes_gets_each_once_with_a_cap_in_range() {
    let mut core = core();
    let (job, nodes) = (JobId(4), std::num::NonZeroU32::new(2).expect("two"));
    let wide = Request { nodes, exclude: Vec::new(), ..request(false) };
    core.apply(NOW, &Event::Submitted { job, request: Box::new(wide) }).expect("a job");
    let on = |node: u32, cap: Option<i64>| {
        let unit = UnitId { node: NodeId(node), unit: 0 };
        Part { unit, cap: cap.map(Power::from_watts), ..part(0, 2) }
    };
    let check = |placement: Vec<Part>, expected: &[Violation]| {
        let start = Start { placement, ..start(4, part(0, 2)) };
        check_on(
            &core,
            |plan| plan.starts = vec![start],
            &[&[Violation::NoReason { job: JobId(1) }], expected].concat(),
        );
    };
    check(vec![on(0, None), on(1, None)], &[]);
    check(vec![Part { count: 2, ..on(0, Some(7)) }], &[]);
    check(vec![on(0, None)], &[Violation::Nodes { job, nodes: 1 }]);
    let memory =
        Violation::MemoryTaken { node: NodeId(0), memory: Memory::from_bytes(12), total: Memory::from_bytes(10) };
    check(vec![on(0, None), on(0, None)], &[Violation::NodeTwice { job }, memory]);
    check(vec![on(1, Some(7)), on(0, Some(8))], &[]);
    let cap = Power::from_watts(4);
    check(vec![on(1, Some(7)), on(0, Some(4))], &[Violation::Cap { job, cap }]);
}

#[test]
fn a_job_that_wants_its_node_alone_is_alone_there() {
    let (job, node) = (JobId(4), NodeId(0));
    let ask = |core: &mut Core, job, exclusive| {
        let request = Box::new(Request { exclusive, ..request(false) });
        core.apply(NOW, &Event::Submitted { job, request }).expect("a job");
    };
    // The plan starts a job on a node that has another job.
    let mut busy = core();
    assert_eq!(busy.round(NOW).violations, []);
    ask(&mut busy, job, true);
    let plan = Plan { starts: vec![start(4, part(0, 2))], ..Plan::default() };
    assert!(busy.check(NOW, &plan).contains(&Violation::NotAlone { job }));
    // The plan starts other jobs on its node, and together with it, on any unit.
    let taken = |unit, cores, total| Violation::CoresTaken { unit: UnitId { node, unit }, cores, total };
    let mut both = core();
    ask(&mut both, job, true);
    let others = [(part(0, 2), taken(0, 6, 4)), (part(1, 1), taken(1, 2, 1))];
    for (other, expected) in &others {
        let plan = Plan { starts: vec![start(4, part(0, 2)), start(1, *other)], ..Plan::default() };
        assert!(both.check(NOW, &plan).contains(expected), "{plan:?}");
    }
    let mut there = Core::new(NOW, Preset::Limo, Options::default());
    for node in core().nodes() {
        there.apply(NOW, &Event::NodeUp { spec: node.spec().clone() }).expect("a node");
    }
    ask(&mut there, JobId(1), true);
    assert_eq!(there.round(NOW).commands.len(), 1);
    ask(&mut there, JobId(2), false);
    for (other, expected) in others {
        let plan = Plan { starts: vec![start(2, other)], ..Plan::default() };
        assert!(there.check(NOW, &plan).contains(&expected), "{plan:?}");
    }
}

#[test]
fn a_node_that_takes_no_jobs() {
    let (job, node) = (JobId(1), NodeId(0));
    let drained = Event::NodeDrained { node, reason: "test".into(), by: "root".into() };
    for event in [drained, Event::NodeAway { node }] {
        let mut core = core();
        core.apply(NOW, &event).expect("the node is known");
        check_on(&core, |_| {}, &[Violation::NodeUnavailable { job }]);
    }
}

#[test]
fn a_node_that_is_reserved() {
    let job = JobId(1);
    let reserve = |from: i64, users: &[&str]| {
        let mut core = core();
        let reservation = Reservation {
            nodes: vec![core.nodes()[0].spec().name.clone()],
            from: NOW + Span::from_secs(from),
            until: NOW + Span::from_secs(from + 60),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            reason: String::new(),
        };
        let (name, reservation) = ("maint".to_owned(), Some(Box::new(reservation)));
        core.apply(NOW, &Event::ReservationSet { name, reservation, by: "root".into() }).expect("possible");
        core
    };
    let reserved = [Violation::Reserved { job, reservation: "maint".into() }];
    check_on(&reserve(0, &[]), |_| {}, &reserved);
    // Without a time limit the job may last into any reservation. The right to a reservation has no effect without a
    // request for it.
    check_on(&reserve(1_000_000, &["user"]), |_| {}, &reserved);
}

#[test]
fn a_node_outside_the_queue_of_the_job() {
    let queue = |node: &str| QueueSpec { nodes: BTreeSet::from([node.to_owned()]), ..QueueSpec::default() };
    let set = |core: &mut Core, node: &str| {
        let queues = Queues::new(BTreeMap::from([("q".to_owned(), queue(node))])).expect("a queue");
        core.apply(NOW, &Event::QueuesSet { queues, by: "root".into() }).expect("possible");
    };
    let mut core = core();
    set(&mut core, "n0");
    let job = JobId(4);
    // A request may run on both nodes of equal units, so only its queue tells them apart.
    let request = Request { queue: Some("q".into()), exclude: Vec::new(), ..request(false) };
    core.apply(NOW, &Event::Submitted { job, request: Box::new(request) }).expect("a job");
    let starts = |plan: &mut Plan| {
        plan.waits.push((JobId(1), Wait::Resources { until: None }));
        plan.starts = vec![start(4, part(0, 2))];
    };
    check_on(&core, starts, &[]);
    set(&mut core, "n1");
    check_on(&core, starts, &[Violation::NotAllowed { job }]);
    // Of a part on both nodes, the second is outside of the queue.
    set(&mut core, "n0");
    let on_both = |plan: &mut Plan| {
        starts(plan);
        plan.starts[0].placement[0].count = 2;
    };
    check_on(&core, on_both, &[Violation::NotAllowed { job }, Violation::Nodes { job, nodes: 2 }]);
}

#[test]
fn licences_that_others_hold() {
    let mut core = core();
    let licences = Licences::new(BTreeMap::from([("matlab".to_owned(), 3)])).expect("a licence");
    core.apply(NOW, &Event::LicencesSet { licences, by: "root".into() }).expect("possible");
    let request = Request { licences: parse_licences("matlab:2").expect("licences"), ..request(false) };
    for job in [4, 5].map(JobId) {
        core.apply(NOW, &Event::Submitted { job, request: Box::new(request.clone()) }).expect("a job");
    }
    let mut plan = sound();
    plan.starts = vec![start(4, part(0, 2)), start(5, part(1, 1))];
    let found = core.check(NOW, &plan);
    assert!(found.contains(&Violation::Licences { licence: "matlab".into(), held: 4, total: 3 }), "{found:?}");
    let is_early = |violation: &Violation| matches!(violation, Violation::NotEligible { job: JobId(5), .. });
    assert!(found.iter().any(is_early), "job 5 waits for the licences of job 4: {found:?}");
}

#[test]
fn room() {
    let also_two = |unit: u16, cores: u32, memory: u64| {
        move |plan: &mut Plan| {
            plan.waits.clear();
            plan.starts[0].placement[0] = Part { cores, ..part(unit, cores) };
            plan.starts.push(start(2, Part { memory: Memory::from_bytes(memory), ..part(unit, cores) }));
        }
    };
    let (node, total) = (NodeId(0), Memory::from_bytes(10));
    check_broken(also_two(0, 2, 6), &[Violation::MemoryTaken { node, memory: Memory::from_bytes(12), total }]);
    let unit = UnitId { node, unit: 0 };
    let wrong_cores = |job| Violation::Cores { job: JobId(job), cores: 3 };
    let wrong_memory = |bytes| Violation::Memory { job: JobId(2), memory: Memory::from_bytes(bytes) };
    let taken = Violation::CoresTaken { unit, cores: 6, total: 4 };
    check_broken(also_two(0, 3, 4), &[wrong_cores(1), wrong_cores(2), wrong_memory(4), taken]);
    let unit = UnitId { node, unit: 1 };
    let taken = Violation::CoresTaken { unit, cores: 2, total: 1 };
    check_broken(also_two(1, 1, 4), &[wrong_memory(4), taken, Violation::AcceleratorShared { unit }]);
}

#[test]
fn the_upper_limit() {
    let power = Power::from_watts(81);
    let hungry = |plan: &mut Plan| plan.starts[0].estimate.power = power;
    let (draw, high) = (Power::from_watts(101), Power::from_watts(100));
    check_broken(hungry, &[Violation::UpperLimit { draw, high }]);
    // A preset without this promise need not keep it.
    let mut core = core();
    let (preset, options) = (Preset::Fifo, Options::default());
    core.apply(NOW, &Event::PolicySet { preset, options, by: "root".into() }).expect("a preset");
    check_on(&core, hungry, &[]);
}

#[test]
fn waking_is_in_the_future() {
    check_broken(|plan| plan.wake_at = Some(NOW), &[Violation::WakeInPast { at: NOW }]);
    check_broken(|plan| plan.wake_at = Some(NOW + Span::from_ms(1)), &[]);
}

/// Under preset limo, job 1 runs and may not be suspended.
#[test]
fn only_its_own_cause_is_set_and_removed_by_a_plan() {
    let mut core = core();
    let (job, attempt) = (JobId(1), Attempt(1));
    core.round(NOW);
    core.apply(NOW, &Event::Started { job, attempt }).expect("it was started");
    let suspends = || Plan { suspends: vec![job], ..Plan::default() };
    let resumes = || Plan { resumes: vec![job], ..Plan::default() };
    let not_preemptible = [Violation::NotPreemptible { job }];
    let not_suspended = [Violation::NotSuspended { job }];
    let ours = |plan: &Plan, core: &Core| -> Vec<Violation> {
        let of_waiting = |violation: &Violation| matches!(violation, Violation::NoReason { .. });
        core.check(NOW, plan).into_iter().filter(|violation| !of_waiting(violation)).collect()
    };
    assert_eq!(ours(&suspends(), &core), not_preemptible, "it runs");
    assert_eq!(ours(&resumes(), &core), not_suspended, "it runs");
    core.apply(NOW, &Event::SuspendRequested { job, by: "ada".into() }).expect("it runs");
    assert_eq!(ours(&suspends(), &core), not_preemptible, "a person suspends it");
    assert_eq!(ours(&resumes(), &core), [Violation::SuspendedByPerson { job }]);
    core.apply(NOW, &Event::ResumeRequested { job, by: "ada".into() }).expect("a person suspended it");
    assert_eq!((ours(&suspends(), &core), ours(&resumes(), &core)), (vec![], vec![]), "the plan decides");
}

/// Suspends job 1, which draws 60 W of 100 W, by a person; two nodes draw 10 W each.
#[test]
fn no_start_counts_on_power_before_it_is_free() {
    let mut core = core();
    let (job, attempt) = (JobId(1), Attempt(1));
    let rounds = |core: &mut Core| drop(core.round(NOW));
    rounds(&mut core);
    core.apply(NOW, &Event::Started { job, attempt }).expect("it was assigned");
    let draw = core.job(job).and_then(|job| job.assignment()).expect("it runs").draw;
    core.apply(NOW, &Event::SuspendRequested { job, by: "user".into() }).expect("it runs");
    let submitted = Event::Submitted { job: core.next_job(), request: Box::new(request(false)) };
    let next = core.next_job();
    core.apply(NOW, &submitted).expect("a job");
    let power = Power::from_watts(80);
    let plan = |waits_for_relief: bool| {
        let estimate = Estimate { power, ..start(next.0, part(0, 2)).estimate };
        let start =
            Start { estimate, waits_for_relief, ..start(next.0, Part { memory: Memory::from_bytes(6), ..part(0, 2) }) };
        Plan { starts: vec![start], is_unfinished: true, ..Plan::default() }
    };
    let at_once = core.check(NOW, &plan(false));
    let over = Violation::UpperLimit { draw: Power::from_watts(20) + draw + power, high: Power::from_watts(100) };
    assert!(at_once.contains(&over), "{at_once:?}");
    let later = core.check(NOW, &plan(true));
    assert!(!later.iter().any(|found| matches!(found, Violation::UpperLimit { .. })), "{later:?}");
}
