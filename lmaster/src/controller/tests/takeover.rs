//! Another client takes over the streams of a job: permissions, suitable jobs, and offsets.

use bytes::Bytes;
use limo_proto::{AttemptState, Channel, Data, Kept, Positions, StreamId};

use super::*;

const JOB: JobId = JobId(1);

/// Starts a job on `n1`; returns its client and node.
fn running() -> (Bench, PeerId, PeerId) {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.running(client, node, 1);
    bench.heard(client);
    (bench, node, client)
}

fn take_up(bench: &mut Bench, client: PeerId, (job, take): (JobId, bool)) -> Result<Positions, String> {
    bench.say(client, ClientToMaster::TakeUp { job, take });
    match bench.heard(client).pop().expect("an answer") {
        MasterToClient::TakenUp { exec, streams, .. } => {
            assert_eq!((exec.key, exec.request.user.as_str()), ([1; 16], "user7"));
            Ok(streams)
        }
        MasterToClient::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

fn attach(bench: &mut Bench, client: PeerId) -> Vec<String> {
    bench.say(client, ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() });
    words(&bench.heard(client))
}

fn stdin(bench: &mut Bench, client: PeerId, offset: u64, bytes: &'static [u8]) {
    let data = Data { stream: StreamId::new(JOB, Channel::Stdin), offset, bytes: Bytes::from_static(bytes) };
    bench.input(Input::Client(client, Frame::Data(data)));
}

#[test]
fn the_streams_of_a_job_are_its_users_alone() {
    let (mut bench, _, client) = running();
    bench.input(Input::Gone(client));
    for uid in [8, 0] {
        let other = bench.client(uid);
        // The answer contains the key, which would be enough to attach.
        let refused = take_up(&mut bench, other, (JOB, true)).expect_err("of another");
        assert_eq!(refused, format!("job 1 belongs to user7, not to user{uid}"));
    }
}

#[test]
fn a_job_that_is_over_or_detached_is_refused_by_name() {
    let (mut bench, node, client) = running();
    assert_eq!(take_up(&mut bench, client, (JobId(0), false)), Err("there is no job 0".into()));
    assert_eq!(take_up(&mut bench, client, (JobId(2), false)), Err("there is no job 2".into()));
    bench.say(client, exec_with(2, |exec| exec.launch.io = Io::Detached));
    bench.heard(client);
    let detached = "job 2 is detached: its output goes to files";
    assert_eq!(take_up(&mut bench, client, (JobId(2), true)), Err(detached.into()));
    bench.report(node, ended(JOB, Attempt(1), 0));
    bench.heard(client);
    assert_eq!(take_up(&mut bench, client, (JOB, true)), Err("job 1 is over".into()));
}

#[test]
fn a_connected_client_keeps_its_job_or_is_informed() {
    let (mut bench, _, first) = running();
    let second = bench.client(7);
    let refused = take_up(&mut bench, second, (JOB, false)).expect_err("it is there");
    assert_eq!(refused, "job 1 has a client: its lrun is connected");
    assert!(bench.heard(first).is_empty());
    take_up(&mut bench, second, (JOB, true)).expect("on request");
    assert_eq!(bench.heard(first), [MasterToClient::TakenOver { job: JOB }]);
    stdin(&mut bench, first, 0, b"x");
    assert!(bench.data().is_empty(), "it has the streams no more");
    assert_eq!(attach(&mut bench, second), ["Accepted", "Running", "Attached"]);
    assert!(bench.heard(first).is_empty(), "it was told");
}

#[test]
fn a_taker_that_does_not_connect_has_the_orphan_grace() {
    let (mut bench, node, _) = running();
    let second = bench.client(7);
    take_up(&mut bench, second, (JOB, true)).expect("on request");
    bench.input(Input::Gone(second));
    bench.orders(node);
    bench.pass(Span::from_secs(59));
    assert!(bench.orders(node).is_empty());
    bench.pass(Span::from_secs(1));
    assert_eq!(words(&bench.orders(node)), ["Discard", "Stop"]);
    let third = bench.client(7);
    let refused = take_up(&mut bench, third, (JOB, true)).expect_err("given up");
    assert_eq!(refused, "job 1 is being cancelled, because its lrun went away");
}

#[test]
fn stdin_continues_after_the_passed_bytes_and_not_after_its_end() {
    let (mut bench, _, first) = running();
    stdin(&mut bench, first, 0, b"abc");
    bench.input(Input::Gone(first));
    let second = bench.client(7);
    let at = take_up(&mut bench, second, (JOB, false)).expect("nobody is there");
    assert_eq!(at.stdin, Some(3));
    assert_eq!(attach(&mut bench, second), ["Accepted", "Running", "Attached"]);
    stdin(&mut bench, second, 3, b"");
    bench.input(Input::Gone(second));
    let third = bench.client(7);
    assert_eq!(take_up(&mut bench, third, (JOB, false)).expect("nobody is there").stdin, None);
}

#[test]
fn unread_stdin_is_sent_again() {
    let (mut bench, node, first) = running();
    stdin(&mut bench, first, 0, b"abc");
    let stream = StreamId::new(JOB, Channel::Stdin);
    for offset in [3, 1] {
        bench.report(node, NodeToMaster::StreamAck { stream, offset });
    }
    bench.input(Input::Gone(node));
    stdin(&mut bench, first, 3, b"def");
    bench.input(Input::Gone(first));
    let second = bench.client(7);
    assert_eq!(take_up(&mut bench, second, (JOB, false)).expect("nobody is there").stdin, Some(3));
    let state = AttemptState::Running;
    let report = attempt_report(JOB, Attempt(1), state);
    bench.node_with("n1", "boot", vec![report]);
    bench.say(second, ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() });
    assert_eq!(bench.heard(second).last(), Some(&MasterToClient::Attached { job: JOB, stdin_offset: 3 }));
}

#[test]
fn a_restarted_master_gets_stream_offsets_from_the_node() {
    let (bench, ..) = running();
    let mut bench = bench.killed();
    let kept = Kept { stdin: 9, stdin_ended: false, stdout: 70, stderr: 6 };
    let running = AttemptState::Running;
    let report = |kept| AttemptReport { stdin_offset: 5, kept, ..attempt_report(JOB, Attempt(1), running.clone()) };
    let node = bench.node_with("n1", "boot", vec![report(kept)]);
    let client = bench.client(7);
    let at = take_up(&mut bench, client, (JOB, false)).expect("nobody is there");
    assert_eq!(at, Positions { stdin: Some(9), outputs: vec![(70, 6)] });
    bench.input(Input::Gone(node));
    bench.node_with("n1", "boot", vec![report(Kept { stdin_ended: true, ..kept })]);
    assert_eq!(take_up(&mut bench, client, (JOB, false)).expect("nobody is there").stdin, None);
}
