//! The master is killed at every step of a job's start, and the node at some steps. No knowable result is lost, and
//! nothing runs twice.

use limo_model::Outcome;
use limo_proto::{AttemptState, JobState};

use super::*;

const JOB: JobId = JobId(1);
const ATTEMPT: Attempt = Attempt(1);

fn reported(state: AttemptState) -> Vec<AttemptReport> {
    vec![attempt_report(JOB, ATTEMPT, state)]
}

/// Returns a master that was killed right after the assignment was on disk.
fn killed_while_starting() -> Bench {
    let mut bench = Bench::new();
    bench.node("n1");
    let client = bench.client(7);
    bench.submit(client, 1);
    bench.killed()
}

fn state(bench: &mut Bench) -> JobState {
    bench.jobs()[0].state
}

#[test]
fn held_is_let_go() {
    let mut bench = killed_while_starting();
    let node = bench.node_with("n1", "boot", reported(AttemptState::Held));
    assert_eq!(words(&bench.orders(node)), ["Registered", "Go"]);
    bench.report(node, NodeToMaster::Started { job: JOB, attempt: ATTEMPT });
    assert_eq!(state(&mut bench), JobState::Running);
}

#[test]
fn a_missing_record_in_the_same_incarnation_proves_that_the_job_did_not_start() {
    let mut bench = killed_while_starting();
    let node = bench.node("n1");
    let orders = bench.orders(node);
    assert_eq!(words(&orders), ["Registered", "DoExec"]);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!((exec.job, exec.attempt), (JOB, Attempt(2)), "at once, on a node that is not suspect");
}

#[test]
fn no_record_in_another_life_is_a_loss() {
    let mut bench = killed_while_starting();
    let node = bench.node_with("n1", "another boot", Vec::new());
    assert_eq!(words(&bench.orders(node)), ["Registered"]);
    assert_eq!(state(&mut bench), JobState::Lost);
}

/// Checks that a loss is on disk first. Otherwise, after a second crash, the lost attempt could count as one of the
/// new incarnation that never started.
#[test]
fn a_loss_is_on_disk_before_the_new_life_is_remembered() {
    let mut bench = killed_while_starting();
    bench.slow_disk = true;
    let node = bench.node_with("n1", "another boot", Vec::new());
    assert_eq!(bench.disk.nodes["n1"].boot, "boot");
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(12))));
    let mut bench = bench.killed();
    let node = bench.node_with("n1", "another boot", Vec::new());
    assert_eq!((state(&mut bench), words(&bench.orders(node))), (JobState::Lost, vec!["Registered".to_owned()]));
    assert_eq!(bench.disk.nodes["n1"].boot, "another boot");
}

#[test]
fn a_start_without_the_master_is_adopted() {
    let mut bench = killed_while_starting();
    bench.node_with("n1", "boot", reported(AttemptState::Running));
    assert_eq!(state(&mut bench), JobState::Running);
}

#[test]
fn an_end_without_the_master_is_adopted() {
    let mut bench = killed_while_starting();
    let end = AttemptState::Ended { outcome: Outcome::Exited(0), usage: Usage::default() };
    let node = bench.node_with("n1", "boot", reported(end.clone()));
    assert_eq!(words(&bench.orders(node)), ["Registered", "EndedAck"]);
    assert_eq!(state(&mut bench), JobState::Completed);
    // The next master lost the acknowledgement.
    let mut bench = bench.killed();
    let node = bench.node_with("n1", "boot", reported(end));
    assert_eq!(words(&bench.orders(node)), ["Registered", "EndedAck"]);
}

#[test]
fn a_running_job_continues_and_an_unknown_one_is_lost() {
    let run = || {
        let mut bench = Bench::new();
        let node = bench.node("n1");
        let client = bench.client(7);
        bench.running(client, node, 1);
        bench.killed()
    };
    let mut bench = run();
    assert_eq!(state(&mut bench), JobState::Running);
    bench.node_with("n1", "boot", reported(AttemptState::Running));
    assert_eq!(state(&mut bench), JobState::Running);
    for reports in [Vec::new(), reported(AttemptState::Held)] {
        let mut bench = run();
        let held = !reports.is_empty();
        let node = bench.node_with("n1", "boot", reports);
        assert_eq!(state(&mut bench), JobState::Lost);
        assert_eq!(bench.orders(node).contains(&MasterToNode::Drop { job: JOB, attempt: ATTEMPT }), held);
    }
}

#[test]
fn a_stop_that_the_node_missed_is_repeated() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.running(client, node, 1);
    bench.input(Input::Gone(node));
    bench.say(client, ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Cancel(vec![JOB]))));
    let mut bench = bench.killed();
    let node = bench.node_with("n1", "boot", reported(AttemptState::Running));
    assert!(words(&bench.orders(node)).contains(&"Stop".to_owned()));
    let mut bench = killed_while_starting();
    let client = bench.client(0);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Cancel(vec![JOB]))));
    let node = bench.node_with("n1", "boot", reported(AttemptState::Held));
    assert_eq!(words(&bench.orders(node)), ["Registered", "Drop"]);
    assert_eq!(state(&mut bench), JobState::Cancelled);
}

#[test]
fn snapshots_and_entries_give_the_same_state() {
    let mut bench = Bench::new();
    bench.controller.tx.settings.snapshot_every = 3;
    let node = bench.node("n1");
    let client = bench.client(7);
    for key in 1..10 {
        let (job, attempt) = bench.running(client, node, key);
        bench.report(node, ended(job, attempt, 0));
        bench.pass(Span::from_secs(1));
    }
    assert!(bench.disk.snapshot.is_some() && bench.disk.entries.len() < 6);
    let before = bench.controller.tx.core.clone();
    let restored = restore(bench.disk.recover(), bench.now).expect("readable");
    assert!(restored.core == before && restored.mismatches == 0);
}

#[test]
fn a_clean_stop_leaves_a_snapshot() {
    let mut bench = Bench::new();
    bench.node("n1");
    bench.input(Input::Stop);
    assert!(bench.controller.is_quiet() && bench.disk.snapshot.is_some() && bench.disk.entries.is_empty());
}
