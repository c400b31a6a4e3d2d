//! Ends of jobs whose start was not recorded, and of jobs on a lost node.

use std::num::NonZeroU32;

use limo_model::{
    Attempt, Energy, JobId, Memory, Meter, NodeId, NodeSpec, Outcome, Power, Preset, Request, Span, Time, UnitKind,
    UnitSpec, Usage,
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
    let mut core = core_of(&["n0"]);
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

/// Returns a core with nodes of two cores, which draw 10 W at rest and up to 40 W more.
fn core_of(nodes: &[&str]) -> Core {
    let mut core = Core::new(Time::from_unix_ms(0), Preset::Fifo, Options::default());
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 2,
        nameplate: Power::from_watts(40),
        caps: None,
    };
    for name in nodes {
        let spec = NodeSpec {
            name: (*name).into(),
            units: vec![unit.clone()],
            memory: Memory::from_bytes(1),
            idle: Power::from_watts(10),
            meter: Meter::None,
            rest: None,
        };
        core.apply(SUBMITTED, &Event::NodeUp { spec }).expect("a node");
    }
    core
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

/// A node that was lost before it confirmed a suspension may still run its part of the job.
#[test]
fn the_suspension_of_a_job_frees_no_power_on_a_lost_node() {
    let mut core = core_of(&["n0", "n1"]);
    let (job, attempt, lost) = (JobId(1), Attempt(1), NodeId(1));
    core.submit(SUBMITTED, job, Request { nodes: NonZeroU32::MIN.saturating_add(1), ..Request::one_core("x") })
        .expect("a job");
    core.round(SUBMITTED);
    let mut apply = |event: Event| {
        core.apply(SUBMITTED, &event).expect("a possible event");
        core.round(SUBMITTED);
        let view = core.view(SUBMITTED);
        view.draw() + view.unconfirmed()
    };
    // Two nodes at rest, and 20 W of the job on each.
    assert_eq!(apply(Event::Started { job, attempt }), Power::from_watts(60));
    assert_eq!(apply(Event::SuspendRequested { job, by: "root".into() }), Power::from_watts(60));
    apply(Event::NodeAway { node: lost });
    apply(Event::NodeLost { node: lost, by: "master".into() });
    assert_eq!(apply(Event::Paused { job, attempt, paused: true }), Power::from_watts(60));
    let outcome = Outcome::NodeFailed { reason: "unreachable".into() };
    let ended = apply(Event::Ended { job, attempt, outcome, usage: Usage::default() });
    assert_eq!(ended, Power::from_watts(40), "its part on the lost node");
}
