//! Jobs that may not run yet: permissions for holding and releasing, and dependencies.

use limo_model::{Condition, Conditions, Dependency};
use limo_proto::{Change, JobState};

use super::*;

fn change(bench: &mut Bench, client: PeerId, change: Change) -> Result<(), String> {
    bench.heard(client);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(change)));
    match bench.heard(client).pop() {
        Some(MasterToClient::Answer(answer)) if *answer == Answer::Done => Ok(()),
        Some(MasterToClient::Refused { reason, .. }) => Err(reason),
        other => panic!("{other:?}"),
    }
}

fn with(key: u8, conditions: Conditions) -> ClientToMaster {
    exec_with(key, |exec| {
        exec.request.conditions = Some(Box::new(conditions));
        exec.request.may_requeue = true;
        exec.launch.io = Io::Detached;
    })
}

fn on(key: u8, condition: Condition, jobs: &[u64]) -> ClientToMaster {
    let dependencies = jobs.iter().map(|job| Dependency { condition, job: JobId(*job) }).collect();
    with(key, Conditions { dependencies, ..Conditions::default() })
}

fn held(key: u8) -> ClientToMaster {
    with(key, Conditions { hold: true, ..Conditions::default() })
}

/// Returns the number of the job, or the reason for its refusal.
fn submit(bench: &mut Bench, client: PeerId, exec: ClientToMaster) -> Result<JobId, String> {
    bench.heard(client);
    bench.say(client, exec);
    match bench.heard(client).first() {
        Some(MasterToClient::Accepted { job }) => Ok(*job),
        Some(MasterToClient::Refused { reason, .. }) => Err(reason.clone()),
        other => panic!("{other:?}"),
    }
}

/// Returns a job that ran and ended with this code.
fn over(bench: &mut Bench, client: PeerId, node: PeerId, (key, code): (u8, u8)) -> JobId {
    let (job, attempt) = bench.running(client, node, key);
    bench.report(node, ended(job, attempt, code));
    job
}

fn state(bench: &mut Bench, job: JobId) -> JobState {
    bench.jobs().iter().find(|report| report.job == job).expect("it is known").state
}

#[test]
fn only_operators_release_jobs_held_by_operators() {
    let mut bench = Bench::new();
    let (owner, other, root) = (bench.client(7), bench.client(8), bench.client(0));
    let job = submit(&mut bench, owner, held(1)).expect("accepted");
    let not_mine = "job 1 belongs to user7, not to user8".to_owned();
    for one in [Change::Hold(vec![job]), Change::Release(vec![job]), Change::Requeue(vec![job])] {
        assert_eq!(change(&mut bench, other, one), Err(not_mine.clone()));
    }
    assert_eq!(change(&mut bench, owner, Change::Release(vec![job, job])), Ok(()));
    assert_eq!(change(&mut bench, owner, Change::Release(vec![job])), Err("job 1 is not held".into()));
    assert_eq!(change(&mut bench, root, Change::Hold(vec![job])), Ok(()));
    assert_eq!(change(&mut bench, owner, Change::Hold(vec![job])), Ok(()), "it is held already");
    let refused = "job 1 is held by user0: only an operator can release it".to_owned();
    assert_eq!(change(&mut bench, owner, Change::Release(vec![job])), Err(refused));
    let mut bench = bench.killed();
    let (owner, root, node) = (bench.client(7), bench.client(0), bench.node("n1"));
    assert!(bench.orders(node).iter().all(|order| !matches!(order, MasterToNode::DoExec(_))), "it is held");
    assert_eq!(change(&mut bench, root, Change::Release(vec![job])), Ok(()));
    assert!(bench.orders(node).iter().any(|order| matches!(order, MasterToNode::DoExec(_))));
    let waits = "job 1 does not wait: only a waiting job can be held".to_owned();
    assert_eq!(change(&mut bench, owner, Change::Hold(vec![job])), Err(waits));
    let nobody = "there is no waiting or running job 9".to_owned();
    assert_eq!(change(&mut bench, owner, Change::Hold(vec![JobId(9)])), Err(nobody));
}

#[test]
fn a_job_is_requeued_where_its_user_allowed_that() {
    let mut bench = Bench::new();
    let (owner, node) = (bench.client(7), bench.node("n1"));
    let (careful, attempt) = bench.running(owner, node, 1);
    let waits = submit(&mut bench, owner, held(2)).expect("accepted");
    let once = "job 1 must not run twice: it was submitted without --requeue".to_owned();
    assert_eq!(change(&mut bench, owner, Change::Requeue(vec![careful])), Err(once));
    let not_yet = "job 2 waits: only a running job can be requeued".to_owned();
    assert_eq!(change(&mut bench, owner, Change::Requeue(vec![waits])), Err(not_yet));
    bench.report(node, ended(careful, attempt, 0));
    change(&mut bench, owner, Change::Release(vec![waits])).expect("it is held");
    bench.report(node, NodeToMaster::JobAck { job: waits, attempt });
    bench.report(node, NodeToMaster::Started { job: waits, attempt });
    bench.orders(node);
    assert_eq!(change(&mut bench, owner, Change::Requeue(vec![waits])), Ok(()));
    assert!(matches!(bench.orders(node)[..], [MasterToNode::Stop { job, .. }] if job == waits));
    let twice = "job 2 is being ended already".to_owned();
    assert_eq!(change(&mut bench, owner, Change::Requeue(vec![waits])), Err(twice));
    // The job is held before its attempt is over, so it does not run again before its release.
    change(&mut bench, owner, Change::Hold(vec![waits])).expect("it comes back");
    bench.report(node, ended(waits, attempt, 143));
    assert_eq!(state(&mut bench, waits), JobState::Waiting);
    bench.orders(node);
    change(&mut bench, owner, Change::Release(vec![waits])).expect("it is held");
    let again = bench.orders(node);
    assert!(matches!(&again[..], [MasterToNode::DoExec(exec)] if exec.attempt == Attempt(2)), "{again:?}");
}

#[test]
fn ends_of_finished_jobs_are_looked_up() {
    let mut bench = Bench::new();
    let (owner, other, root, node) = (bench.client(7), bench.client(8), bench.client(0), bench.node("n1"));
    let good = over(&mut bench, owner, node, (1, 0)).0;
    let bad = over(&mut bench, owner, node, (2, 3)).0;
    let mut bench = bench.killed();
    let _ = (other, root);
    let (owner, other, root) = (bench.client(7), bench.client(8), bench.client(0));
    let refused = |reason: &str| Err(reason.to_owned());
    let never = "afterok:2 can never be met: job 2 exited with code 3";
    assert_eq!(submit(&mut bench, owner, on(3, Condition::AfterOk, &[good, bad])), refused(never));
    let never = "afternotok:1 can never be met: job 1 exited with code 0";
    assert_eq!(submit(&mut bench, owner, on(3, Condition::AfterNotOk, &[good])), refused(never));
    for nobody in [0, 3] {
        let unknown = on(3, Condition::After, &[good, nobody]);
        assert_eq!(submit(&mut bench, owner, unknown), Err(format!("there is no job {nobody}")));
    }
    let foreign = "job 1 belongs to user7, not to user8";
    assert_eq!(submit(&mut bench, other, on(3, Condition::AfterAny, &[good])), refused(foreign));
    assert_eq!(submit(&mut bench, owner, on(3, Condition::AfterOk, &[good])), Ok(JobId(3)));
    let conditions = &bench.controller.tx.core.job(JobId(3)).expect("it waits").request.conditions;
    assert_eq!(*conditions, None, "what is met is not waited for");
    assert_eq!(submit(&mut bench, root, on(4, Condition::AfterNotOk, &[bad])), Ok(JobId(4)), "an operator may");
    let foreign = "job 3 belongs to user7, not to user8";
    assert_eq!(submit(&mut bench, other, on(5, Condition::AfterAny, &[3])), refused(foreign));
}

#[test]
fn a_job_that_ends_during_the_lookup_is_looked_up_again() {
    let mut bench = Bench::new();
    let (owner, node) = (bench.client(7), bench.node("n1"));
    let first = over(&mut bench, owner, node, (1, 0)).0;
    let (second, attempt) = bench.running(owner, node, 2);
    bench.heard(owner);
    bench.slow_answers = true;
    bench.say(owner, on(3, Condition::AfterOk, &[first, second.0]));
    // The end of the first job is queried.
    bench.report(node, ended(second, attempt, 5));
    bench.heard(owner);
    bench.answer_one();
    assert_eq!(bench.heard(owner), [], "it is asked again");
    bench.answer_one();
    let heard = bench.heard(owner);
    assert_eq!(refusal(heard.first()), "afterok:2 can never be met: job 2 exited with code 5");
}

#[test]
fn dependants_of_a_failed_job_are_cancelled() {
    let mut bench = Bench::new();
    let (owner, node) = (bench.client(7), bench.node("n1"));
    let (first, attempt) = bench.running(owner, node, 1);
    let second = submit(&mut bench, owner, on(2, Condition::AfterOk, &[first.0])).expect("accepted");
    let third = submit(&mut bench, owner, on(3, Condition::AfterAny, &[second.0])).expect("accepted");
    bench.report(node, ended(first, attempt, 3));
    assert_eq!(state(&mut bench, second), JobState::Cancelled);
    let started = bench.orders(node);
    assert!(
        started.iter().any(|order| matches!(order, MasterToNode::DoExec(exec) if exec.job == third)),
        "{started:?}"
    );
    let bench = bench.killed();
    assert!(bench.controller.tx.core.job(second).is_none() && bench.controller.submissions.all().len() == 1);
}
