//! Unreachable nodes. Their jobs end after the lease. Requeueable jobs run again when they certainly no longer run
//! there. Their draw is held until it is known to be gone.

use limo_model::Lease;
use limo_proto::{AttemptState, Change, JobState, NodeReport, NodeState, Query, Status};

use super::*;

pub const WATTS: i64 = 60;

fn nodes(bench: &mut Bench) -> Vec<NodeReport> {
    let client = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Nodes(NodesQuery)) else { panic!("no answer") };
    let Answer::Nodes(nodes) = *answer else { panic!("{answer:?}") };
    nodes
}

fn status(bench: &mut Bench) -> Status {
    let client = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Status(StatusQuery)) else { panic!("no answer") };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    *status
}

fn state(bench: &mut Bench, job: JobId) -> JobState {
    bench.jobs().iter().find(|report| report.job == job).expect("known").state
}

/// Returns the draw held for lost nodes, in watts.
pub fn held(bench: &mut Bench) -> i64 {
    status(bench).held.mw() / 1_000
}

fn declare_lost(bench: &mut Bench, name: &str) -> Vec<MasterToClient> {
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::NodesLost(vec![name.into()]))));
    bench.heard(root)
}

/// Starts a requeueable job on the first free node.
fn requeueable(bench: &mut Bench, client: PeerId, node: PeerId, key: u8) -> JobId {
    bench.heard(client);
    bench.say(
        client,
        exec_with(key, |exec| {
            exec.request.may_requeue = true;
            exec.launch.io = Io::Detached;
        }),
    );
    let [MasterToClient::Accepted { job }] = bench.heard(client)[..] else { panic!("not accepted") };
    starts(bench, node, job, Attempt(1));
    job
}

fn starts(bench: &mut Bench, node: PeerId, job: JobId, attempt: Attempt) {
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.pass(Span::from_ms(5));
}

#[test]
fn a_lost_nodes_job_ends_after_the_lease_and_its_draw_is_held() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    let (job, _) = bench.running(client, n1, 1);
    let waiter = bench.client(7);
    bench.say(waiter, ClientToMaster::Ask(Box::new(Query::Wait(WaitQuery(vec![job])))));
    bench.input(Input::Gone(n1));
    let report = nodes(&mut bench).remove(0);
    assert_eq!((report.state, report.unreachable_since), (NodeState::Unreachable, Some(bench.now)));
    let since = bench.now;
    assert_eq!(bench.jobs()[0].unreachable, [("n1".to_owned(), Some(since))]);
    bench.pass(Span::from_secs(59));
    assert_eq!((state(&mut bench, job), bench.heard(waiter).len()), (JobState::Running, 0), "it may come back");
    bench.pass(Span::from_secs(1));
    assert_eq!(state(&mut bench, job), JobState::NodeFailed);
    assert_eq!(words(&bench.heard(waiter)), ["Answer"], "who waits is told");
    let finished = bench.disk.finished[&job].clone();
    assert_eq!(client_told(&mut bench, client), "node n1 failed: unreachable for 1min");
    let energy = finished.energy.expect("estimated");
    bench.pass(Span::from_secs(600));
    let again = bench.jobs()[0].energy.expect("estimated");
    assert_eq!(energy, again, "what is over uses nothing more");
    assert_eq!((held(&mut bench), nodes(&mut bench)[0].state), (WATTS, NodeState::Lost));
    let missing = status(&mut bench).unreachable;
    assert_eq!((missing[0].name.as_str(), missing[0].lost, missing[0].jobs), ("n1", true, 0));
    // The held watts count in the band, even after a restart.
    bench = bench.killed();
    assert_eq!((held(&mut bench), status(&mut bench).draw), (WATTS, Power::from_watts(10 + WATTS)));
}

fn client_told(bench: &mut Bench, client: PeerId) -> String {
    let told = bench.heard(client).into_iter().find_map(|message| match message {
        MasterToClient::Finished { report, .. } => report.end,
        _ => None,
    });
    match told {
        Some(limo_model::JobEnd::Ran { outcome: Outcome::NodeFailed { reason }, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_requeueable_job_runs_again_only_when_its_lease_is_over_on_the_node() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    bench.heard(client);
    let job = requeueable(&mut bench, client, n1, 1);
    let sent = bench.orders(n1).into_iter().find_map(|order| match order {
        MasterToNode::DoExec(exec) => exec.lease,
        _ => None,
    });
    let lease = Lease { span: Span::from_secs(60), grace: Span::from_secs(30) };
    assert_eq!((sent, lease.fenced_after()), (Some(lease), Span::from_secs(95)));
    let n2 = bench.node("n2");
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(94));
    assert_eq!((state(&mut bench, job), bench.orders(n2).len()), (JobState::Running, 1));
    bench.pass(Span::from_secs(1));
    assert_eq!(words(&bench.orders(n2)), ["DoExec"]);
    starts(&mut bench, n2, job, Attempt(2));
    // The old node returns with its attempt. The attempt is stopped, and counts until it is over.
    let back = bench.node_with("n1", "boot", vec![attempt_report(job, Attempt(1), AttemptState::Running)]);
    assert_eq!(words(&bench.orders(back)), ["Registered", "Stop"]);
    assert_eq!(held(&mut bench), WATTS);
    let outcome = Outcome::Signaled(15);
    bench.report(back, NodeToMaster::Ended { job, attempt: Attempt(1), outcome, usage: Usage::default() });
    assert_eq!((words(&bench.orders(back)), held(&mut bench)), (vec!["EndedAck".to_owned()], 0));
    assert_eq!(state(&mut bench, job), JobState::Running);
    bench.report(n2, ended(job, Attempt(2), 0));
    assert_eq!(state(&mut bench, job), JobState::Completed);
}

#[test]
fn a_job_that_its_node_lost_runs_again_only_if_it_may_be_requeued() {
    for may_requeue in [true, false] {
        let mut bench = Bench::new();
        let (n1, client) = (bench.node("n1"), bench.client(7));
        let (job, expected) = if may_requeue {
            (requeueable(&mut bench, client, n1, 1), JobState::Starting)
        } else {
            (bench.running(client, n1, 1).0, JobState::Lost)
        };
        bench.orders(n1);
        let outcome = Outcome::Lost { reason: "the node daemon was killed".into() };
        bench.report(n1, NodeToMaster::Ended { job, attempt: Attempt(1), outcome, usage: Usage::default() });
        assert_eq!(state(&mut bench, job), expected);
        let again = words(&bench.orders(n1)).contains(&"DoExec".to_owned());
        assert_eq!(again, may_requeue);
    }
}

#[test]
fn the_lease_counts_from_the_start_of_the_master() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    let (job, _) = bench.running(client, n1, 1);
    bench.pass(Span::from_secs(600));
    bench = bench.killed();
    bench.pass(Span::from_secs(59));
    assert_eq!(state(&mut bench, job), JobState::Running, "its node has had no time to come back");
    bench.pass(Span::from_secs(1));
    assert_eq!(state(&mut bench, job), JobState::NodeFailed);
}

#[test]
fn a_node_that_is_back_in_time_keeps_its_jobs() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    let (job, attempt) = bench.running(client, n1, 1);
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(59));
    let back = bench.node_with("n1", "boot", vec![attempt_report(job, attempt, AttemptState::Running)]);
    assert!(!words(&bench.orders(back)).contains(&"Stop".to_owned()));
    bench.pass(Span::from_secs(600));
    assert_eq!((state(&mut bench, job), nodes(&mut bench)[0].state), (JobState::Running, NodeState::Up));
}

#[test]
fn a_node_without_its_jobs_releases_their_draw() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    bench.running(client, n1, 1);
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(60));
    assert_eq!(held(&mut bench), WATTS);
    bench.node_with("n1", "another boot", Vec::new());
    assert_eq!((held(&mut bench), nodes(&mut bench)[0].state), (0, NodeState::Up));
}

#[test]
fn an_operator_declares_a_node_dead() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    let job = requeueable(&mut bench, client, n1, 1);
    let refused = declare_lost(&mut bench, "n1");
    assert_eq!(refusal(refused.first()), "node `n1` is connected: only an unreachable node can be lost");
    bench.input(Input::Gone(n1));
    let n2 = bench.node("n2");
    bench.orders(n2);
    assert_eq!(words(&declare_lost(&mut bench, "n1")), ["Answer"]);
    assert_eq!((held(&mut bench), nodes(&mut bench)[0].state), (0, NodeState::Lost));
    assert_eq!(words(&bench.orders(n2)), ["DoExec"], "it runs again at once: {job}");
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::RemoveNodes(vec!["n1".into()]))));
    assert_eq!(words(&bench.heard(root)), ["Answer"]);
}

#[test]
fn a_node_that_may_still_draw_is_not_removed() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    bench.running(client, n1, 1);
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(60));
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::RemoveNodes(vec!["n1".into()]))));
    let heard = bench.heard(root);
    assert_eq!(refusal(heard.first()), "60.0 W are held for node `n1`, on which jobs may still run");
    declare_lost(&mut bench, "n1");
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::RemoveNodes(vec!["n1".into()]))));
    assert_eq!(words(&bench.heard(root)), ["Answer"]);
}

#[test]
fn a_drained_node_shows_that_it_is_unreachable() {
    let mut bench = Bench::new();
    let n1 = bench.node("n1");
    let root = bench.client(0);
    let drain = Change::Drain { nodes: vec!["n1".into()], reason: "fan".into() };
    bench.say(root, ClientToMaster::ChangeConf(Box::new(drain)));
    assert_eq!(nodes(&mut bench)[0].state_in_words(), "drained");
    bench.input(Input::Gone(n1));
    assert_eq!(nodes(&mut bench)[0].state_in_words(), "drained, unreachable");
}

#[test]
fn a_job_over_several_nodes_fails_with_one_of_them() {
    let mut bench = Bench::new();
    let (n1, n2, client) = (bench.node("n1"), bench.node("n2"), bench.client(7));
    bench.heard(client);
    bench.say(
        client,
        exec_with(1, |exec| {
            let two = NonZeroU32::new(2).expect("2");
            let cores = Cores::Count(NonZeroU32::MIN);
            exec.request.spread = Some(limo_model::Spread { tasks: two, cores, nodes: Some(two), per_node: None });
            exec.launch.parallel = Some(limo_proto::Parallel::default());
            exec.launch.io = Io::Detached;
        }),
    );
    let [MasterToClient::Accepted { job }] = bench.heard(client)[..] else { panic!("not accepted") };
    let attempt = Attempt(1);
    for node in [n1, n2] {
        bench.report(node, NodeToMaster::JobAck { job, attempt });
    }
    for node in [n1, n2] {
        bench.report(node, NodeToMaster::Started { job, attempt });
    }
    bench.pass(Span::from_ms(5));
    bench.orders(n2);
    bench.input(Input::Gone(n1));
    bench.pass(Span::from_secs(60));
    assert_eq!(words(&bench.orders(n2)), ["Stop"], "the rest of it cannot go on");
    assert_eq!(state(&mut bench, job), JobState::Running);
    bench.report(n2, NodeToMaster::Ended { job, attempt, outcome: Outcome::Signaled(15), usage: Usage::default() });
    assert_eq!((state(&mut bench, job), held(&mut bench)), (JobState::NodeFailed, WATTS));
}

#[test]
fn a_failed_commit_loses_no_decision_about_a_node() {
    let mut bench = Bench::new();
    let (n1, client) = (bench.node("n1"), bench.client(7));
    let (job, _) = bench.running(client, n1, 1);
    bench.input(Input::Gone(n1));
    bench.slow_disk = true;
    bench.pass(Span::from_secs(60));
    bench.fail();
    bench.slow_disk = false;
    assert_eq!(state(&mut bench, job), JobState::Running, "nothing of it is on disk");
    bench.pass(Span::from_secs(1));
    assert_eq!(state(&mut bench, job), JobState::NodeFailed);
}
