//! From assignment to start. If a node does not acknowledge, another node gets the job, and the job is not lost.

use super::*;

const JOB: JobId = JobId(1);

fn assigned() -> (Bench, PeerId, PeerId, PeerId) {
    let mut bench = Bench::new();
    let (n1, n2) = (bench.node("n1"), bench.node("n2"));
    let client = bench.client(7);
    bench.submit(client, 1);
    assert_eq!(words(&bench.orders(n1)), ["Registered", "DoExec"]);
    bench.orders(n2);
    (bench, client, n1, n2)
}

#[test]
fn silence_moves_the_job_to_another_node() {
    let (mut bench, client, n1, n2) = assigned();
    bench.pass(Span::from_ms(1_999));
    assert!(bench.orders(n2).is_empty());
    bench.pass(Span::from_ms(1));
    assert_eq!(bench.closed, [(n1, "job 1 was not acknowledged within 2s".to_owned())]);
    let orders = bench.orders(n2);
    let [MasterToNode::DoExec(exec)] = orders.as_slice() else { panic!("{orders:?}") };
    assert_eq!((exec.job, exec.attempt), (JOB, Attempt(2)));
    // The node continues, and has a record of the attempt.
    let held = attempt_report(JOB, Attempt(1), limo_proto::AttemptState::Held);
    let n1 = bench.node_with("n1", "boot", vec![held]);
    let drop = MasterToNode::Drop { job: JOB, attempt: Attempt(1) };
    assert!(bench.orders(n1).contains(&drop));
    bench.report(n2, NodeToMaster::JobAck { job: JOB, attempt: Attempt(2) });
    let orders = bench.orders(n2);
    assert!(matches!(orders.as_slice(), [MasterToNode::Go { job: JOB, attempt: Attempt(2), .. }]), "{orders:?}");
    bench.report(n2, NodeToMaster::Started { job: JOB, attempt: Attempt(2) });
    assert_eq!(words(&bench.heard(client)), ["Running", "Attached"]);
}

#[test]
fn a_refusal_moves_the_job_to_another_node() {
    let (mut bench, _, n1, n2) = assigned();
    let reason = "no room".into();
    bench.report(n1, NodeToMaster::JobRefused { job: JOB, attempt: Attempt(1), reason });
    assert_eq!(words(&bench.orders(n2)), ["DoExec"]);
    assert!(bench.closed.is_empty());
}

#[test]
fn a_connection_that_breaks_before_go_moves_the_job() {
    let (mut bench, _, n1, n2) = assigned();
    bench.input(Input::Gone(n1));
    assert_eq!(words(&bench.orders(n2)), ["DoExec"]);
}

#[test]
fn a_job_is_not_moved_when_the_connection_breaks_after_go() {
    let (mut bench, _, n1, n2) = assigned();
    bench.report(n1, NodeToMaster::JobAck { job: JOB, attempt: Attempt(1) });
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(50));
    assert!(bench.orders(n2).is_empty());
    let running = attempt_report(JOB, Attempt(1), limo_proto::AttemptState::Running);
    let n1 = bench.node_with("n1", "boot", vec![running]);
    assert_eq!(words(&bench.orders(n1)), ["Registered", "ReadFrom"]);
    assert_eq!(bench.jobs()[0].state, limo_proto::JobState::Running);
}

#[test]
fn go_is_sent_once_and_only_to_the_node_that_was_asked() {
    let (mut bench, _, n1, n2) = assigned();
    bench.report(n2, NodeToMaster::JobAck { job: JOB, attempt: Attempt(1) });
    assert_eq!(words(&bench.orders(n2)), ["Drop"]);
    bench.report(n1, NodeToMaster::JobAck { job: JOB, attempt: Attempt(1) });
    bench.report(n1, NodeToMaster::JobAck { job: JOB, attempt: Attempt(1) });
    assert_eq!(words(&bench.orders(n1)), ["Go"]);
}

#[test]
fn a_node_that_disconnects_before_the_assignment_is_on_disk_never_gets_it() {
    let mut bench = Bench::new();
    let (n1, n2) = (bench.node("n1"), bench.node("n2"));
    bench.to_nodes.clear();
    let client = bench.client(7);
    bench.slow_disk = true;
    bench.say(client, exec(1));
    bench.input(Input::Gone(n1));
    bench.commit();
    bench.commit();
    assert_eq!(words(&bench.orders(n2)), ["DoExec"]);
    assert!(bench.orders(n1).is_empty());
}

#[test]
fn a_node_that_prepares_a_job_may_take_its_time() {
    let (mut bench, _, n1, n2) = assigned();
    bench.report(n1, NodeToMaster::Preparing { job: JOB, attempt: Attempt(1) });
    bench.pass(Span::from_secs(60));
    assert!(bench.closed.is_empty() && bench.orders(n2).is_empty());
    bench.report(n1, NodeToMaster::JobAck { job: JOB, attempt: Attempt(1) });
    assert_eq!(words(&bench.orders(n1)), ["Go"]);
}

#[test]
fn a_job_that_its_node_cannot_prepare_moves_and_the_node_is_drained() {
    let (mut bench, _, n1, n2) = assigned();
    bench.report(n1, NodeToMaster::Preparing { job: JOB, attempt: Attempt(1) });
    let reason = "the prolog of job 1 failed with exit code 1";
    bench.report(n1, NodeToMaster::Unfit { reason: reason.into() });
    let outcome = Outcome::NotPrepared { reason: reason.into() };
    let usage = limo_model::Usage::default();
    bench.report(n1, NodeToMaster::Ended { job: JOB, attempt: Attempt(1), outcome, usage });
    assert_eq!(words(&bench.orders(n1)), ["EndedAck", "Discard"]);
    assert_eq!(words(&bench.orders(n2)), ["DoExec"]);
    let drained = |bench: &Bench| {
        let core = &bench.controller.tx.core;
        core.node_named("n1").and_then(|node| node.drained()).map(|drained| drained.reason.clone())
    };
    assert_eq!(drained(&bench).as_deref(), Some(reason));
    // A node may also say so when it registers, and an earlier reason stays.
    bench.input(Input::Gone(n1));
    bench.node_unfit("n1", "the epilog of job 2 failed with exit code 1");
    assert_eq!(drained(&bench).as_deref(), Some(reason));
    bench.node_unfit("n3", "the epilog of job 3 failed with exit code 1");
    let known = bench.controller.tx.core.node_named("n3").and_then(|node| node.drained());
    assert_eq!(known.map(|drained| drained.reason.as_str()), Some("the epilog of job 3 failed with exit code 1"));
}
