//! Time limits of running jobs, and changes of them.

use limo_proto::{AttemptState, Change};

use super::*;

/// Starts a job with a time limit of 5 s; returns its client and its node.
fn limited() -> (Bench, PeerId, PeerId) {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.say(client, exec_with(1, |exec| exec.request.time_limit = Some(Span::from_secs(5))));
    let (job, attempt) = (JobId(1), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.orders(node);
    (bench, client, node)
}

#[test]
fn a_job_that_its_node_does_not_end_at_its_time_limit_is_stopped() {
    let (mut bench, _, node) = limited();
    bench.pass(Span::from_ms(34_999));
    assert!(bench.orders(node).is_empty());
    bench.pass(Span::from_ms(1));
    assert_eq!(words(&bench.orders(node)), ["Stop"]);
}

#[test]
fn a_node_that_ends_a_job_at_its_time_limit_is_believed() {
    // The ends come shortly before the master's own timer, and after it.
    for after in [4_990, 5_010] {
        let (mut bench, _, node) = limited();
        bench.pass(Span::from_ms(after));
        let (outcome, usage) = (Outcome::SignaledAtLimit(15), Usage::default());
        bench.report(node, NodeToMaster::Ended { job: JobId(1), attempt: Attempt(1), outcome, usage });
        let end = bench.jobs()[0].end.clone();
        let stopped = Some(limo_model::StopReason::TimeLimit { limit: Span::from_secs(5) });
        assert_eq!(end, Some(limo_model::JobEnd::Ran { outcome: Outcome::Signaled(15), stopped }));
        bench.orders(node);
        bench.pass(Span::from_secs(60));
        assert!(bench.orders(node).is_empty(), "nothing is left to stop");
    }
}

#[test]
fn a_job_at_its_time_limit_can_be_cancelled_at_once() {
    let (mut bench, client, node) = limited();
    bench.pass(Span::from_secs(6));
    assert!(!words(&bench.orders(node)).contains(&"Stop".to_owned()));
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JobId(1)]))));
    assert_eq!(words(&bench.orders(node)), ["Stop"]);
}

fn change_limit(bench: &mut Bench, client: PeerId, secs: Option<i64>) -> Result<(), String> {
    bench.heard(client);
    let change = Change::TimeLimit { jobs: vec![JobId(1)], limit: secs.map(Span::from_secs) };
    bench.say(client, ClientToMaster::ChangeConf(Box::new(change)));
    match bench.heard(client).pop() {
        Some(MasterToClient::Refused { reason, .. }) => Err(reason),
        _ => Ok(()),
    }
}

#[test]
fn users_lower_time_limits_and_operators_raise_them_and_nodes_learn_of_it() {
    let (mut bench, client, node) = limited();
    let order = |secs: i64| {
        let limit = Some(Span::from_secs(secs));
        vec![MasterToNode::TimeLimit { job: JobId(1), attempt: Attempt(1), limit }]
    };
    let refused = Err("job 1 has the time limit 5s: only an operator can raise it".to_owned());
    assert_eq!(
        (change_limit(&mut bench, client, Some(6)), change_limit(&mut bench, client, None)),
        (refused.clone(), refused)
    );
    assert_eq!(bench.orders(node), []);
    assert_eq!(
        (change_limit(&mut bench, client, Some(5)), change_limit(&mut bench, client, Some(4))),
        (Ok(()), Ok(()))
    );
    assert_eq!(bench.orders(node), [order(5), order(4)].concat());
    let root = bench.client(0);
    assert_eq!(change_limit(&mut bench, root, Some(50)), Ok(()));
    assert_eq!((bench.orders(node), bench.jobs()[0].time_limit), (order(50), Some(Span::from_secs(50))));
    // A node that is back may have missed it.
    let running = attempt_report(JobId(1), Attempt(1), AttemptState::Running);
    let node = bench.node_with("n1", "boot", vec![running]);
    let orders = bench.orders(node);
    assert!(orders.contains(&order(50)[0]), "{orders:?}");
    bench.pass(Span::from_secs(10));
    let (outcome, usage) = (Outcome::Exited(0), Usage::default());
    bench.report(node, NodeToMaster::Ended { job: JobId(1), attempt: Attempt(1), outcome, usage });
    assert_eq!(bench.jobs()[0].time_limit, Some(Span::from_secs(50)), "also when it is over");
}

#[test]
fn a_job_that_waits_starts_with_its_new_time_limit() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    bench.say(client, exec_with(1, |exec| exec.request.time_limit = Some(Span::from_secs(5))));
    assert_eq!(change_limit(&mut bench, client, Some(3)), Ok(()));
    let node = bench.node("n1");
    let orders = bench.orders(node);
    let execs = orders.iter().filter_map(|order| match order {
        MasterToNode::DoExec(exec) => Some(exec.time_limit),
        _ => None,
    });
    assert_eq!(execs.collect::<Vec<_>>(), [Some(Span::from_secs(3))]);
}
