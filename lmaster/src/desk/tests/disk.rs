//! The disk fails: who waits for an answer hears so, the state goes back, and nothing that nodes reported is lost.

use limo_proto::{AttemptState, Change, JobState};

use super::*;

fn full(bench: &mut Bench) {
    bench.fail();
    bench.slow_disk = false;
}

#[test]
fn unwritten_submissions_are_refused_and_leave_nothing() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    bench.orders(node);
    let (client, other) = (bench.client(7), bench.client(8));
    bench.slow_disk = true;
    bench.say(client, exec(1));
    bench.say(other, exec(2));
    full(&mut bench);
    for client in [client, other] {
        let heard = bench.heard(client);
        let reason = refusal(heard.first());
        assert!(reason.starts_with("the journal cannot be written: ") && reason.contains("no space left"), "{reason}");
    }
    assert!(bench.orders(node).is_empty(), "no order of a job that there is not");
    assert!(bench.jobs().is_empty());
}

#[test]
fn new_jobs_are_refused_until_the_ballast_is_back() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    bench.slow_disk = true;
    bench.say(client, exec(2));
    full(&mut bench);
    bench.heard(client);
    bench.say(client, exec(3));
    let heard = bench.heard(client);
    assert_eq!(
        refusal(heard.first()),
        "new jobs are not accepted: the disk under the journal is full: no space left on device"
    );
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status) else { panic!("no status") };
    let Answer::Status(status) = *answer else { panic!("no status") };
    assert!(status.trouble.is_some() && status.waiting == 1);
    // Cancelling makes room, and is possible once the pause is over.
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job]))));
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.jobs()[0].state, JobState::Cancelled);
    bench.input(Input::Ballast(Err("1 byte is free".into())));
    bench.heard(client);
    bench.say(client, exec(3));
    refusal(bench.heard(client).first());
    bench.input(Input::Ballast(Ok(())));
    bench.submit(client, 3);
}

#[test]
fn an_end_that_was_not_written_is_told_again() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (job, attempt) = bench.running(client, node, 1);
    bench.heard(client);
    bench.slow_disk = true;
    bench.report(node, ended(job, attempt, 0));
    full(&mut bench);
    assert!(bench.orders(node).is_empty() && bench.heard(client).is_empty());
    assert_eq!(bench.closed.last().map(|(peer, _)| *peer), Some(node));
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.jobs()[0].state, JobState::Running);
    let outcome = limo_model::Outcome::Exited(0);
    let state = AttemptState::Ended { outcome, usage: Usage::default() };
    let node = bench.node_with(
        "n1",
        "boot",
        vec![AttemptReport {
            journal: Default::default(),
            job,
            attempt,
            state,
            stdin_offset: 0,
            kept: Default::default(),
        }],
    );
    assert!(words(&bench.orders(node)).contains(&"EndedAck".to_owned()));
    assert!(words(&bench.heard(client)).contains(&"Finished".to_owned()));
}

/// The withdrawal was not written, but the node has dropped the attempt: it was never let go, and that is known.
#[test]
fn an_unwritten_withdrawal_is_no_loss() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    bench.orders(node);
    bench.slow_disk = true;
    bench.report(node, NodeToMaster::JobRefused { job, attempt: Attempt(1), reason: "no".into() });
    full(&mut bench);
    bench.pass(Span::from_secs(1));
    let node = bench.node_with("n1", "another boot", Vec::new());
    let orders = bench.orders(node);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!((exec.job, exec.attempt), (job, Attempt(2)));
}

#[test]
fn the_pause_between_attempts_grows() {
    let mut bench = Bench::new();
    bench.node("n1");
    bench.slow_disk = true;
    let mut attempts = 0;
    let begin = bench.now;
    bench.node("n2");
    while bench.now - begin < Span::from_secs(60) {
        if bench.committing.is_empty() {
            let at = bench.desk.deadline().expect("tried again");
            bench.now = bench.now.max(at);
            bench.input(Input::Timer);
        } else {
            attempts += 1;
            bench.fail();
            bench.node("n2");
        }
    }
    assert!((5..15).contains(&attempts), "{attempts} attempts in a minute");
}

/// The submission is looked up in the journal; when the answer comes, the state to which it would be added is gone.
#[test]
fn what_is_asked_before_a_failure_is_served_after_it() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    (bench.slow_disk, bench.slow_answers) = (true, true);
    bench.say(client, exec_again(1));
    bench.answer_one();
    bench.say(client, exec_again(2));
    full(&mut bench);
    // First the lookup, then the state.
    assert!(matches!(bench.answers[0], Input::Answered(..)) && matches!(bench.answers[1], Input::Recovered(_)));
    bench.answer_one();
    assert_eq!(words(&bench.heard(client)), ["Refused"]);
    bench.answer_one();
    bench.pass(Span::from_secs(1));
    assert_eq!(words(&bench.heard(client)), ["Accepted", "Waiting"]);
    assert_eq!(bench.killed().jobs().len(), 1);
}

#[test]
fn a_journal_that_cannot_be_read_back_is_tried_again() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    (bench.slow_disk, bench.slow_answers) = (true, true);
    bench.say(client, exec_again(2));
    bench.answer_one();
    full(&mut bench);
    bench.heard(client);
    bench.say(client, ClientToMaster::Ask(Box::new(Query::Status)));
    assert!(bench.heard(client).is_empty(), "it waits for the state");
    bench.answers.clear();
    let error = limo_journal::RecoverError::Database { detail: "the disk is gone".into() };
    bench.input(Input::Recovered(Err(error)));
    refusal(bench.heard(client).first());
    let node = bench.peer();
    bench.input(Input::NodeConnected(node));
    assert_eq!(bench.closed.last().map(|(peer, _)| *peer), Some(node));
    bench.slow_answers = false;
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.jobs().iter().map(|job| job.job).collect::<Vec<_>>(), [job]);
}
