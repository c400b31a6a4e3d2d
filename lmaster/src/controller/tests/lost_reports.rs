//! Reports of nodes whose commits fail. Nodes that stay connected to a read-only master do not report again.

use limo_model::{Band, Curve};
use limo_proto::{AttemptState, Change, Channel, Data, JobState, Parallel, StreamId};

use super::multi_node::{ATTEMPT, JOB, wide};
use super::*;

const FULL: &str = "the disk under the journal is read-only";

/// Fails the running commit; nothing can be written from now on.
fn become_read_only(bench: &mut Bench) {
    bench.disk.read_only = Some(FULL.into());
    bench.fail();
    bench.slow_disk = false;
}

fn stdin(job: JobId) -> Frame<ClientToMaster> {
    let stream = StreamId::new(job, Channel::Stdin);
    Frame::Data(Data { stream, offset: 0, bytes: b"on and on".as_slice().into() })
}

/// Reconnects the node, which reports this state.
fn back(bench: &mut Bench, state: AttemptState) -> PeerId {
    let (journal, kept) = (Default::default(), Default::default());
    let report = AttemptReport { journal, kept, ..attempt_report(JOB, ATTEMPT, state) };
    bench.node_with("n1", "boot", vec![report])
}

/// Releases a job; returns it with its node and its client.
fn released() -> (Bench, PeerId, PeerId) {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    bench.submit(client, 1);
    bench.report(node, NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT });
    bench.orders(node);
    bench.heard(client);
    (bench, node, client)
}

/// Checks that the job is shown as running, that its client knows this, and that its stdin reaches the node.
#[track_caller]
fn runs(bench: &mut Bench, node: PeerId, client: PeerId) {
    assert_eq!(bench.jobs()[0].state, JobState::Running);
    bench.input(Input::Client(client, stdin(JOB)));
    assert_eq!(bench.data().iter().map(|(to, _)| *to).collect::<Vec<_>>(), [node]);
}

/// Restores free space: the node registers again, and the start becomes durable.
#[track_caller]
fn room_again(mut bench: Bench) {
    bench.disk.read_only = None;
    bench.input(Input::Ballast(Ok(())));
    assert_eq!(bench.jobs()[0].state, JobState::Starting, "as on disk");
    back(&mut bench, AttemptState::Running);
    bench.pass(Span::from_secs(1));
    let bench = bench.killed();
    assert_eq!(bench.controller.tx.core.job(JOB).and_then(|job| job.running()).map(|_| ()), Some(()));
}

#[test]
fn an_unwritten_start_is_shown_while_the_journal_fails() {
    let (mut bench, node, client) = released();
    bench.slow_disk = true;
    bench.report(node, NodeToMaster::Started { job: JOB, attempt: ATTEMPT });
    bench.pass(Span::from_ms(5));
    become_read_only(&mut bench);
    assert!(bench.closed.is_empty(), "the node stays connected");
    runs(&mut bench, node, client);
    room_again(bench);
}

#[test]
fn a_start_that_is_reported_while_the_state_is_read_back_is_shown() {
    let (mut bench, node, client) = released();
    (bench.slow_disk, bench.slow_answers) = (true, true);
    bench.say(client, exec(2));
    become_read_only(&mut bench);
    bench.report(node, NodeToMaster::Started { job: JOB, attempt: ATTEMPT });
    bench.slow_answers = false;
    bench.answer_one();
    runs(&mut bench, node, client);
    room_again(bench);
}

#[test]
fn a_start_that_is_reported_to_a_read_only_master_is_shown() {
    let (mut bench, node, client) = released();
    bench.slow_disk = true;
    bench.say(client, exec(2));
    become_read_only(&mut bench);
    assert_eq!(bench.jobs()[0].state, JobState::Starting);
    bench.report(node, NodeToMaster::Started { job: JOB, attempt: ATTEMPT });
    assert_eq!(words(&bench.heard(client)).last().map(String::as_str), Some("Attached"));
    runs(&mut bench, node, client);
    room_again(bench);
}

#[test]
fn a_master_that_starts_read_only_shows_the_jobs_that_nodes_report_as_running() {
    let (mut bench, _, _) = released();
    bench.disk.read_only = Some(FULL.into());
    let mut bench = bench.killed();
    let client = bench.client(7);
    let attach = ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 0, stderr: 0, more: Vec::new() };
    bench.say(client, attach);
    let node = back(&mut bench, AttemptState::Running);
    runs(&mut bench, node, client);
    room_again(bench);
}

/// Checks that the job runs when all of its nodes have begun, even if some reported it before the failure and others
/// after it.
#[test]
fn a_start_on_several_nodes_is_shown_when_all_have_begun() {
    let mut it = wide(Parallel::default());
    (0..3).for_each(|index| it.ack(index));
    it.started(0);
    it.started(1);
    it.bench.slow_disk = true;
    let client = it.client;
    it.bench.say(client, exec(2));
    become_read_only(&mut it.bench);
    assert_eq!(it.state(), JobState::Starting);
    it.started(2);
    assert_eq!(it.state(), JobState::Running);
    assert!(it.bench.closed.is_empty());
}

/// Checks that confirmed caps and suspensions are repeated when the node registers again.
#[test]
fn unwritten_confirmations_of_caps_and_pauses_are_asked_for_again() {
    let mut bench = Bench::new();
    let (node, client, root) = (bench.node("n1"), bench.client(7), bench.client(0));
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Policy { preset: Preset::Limo, parts: Vec::new() })));
    bench.say(client, exec_with(1, |exec| exec.request.may_suspend = true));
    bench.report(node, NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT });
    bench.report(node, NodeToMaster::Started { job: JOB, attempt: ATTEMPT });
    let limit = |bench: &mut Bench, watts| {
        let band = Band::new(Power::ZERO, Power::from_watts(watts)).expect("a band");
        bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Limits(Curve::constant(band)))));
        words(&bench.orders(node))
    };
    assert!(limit(&mut bench, 50).contains(&"Caps".to_owned()));
    assert!(limit(&mut bench, 12).contains(&"Suspend".to_owned()));
    bench.slow_disk = true;
    bench.report(node, NodeToMaster::Capped { generation: 1, failed: limo_proto::List::default() });
    bench.report(node, NodeToMaster::Paused { job: JOB, attempt: ATTEMPT, paused: true });
    become_read_only(&mut bench);
    bench.disk.read_only = None;
    bench.input(Input::Ballast(Ok(())));
    assert_eq!(bench.closed.last().map(|(peer, _)| *peer), Some(node), "it is asked to register again");
    let node = back(&mut bench, AttemptState::Running);
    // This is the pause after a failed commit.
    bench.pass(Span::from_secs(1));
    let orders = words(&bench.orders(node));
    assert!(["Caps", "Suspend"].iter().all(|order| orders.contains(&(*order).to_owned())), "{orders:?}");
}

/// Lets a node fall asleep while nothing is recorded. The machine sleeps once its connection has ended, and the
/// master closes it after reading the state back.
#[test]
fn a_node_that_fell_asleep_during_a_journal_failure_is_asleep_afterwards() {
    let (mut bench, node) = super::sleep::going_down();
    let client = bench.client(7);
    bench.slow_disk = true;
    bench.say(client, exec(1));
    become_read_only(&mut bench);
    bench.report(node, NodeToMaster::FallingAsleep);
    assert!(bench.parted.is_empty());
    bench.disk.read_only = None;
    bench.input(Input::Ballast(Ok(())));
    assert_eq!(bench.closed.last().map(|(peer, _)| *peer), Some(node));
    bench.pass(Span::from_secs(120));
    assert_eq!(bench.controller.tx.core.nodes()[0].sleep(), limo_sched::Sleep::Asleep);
}
