//! stdio is passed on at once, between the right ends and within the window.

use bytes::Bytes;
use limo_proto::{AttemptState, Channel, Data, StreamId, WINDOW};

use super::*;

fn data(job: JobId, channel: Channel, offset: u64, bytes: &'static [u8]) -> Data {
    Data { stream: StreamId::new(job, channel), offset, bytes: Bytes::from_static(bytes) }
}

struct Running {
    bench: Bench,
    node: PeerId,
    client: PeerId,
    job: JobId,
}

fn running() -> Running {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (job, _) = bench.running(client, node, 1);
    bench.heard(client);
    Running { bench, node, client, job }
}

impl Running {
    fn write(&mut self, channel: Channel, offset: u64, bytes: &'static [u8]) -> Data {
        let data = data(self.job, channel, offset, bytes);
        self.bench.input(Input::Node(self.node, Frame::Data(data.clone())));
        data
    }

    fn taken(&mut self, channel: Channel, offset: u64) {
        let stream = StreamId::new(self.job, channel);
        self.bench.say(self.client, ClientToMaster::StreamAck { stream, offset });
    }
}

#[test]
fn data_does_not_wait_for_the_disk() {
    let mut it = running();
    it.bench.slow_disk = true;
    let out = it.write(Channel::Stdout, 0, b"hello");
    let into = data(it.job, Channel::Stdin, 0, b"x");
    it.bench.input(Input::Client(it.client, Frame::Data(into.clone())));
    assert_eq!(it.bench.data(), [(it.client, out), (it.node, into)]);
    it.taken(Channel::Stdout, 5);
    let stream = StreamId::new(it.job, Channel::Stdout);
    assert_eq!(it.bench.orders(it.node), [MasterToNode::StreamAck { stream, offset: 5 }]);
    let stream = StreamId::new(it.job, Channel::Stdin);
    it.bench.report(it.node, NodeToMaster::StreamAck { stream, offset: 1 });
    assert_eq!(it.bench.heard(it.client), [MasterToClient::StreamAck { stream, offset: 1 }]);
}

#[test]
fn only_the_ends_of_a_stream_use_it() {
    let mut it = running();
    let stranger = it.bench.client(8);
    it.bench.input(Input::Client(stranger, Frame::Data(data(it.job, Channel::Stdin, 0, b"x"))));
    let other = it.bench.node("n2");
    it.bench.input(Input::Node(other, Frame::Data(data(it.job, Channel::Stdout, 0, b"x"))));
    assert!(it.bench.data().is_empty());
    it.bench.input(Input::Client(it.client, Frame::Data(data(it.job, Channel::Stdin, 0, b"x"))));
    let taken = |offset| NodeToMaster::StreamAck { stream: StreamId::new(it.job, Channel::Stdin), offset };
    it.bench.report(other, taken(1));
    it.bench.report(it.node, taken(2));
    assert!(it.bench.heard(it.client).is_empty(), "one has nothing of it, and so much was not sent");
    it.bench.input(Input::Client(it.client, Frame::Data(data(it.job, Channel::Stdout, 0, b"x"))));
    assert_eq!(it.bench.closed, [(it.client, "a client sent output of job 1".to_owned())]);
    let mut it = running();
    let stream = StreamId { part: 1, ..StreamId::new(it.job, Channel::Stdin) };
    it.bench.input(Input::Client(it.client, Frame::Data(Data { stream, ..data(it.job, Channel::Stdin, 0, b"x") })));
    assert_eq!(it.bench.closed, [(it.client, "a client sent output of job 1".to_owned())]);
}

#[test]
fn a_sender_beyond_the_window_is_disconnected() {
    let mut it = running();
    it.write(Channel::Stdout, WINDOW - 1, b"x");
    it.write(Channel::Stdout, WINDOW, b"");
    assert!(it.bench.closed.is_empty());
    it.write(Channel::Stdout, WINDOW, b"x");
    assert_eq!(it.bench.closed.last().map(|(peer, _)| *peer), Some(it.node));
    let mut it = running();
    it.taken(Channel::Stdout, 1);
    assert_eq!(it.bench.closed, [(it.client, "job 1: 1 is acknowledged, 0 was sent".to_owned())]);
}

#[test]
fn a_returning_client_continues_at_its_offset() {
    let mut it = running();
    it.write(Channel::Stdout, 0, b"hello");
    let stream = StreamId::new(it.job, Channel::Stdin);
    it.bench.input(Input::Client(it.client, Frame::Data(data(it.job, Channel::Stdin, 0, b"xyz"))));
    it.bench.report(it.node, NodeToMaster::StreamAck { stream, offset: 3 });
    it.bench.input(Input::Gone(it.client));
    it.bench.pass(Span::from_secs(59));
    let client = it.bench.client(7);
    let attach = |key| ClientToMaster::Attach { job: JobId(1), key, stdout: 5, stderr: 0, more: Vec::new() };
    it.bench.say(client, attach([9; 16]));
    assert_eq!(refusal(it.bench.heard(client).first()), "job 1 was not submitted by this client");
    it.bench.say(client, attach([1; 16]));
    let heard = it.bench.heard(client);
    assert_eq!(words(&heard), ["Accepted", "Running", "Attached"]);
    assert_eq!(heard.last(), Some(&MasterToClient::Attached { job: it.job, stdin_offset: 3 }));
    assert_eq!(it.bench.orders(it.node), [MasterToNode::ReadFrom { job: it.job, stdout: 5, stderr: 0 }]);
    it.bench.pass(Span::from_secs(600));
    assert!(it.bench.orders(it.node).is_empty(), "it is not given up any more");
}

/// A refusal would end a client whose job goes on.
#[test]
fn a_returning_client_calls_again_if_its_job_cannot_be_looked_up() {
    let mut it = running();
    it.bench.input(Input::Gone(it.client));
    it.bench.disk.unreadable = Some("the journal is closed");
    let attach = ClientToMaster::Attach { job: JobId(9), key: [9; 16], stdout: 0, stderr: 0, more: Vec::new() };
    let client = it.bench.client(7);
    it.bench.say(client, attach.clone());
    assert_eq!(it.bench.closed, [(client, "the journal is closed".to_owned())]);
    assert!(it.bench.heard(client).is_empty());
    it.bench.disk.unreadable = None;
    let client = it.bench.client(7);
    it.bench.say(client, attach);
    assert_eq!(refusal(it.bench.heard(client).first()), "job 9 was not submitted by this client");
}

#[test]
fn a_job_without_its_client_is_given_up() {
    let mut it = running();
    it.bench.input(Input::Gone(it.client));
    it.bench.pass(Span::from_secs(60));
    assert_eq!(words(&it.bench.orders(it.node)), ["Discard", "Stop"]);
    let client = it.bench.client(7);
    it.bench.say(client, ClientToMaster::Attach { job: it.job, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() });
    let heard = it.bench.heard(client);
    assert_eq!(refusal(heard.first()), "job 1 was cancelled, because its lrun was away for more than 1min");
}

#[test]
fn after_a_restart_both_ends_find_each_other_in_any_order() {
    for node_first in [true, false] {
        let it = running();
        let mut bench = it.bench.killed();
        let reports =
            vec![AttemptReport { stdin_offset: 8, ..attempt_report(it.job, Attempt(1), AttemptState::Running) }];
        let attach = ClientToMaster::Attach { job: it.job, key: [1; 16], stdout: 100, stderr: 7, more: Vec::new() };
        let (node, client);
        if node_first {
            node = bench.node_with("n1", "boot", reports);
            client = bench.client(7);
            bench.say(client, attach);
        } else {
            client = bench.client(7);
            bench.say(client, attach);
            node = bench.node_with("n1", "boot", reports);
        }
        assert!(bench.orders(node).contains(&MasterToNode::ReadFrom { job: it.job, stdout: 100, stderr: 7 }));
        let attached = MasterToClient::Attached { job: it.job, stdin_offset: 8 };
        assert_eq!(bench.heard(client).last(), Some(&attached), "node first: {node_first}");
        let rest = data(it.job, Channel::Stdout, 100, b"more");
        bench.input(Input::Node(node, Frame::Data(rest.clone())));
        assert_eq!(bench.data(), [(client, rest)]);
    }
}

#[test]
fn output_is_passed_on_after_the_end_until_it_is_read() {
    let mut it = running();
    let rest = it.write(Channel::Stdout, 0, b"rest");
    it.bench.slow_disk = true;
    it.bench.report(it.node, ended(it.job, Attempt(1), 0));
    // First the end of the job is not on disk yet, and then it is.
    let first = it.write(Channel::Stdout, 4, b"");
    it.bench.commit();
    assert_eq!(words(&it.bench.heard(it.client)), ["Finished"]);
    it.bench.slow_disk = false;
    let second = it.write(Channel::Stderr, 0, b"");
    let passed: Vec<_> = it.bench.data().into_iter().map(|(_, data)| data).collect();
    assert_eq!(passed, [rest, first, second]);
    it.bench.orders(it.node);
    it.taken(Channel::Stdout, 5);
    it.taken(Channel::Stderr, 1);
    assert_eq!(words(&it.bench.orders(it.node)), ["StreamAck", "StreamAck"]);
    assert!(!it.bench.controller.routes.has(it.job), "nothing is kept of a job that is over and read");
}

#[test]
fn the_rest_of_the_output_survives_a_restart_after_the_end() {
    let mut it = running();
    it.bench.report(it.node, ended(it.job, Attempt(1), 0));
    let mut bench = it.bench.killed();
    let node = bench.node("n1");
    let client = bench.client(7);
    bench.say(client, ClientToMaster::Attach { job: it.job, key: [1; 16], stdout: 2, stderr: 0, more: Vec::new() });
    assert_eq!(words(&bench.heard(client)), ["Accepted", "Finished"]);
    assert!(bench.orders(node).contains(&MasterToNode::ReadFrom { job: it.job, stdout: 2, stderr: 0 }));
    let rest = data(it.job, Channel::Stdout, 2, b"rest");
    bench.input(Input::Node(node, Frame::Data(rest.clone())));
    assert_eq!(bench.data(), [(client, rest)]);
}

/// A node on which an earlier attempt was begun, or ended, may return before the client of a job that is over, or while it reads.
#[test]
fn another_node_with_records_of_a_job_that_is_over_does_not_withhold_its_output() {
    let outcome = limo_model::Outcome::Signaled(15);
    let over = || AttemptState::Ended { outcome: outcome.clone(), usage: limo_model::Usage::default() };
    let cases = [(AttemptState::Held, false, "Drop"), (over(), false, "Discard"), (over(), true, "Discard")];
    for (state, returns_first, order) in cases {
        let mut it = running();
        it.bench.report(it.node, ended(it.job, Attempt(1), 0));
        let mut bench = it.bench.killed();
        let node = bench.node("n1");
        let job = it.job;
        let attach = |bench: &mut Bench| {
            let client = bench.client(7);
            bench.say(client, ClientToMaster::Attach { job, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() });
            client
        };
        let mut client = (!returns_first).then(|| attach(&mut bench));
        let is_interrupted = client.is_some() && state != AttemptState::Held;
        let other = bench.node_with("n2", "boot", vec![attempt_report(job, Attempt(1), state)]);
        assert_eq!(bench.closed.iter().any(|(peer, _)| Some(*peer) == client), is_interrupted);
        client = client.filter(|_| !is_interrupted);
        let client = client.unwrap_or_else(|| attach(&mut bench));
        assert!(words(&bench.orders(other)).contains(&order.to_owned()), "{order}");
        let rest = data(job, Channel::Stdout, 0, b"rest");
        bench.input(Input::Node(node, Frame::Data(rest.clone())));
        assert_eq!(bench.data(), [(client, rest)]);
    }
}

#[test]
fn a_client_that_returns_while_the_end_is_written_gets_the_end() {
    let mut it = running();
    it.bench.input(Input::Gone(it.client));
    it.bench.slow_disk = true;
    it.bench.report(it.node, ended(it.job, Attempt(1), 0));
    let client = it.bench.client(7);
    it.bench.say(client, ClientToMaster::Attach { job: it.job, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() });
    it.bench.slow_disk = false;
    it.bench.commit();
    assert_eq!(words(&it.bench.heard(client)), ["Accepted", "Finished"]);
    assert!(it.bench.orders(it.node).contains(&MasterToNode::ReadFrom { job: it.job, stdout: 0, stderr: 0 }));
}

/// Checks that the node sends output again if the shell drops it. Later output is not passed on meanwhile.
#[test]
fn dropped_output_is_sent_again_after_the_client_has_read_the_queue() {
    let mut it = running();
    it.bench.slow_clients = true;
    let first = it.write(Channel::Stdout, 0, b"abc");
    let second = it.write(Channel::Stdout, 3, b"def");
    it.taken(Channel::Stdout, 3);
    it.bench.orders(it.node);
    it.bench.input(Input::Dropped(it.client, second.stream, second.offset));
    it.write(Channel::Stdout, 6, b"ghi");
    it.write(Channel::Stdout, 9, b"");
    let other = it.write(Channel::Stderr, 0, b"x");
    assert_eq!(it.bench.data(), [(it.client, first), (it.client, second), (it.client, other)]);
    assert!(it.bench.orders(it.node).is_empty(), "not before the client has taken something");
    it.bench.drain();
    assert_eq!(it.bench.orders(it.node), [MasterToNode::ReadFrom { job: it.job, stdout: 3, stderr: 0 }]);
    it.bench.data();
    // This data was on its way before the node got the request.
    it.write(Channel::Stdout, 6, b"ghi");
    let again = [it.write(Channel::Stdout, 3, b"defghi"), it.write(Channel::Stdout, 9, b"")];
    assert_eq!(it.bench.data(), again.map(|data| (it.client, data)));
    it.bench.drain();
    assert!(it.bench.orders(it.node).is_empty(), "once is enough");
}
