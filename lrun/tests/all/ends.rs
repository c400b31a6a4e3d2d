//! Messages and exit code of `lrun` for each end of a job.

use limo_fake::{FakeMaster, waiting_job};
use limo_model::{JobEnd, Outcome, Span, StopReason, Wait};
use limo_proto::{Channel, JobReport, JobState, MasterToClient};

use crate::stage::{JOB, Stage, end, lrun};

/// Runs `lrun ARGS`, ends its job with `ending`, and compares exit code, stdout and stderr.
async fn check(args: &[&str], ending: JobEnd, expected: &str) {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), args).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.peer.data(JOB, Channel::Stdout, 0, b"out\n").await.expect("sent");
    stage.peer.data(JOB, Channel::Stderr, 0, b"err\n").await.expect("sent");
    stage.end_streams(4, 4).await;
    let nodes = if matches!(ending, JobEnd::Ran { .. }) { vec!["n1".into()] } else { vec![] };
    let report = JobReport { state: JobState::of(&ending), nodes, end: Some(ending), ..waiting_job(JOB.0) };
    stage.say(MasterToClient::Finished { job: JOB, report: Box::new(report) }).await;
    assert_eq!(end(child).await, expected, "{args:?}");
}

fn ran(outcome: Outcome) -> JobEnd {
    JobEnd::Ran { outcome, stopped: None }
}

#[tokio::test]
async fn an_exit_code_is_passed_on_silently() {
    check(&["true"], ran(Outcome::Exited(0)), "exit 0\n--- stdout\nout\n--- stderr\nerr\n").await;
    check(&["sh", "-c", "exit 7"], ran(Outcome::Exited(7)), "exit 7\n--- stdout\nout\n--- stderr\nerr\n").await;
}

#[tokio::test]
async fn a_signal_is_reported_unless_quiet() {
    let ended = || ran(Outcome::Signaled(15));
    check(&["a"], ended(), "exit 143\n--- stdout\nout\n--- stderr\nerr\nlrun: job 12: n1: ended by SIGTERM\n").await;
    check(&["-Q", "a"], ended(), "exit 143\n--- stdout\nout\n--- stderr\nerr\n").await;
    check(&["a"], ran(Outcome::Signaled(13)), "exit 141\n--- stdout\nout\n--- stderr\nerr\n").await;
}

#[tokio::test]
async fn limos_own_failures_are_125() {
    let lost = ran(Outcome::Lost { reason: "n1 was restarted".into() });
    let words = "lrun: error: job 12: n1: lost: n1 was restarted\n";
    check(&["a"], lost, &format!("exit 125\n--- stdout\nout\n--- stderr\nerr\n{words}")).await;
    let cancelled = JobEnd::Cancelled { by: "root".into() };
    let words = "lrun: job 12: cancelled by root before it started\n";
    check(&["a"], cancelled, &format!("exit 125\n--- stdout\nout\n--- stderr\nerr\n{words}")).await;
    let wait = Wait::Depth { depth: 5 };
    let reason = wait.shown(|_| String::new()).to_string();
    let words = format!("lrun: error: job 12: refused because it could not start at once: {reason}\n");
    let expected = format!("exit 125\n--- stdout\nout\n--- stderr\nerr\n{words}");
    check(&["--immediate", "a"], JobEnd::Refused { wait }, &expected).await;
}

#[tokio::test]
async fn a_command_that_cannot_start_is_126_or_127() {
    let reason = "`nosuch` was not found".to_owned();
    let words = "lrun: error: job 12: n1: could not be started: `nosuch` was not found\n";
    let expected = format!("exit 127\n--- stdout\nout\n--- stderr\nerr\n{words}");
    check(&["-Q", "nosuch"], ran(Outcome::NotStarted { code: 127, reason }), &expected).await;
}

#[tokio::test]
async fn a_reached_time_limit_is_reported() {
    let stopped = Some(StopReason::TimeLimit { limit: Span::from_secs(120) });
    let words = "lrun: job 12: n1: time limit of 2min reached\n";
    let ending = JobEnd::Ran { outcome: Outcome::Signaled(15), stopped };
    check(&["-t", "2min", "a"], ending, &format!("exit 143\n--- stdout\nout\n--- stderr\nerr\n{words}")).await;
}
