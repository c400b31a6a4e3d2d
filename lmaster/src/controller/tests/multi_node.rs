//! Jobs over several nodes start and end as one, even if a program is killed in between.

use limo_model::{JobEnd, Outcome, Spread, Usage, Widths};
use limo_proto::{AttemptState, Change, Channel, Hold, JobState, Parallel, SendExec, StreamId};

use super::*;

pub const JOB: JobId = JobId(1);
pub const ATTEMPT: Attempt = Attempt(1);

/// A job over three nodes, which have received it.
pub struct Wide {
    pub bench: Bench,
    pub nodes: Vec<PeerId>,
    pub client: PeerId,
}

pub fn spread(nodes: u32) -> Spread {
    let count = |count: u32| NonZeroU32::new(count).expect("at least one");
    Spread { tasks: count(nodes), cores: Cores::Count(NonZeroU32::MIN), nodes: Some(count(nodes)), per_node: None }
}

pub fn wide(parallel: Parallel) -> Wide {
    wide_with(parallel, |_| {})
}

/// Does the same, with changes of the submission.
fn wide_with(parallel: Parallel, change: impl Fn(&mut SendExec)) -> Wide {
    let mut bench = Bench::new();
    let operator = bench.client(0);
    bench.say(
        operator,
        ClientToMaster::ChangeConf(Box::new(Change::Policy { preset: Preset::Easy, parts: Vec::new() })),
    );
    let nodes: Vec<PeerId> = ["n1", "n2", "n3"].iter().map(|name| bench.node(name)).collect();
    let client = bench.client(7);
    let submission = exec_with(1, |exec| {
        exec.request.spread = Some(spread(3));
        exec.request.nodes = NonZeroU32::MIN;
        exec.launch.parallel = Some(parallel);
        change(exec);
    });
    bench.say(client, submission);
    for (index, node) in (0..).zip(&nodes) {
        let orders = bench.orders(*node);
        let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
        let share = exec.share.as_ref().expect("a share");
        assert_eq!((share.index, share.nodes.join(","), share.own()), (index, "n1,n2,n3".to_owned(), (index, 1)));
        assert_eq!((exec.placement.len(), exec.placement[0].count), (1, 1), "what is on this node alone");
    }
    bench.heard(client);
    Wide { bench, nodes, client }
}

impl Wide {
    pub fn ack(&mut self, index: usize) {
        self.bench.report(self.nodes[index], NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT });
    }

    pub fn started(&mut self, index: usize) {
        self.bench.report(self.nodes[index], NodeToMaster::Started { job: JOB, attempt: ATTEMPT });
    }

    pub fn ended(&mut self, index: usize, code: u8) {
        self.bench.report(self.nodes[index], ended(JOB, ATTEMPT, code));
    }

    pub fn orders(&mut self, index: usize) -> Vec<String> {
        words(&self.bench.orders(self.nodes[index]))
    }

    pub fn state(&mut self) -> JobState {
        self.bench.jobs()[0].state
    }

    /// Starts the job on all three nodes, and takes all messages.
    pub fn running(parallel: Parallel) -> Self {
        let mut it = wide(parallel);
        (0..3).for_each(|index| it.ack(index));
        (0..3).for_each(|index| it.started(index));
        // The start is on disk by then.
        it.bench.pass(Span::from_ms(5));
        (0..3).for_each(|index| drop(it.orders(index)));
        it.bench.heard(it.client);
        it
    }

    /// Does the same after a `kill -9` of the master, before any node connects.
    pub fn killed(self) -> Self {
        let mut bench = self.bench.killed();
        let client = bench.client(7);
        Self { bench, nodes: Vec::new(), client }
    }

    pub fn back(&mut self, name: &str, state: Option<AttemptState>) -> Vec<String> {
        let report = |state| AttemptReport { stdin_offset: 5, ..attempt_report(JOB, ATTEMPT, state) };
        let peer = self.bench.node_with(name, "boot", state.map(report).into_iter().collect());
        self.nodes.push(peer);
        words(&self.bench.orders(peer))
    }
}

/// Each node uses 600 J in 10 s.
#[test]
fn a_moldable_job_has_a_task_on_each_of_its_nodes_and_teaches_their_number() {
    let (least, most) = (NonZeroU32::MIN, NonZeroU32::new(5).expect("five"));
    let mut it = wide_with(Parallel::default(), |exec| {
        exec.request.spread = Some(spread(1));
        exec.request.widths = Some(Widths { least, most, tasks_per_node: Some(least) });
    });
    (0..3).for_each(|index| it.ack(index));
    (0..3).for_each(|index| it.started(index));
    let widths = |it: &mut Wide| it.bench.jobs()[0].widths.map(|(widths, nodes)| (widths.to_string(), nodes.get()));
    assert_eq!(widths(&mut it), Some(("1-5".to_owned(), 3)));
    (0..3).for_each(|index| it.ended(index, 0));
    assert_eq!((it.state(), widths(&mut it)), (JobState::Completed, Some(("1-5".to_owned(), 3))));
    let [lesson] = it.bench.lessons.as_slice() else { panic!("{:?}", it.bench.lessons) };
    assert_eq!(lesson.key.to_string(), "cg on xeon, 1 core, 3 nodes");
    assert_eq!((lesson.energy.over(lesson.duration).watts(), lesson.unit), (60.0, None));
}

#[test]
fn go_follows_all_acknowledgements_and_begins_with_the_first_node() {
    let mut it = wide(Parallel::default());
    it.ack(0);
    it.ack(2);
    assert_eq!((it.orders(0), it.orders(2)), (vec![], vec![]));
    it.ack(1);
    assert_eq!((it.orders(0), it.orders(1), it.orders(2)), (vec!["Go".to_owned()], vec![], vec![]));
    it.started(0);
    assert_eq!((it.orders(0), it.orders(1), it.orders(2)), (vec![], vec!["Go".to_owned()], vec!["Go".to_owned()]));
    it.started(2);
    assert_eq!(it.state(), JobState::Starting);
    assert!(it.bench.heard(it.client).is_empty());
    it.started(1);
    assert_eq!(it.state(), JobState::Running);
    let heard = it.bench.heard(it.client);
    assert!(matches!(&heard[0], MasterToClient::Running { node, .. } if node == "n[1-3]"), "{heard:?}");
    assert_eq!(words(&heard), ["Running", "Attached"]);
}

#[test]
fn one_that_refuses_takes_all_back_and_is_alone_to_blame() {
    let mut it = wide(Parallel::default());
    it.ack(0);
    it.bench.report(it.nodes[1], NodeToMaster::JobRefused { job: JOB, attempt: ATTEMPT, reason: "full".into() });
    assert_eq!((it.orders(0), it.orders(2)), (vec!["Drop".to_owned()], vec!["Drop".to_owned()]));
    assert_eq!(it.state(), JobState::Waiting);
    // The late acknowledgement is for a job that has ended.
    it.ack(2);
    assert_eq!(it.orders(2), ["Drop"]);
    let suspects: Vec<bool> =
        it.bench.controller.tx.core.nodes().iter().map(|node| node.is_suspect(it.bench.now)).collect();
    assert_eq!(suspects, [false, true, false]);
    it.bench.pass(Span::from_secs(31));
    assert_eq!((it.orders(0), it.orders(1)), (vec!["DoExec".to_owned()], vec!["Drop".to_owned(), "DoExec".to_owned()]));
}

#[test]
fn a_connection_that_breaks_before_go_takes_all_back() {
    let mut it = wide(Parallel::default());
    it.ack(0);
    it.ack(1);
    it.bench.input(Input::Gone(it.nodes[2]));
    assert_eq!((it.orders(0), it.orders(1)), (vec!["Drop".to_owned()], vec!["Drop".to_owned()]));
    assert_eq!(it.state(), JobState::Waiting);
}

#[test]
fn the_job_ends_with_the_last_part_and_the_highest_code() {
    let mut it = Wide::running(Parallel::default());
    it.ended(1, 7);
    assert_eq!((it.orders(0), it.orders(1)), (vec![], vec!["EndedAck".to_owned()]), "the others go on");
    assert_eq!(it.state(), JobState::Running);
    // A repeated end counts once.
    it.ended(1, 9);
    assert_eq!(it.orders(1), ["EndedAck"]);
    it.ended(0, 0);
    it.ended(2, 3);
    assert_eq!(it.orders(2), ["EndedAck"]);
    let job = &it.bench.jobs()[0];
    assert_eq!((job.state, job.nodes.join(",")), (JobState::Failed, "n1,n2,n3".to_owned()));
    assert!(format!("{:?}", job.end).contains("Exited(7)"), "{:?}", job.end);
    assert_eq!(job.energy, Some(limo_model::Energy::from_joules(1800)), "the sum of what each told");
}

#[test]
fn parts_are_on_disk_before_they_are_acknowledged() {
    let mut it = Wide::running(Parallel::default());
    it.bench.slow_disk = true;
    it.ended(1, 7);
    assert!(it.orders(1).is_empty());
    it.bench.commit();
    assert_eq!(it.orders(1), ["EndedAck"]);
    // The acknowledgement was lost with the master, and so was the connection of the node, which repeats its report.
    let mut it = it.killed();
    let end = AttemptState::Ended { outcome: Outcome::Exited(9), usage: Usage::default() };
    it.back("n2", Some(end));
    it.ended(0, 9);
    assert_eq!(it.orders(0), ["EndedAck"]);
    it.back("n1", Some(AttemptState::Running));
    it.back("n3", Some(AttemptState::Running));
    assert_eq!(it.state(), JobState::Running);
    it.ended(1, 0);
    it.ended(2, 0);
    assert!(format!("{:?}", it.bench.jobs()[0].end).contains("Exited(7)"));
}

#[test]
fn a_part_that_is_lost_ends_the_others() {
    let mut it = Wide::running(Parallel::default());
    it.bench.input(Input::Gone(it.nodes[1]));
    assert_eq!((it.state(), it.orders(0)), (JobState::Running, vec![]), "it may come back");
    // Output that the node has not delivered is lost.
    assert_eq!(it.back("n2", None), ["Registered", "ReadFrom"]);
    assert_eq!((it.orders(0), it.orders(2)), (vec!["Stop".to_owned()], vec!["Stop".to_owned()]));
    it.ended(0, 0);
    it.ended(2, 0);
    assert_eq!(it.state(), JobState::Lost);
}

#[test]
fn one_that_fails_ends_the_others_if_that_is_wanted() {
    let mut it = Wide::running(Parallel { kill_on_bad_exit: true, ..Parallel::default() });
    it.ended(0, 0);
    assert!(it.orders(2).is_empty());
    it.bench.input(Input::Gone(it.nodes[2]));
    it.ended(1, 3);
    assert_eq!(it.back("n3", Some(AttemptState::Running)), ["Registered", "Stop", "ReadFrom"], "also who was away");
}

#[test]
fn a_job_without_all_intents_is_assigned_again_after_a_kill() {
    let mut it = wide(Parallel::default()).killed();
    assert_eq!(it.back("n1", Some(AttemptState::Held)), ["Registered"]);
    assert_eq!(it.back("n3", Some(AttemptState::Held)), ["Registered"], "nobody goes alone");
    // All intents are on record before any `Go`. Without this one, no node was released.
    it.back("n2", None);
    assert_eq!(it.orders(0)[0], "Drop");
    assert_eq!(it.state(), JobState::Starting, "again, on all three");
}

#[test]
fn killed_when_all_held_it() {
    let mut it = wide(Parallel::default()).killed();
    it.back("n2", Some(AttemptState::Held));
    it.back("n3", Some(AttemptState::Held));
    assert_eq!(it.back("n1", Some(AttemptState::Held)), ["Registered", "Go"]);
    it.started(2);
    assert_eq!((it.orders(0), it.orders(1)), (vec!["Go".to_owned()], vec!["Go".to_owned()]));
}

#[test]
fn killed_when_one_ran() {
    let mut it = wide(Parallel::default()).killed();
    it.back("n1", Some(AttemptState::Running));
    it.back("n2", Some(AttemptState::Held));
    assert!(it.orders(1).is_empty());
    assert_eq!(it.back("n3", Some(AttemptState::Held)), ["Registered", "Go"]);
    assert_eq!(it.orders(1), ["Go"]);
}

#[test]
fn a_cancelled_job_that_one_node_holds_begins_nowhere_else() {
    let mut it = wide(Parallel::default());
    (0..3).for_each(|index| it.ack(index));
    it.started(0);
    it.bench.input(Input::Gone(it.nodes[2]));
    it.bench.say(it.client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB]))));
    assert_eq!(it.orders(0).pop(), Some("Stop".to_owned()));
    assert_eq!(it.orders(1).pop(), Some("Stop".to_owned()));
    assert_eq!(it.back("n3", Some(AttemptState::Held)), ["Registered", "Stop"]);
}

#[test]
fn stdin_is_acknowledged_up_to_the_slowest_node() {
    let mut it = Wide::running(Parallel::default());
    let stream = StreamId::new(JOB, Channel::Stdin);
    let data = limo_proto::Data { stream, offset: 0, bytes: bytes::Bytes::from_static(b"0123456789") };
    it.bench.input(Input::Client(it.client, Frame::Data(data)));
    let mut told: Vec<PeerId> = it.bench.data().into_iter().map(|(peer, _)| peer).collect();
    told.sort();
    assert_eq!(told, it.nodes);
    let taken = |it: &mut Wide, index: usize, offset| {
        it.bench.report(it.nodes[index], NodeToMaster::StreamAck { stream, offset });
        it.bench.heard(it.client)
    };
    assert_eq!((taken(&mut it, 0, 10), taken(&mut it, 1, 4)), (vec![], vec![]));
    assert_eq!(taken(&mut it, 2, 7), [MasterToClient::StreamAck { stream, offset: 4 }]);
    // A node with finished tasks does not block the others.
    it.ended(1, 0);
    assert_eq!(it.bench.heard(it.client), [MasterToClient::StreamAck { stream, offset: 7 }]);
}

#[test]
fn stdin_is_for_the_node_of_one_task() {
    let mut it = Wide::running(Parallel { reader: Some(2), ..Parallel::default() });
    let stream = StreamId::new(JOB, Channel::Stdin);
    let data = limo_proto::Data { stream, offset: 0, bytes: bytes::Bytes::from_static(b"0123456789") };
    it.bench.input(Input::Client(it.client, Frame::Data(data)));
    assert_eq!(it.bench.data().into_iter().map(|(peer, _)| peer).collect::<Vec<_>>(), [it.nodes[2]]);
    it.bench.report(it.nodes[2], NodeToMaster::StreamAck { stream, offset: 10 });
    assert_eq!(it.bench.heard(it.client), [MasterToClient::StreamAck { stream, offset: 10 }]);
}

#[test]
fn a_client_continues_only_after_the_offsets_of_all_nodes_are_known() {
    let it = Wide::running(Parallel::default());
    let mut it = it.killed();
    let attach = ClientToMaster::Attach { job: JOB, key: [1; 16], stdout: 1, stderr: 0, more: vec![(2, 0), (3, 0)] };
    it.bench.say(it.client, attach);
    let client = it.client;
    assert!(!words(&it.bench.heard(client)).contains(&"Attached".to_owned()));
    for (index, name) in ["n1", "n2", "n3"].iter().enumerate() {
        assert_eq!(it.back(name, Some(AttemptState::Running)), ["Registered", "ReadFrom"]);
        let heard = it.bench.heard(client);
        let expected = MasterToClient::Attached { job: JOB, stdin_offset: 5 };
        assert_eq!(heard.contains(&expected), index == 2, "{heard:?}");
    }
}

#[test]
fn output_of_each_node_is_a_stream_of_its_own() {
    let mut it = Wide::running(Parallel::default());
    let own = StreamId::new(JOB, Channel::Stdout);
    for index in [2, 0] {
        let data = limo_proto::Data { stream: own, offset: 0, bytes: bytes::Bytes::from_static(b"a\n") };
        it.bench.input(Input::Node(it.nodes[index], Frame::Data(data)));
    }
    let parts: Vec<u32> = it.bench.data().into_iter().map(|(_, data)| data.stream.part).collect();
    assert_eq!(parts, [2, 0]);
    let stream = StreamId { part: 2, ..own };
    it.bench.say(it.client, ClientToMaster::StreamAck { stream, offset: 2 });
    assert_eq!(it.bench.orders(it.nodes[2]), [MasterToNode::StreamAck { stream: own, offset: 2 }]);
    assert!(it.orders(0).is_empty());
}

/// The first node reads 99 W with its part, before the job has begun on the others.
#[test]
fn a_part_that_begins_early_counts_once() {
    let mut it = wide(Parallel::default());
    (0..3).for_each(|index| it.ack(index));
    let draw = |it: &Wide| {
        (it.bench.controller.tx.core.node_draw(limo_model::NodeId(0)), it.bench.controller.tx.core.sums().draw)
    };
    let read = |it: &mut Wide| {
        it.bench.report(it.nodes[0], NodeToMaster::Reading(limo_proto::Sample::once(Power::from_watts(99))));
        it.bench.pass(Span::from_secs(1));
    };
    let believed = draw(&it);
    it.started(0);
    read(&mut it);
    assert_eq!(draw(&it), believed);
    (1..3).for_each(|index| it.started(index));
    read(&mut it);
    assert_eq!(draw(&it).0, Power::from_watts(99));
    assert_eq!(draw(&it).1 - believed.1, Power::from_watts(99) - believed.0);
}

/// A script may end before the nodes that its job holds are ready. Stopping them then is not a failure of the job.
#[test]
fn a_job_ends_as_its_script_although_a_held_node_was_stopped_early() {
    for (signal, expected) in [(15, 3), (9, 137)] {
        let mut it = wide_with(Parallel::default(), |exec| {
            (exec.launch.hold, exec.launch.io) = (Hold::Others, Io::Detached);
        });
        (0..3).for_each(|index| it.ack(index));
        it.started(0);
        it.ended(0, 3);
        it.bench.pass(Span::from_ms(5));
        for index in [1, 2] {
            assert!(it.orders(index).iter().any(|order| order == "Stop"), "its script is over");
            let (outcome, usage) = (Outcome::Signaled(signal), Usage::default());
            let report = NodeToMaster::Ended { job: JOB, attempt: ATTEMPT, outcome, usage };
            it.bench.report(it.nodes[index], report);
        }
        it.bench.pass(Span::from_ms(5));
        let end = it.bench.disk.finished[&JOB].end.clone();
        let Some(JobEnd::Ran { outcome, .. }) = end else { panic!("{end:?}") };
        assert_eq!(outcome.exit_code(), expected, "signal {signal}");
    }
}
