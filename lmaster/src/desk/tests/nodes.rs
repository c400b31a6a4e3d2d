//! Which nodes may register, and whose word counts.

use limo_proto::{AttemptState, JobState};

use super::*;

fn refused(bench: &mut Bench, slave: NewSlave) -> String {
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.report(peer, NodeToMaster::NewSlave(Box::new(slave)));
    assert_eq!(bench.closed.last().map(|(closed, _)| *closed), Some(peer), "not refused");
    match bench.orders(peer).as_slice() {
        [MasterToNode::Refused { reason }] => reason.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

fn report_of(job: u64, state: AttemptState) -> AttemptReport {
    AttemptReport { job: JobId(job), attempt: Attempt(1), state, stdin_offset: 0, kept: Default::default() }
}

#[test]
fn a_name_in_use_is_refused() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let other = NewSlave { instance: "another".into(), ..slave("n1", "boot", Vec::new()) };
    assert_eq!(refused(&mut bench, other), "the node name `n1` is in use by another node");
    // The node itself may have called again before its old connection was seen to break.
    let again = bench.node("n1");
    assert_eq!(bench.closed.last(), Some(&(node, "the node has connected again".to_owned())));
    assert!(words(&bench.orders(again)).contains(&"Registered".to_owned()));
}

#[test]
fn bad_descriptions_are_refused() {
    let mut bench = Bench::new();
    let mut bad = slave("n1", "boot", Vec::new());
    bad.spec.units.clear();
    assert_eq!(refused(&mut bench, bad), "node `n1` has 0 units: 1 to 64 are possible");
    let long = NewSlave { boot: "x".repeat(129), ..slave("n1", "boot", Vec::new()) };
    assert_eq!(refused(&mut bench, long), "the instance or the boot id is longer than 128 bytes");
    let foreign = slave("n1", "boot", vec![report_of(17, AttemptState::Running)]);
    let expected = "node `n1` has job 17 of another master, which this one never gave it";
    assert_eq!(refused(&mut bench, foreign), expected);
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.report(peer, NodeToMaster::Reading(Sample::once(Power::ZERO)));
    assert_eq!(bench.closed.last(), Some(&(peer, "a node must say first which one it is".to_owned())));
}

#[test]
fn another_installation_gets_the_name_when_the_jobs_are_given_up() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (job, _) = bench.running(client, node, 1);
    bench.input(Input::Gone(node));
    let other = || NewSlave { instance: "another".into(), ..slave("n1", "boot", Vec::new()) };
    let reason = refused(&mut bench, other());
    assert!(reason.starts_with("the node name `n1` belongs to another installation, on which job 1"), "{reason}");
    let cancel = limo_proto::Change::Cancel(vec![job]);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(cancel)));
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.report(peer, NodeToMaster::NewSlave(Box::new(other())));
    assert_eq!(words(&bench.orders(peer)), ["Registered"]);
    assert_eq!(bench.jobs()[0].state, JobState::Lost);
}

#[test]
fn a_node_tells_only_of_its_own_jobs() {
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
fn an_end_is_acknowledged_each_time_it_is_told() {
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
    assert_eq!(bench.desk.core.node_draw(limo_model::NodeId(0)), Power::from_watts(19));
    // A reading from before a start must not be taken for one that shows it.
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    bench.report(node, NodeToMaster::JobAck { job, attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(11))));
    bench.report(node, NodeToMaster::Started { job, attempt: Attempt(1) });
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.desk.core.node_draw(limo_model::NodeId(0)), Power::from_watts(11 + 60));
}
