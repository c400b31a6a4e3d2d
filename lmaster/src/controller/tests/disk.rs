//! Failures of the disk: waiting clients get an error, the state goes back, and reports of nodes are not lost.

use limo_journal::NoRoom;
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
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no status") };
    let Answer::Status(status) = *answer else { panic!("no status") };
    assert!(status.trouble.is_some() && status.waiting == 1);
    // Cancelling frees space, and is possible once the pause is over.
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
fn new_jobs_are_refused_before_the_disk_is_full() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.slow_disk = true;
    bench.say(client, exec(1));
    bench.input(Input::Committed(Ok(Some(NoRoom { free: 5 << 20, needed: 32 << 20 }))));
    bench.slow_disk = false;
    let job = match bench.heard(client).first() {
        Some(MasterToClient::Accepted { job }) => *job,
        other => panic!("its batch is on disk: {other:?}"),
    };
    bench.say(client, exec(2));
    assert_eq!(
        refusal(bench.heard(client).first()),
        "new jobs are not accepted: the disk under the journal is almost full: 5 MiB are free, new jobs need 32 MiB"
    );
    // Cancelling frees space and is possible at once.
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job]))));
    assert_eq!(bench.jobs()[0].state, JobState::Cancelled);
    bench.heard(client);
    bench.input(Input::Ballast(Ok(())));
    bench.submit(client, 2);
}

#[test]
fn an_unwritten_end_is_reported_again() {
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
    let node = bench.node_with("n1", "boot", vec![attempt_report(job, attempt, state)]);
    assert!(words(&bench.orders(node)).contains(&"EndedAck".to_owned()));
    assert!(words(&bench.heard(client)).contains(&"Finished".to_owned()));
}

/// Checks a withdrawal that was not written, although the node has dropped the attempt: it is known that it was never
/// released.
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
            let at = bench.controller.deadline().expect("tried again");
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

/// Looks up a submission in the journal. When the answer comes, its state no longer exists.
#[test]
fn queries_before_a_failure_are_answered_after_it() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    (bench.slow_disk, bench.slow_answers) = (true, true);
    bench.say(client, exec_again(1));
    bench.answer_one();
    bench.say(client, exec_again(2));
    full(&mut bench);
    // The lookup comes first, then the state.
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
    let attach = ClientToMaster::Attach { job, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() };
    let [returning, late] = [(); 2].map(|()| bench.client(7));
    bench.say(returning, attach.clone());
    full(&mut bench);
    assert_eq!(bench.closed.pop().map(|(peer, _)| peer), Some(returning), "it calls again");
    bench.heard(client);
    bench.say(client, ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
    assert!(bench.heard(client).is_empty(), "it waits for the state");
    bench.answers.clear();
    let error = limo_journal::RecoverError::Database { detail: "the disk is gone".into() };
    bench.input(Input::Recovered(Err(error)));
    refusal(bench.heard(client).first());
    bench.say(late, attach);
    assert_eq!(bench.closed.pop().map(|(peer, _)| peer), Some(late), "it calls again");
    let node = bench.peer();
    bench.input(Input::NodeConnected(node));
    assert_eq!(bench.closed.last().map(|(peer, _)| *peer), Some(node));
    bench.slow_answers = false;
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.jobs().iter().map(|job| job.job).collect::<Vec<_>>(), [job]);
}

const FULL: &str = "the disk under the journal is full: no space left on device";

/// Returns a master that has just become read-only while it wrote the submission of a second job, with its node and a
/// client.
fn read_only() -> (Bench, PeerId, PeerId, (JobId, Attempt)) {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    let running = bench.running(client, node, 1);
    bench.heard(client);
    bench.orders(node);
    bench.slow_disk = true;
    bench.say(client, exec(2));
    bench.disk.read_only = Some(FULL.into());
    full(&mut bench);
    refusal(bench.heard(client).first());
    (bench, node, client, running)
}

#[test]
fn a_read_only_master_answers_queries_and_refuses_changes() {
    let (mut bench, node, client, (job, _)) = read_only();
    assert_eq!(bench.jobs().iter().map(|job| job.job).collect::<Vec<_>>(), [job]);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no status") };
    let Answer::Status(status) = *answer else { panic!("no status") };
    assert_eq!(status.trouble, Some(format!("the master is read-only: {FULL}")));
    bench.say(client, exec(3));
    let heard = bench.heard(client);
    assert_eq!(refusal(heard.first()), format!("new jobs are not accepted: the master is read-only: {FULL}"));
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job]))));
    let heard = bench.heard(client);
    assert_eq!(refusal(heard.first()), format!("the journal cannot be written: the master is read-only: {FULL}"));
    assert!(bench.committing.is_empty() && bench.closed.is_empty() && bench.orders(node).is_empty());
}

#[test]
fn a_read_only_master_passes_stdio_on_and_leaves_ends_at_their_nodes() {
    let (mut bench, node, client, (job, attempt)) = read_only();
    let stream = limo_proto::StreamId::new(job, limo_proto::Channel::Stdout);
    let data = limo_proto::Data { stream, offset: 0, bytes: b"on and on".as_slice().into() };
    bench.input(Input::Node(node, Frame::Data(data.clone())));
    assert_eq!(bench.data().pop(), Some((client, data)));
    bench.report(node, ended(job, attempt, 0));
    assert!(bench.orders(node).is_empty(), "the end is not acknowledged");
    assert_eq!(bench.jobs()[0].state, JobState::Running);
    // Attempts to make space fail at first.
    bench.pass(Span::from_secs(60));
    bench.input(Input::Ballast(Err("1 byte is free".into())));
    assert!(bench.committing.is_empty() && bench.closed.is_empty());
    bench.disk.read_only = None;
    bench.input(Input::Ballast(Ok(())));
    assert_eq!(bench.closed.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), [node], "it is asked to say it again");
    bench.pass(Span::from_secs(5));
    bench.input(Input::Ballast(Ok(())));
    bench.submit(client, 4);
}

/// Starts a read-only master. A node that is in the state on disk keeps its leases and its stdio. It gets no orders,
/// and nothing is recorded.
#[test]
fn a_master_that_starts_read_only_serves_the_nodes_that_it_knows() {
    let (mut bench, _, _, (job, attempt)) = read_only();
    bench = bench.killed();
    let report = attempt_report(job, attempt, AttemptState::Running);
    let known = bench.node_with("n1", "boot", vec![report]);
    assert_eq!(words(&bench.orders(known)), ["Registered"]);
    let unknown = bench.node_with("n2", "boot", Vec::new());
    assert!(bench.orders(unknown).is_empty());
    let client = bench.client(7);
    bench.say(client, exec(3));
    assert!(refusal(bench.heard(client).first()).starts_with("new jobs are not accepted: the master is read-only: "));
    assert!(bench.committing.is_empty());
    bench.disk.read_only = None;
    bench.input(Input::Ballast(Ok(())));
    assert_eq!(bench.closed.len(), 2);
    assert_eq!(bench.jobs().iter().map(|job| job.job).collect::<Vec<_>>(), [job]);
}

/// Ends a job while the master is read-only. Its offset of stdin is lost with its end, which stays at the node, so
/// its client is not told to send again.
#[test]
fn a_job_that_ended_without_the_master_keeps_its_client_and_its_output() {
    let (mut bench, _, _, (job, attempt)) = read_only();
    bench = bench.killed();
    let state = AttemptState::Ended { outcome: limo_model::Outcome::Exited(0), usage: Usage::default() };
    let (journal, kept) = (Default::default(), Default::default());
    let node =
        bench.node_with("n1", "boot", vec![AttemptReport { journal, kept, ..attempt_report(job, attempt, state) }]);
    let client = bench.client(7);
    bench.say(client, ClientToMaster::Attach { job, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() });
    assert_eq!(words(&bench.heard(client)), ["Accepted", "Running"]);
    assert_eq!(words(&bench.orders(node)), ["Registered", "ReadFrom"]);
}
