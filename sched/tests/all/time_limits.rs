//! New time limits of jobs that wait, and of jobs that run.

use std::num::NonZeroU32;

use limo_model::{
    Attempt, Cores, JobId, Memory, Meter, NodeSpec, Power, Preset, Request, Reservation, Span, StopReason, Tasks, Time,
    UnitKind, UnitSpec, Warning,
};
use limo_sched::{Command, Core, Event, NewLimit, Options, Refused};

const NOW: Time = Time::from_unix_ms(1_000);

fn at(secs: i64) -> Time {
    NOW + Span::from_secs(secs)
}

/// A node of 4 cores under `easy`, whose job 1 runs on 3 of them with this limit.
fn core(limit: i64) -> Core {
    let mut core = Core::new(NOW, Preset::Easy, Options::default());
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 4,
        nameplate: Power::from_watts(100),
        caps: None,
    };
    let (memory, idle) = (Memory::from_bytes(10), Power::from_watts(10));
    let spec = NodeSpec { name: "n0".into(), units: vec![unit], memory, idle, meter: Meter::None, rest: None };
    apply(&mut core, Event::NodeUp { spec });
    apply(&mut core, submitted(1, 3, Some(limit)));
    assert_eq!(starts(&mut core, NOW), [1]);
    apply(&mut core, Event::Started { job: JobId(1), attempt: Attempt(1) });
    core
}

fn request(cores: u32, limit: Option<i64>) -> Request {
    let cores = Cores::Count(NonZeroU32::new(cores).expect("some"));
    Request { cores, time_limit: limit.map(Span::from_secs), ..Request::one_core("a") }
}

fn submitted(job: u64, cores: u32, limit: Option<i64>) -> Event {
    Event::Submitted { job: JobId(job), request: Box::new(request(cores, limit)) }
}

fn apply(core: &mut Core, event: Event) {
    core.apply(NOW, &event).expect("it is possible");
}

fn set(core: &mut Core, job: u64, limit: Option<i64>) -> Result<(), Refused> {
    core.apply(NOW, &Event::TimeLimitSet { job: JobId(job), limit: limit.map(Span::from_secs), by: "root".into() })
}

/// Returns the jobs that a round starts.
fn starts(core: &mut Core, now: Time) -> Vec<u64> {
    let round = core.round(now);
    assert_eq!(round.violations, []);
    let start = |command: &Command| match command {
        Command::Start { job, .. } => Some(job.0),
        _ => None,
    };
    round.commands.iter().filter_map(start).collect()
}

#[test]
fn a_shorter_limit_lets_a_waiting_job_start_before_the_first_one() {
    let mut core = core(100);
    apply(&mut core, submitted(2, 4, Some(100)));
    apply(&mut core, submitted(3, 1, Some(200)));
    assert_eq!(starts(&mut core, NOW), Vec::<u64>::new(), "job 3 would delay job 2");
    set(&mut core, 3, Some(50)).expect("it waits");
    assert_eq!(starts(&mut core, NOW), [3]);
}

#[test]
fn the_plan_follows_the_new_limit_of_a_running_job() {
    let mut core = core(100);
    apply(&mut core, submitted(2, 4, Some(100)));
    apply(&mut core, submitted(3, 1, Some(150)));
    assert_eq!(starts(&mut core, NOW), Vec::<u64>::new());
    set(&mut core, 1, Some(200)).expect("it runs");
    assert_eq!(starts(&mut core, NOW), [3], "job 2 has to wait for job 1 anyhow");
}

#[test]
fn a_running_job_is_stopped_at_its_new_limit() {
    let mut core = core(100);
    set(&mut core, 1, Some(200)).expect("it runs");
    assert_eq!(core.round(at(150)).commands, []);
    set(&mut core, 1, Some(160)).expect("it runs");
    let limit = Span::from_secs(160);
    let stop = Command::Stop { job: JobId(1), attempt: Attempt(1), why: StopReason::TimeLimit { limit } };
    assert_eq!(core.round(at(160)).commands, [stop]);
    let job = core.job(JobId(1)).expect("it ends");
    assert_eq!(job.new_limit, Some(NewLimit { limit: Some(limit) }));
    let mut other = self::core(100);
    set(&mut other, 1, None).expect("it runs");
    assert_eq!(other.round(at(1_000_000)).commands, [], "it has none");
}

#[test]
fn waiting_tasks_of_an_array_get_its_limit_and_later_tasks_too() {
    let mut core = core(100);
    let tasks: Tasks = "1-40".parse().expect("tasks");
    let request = Box::new(request(4, Some(100)));
    apply(&mut core, Event::ArraySubmitted { job: JobId(2), tasks, request });
    core.round(NOW);
    set(&mut core, 2, Some(30)).expect("it waits");
    core.round(NOW);
    let limits: Vec<Option<Span>> =
        core.jobs().filter(|(id, _)| id.0 > 1).map(|(_, job)| job.request.time_limit).collect();
    assert!(limits.len() > 1 && limits.iter().all(|limit| *limit == Some(Span::from_secs(30))), "{limits:?}");
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    let mut core = core(100);
    let warning = Some(Warning { signal: 10, before: Span::from_secs(20) });
    let warned = Request { warning, ..request(4, Some(100)) };
    apply(&mut core, Event::Submitted { job: JobId(2), request: Box::new(warned) });
    assert_eq!(set(&mut core, 2, Some(20)), Err(Refused::LimitTooShort { job: JobId(2), least: Span::from_secs(20) }));
    assert_eq!(set(&mut core, 2, None), Err(Refused::LimitNeeded { job: JobId(2) }));
    assert_eq!(set(&mut core, 1, Some(0)), Err(Refused::LimitTooShort { job: JobId(1), least: Span::ZERO }));
    assert_eq!(set(&mut core, 9, Some(1)), Err(Refused::NoSuchJob { job: JobId(9) }));
    let reservation = Box::new(Reservation {
        nodes: vec!["n0".into()],
        from: at(500),
        until: at(900),
        users: Vec::new(),
        reason: String::new(),
    });
    let name = || "maint".to_owned();
    apply(&mut core, Event::ReservationSet { name: name(), reservation: Some(reservation), by: "root".into() });
    let lasts = Refused::LastsIntoReservation { job: JobId(1), node: "n0".into(), reservation: name() };
    assert_eq!(set(&mut core, 1, Some(450)), Err(lasts.clone()), "a minute must be left for its end");
    assert_eq!(set(&mut core, 1, None), Err(lasts));
    assert_eq!(set(&mut core, 1, Some(440)), Ok(()));
}
