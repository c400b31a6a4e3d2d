//! Registration of nodes, and the validity of their reports.

use limo_model::{ClusterId, Incarnation, JournalId};
use limo_proto::{AttemptState, JobState};

use super::*;

fn refused(bench: &mut Bench, registration: Registration) -> String {
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.register(peer, registration);
    assert_eq!(bench.closed.last().map(|(closed, _)| *closed), Some(peer), "not refused");
    match bench.orders(peer).as_slice() {
        [MasterToNode::Refused { reason }] => reason.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

fn report_of(job: u64, state: AttemptState) -> AttemptReport {
    attempt_report(JobId(job), Attempt(1), state)
}

#[test]
fn a_name_in_use_is_refused() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let mut other = slave("n1", "boot", Vec::new());
    other.slave.instance = "another".into();
    assert_eq!(refused(&mut bench, other), "the node name `n1` is in use by another node");
    // The node itself may have reconnected before its old connection was known to be broken.
    let again = bench.node("n1");
    assert_eq!(bench.closed.last(), Some(&(node, "the node has connected again".to_owned())));
    assert!(words(&bench.orders(again)).contains(&"Registered".to_owned()));
}

#[test]
fn bad_descriptions_are_refused() {
    let mut bench = Bench::new();
    let mut bad = slave("n1", "boot", Vec::new());
    bad.slave.spec.units.clear();
    assert_eq!(refused(&mut bench, bad), "node `n1` has 0 units: it must have 1 to 64");
    let long = slave("n1", &"x".repeat(129), Vec::new());
    assert_eq!(refused(&mut bench, long), "the instance or the boot id is longer than 128 bytes");
    let foreign = slave("n1", "boot", vec![report_of(17, AttemptState::Running)]);
    let expected = "node `n1` has job 17 of another master, which this one never gave it";
    assert_eq!(refused(&mut bench, foreign), expected);
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.report(peer, NodeToMaster::Reading(Sample::once(Power::ZERO)));
    assert_eq!(bench.closed.last(), Some(&(peer, "a node must first register".to_owned())));
}

#[test]
fn another_installation_gets_the_name_when_the_jobs_are_given_up() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (job, _) = bench.running(client, node, 1);
    bench.input(Input::Gone(node));
    let other = || {
        let mut other = slave("n1", "boot", Vec::new());
        other.slave.instance = "another".into();
        other
    };
    let reason = refused(&mut bench, other());
    assert!(reason.starts_with("the node name `n1` belongs to another installation, on which job 1"), "{reason}");
    let cancel = limo_proto::Change::Cancel(vec![job]);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(cancel)));
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.register(peer, other());
    assert_eq!(words(&bench.orders(peer)), ["Registered"]);
    assert_eq!(bench.jobs()[0].state, JobState::Lost);
}

#[test]
fn a_node_reports_only_its_own_jobs() {
    let mut bench = Bench::new();
    let (n1, n2) = (bench.node("n1"), bench.node("n2"));
    let client = bench.client(7);
    let (job, attempt) = bench.running(client, n1, 1);
    bench.orders(n2);
    bench.report(n2, ended(job, attempt, 0));
    assert_eq!(bench.closed.last().map(|(peer, _)| *peer), Some(n2));
    assert!(bench.orders(n2).is_empty(), "the end is not acknowledged");
    assert_eq!(bench.jobs()[0].state, JobState::Running);
}

#[test]
fn an_end_is_acknowledged_each_time_it_is_reported() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (job, attempt) = bench.running(client, node, 1);
    bench.slow_disk = true;
    bench.report(node, ended(job, attempt, 0));
    bench.report(node, ended(job, attempt, 0));
    assert!(bench.orders(node).is_empty());
    bench.commit();
    assert_eq!(words(&bench.orders(node)), ["EndedAck", "EndedAck"]);
    bench.report(node, ended(job, attempt, 0));
    assert_eq!(words(&bench.orders(node)), ["EndedAck"]);
}

#[test]
fn readings_are_recorded_in_order_and_not_too_often() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let entries = bench.disk.entries.len();
    for watts in 10..20 {
        bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(watts))));
    }
    assert_eq!(bench.disk.entries.len(), entries);
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.disk.entries.len(), entries + 2, "one event, one round");
    assert_eq!(bench.controller.tx.core.node_draw(limo_model::NodeId(0)), Power::from_watts(19));
    // A reading from before a start must not count as one that includes it.
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    bench.report(node, NodeToMaster::JobAck { job, attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(11))));
    bench.report(node, NodeToMaster::Started { job, attempt: Attempt(1) });
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.controller.tx.core.node_draw(limo_model::NodeId(0)), Power::from_watts(11 + 60));
}

#[test]
fn a_registration_in_pieces_is_judged_at_its_end() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    let ended = || AttemptState::Ended { outcome: Outcome::Exited(0), usage: Usage::default() };
    // The reports of finished attempts are unordered, and more than fit into a message.
    let report = |attempt| AttemptReport { attempt: Attempt(attempt), ..report_of(job.0, ended()) };
    let reports: Vec<_> = (1_000..13_000).rev().map(report).collect();
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    let messages = slave("n1", "boot", reports).into_messages();
    let (end, first) = messages.split_last().expect("several");
    assert_eq!(first.len(), 1 + 12_000_usize.div_ceil(limo_proto::ATTEMPTS_PIECE));
    for message in first {
        bench.report(peer, message.clone());
        assert_eq!(bench.orders(peer), []);
    }
    bench.report(peer, end.clone());
    let orders = bench.orders(peer);
    assert_eq!(orders.first(), Some(&MasterToNode::Registered));
    let acknowledged = orders.iter().filter(|order| matches!(order, MasterToNode::EndedAck { .. })).count();
    assert_eq!(acknowledged, 12_000);
}

#[test]
fn an_incomplete_or_endless_registration_is_refused() {
    let mut bench = Bench::new();
    let begin = |bench: &mut Bench| {
        let peer = bench.peer();
        bench.input(Input::NodeConnected(peer));
        bench.report(peer, slave("n1", "boot", Vec::new()).into_messages().remove(0));
        peer
    };
    let refusal = |bench: &mut Bench, peer| match bench.orders(peer).as_slice() {
        [MasterToNode::Refused { reason }] => reason.to_string(),
        other => panic!("not refused: {other:?}"),
    };
    let peer = begin(&mut bench);
    bench.report(peer, NodeToMaster::RegisterEnd { count: 2 });
    assert_eq!(refusal(&mut bench, peer), "the node has 2 jobs and reported 0");
    let peer = begin(&mut bench);
    let piece = || vec![report_of(1, AttemptState::Running); limo_proto::ATTEMPTS_PIECE];
    for _ in 0..=100_000 / limo_proto::ATTEMPTS_PIECE {
        bench.report(peer, NodeToMaster::Attempts(limo_proto::List::clipped(piece())));
    }
    assert_eq!(refusal(&mut bench, peer), "the node reports more than 100000 jobs");
    let peer = begin(&mut bench);
    bench.report(peer, NodeToMaster::Reading(Sample::once(Power::ZERO)));
    assert_eq!(bench.closed.last(), Some(&(peer, "a node must finish its registration first".to_owned())));
}

const CLUSTER: ClusterId = ClusterId([7; 16]);

fn of(cluster: ClusterId, incarnation: u64, job: u64, state: AttemptState) -> AttemptReport {
    let journal = JournalId { cluster, incarnation: Incarnation(incarnation) };
    AttemptReport { journal, ..report_of(job, state) }
}

/// Starts a master whose journal is incarnation 2 of [`CLUSTER`].
fn restored_bench() -> Bench {
    let mut bench = Bench::new();
    bench.disk.journal = JournalId { cluster: CLUSTER, incarnation: Incarnation(2) };
    bench.killed()
}

fn register(bench: &mut Bench, attempts: Vec<AttemptReport>) -> PeerId {
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    let mut registration = slave("n1", "boot", attempts);
    registration.slave.journal = bench.disk.journal;
    for message in registration.into_messages() {
        bench.report(peer, message);
    }
    peer
}

#[test]
fn jobs_of_another_journal_are_not_adopted_and_numbers_continue_above_theirs() {
    let mut bench = restored_bench();
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    let foreign = ClusterId([9; 16]);
    let attempts = vec![
        of(CLUSTER, 1, job.0, AttemptState::Running),
        of(foreign, 2, 500, AttemptState::Running),
        of(CLUSTER, 1, 40, AttemptState::Running),
    ];
    let node = register(&mut bench, attempts);
    let orders = bench.orders(node);
    assert_eq!(words(&orders), ["Registered", "DoExec"], "the master's own job is a new one");
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!((exec.job, exec.journal), (job, bench.disk.journal));
    assert_eq!(bench.submit(client, 2), JobId(41), "above what the node had of this cluster, whatever others had");
    let mut bench = bench.killed();
    let client = bench.client(8);
    assert_eq!(bench.submit(client, 3), JobId(42));
}

#[test]
fn a_node_that_answers_to_another_journal_is_refused() {
    let mut bench = restored_bench();
    let told = refused(&mut bench, slave("n1", "boot", Vec::new()));
    assert!(told.starts_with("the node answers to the journal 0000"), "{told}");
    let peer = register(&mut bench, vec![of(CLUSTER, 1, u64::MAX - 1, AttemptState::Running)]);
    assert!(matches!(&bench.orders(peer)[..], [MasterToNode::Refused { reason }] if reason.contains("numbers end at")));
}
