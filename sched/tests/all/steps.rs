//! Steps: where they are placed in the allocations of their jobs, when they wait, and that they end with their jobs.

use std::num::NonZeroU32;

use limo_model::{
    Attempt, Cores, JobEnd, JobId, Memory, Meter, NodeId, NodeSpec, Outcome, Power, Preset, Request, Span, Step,
    StopReason, Time, UnitKind, UnitSpec, Usage, Wait,
};
use limo_sched::{Command, Core, Event, Options, Phase, Round};

/// A cluster of two nodes with four cores each, and the time of its last event.
struct World {
    core: Core,
    now: Time,
}

fn count(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).expect("at least one")
}

fn usage(seconds: i64) -> Usage {
    Usage { user_cpu: Span::from_secs(seconds), elapsed: Span::from_secs(seconds), ..Usage::default() }
}

impl World {
    /// Starts a job of two nodes with `cores` on each.
    fn with_job(cores: u32) -> (Self, JobId) {
        let now = Time::from_unix_ms(1_000);
        let mut world = Self { core: Core::new(now, Preset::Easy, Options::default()), now };
        for name in ["n1", "n2"] {
            let unit = UnitSpec {
                name: "cpu".into(),
                hardware: "cpu".into(),
                kind: UnitKind::Cpu,
                cores: 4,
                nameplate: Power::from_watts(100),
                caps: None,
            };
            let (memory, meter) = (Memory::from_bytes(8 << 30), Meter::None);
            let spec = NodeSpec { name: name.into(), units: vec![unit], memory, idle: Power::ZERO, meter, rest: None };
            world.happens(Event::NodeUp { spec });
        }
        let request = Request {
            user: "ada".into(),
            nodes: count(2),
            cores: Cores::Count(count(cores)),
            memory: Memory::from_bytes(4 << 30),
            ..Request::one_core("batch")
        };
        let job = world.submit(request);
        world.round();
        world.happens(Event::Started { job, attempt: Attempt(1) });
        (world, job)
    }

    fn happens(&mut self, event: Event) {
        self.now = self.now + Span::from_ms(1);
        self.core.apply(self.now, &event).expect("possible");
    }

    fn round(&mut self) -> Round {
        // The state with its steps outlives the process.
        let stored = serde_json::to_string(self.core.state()).expect("text");
        assert_eq!(Core::from_state(serde_json::from_str(&stored).expect("a state")), self.core);
        self.core.round(self.now)
    }

    fn submit(&mut self, request: Request) -> JobId {
        let job = self.core.next_job();
        self.happens(Event::Submitted { job, request: Box::new(request) });
        job
    }

    fn step(&mut self, of: JobId, change: impl FnOnce(&mut Request)) -> JobId {
        let request = self.request(of, change);
        self.submit(request)
    }

    fn request(&self, of: JobId, change: impl FnOnce(&mut Request)) -> Request {
        let number = self.core.job(of).map_or(0, |job| job.step_count());
        let step = Some(Step { of, number, overlap: false });
        let mut request = Request { user: "ada".into(), step, ..Request::one_core("part") };
        change(&mut request);
        request
    }

    fn refusal(&mut self, request: Request) -> String {
        let (job, request) = (self.core.next_job(), Box::new(request));
        self.core.apply(self.now, &Event::Submitted { job, request }).expect_err("refused").to_string()
    }

    fn ends(&mut self, job: JobId) {
        let outcome = Outcome::Exited(0);
        self.happens(Event::Ended { job, attempt: Attempt(1), outcome, usage: usage(2) });
    }

    /// Returns the nodes of a step that was placed, as `1` or `1,2`.
    fn nodes(&self, step: JobId) -> String {
        let assignment = self.core.job(step).and_then(|step| step.assignment());
        let nodes = assignment.map(|own| limo_model::nodes(&own.placement).collect::<Vec<NodeId>>());
        nodes.unwrap_or_default().iter().map(|node| (node.0 + 1).to_string()).collect::<Vec<_>>().join(",")
    }
}

fn cores(cores: u32) -> impl FnOnce(&mut Request) {
    move |request| request.cores = Cores::Count(count(cores))
}

#[test]
fn steps_share_the_cores_of_their_job_and_wait_for_each_other() {
    let (mut world, job) = World::with_job(3);
    let first = world.step(job, cores(2));
    let second = world.step(job, cores(2));
    let third = world.step(job, cores(2));
    let fourth = world.step(job, cores(1));
    let round = world.round();
    let started: Vec<JobId> = round
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::Start { job, .. } => Some(*job),
            _ => None,
        })
        .collect();
    assert_eq!(started, [first, second, fourth], "the third has no room, and does not hold up the fourth");
    assert_eq!([first, second, third, fourth].map(|step| world.nodes(step)), ["1", "2", "", "1"]);
    assert_eq!(round.waits, [(third, Wait::Step { job })]);
    assert_eq!(world.core.reason(third, world.now), Some(Wait::Step { job }));
    assert_eq!(world.round().waits, [], "told once");
    world.happens(Event::Started { job: second, attempt: Attempt(1) });
    world.ends(second);
    world.round();
    assert_eq!(world.nodes(third), "2");
    let with_others = world.step(job, |request| {
        cores(3)(request);
        request.step.as_mut().expect("a step").overlap = true;
    });
    let own = world.step(job, cores(3));
    world.round();
    assert_eq!([with_others, own].map(|step| world.nodes(step)), ["1", ""], "only one shares cores");
}

#[test]
fn a_step_has_the_nodes_and_the_memory_that_it_asks_for() {
    let (mut world, job) = World::with_job(2);
    let both = world.step(job, |request| request.nodes = count(2));
    let named = world.step(job, |request| request.include = vec!["n2".into()]);
    let more = world.step(job, |request| request.nodes = count(2));
    world.round();
    assert_eq!([both, named, more].map(|step| world.nodes(step)), ["1,2", "2", ""]);
    let memory = |bytes: u64| move |request: &mut Request| request.memory = Memory::from_bytes(bytes);
    let large = world.step(job, memory(3 << 30));
    let again = world.step(job, memory(3 << 30));
    world.round();
    assert_eq!([large, again].map(|step| world.nodes(step)), ["1", ""], "node 2 has no core left, node 1 no memory");
    let part = world.core.job(both).and_then(|step| step.assignment()).map(|own| own.placement[0].memory);
    assert_eq!(part, Some(Memory::from_bytes(4 << 30)), "without a wish it may use that of its job");
}

#[test]
fn a_step_that_its_job_could_never_run_is_refused() {
    let (mut world, job) = World::with_job(2);
    let check = |world: &mut World, change: &dyn Fn(&mut Request), expected: &str| {
        let request = world.request(job, |request| change(request));
        assert_eq!(world.refusal(request), expected);
    };
    let too_large = "the step asks for 1 nodes with 3 cores each: the allocation of job 1 has 0 such nodes";
    check(&mut world, &|request| request.cores = Cores::Count(count(3)), too_large);
    let too_wide = "the step asks for 3 nodes with 1 core each: the allocation of job 1 has 2 such nodes";
    check(&mut world, &|request| request.nodes = count(3), too_wide);
    let other_node = "node `n3` is not in the allocation of job 1";
    check(&mut world, &|request| request.include = vec!["n3".into()], other_node);
    check(&mut world, &|request| request.user = "eve".into(), "the allocation of job 1 is ada's");
    let other_number = |request: &mut Request| request.step.as_mut().expect("a step").number = 7;
    check(&mut world, &other_number, "7 is not the next number 0 of a step of job 1");
    let none = "job 9 has no allocation for steps: it does not run, or is being ended";
    check(&mut world, &|request| request.step.as_mut().expect("a step").of = JobId(9), none);
    world.happens(Event::CancelRequested { job, by: "ada".into() });
    let ending = "job 1 has no allocation for steps: it does not run, or is being ended";
    check(&mut world, &|_| {}, ending);
}

#[test]
fn steps_end_with_their_job_and_their_usage_is_part_of_its() {
    let (mut world, job) = World::with_job(1);
    let over = world.step(job, cores(1));
    let running = world.step(job, cores(1));
    world.round();
    for step in [over, running] {
        world.happens(Event::Started { job: step, attempt: Attempt(1) });
    }
    world.ends(over);
    let round = world.round();
    let [finished] = &round.finished[..] else { panic!("{round:?}") };
    assert_eq!((finished.job, finished.usage.user_cpu), (over, Span::from_secs(2)));
    let again = world.step(job, cores(1));
    let waiting = world.step(job, cores(1));
    world.round();
    assert_eq!([again, waiting].map(|step| world.nodes(step)), ["1", ""]);
    world.ends(job);
    let round = world.round();
    let stops: Vec<(JobId, String)> = round
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::Stop { job, why, .. } => Some((*job, why.to_string())),
            _ => None,
        })
        .collect();
    let by_end = "cancelled by the end of its job".to_owned();
    assert_eq!(stops, [(running, by_end.clone()), (again, by_end)]);
    let ends: Vec<_> = round.finished.iter().map(|finished| (finished.job, &finished.end)).collect();
    let cancelled = JobEnd::Cancelled { by: "the end of its job".into() };
    let ran = JobEnd::Ran { outcome: Outcome::Exited(0), stopped: None::<StopReason> };
    assert_eq!(ends, [(waiting, &cancelled), (job, &ran)]);
    assert_eq!(round.finished[1].usage.user_cpu, Span::from_secs(4), "with that of the step");
    assert_eq!((round.finished[1].usage.elapsed, round.finished[1].steps), (Span::from_secs(2), 4));
    for step in [running, again] {
        world.ends(step);
    }
    assert_eq!(world.round().finished.len(), 2);
    assert_eq!(world.core.steps().count(), 0);
}

#[test]
fn a_step_of_a_suspended_job_waits_and_a_refused_one_is_over() {
    let (mut world, job) = World::with_job(2);
    world.happens(Event::SuspendRequested { job, by: "ada".into() });
    world.round();
    let step = world.step(job, cores(1));
    world.round();
    assert_eq!(world.nodes(step), "");
    world.happens(Event::ResumeRequested { job, by: "ada".into() });
    world.round();
    world.happens(Event::Paused { job, attempt: Attempt(1), paused: false });
    world.round();
    assert_eq!(world.nodes(step), "1");
    let back = |suspect| Event::TakenBack {
        job: step,
        attempt: Attempt(if suspect { 2 } else { 1 }),
        reason: "job 1 does not run here".into(),
        suspect,
        blame: None,
    };
    world.happens(back(false));
    world.round();
    assert!(matches!(world.core.job(step).map(|step| &step.phase), Some(Phase::Starting(_))), "it is tried again");
    world.happens(back(true));
    let round = world.round();
    let ends: Vec<_> = round.finished.iter().map(|finished| &finished.end).collect();
    assert_eq!(ends, [&JobEnd::Cancelled { by: "job 1 does not run here".into() }]);
}
