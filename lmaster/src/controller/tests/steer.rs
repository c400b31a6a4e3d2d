//! Caps, suspension and requeueing: ordered once they are durable, repeated when a node returns, confirmed by the node.

use limo_model::{Band, Curve, Outcome};
use limo_proto::{Answer, AttemptState, Change, JobState};

use super::*;

/// Limits the whole cluster. A node has an idle draw of 10 W, and its job draws 60 W.
fn limit(bench: &mut Bench, watts: i64) {
    let root = bench.client(0);
    let band = Band::new(Power::ZERO, Power::from_watts(watts)).expect("a band");
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Limits(Curve::constant(band)))));
}

/// Starts a job on `n1` that may be suspended, or requeued.
fn running(requeue: bool) -> (Bench, PeerId, JobId) {
    running_for(requeue, None)
}

/// Starts such a job with a time limit.
fn running_for(requeue: bool, limit: Option<Span>) -> (Bench, PeerId, JobId) {
    let mut bench = Bench::new();
    let (node, client, root) = (bench.node("n1"), bench.client(7), bench.client(0));
    bench.say(
        root,
        ClientToMaster::ChangeConf(Box::new(Change::Policy { preset: limo_model::Preset::Limo, parts: Vec::new() })),
    );
    bench.say(
        client,
        exec_with(1, |exec| {
            (exec.request.may_suspend, exec.request.may_requeue) = (!requeue, requeue);
            exec.request.time_limit = limit;
            exec.launch.io = Io::Detached;
        }),
    );
    let (job, attempt) = (JobId(1), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.orders(node);
    (bench, node, job)
}

fn draw(bench: &Bench) -> Power {
    bench.controller.tx.core.node_draw(limo_model::NodeId(0))
}

#[test]
fn caps_are_lowered_and_readings_count_when_they_show_it() {
    let (mut bench, node, _) = running(false);
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(70))));
    bench.pass(Span::from_secs(1));
    limit(&mut bench, 50);
    let cap = MasterToNode::Caps { generation: 1, caps: vec![Some(Power::from_mw(39_480))] };
    assert_eq!(
        bench.orders(node),
        std::slice::from_ref(&cap),
        "658 thousandths of 60 W: 10 W of its own, and 1 % of 50 W stays free"
    );
    assert_eq!(draw(&bench), Power::from_mw(49_480));
    // This reading is from before the node got the order.
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(70))));
    bench.pass(Span::from_secs(1));
    assert_eq!((bench.orders(node), draw(&bench)), (vec![], Power::from_mw(49_480)));
    bench.report(node, NodeToMaster::Capped { generation: 1, failed: limo_proto::List::default() });
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(49))));
    bench.pass(Span::from_secs(1));
    assert_eq!((bench.orders(node), draw(&bench)), (vec![], Power::from_watts(49)));
    // A node that reconnects may have missed the order.
    let again = bench.node_with("n1", "boot", vec![attempt_report(JobId(1), Attempt(1), AttemptState::Running)]);
    assert!(bench.orders(again).contains(&cap));
}

#[test]
fn a_cap_that_cannot_be_set_is_not_tried_again() {
    let (mut bench, node, job) = running(false);
    limit(&mut bench, 50);
    assert_eq!(words(&bench.orders(node)), ["Caps"]);
    bench.report(
        node,
        NodeToMaster::Capped {
            generation: 1,
            failed: limo_proto::List::clipped(vec![(0, "locked by the BIOS".into())]),
        },
    );
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(70))));
    bench.pass(Span::from_secs(1));
    let attempt = Attempt(1);
    assert_eq!(bench.orders(node), [MasterToNode::Suspend { job, attempt }], "what is left");
}

#[test]
fn a_job_is_suspended_and_continues() {
    let (mut bench, node, job) = running(false);
    let attempt = Attempt(1);
    limit(&mut bench, 25);
    // 20 W, with the lowest cap, is still too much.
    assert_eq!(words(&bench.orders(node)), ["Caps", "Suspend"]);
    assert_eq!((bench.jobs()[0].state, draw(&bench)), (JobState::Suspended, Power::from_watts(10)));
    bench.report(node, NodeToMaster::Paused { job, attempt, paused: true });
    let mut bench = bench.killed();
    assert_eq!(bench.jobs()[0].state, JobState::Suspended, "a master that was killed knows it");
    let reported = attempt_report(job, attempt, AttemptState::Running);
    let node = bench.node_with("n1", "boot", vec![reported]);
    assert_eq!(words(&bench.orders(node)), ["Registered", "Caps", "Suspend"]);
    limit(&mut bench, 200);
    assert_eq!(bench.orders(node), [], "not before it stood still for a while");
    bench.pass(Span::from_secs(5));
    assert_eq!(words(&bench.orders(node)), ["Resume", "Caps"]);
    assert_eq!(bench.jobs()[0].state, JobState::Running);
    bench.report(node, ended(job, attempt, 0));
    assert!(bench.controller.tx.core.job(job).is_none());
}

#[test]
fn nodes_get_extended_time_limits() {
    let (mut bench, node, job) = running_for(false, Some(Span::from_secs(60)));
    let extended = |orders: &[MasterToNode]| {
        let mut limits = orders.iter().filter_map(|order| match order {
            MasterToNode::Extend { job: JobId(1), attempt: Attempt(1), limit } => Some(*limit),
            _ => None,
        });
        limits.next_back()
    };
    assert_eq!(extended(&bench.orders(node)), None, "it runs as it was started");
    limit(&mut bench, 50);
    let slow = extended(&bench.orders(node)).expect("a lower cap");
    assert!(slow > Span::from_secs(60), "{slow}");
    limit(&mut bench, 25);
    assert_eq!(words(&bench.orders(node)), ["Caps", "Suspend"], "a suspended job has no end");
    bench.pass(Span::from_secs(100));
    limit(&mut bench, 200);
    let again = extended(&bench.orders(node)).expect("it goes on");
    assert!(again >= Span::from_secs(160), "{again}");
    let running = attempt_report(job, Attempt(1), AttemptState::Running);
    let back = bench.node_with("n1", "boot", vec![running]);
    assert_eq!(extended(&bench.orders(back)), Some(again), "a node that is back may have missed it");
}

#[test]
fn a_requeued_job_runs_again_as_another_attempt() {
    let (mut bench, node, job) = running(true);
    limit(&mut bench, 25);
    assert_eq!(words(&bench.orders(node)), ["Caps", "Stop"]);
    bench.report(
        node,
        NodeToMaster::Ended { job, attempt: Attempt(1), outcome: Outcome::Signaled(15), usage: Usage::default() },
    );
    assert_eq!(words(&bench.orders(node)), ["EndedAck", "Caps"], "the unit is free: nothing holds it");
    assert_eq!(bench.jobs()[0].state, JobState::Waiting);
    limit(&mut bench, 200);
    let orders = bench.orders(node);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!((exec.job, exec.attempt), (job, Attempt(2)));
}

#[test]
fn a_requeued_job_that_is_cancelled_meanwhile_does_not_run_again() {
    let (mut bench, node, job) = running(true);
    limit(&mut bench, 25);
    bench.orders(node);
    let owner = bench.client(7);
    bench.say(owner, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job]))));
    bench.report(node, ended(job, Attempt(1), 143));
    assert!(bench.controller.tx.core.job(job).is_none());
    limit(&mut bench, 200);
    assert!(!words(&bench.orders(node)).contains(&"DoExec".to_owned()));
}

#[test]
fn another_node_does_not_speak_for_a_job() {
    let (mut bench, _, job) = running(false);
    let other = bench.node("n2");
    bench.report(other, NodeToMaster::Paused { job, attempt: Attempt(1), paused: true });
    assert!(!bench.controller.tx.core.node_named("n2").expect("known").is_connected());
}

/// Sends a change as the user `uid`; returns the refusal, or a note that it is done.
fn change(bench: &mut Bench, uid: u32, change: Change) -> Result<Answer, String> {
    let client = bench.client(uid);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(change)));
    match bench.heard(client).pop() {
        Some(MasterToClient::Answer(answer)) => Ok(*answer),
        Some(MasterToClient::Refused { reason, .. }) => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_resumed_by_a_person_may_stay_suspended_by_the_limit() {
    let (mut bench, node, job) = running(false);
    let attempt = Attempt(1);
    let (suspend, resume) = (Change::SuspendJobs(vec![job]), Change::ResumeJobs(vec![job]));
    let refused = change(&mut bench, 8, suspend.clone());
    assert_eq!(refused, Err("job 1 belongs to user7, not to user8".to_owned()));
    assert_eq!(change(&mut bench, 0, suspend.clone()), Ok(Answer::Done));
    assert_eq!(bench.orders(node), [MasterToNode::Suspend { job, attempt }]);
    assert_eq!((bench.jobs()[0].state, draw(&bench)), (JobState::Suspended, Power::from_watts(10)));
    let shown = bench.jobs()[0].suspended.clone().expect("it is").to_string();
    assert_eq!(shown, "suspended by user0");
    let refused = change(&mut bench, 7, resume.clone());
    assert_eq!(refused, Err("job 1 is suspended by user0: only an operator can resume it".to_owned()));
    let mut bench = bench.killed();
    let reported = attempt_report(job, attempt, AttemptState::Running);
    let node = bench.node_with("n1", "boot", vec![reported]);
    assert_eq!(words(&bench.orders(node)), ["Registered", "Suspend"], "a master that was killed knows it");
    assert_eq!(change(&mut bench, 0, resume.clone()), Ok(Answer::Done));
    assert_eq!(words(&bench.orders(node)), ["Resume"]);
    limit(&mut bench, 25);
    assert_eq!(words(&bench.orders(node)), ["Caps", "Suspend"]);
    assert_eq!(change(&mut bench, 7, suspend), Ok(Answer::Done));
    assert_eq!(bench.orders(node), [], "it is already suspended");
    let shown = bench.jobs()[0].suspended.clone().expect("it is").to_string();
    assert_eq!(shown, "suspended by user7: the upper limit 25.0 W");
    let warned = Answer::Warned(vec!["job 1 stays suspended: the upper limit 25.0 W".into()]);
    assert_eq!(change(&mut bench, 7, resume), Ok(warned));
    assert_eq!(bench.orders(node), []);
    bench.pass(Span::from_secs(5));
    limit(&mut bench, 200);
    assert_eq!(words(&bench.orders(node)), ["Resume", "Caps"]);
}

/// Suspends the job on `n1`, so that there is power for one on `n2`, which then holds it.
fn waiting_for_a_suspension() -> (Bench, PeerId, PeerId) {
    let (mut bench, first, second) = assigned_to_wait();
    bench.report(second, HELD);
    assert_eq!(bench.orders(second), [], "job 1 may still draw its power");
    (bench, first, second)
}

/// Suspends the job on `n1`, so that there is power for one on `n2`, which has not acknowledged it.
fn assigned_to_wait() -> (Bench, PeerId, PeerId) {
    let (mut bench, first, job) = running(false);
    let second = bench.node("n2");
    bench.orders(second);
    // Nodes of 10 W and jobs of 60 W: there is room for one job.
    limit(&mut bench, 90);
    let client = bench.client(7);
    bench.say(client, exec_with(2, |exec| exec.launch.io = Io::Detached));
    assert_eq!(bench.orders(second), []);
    assert_eq!(change(&mut bench, 0, Change::SuspendJobs(vec![job])), Ok(Answer::Done));
    assert_eq!(words(&bench.orders(first)), ["Suspend"]);
    assert_eq!(words(&bench.orders(second)), ["DoExec"], "its node gets it at once");
    (bench, first, second)
}

const HELD: NodeToMaster = NodeToMaster::JobAck { job: JobId(2), attempt: Attempt(1) };
const SUSPENDED: NodeToMaster = NodeToMaster::Paused { job: JobId(1), attempt: Attempt(1), paused: true };

#[test]
fn a_start_is_released_when_the_suspension_that_frees_its_power_is_confirmed() {
    let (mut bench, first, second) = waiting_for_a_suspension();
    bench.report(first, SUSPENDED);
    assert_eq!(words(&bench.orders(second)), ["Go"]);
    bench.report(second, NodeToMaster::Started { job: JobId(2), attempt: Attempt(1) });
    assert_eq!(bench.jobs()[1].state, JobState::Running);
}

#[test]
fn a_start_is_released_when_its_confirmation_is_on_disk() {
    for is_being_written in [false, true] {
        let (mut bench, first, second) = assigned_to_wait();
        bench.slow_disk = true;
        let client = bench.client(8);
        bench.say(client, exec(3));
        bench.report(first, SUSPENDED);
        if !is_being_written {
            bench.report(second, HELD);
        }
        bench.commit();
        if is_being_written {
            bench.report(second, HELD);
        }
        assert_eq!(bench.orders(second), [], "the next master would not know that job 1 is suspended");
        bench.commit();
        assert_eq!(words(&bench.orders(second)), ["Go"]);
    }
}

#[test]
fn a_start_that_waits_is_planned_again_by_the_next_master() {
    let (bench, ..) = waiting_for_a_suspension();
    let mut bench = bench.killed();
    let report = |job: u64, state: AttemptState| attempt_report(JobId(job), Attempt(1), state);
    let second = bench.node_with("n2", "boot", vec![report(2, AttemptState::Held)]);
    assert!(!words(&bench.orders(second)).contains(&"Go".to_owned()));
    let first = bench.node_with("n1", "boot", vec![report(1, AttemptState::Running)]);
    assert!(words(&bench.orders(first)).contains(&"Suspend".to_owned()), "n1 may have missed it");
    bench.report(first, SUSPENDED);
    assert_eq!(words(&bench.orders(second)), ["DoExec"]);
    bench.report(second, NodeToMaster::JobAck { job: JobId(2), attempt: Attempt(2) });
    assert_eq!(words(&bench.orders(second)), ["Go"], "nothing is left to wait for");
}

#[test]
fn a_start_is_taken_back_if_the_node_that_frees_its_power_goes_away() {
    let (mut bench, first, second) = waiting_for_a_suspension();
    bench.input(Input::Gone(first));
    assert_eq!(words(&bench.orders(second)), ["Drop"]);
    assert_eq!(bench.jobs()[1].state, JobState::Waiting, "job 1 may still draw its power");
}

#[test]
fn only_the_answer_to_the_last_order_confirms_a_suspension() {
    let (mut bench, first, job) = running(false);
    let second = bench.node("n2");
    bench.orders(second);
    let (suspend, resume) = (Change::SuspendJobs(vec![job]), Change::ResumeJobs(vec![job]));
    for change_to in [suspend.clone(), resume, suspend] {
        assert_eq!(change(&mut bench, 0, change_to), Ok(Answer::Done));
    }
    assert_eq!(words(&bench.orders(first)), ["Suspend", "Resume", "Suspend"]);
    limit(&mut bench, 90);
    let client = bench.client(7);
    bench.say(client, exec_with(2, |exec| exec.launch.io = Io::Detached));
    assert_eq!(words(&bench.orders(second)), ["DoExec"]);
    bench.report(second, NodeToMaster::JobAck { job: JobId(2), attempt: Attempt(1) });
    for paused in [true, false] {
        bench.report(first, NodeToMaster::Paused { job, attempt: Attempt(1), paused });
        assert_eq!(bench.orders(second), [], "job 1 goes on before it is suspended again");
    }
    bench.report(first, NodeToMaster::Paused { job, attempt: Attempt(1), paused: true });
    assert_eq!(words(&bench.orders(second)), ["Go"]);
}
