//! Messages of single nodes of a multi-node job, early, late or repeated, and the messages to the other nodes.

use limo_model::Outcome;
use limo_proto::{AttemptState, Change, Channel, Data, JobState, Parallel, StreamId};

use super::multi_node::{ATTEMPT, JOB, Wide, wide};
use super::*;

fn all_or_none() -> Parallel {
    Parallel { kill_on_bad_exit: true, ..Parallel::default() }
}

/// Returns a job that all three nodes hold, with the first node released.
fn released(parallel: Parallel) -> Wide {
    let mut it = wide(parallel);
    (0..3).for_each(|index| it.ack(index));
    assert_eq!((it.orders(0), it.orders(1), it.orders(2)), (vec!["Go".to_owned()], vec![], vec![]));
    it
}

#[test]
fn other_nodes_do_not_start_while_a_node_is_unreachable() {
    let mut it = released(Parallel::default());
    it.bench.input(Input::Gone(it.nodes[1]));
    it.started(0);
    assert!(it.orders(2).is_empty(), "n2 may have lost it");
    assert_eq!(it.back("n2", Some(AttemptState::Held)), ["Registered", "Go"]);
    assert_eq!(it.orders(2), ["Go"]);
}

#[test]
fn other_nodes_do_not_start_a_job_that_must_end() {
    let mut it = released(Parallel::default());
    it.bench.say(it.client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB]))));
    it.started(0);
    assert_eq!((it.orders(1), it.orders(2)), (vec!["Stop".to_owned()], vec!["Stop".to_owned()]));
    let mut it = released(all_or_none());
    it.ended(0, 3);
    assert_eq!((it.orders(1), it.orders(2)), (vec!["Stop".to_owned()], vec!["Stop".to_owned()]));
    let mut it = released(Parallel::default());
    let outcome = Outcome::NotStarted { code: 127, reason: "not found".into() };
    let message = NodeToMaster::Ended { job: JOB, attempt: ATTEMPT, outcome, usage: Usage::default() };
    it.bench.report(it.nodes[0], message);
    assert_eq!((it.orders(1), it.orders(2)), (vec!["Stop".to_owned()], vec!["Stop".to_owned()]));
}

#[test]
fn a_part_that_may_have_begun_is_not_taken_back() {
    let mut it = released(Parallel::default());
    it.bench.input(Input::Gone(it.nodes[0]));
    assert_eq!((it.state(), it.orders(1), it.orders(2)), (JobState::Starting, vec![], vec![]));
    // A restarted master learns from the first node that it runs.
    let mut it = released(Parallel::default()).killed();
    it.back("n1", Some(AttemptState::Running));
    it.back("n2", Some(AttemptState::Held));
    it.bench.input(Input::Gone(it.nodes[1]));
    assert_eq!((it.state(), it.orders(0)), (JobState::Starting, vec![]));
}

#[test]
fn a_part_that_is_over_has_begun() {
    let mut it = released(Parallel::default());
    // The part took no time: its end is its first message.
    it.ended(0, 0);
    assert_eq!((it.orders(1), it.orders(2)), (vec!["Go".to_owned()], vec!["Go".to_owned()]));
    it.started(1);
    assert_eq!(it.state(), JobState::Starting);
    it.ended(2, 0);
    assert_eq!(it.state(), JobState::Running);
    let mut it = released(Parallel::default());
    it.started(0);
    (0..3).for_each(|index| it.ended(index, 0));
    let job = &it.bench.jobs()[0];
    assert!(job.state == JobState::Completed && job.started.is_some(), "{job:?}");
}

#[test]
fn a_repeated_end_of_one_part_does_not_end_the_job() {
    let mut it = Wide::running(Parallel::default());
    it.ended(0, 0);
    it.ended(1, 0);
    it.ended(1, 0);
    assert_eq!((it.state(), it.orders(1)), (JobState::Running, vec!["EndedAck".to_owned(), "EndedAck".to_owned()]));
}

#[test]
fn the_rest_of_the_output_comes_from_where_it_is() {
    let mut it = Wide::running(Parallel::default());
    it.ended(0, 0);
    it.ended(1, 0);
    it.bench.slow_disk = true;
    it.ended(2, 0);
    let stream = StreamId::new(JOB, Channel::Stdout);
    let rest = Data { stream, offset: 0, bytes: bytes::Bytes::from_static(b"rest") };
    it.bench.input(Input::Node(it.nodes[1], Frame::Data(rest)));
    let parts: Vec<u32> = it.bench.data().into_iter().map(|(_, data)| data.stream.part).collect();
    assert_eq!(parts, [1], "the end of the job is not on disk yet");
}

#[test]
fn output_is_requested_from_all_nodes_that_only_reported_ends() {
    let mut it = released(Parallel::default()).killed();
    let attach = ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 0, stderr: 0, more: vec![(0, 0), (0, 0)] };
    it.bench.say(it.client, attach);
    for name in ["n1", "n2", "n3"] {
        it.back(name, Some(AttemptState::Ended { outcome: Outcome::Exited(0), usage: Usage::default() }));
    }
    assert_eq!((it.orders(0), it.orders(1)), (vec!["ReadFrom".to_owned()], vec!["ReadFrom".to_owned()]));
}

#[test]
fn stdin_continues_after_the_end_of_a_node_with_an_unknown_offset() {
    let mut it = Wide::running(Parallel::default()).killed();
    let attach = ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 0, stderr: 0, more: vec![(0, 0), (0, 0)] };
    it.bench.say(it.client, attach);
    it.back("n1", Some(AttemptState::Running));
    it.back("n3", Some(AttemptState::Running));
    let attached = MasterToClient::Attached { job: JOB, stdin_offset: 5 };
    assert!(!it.bench.heard(it.client).contains(&attached));
    it.back("n2", Some(AttemptState::Ended { outcome: Outcome::Exited(0), usage: Usage::default() }));
    assert!(it.bench.heard(it.client).contains(&attached));
}

#[test]
fn a_client_returns_while_the_first_node_is_unreachable() {
    let mut it = Wide::running(Parallel::default());
    it.bench.input(Input::Gone(it.nodes[0]));
    it.bench.input(Input::Gone(it.client));
    let client = it.bench.client(7);
    let attach = ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 0, stderr: 0, more: vec![(0, 0), (0, 0)] };
    it.bench.say(client, attach);
    assert_eq!(words(&it.bench.heard(client)), ["Accepted", "Running", "Attached"]);
}

/// Uses a job on adjacent nodes and one more: it has two parts, and each node gets its own.
#[test]
fn each_node_lists_its_own_jobs() {
    let mut bench = Bench::new();
    let (operator, client) = (bench.client(0), bench.client(7));
    let names = ["n1", "n2", "n3", "n4"];
    let nodes: Vec<PeerId> = names.iter().map(|name| bench.node(name)).collect();
    for change in [
        Change::Policy { preset: Preset::Easy, parts: Vec::new() },
        Change::Drain { nodes: vec!["n2".into()], reason: "fans".into() },
    ] {
        bench.say(operator, ClientToMaster::ChangeConf(Box::new(change)));
    }
    let submission = exec_with(1, |exec| {
        exec.request.spread = Some(super::multi_node::spread(3));
        exec.launch.parallel = Some(Parallel::default());
    });
    bench.say(client, submission);
    for (index, node) in [(0, 0), (1, 2), (2, 3)] {
        let orders = bench.orders(nodes[node]);
        let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
        let share = exec.share.as_ref().expect("a share");
        assert_eq!((share.index, share.nodes.join(",")), (index, "n1,n3,n4".to_owned()));
        let [part] = exec.placement[..] else { panic!("{:?}", exec.placement) };
        assert_eq!((part.unit.node.0, part.count), (node as u32, 1));
    }
    assert!(bench.orders(nodes[1]).iter().all(|order| !matches!(order, MasterToNode::DoExec(_))));
}

/// Checks that stdin that only some nodes have is lost with the client that sent it.
#[test]
fn another_client_sends_no_stdin_to_several_nodes() {
    let mut it = Wide::running(Parallel::default());
    it.bench.input(Input::Gone(it.client));
    let client = it.bench.client(7);
    it.bench.say(client, ClientToMaster::TakeUp { job: JOB, take: false });
    let heard = it.bench.heard(client);
    assert!(matches!(&heard[..], [MasterToClient::TakenUp { streams, .. }] if streams.stdin.is_none()), "{heard:?}");
}

/// Tells the nodes to forget the job, and kills the master before that is on disk. As far as the next master knows,
/// `Go` may have been sent. A node without a record of its part proves that it was not.
#[test]
fn a_cancelled_job_without_records_on_its_nodes_has_not_begun() {
    let mut it = wide(Parallel::default());
    it.ack(0);
    it.bench.slow_disk = true;
    it.bench.say(it.client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB]))));
    it.bench.commit();
    assert_eq!(it.orders(0), ["Drop"]);
    let mut it = it.killed();
    for name in ["n1", "n2", "n3"] {
        assert_eq!(it.back(name, None), ["Registered"]);
    }
    assert_eq!(it.state(), JobState::Cancelled);
    // A node that holds its part does not know if others have begun.
    let mut it = released(Parallel::default());
    it.bench.say(it.client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB]))));
    let mut it = it.killed();
    assert_eq!(it.back("n2", Some(AttemptState::Held)), ["Registered", "Stop"]);
}

#[test]
fn a_repeated_acknowledgement_keeps_the_assignment() {
    let mut it = wide(Parallel::default());
    it.ack(1);
    it.ack(1);
    assert!(it.orders(1).is_empty(), "others have not acknowledged yet");
    it.ack(0);
    it.ack(2);
    it.started(0);
    assert_eq!((it.orders(0), it.orders(1)), (vec!["Go".to_owned()], vec!["Go".to_owned()]));
}

/// The master is killed before it knows that all nodes hold the job. The client of a job that never ran reads no output.
#[test]
fn streams_of_a_part_that_was_stopped_are_discarded_when_the_job_is_taken_back() {
    let mut it = wide(Parallel::default()).killed();
    it.back("n1", Some(AttemptState::Held));
    it.back("n2", Some(AttemptState::Held));
    it.bench.say(it.client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB]))));
    assert_eq!((it.orders(0), it.orders(1)), (vec!["Stop".to_owned()], vec!["Stop".to_owned()]));
    let (outcome, usage) = (Outcome::Signaled(15), limo_model::Usage::default());
    it.bench.report(it.nodes[0], NodeToMaster::Ended { job: JOB, attempt: ATTEMPT, outcome, usage });
    it.bench.pass(Span::from_ms(5));
    assert_eq!(it.orders(0), ["EndedAck"]);
    it.back("n3", None);
    assert_eq!((it.orders(0), it.orders(1)), (vec!["Discard".to_owned()], vec!["Drop".to_owned()]));
    assert_eq!(it.state(), JobState::Cancelled);
}

/// The first node cannot start the job, which waits again. Its output then begins anew.
#[test]
fn the_end_of_the_streams_of_a_part_that_was_stopped_does_not_reach_the_client() {
    let mut it = released(Parallel::default());
    let reason = "input/output error".to_owned();
    let report =
        |outcome| NodeToMaster::Ended { job: JOB, attempt: ATTEMPT, outcome, usage: limo_model::Usage::default() };
    it.bench.report(it.nodes[0], report(Outcome::NotPrepared { reason }));
    assert_eq!((it.orders(1), it.orders(2)), (vec!["Stop".to_owned()], vec!["Stop".to_owned()]));
    let end = Data { stream: StreamId::new(JOB, Channel::Stdout), offset: 0, bytes: bytes::Bytes::new() };
    for index in [1, 2] {
        it.bench.input(Input::Node(it.nodes[index], Frame::Data(end.clone())));
        it.bench.report(it.nodes[index], report(Outcome::Signaled(15)));
    }
    it.bench.pass(Span::from_ms(5));
    assert_eq!(it.bench.data(), []);
    assert_eq!(it.state(), JobState::Starting, "again");
}
