//! Ends of jobs whose start was not recorded.

use limo_model::{
    Attempt, Energy, JobId, Memory, Meter, NodeSpec, Outcome, Power, Preset, Request, Span, Time, UnitKind, UnitSpec,
    Usage,
};
use limo_sched::{Core, Event, Finished, Options};

const SUBMITTED: Time = Time::from_unix_ms(1_000_000);

/// Returns the recorded end of a job that was assigned on submission and never reported as running, from its node's
/// report 10 s later.
fn ended(outcome: Outcome, elapsed: Span) -> Finished {
    let (mut core, now) = core_after(&outcome, elapsed, false);
    core.round(now).finished.remove(0)
}

/// Returns the core after that end, and its time. `is_started` is true if the start was recorded.
fn core_after(outcome: &Outcome, elapsed: Span, is_started: bool) -> (Core, Time) {
    let mut core = Core::new(Time::from_unix_ms(0), Preset::Fifo, Options::default());
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 2,
        nameplate: Power::from_watts(40),
        caps: None,
    };
    let spec = NodeSpec {
        name: "n0".into(),
        units: vec![unit],
        memory: Memory::from_bytes(1),
        idle: Power::from_watts(10),
        meter: Meter::None,
        rest: None,
    };
    core.apply(SUBMITTED, &Event::NodeUp { spec }).expect("a node");
    core.submit(SUBMITTED, JobId(1), Request::one_core("x")).expect("a job");
    assert_eq!(core.round(SUBMITTED).commands.len(), 1, "it starts");
    let (job, attempt) = (JobId(1), Attempt(1));
    if is_started {
        core.apply(SUBMITTED, &Event::Started { job, attempt }).expect("its start");
    }
    let now = SUBMITTED + Span::from_secs(10);
    let usage = Usage { elapsed, ..Usage::default() };
    core.apply(now, &Event::Ended { job, attempt, outcome: outcome.clone(), usage }).expect("its end");
    (core, now)
}

#[test]
fn a_job_that_was_not_prepared_waits_again_without_a_restart() {
    for is_started in [false, true] {
        let outcome = Outcome::NotPrepared { reason: "no scratch".into() };
        let (mut core, now) = core_after(&outcome, Span::ZERO, is_started);
        let round = core.round(now);
        assert_eq!((round.finished.len(), round.commands.len()), (0, 1), "it starts again: {round:?}");
        let job = core.job(JobId(1)).expect("it waits");
        assert_eq!(job.restarts, 0);
        assert_eq!(job.assignment().map(|assignment| assignment.attempt), Some(Attempt(2)));
    }
}

/// The master was killed before it recorded the start, and the node reports only the end.
#[test]
fn a_run_whose_start_was_never_recorded_is_charged() {
    let finished = ended(Outcome::Exited(0), Span::from_secs(4));
    // The draw is 20 W by the nameplate, for 4 s.
    assert_eq!(finished.started, Some(SUBMITTED + Span::from_secs(6)));
    assert_eq!(finished.account.energy, Energy::from_joules(80));
    // A run is never longer than its assignment.
    let finished = ended(Outcome::Signaled(9), Span::from_secs(60));
    assert_eq!((finished.started, finished.account.energy), (Some(SUBMITTED), Energy::from_joules(200)));
}

#[test]
fn jobs_that_never_ran_are_not_charged() {
    let never = [
        Outcome::NotStarted { code: 127, reason: "not found".into() },
        Outcome::Lost { reason: "killed".into() },
        Outcome::NodeFailed { reason: "unreachable".into() },
    ];
    for outcome in never {
        let finished = ended(outcome, Span::ZERO);
        assert_eq!((finished.started, finished.account.energy), (None, Energy::ZERO));
    }
}
