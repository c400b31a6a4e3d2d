//! Nodes that sleep: orders, waking, giving up. The master is killed at every step.

use limo_model::{Mac, NodeSpec, Rest, Switch, Wake};
use limo_proto::{Change, JobState, NodeReport, NodeSleep, NodeState};
use limo_sched::RestRule;
use std::sync::Arc;

use super::*;

/// Time to fall asleep. The next value is the time to wake.
const DOWN: Span = Span::from_secs(20);
const UP: Span = Span::from_secs(120);

fn rest(wake: Wake) -> Rest {
    let switch = |span, watts| Switch { span, draw: Power::from_watts(watts) };
    Rest { draw: Power::from_watts(1), down: switch(DOWN, 8), up: switch(UP, 9), wake: Some(wake) }
}

/// Starts a master that puts nodes to sleep as soon as they have no job.
fn sleepy() -> Bench {
    let mut bench = Bench::new();
    let options = Options { rest: RestRule::Idle(Span::ZERO), ..bench.settings.options };
    bench.settings = Settings { options, ..bench.settings };
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Policy { preset: Preset::Easy, parts: Vec::new() })));
    bench
}

fn wakeable(name: &str, boot: &str, wake: Wake) -> Registration {
    let mut registration = slave(name, boot, Vec::new());
    registration.slave.spec = NodeSpec { rest: Some(Arc::new(rest(wake))), ..registration.slave.spec };
    registration
}

fn connect(bench: &mut Bench, name: &str, boot: &str) -> PeerId {
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.register(peer, wakeable(name, boot, Wake::Command));
    peer
}

/// Starts a second process with the settings of the first.
pub fn killed(bench: Bench) -> Bench {
    let settings = bench.settings.clone();
    let mut disk = bench.disk;
    let restored = restore(disk.recover(), bench.now).expect("readable");
    assert_eq!(restored.mismatches, 0, "the journal does not replay");
    let outside = disk.outside(bench.now, bench.ahead);
    let mut next = Bench::on(Disk::default(), bench.now);
    (next.controller, next.disk, next.settings) =
        (Controller::new(restored, settings.clone(), outside, true), disk, settings);
    next.input(Input::Timer);
    next
}

fn nodes(bench: &mut Bench) -> Vec<NodeReport> {
    let client = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Nodes(NodesQuery)) else { panic!("no answer") };
    let Answer::Nodes(nodes) = *answer else { panic!("{answer:?}") };
    nodes
}

fn words_of(bench: &mut Bench, node: usize) -> String {
    nodes(bench)[node].state_in_words()
}

fn job_state(bench: &mut Bench) -> JobState {
    bench.jobs().first().expect("a job").state
}

/// Starts a cluster of one node, which was ordered to sleep.
pub fn going_down() -> (Bench, PeerId) {
    let mut bench = sleepy();
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!(words(&bench.orders(node)), ["Registered", "Sleep"]);
    (bench, node)
}

/// Starts a cluster of one node, which is asleep.
fn asleep() -> Bench {
    let (mut bench, node) = going_down();
    bench.report(node, NodeToMaster::FallingAsleep);
    assert_eq!(bench.parted, [node]);
    bench.input(Input::Gone(node));
    bench.pass(DOWN);
    assert_eq!(words_of(&mut bench, 0), "asleep");
    bench
}

/// Does the same, and wakes the node for a job.
pub fn waking() -> Bench {
    let mut bench = asleep();
    let client = bench.client(7);
    bench.submit(client, 1);
    assert_eq!(bench.woken, [WakeOrder::Command { command: "wake-node".into(), node: "n1".into() }]);
    assert_eq!((words_of(&mut bench, 0), job_state(&mut bench)), ("waking".to_owned(), JobState::Starting));
    bench
}

/// Wakes the node, and checks that its job runs.
fn proceeds(mut bench: Bench, boot: &str) {
    let node = connect(&mut bench, "n1", boot);
    let orders = bench.orders(node);
    assert_eq!(words(&orders), ["Registered", "DoExec"]);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    let (job, attempt) = (exec.job, exec.attempt);
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    assert_eq!((words_of(&mut bench, 0), job_state(&mut bench)), ("up".to_owned(), JobState::Running));
    bench.report(node, ended(job, attempt, 0));
    bench.pass(Span::from_secs(1));
    assert!(words(&bench.orders(node)).contains(&"Sleep".to_owned()), "it sleeps again");
}

#[test]
fn an_idle_node_sleeps_and_is_woken_for_a_job() {
    let mut bench = asleep();
    let report = &nodes(&mut bench)[0];
    assert_eq!((report.state, report.draw), (NodeState::Sleeps(NodeSleep::Asleep), Power::from_watts(1)));
    let slept = |bench: &mut Bench| {
        let report = nodes(bench).remove(0);
        (report.switching_energy, report.asleep_energy)
    };
    let joules = limo_model::Energy::from_joules;
    assert_eq!(slept(&mut bench), (joules(8 * 20), joules(0)));
    // No lease runs while the node sleeps, however long.
    bench.pass(Span::from_secs(86_400));
    assert_eq!((words_of(&mut bench, 0), slept(&mut bench)), ("asleep".into(), (joules(8 * 20), joules(86_400))));
    proceeds(waking(), "boot");
    // A machine that was switched off has another boot id, and no part of the job was there to be lost.
    proceeds(waking(), "another boot");
}

#[test]
fn a_switching_node_draws_its_registered_power() {
    let mut bench = sleepy();
    let node = connect(&mut bench, "n1", "boot");
    let draw = |bench: &mut Bench| nodes(bench)[0].draw;
    assert_eq!((words_of(&mut bench, 0), draw(&mut bench)), ("falling asleep".into(), Power::from_watts(8)));
    // The last reading is older and does not count.
    bench.report(node, NodeToMaster::Reading(Sample::once(Power::from_watts(40))));
    bench.report(node, NodeToMaster::FallingAsleep);
    bench.pass(Span::from_secs(2));
    assert_eq!(draw(&mut bench), Power::from_watts(8));
    assert_eq!(draw(&mut waking()), Power::from_watts(9), "the job that waits for it draws nothing yet");
}

#[test]
fn a_killed_master_continues_from_each_power_state() {
    // The node was ordered to sleep. It is still connected, and reports this.
    let mut bench = sleepy();
    connect(&mut bench, "n1", "boot");
    let mut bench = killed(bench);
    assert_eq!(words_of(&mut bench, 0), "falling asleep");
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!(words(&bench.orders(node)), ["Registered"]);
    bench.pass(bench.settings.idle.sleep_again_after);
    assert_eq!(words(&bench.orders(node)), ["Sleep"]);
    // The node is falling asleep, as it reported to the earlier master: silence counts as sleep.
    bench.report(node, NodeToMaster::FallingAsleep);
    let mut bench = killed(bench);
    bench.pass(bench.settings.idle.sleep_timeout);
    assert_eq!(words_of(&mut bench, 0), "asleep");
    // The node is asleep.
    let mut bench = killed(bench);
    bench.pass(Span::from_secs(3_600));
    assert_eq!(words_of(&mut bench, 0), "asleep");
    let client = bench.client(7);
    bench.submit(client, 1);
    // The node is waking. It is woken again, because the progress of the last attempt is unknown.
    let bench = killed(bench);
    assert_eq!(bench.woken.len(), 1);
    proceeds(bench, "another boot");
}

#[test]
fn a_node_whose_report_of_its_sleep_is_lost_is_asleep() {
    let (mut bench, node) = going_down();
    bench.input(Input::Gone(node));
    assert_eq!(words_of(&mut bench, 0), "falling asleep");
    bench.pass(bench.settings.idle.sleep_timeout);
    assert_eq!(words_of(&mut bench, 0), "asleep");
    let client = bench.client(7);
    bench.submit(client, 1);
    assert_eq!(bench.woken.len(), 1);
    proceeds(bench, "boot");
}

#[test]
fn a_node_that_is_killed_on_its_way_to_sleep_comes_back_awake() {
    // The connection breaks before the node reports that it falls asleep.
    let (mut bench, node) = going_down();
    bench.input(Input::Gone(node));
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!((words_of(&mut bench, 0), words(&bench.orders(node))), ("up".into(), vec!["Registered".into()]));
    bench.pass(bench.settings.idle.sleep_again_after);
    assert_eq!(words(&bench.orders(node)), ["Sleep"]);
    // The connection breaks after that report.
    bench.report(node, NodeToMaster::FallingAsleep);
    bench.input(Input::Gone(node));
    connect(&mut bench, "n1", "boot");
    assert_eq!(words_of(&mut bench, 0), "up");
    // The node is asleep: a person switched it on, and has time to use it.
    let mut bench = asleep();
    let node = connect(&mut bench, "n1", "another boot");
    assert_eq!((words_of(&mut bench, 0), words(&bench.orders(node))), ("up".into(), vec!["Registered".into()]));
    bench.pass(bench.settings.idle.sleep_again_after);
    assert_eq!(words(&bench.orders(node)), ["Sleep"]);
}

#[test]
fn a_node_that_refuses_to_sleep_stays_up_and_is_left_alone_for_a_while() {
    let mut bench = sleepy();
    let node = connect(&mut bench, "n1", "boot");
    bench.orders(node);
    bench.report(node, NodeToMaster::SleepFailed { reason: "a user is logged in".into() });
    assert_eq!((words_of(&mut bench, 0), words(&bench.orders(node))), ("up".into(), Vec::<String>::new()));
    let again = bench.settings.idle.sleep_again_after;
    bench.pass(again - Span::from_secs(1));
    assert_eq!(words(&bench.orders(node)), Vec::<String>::new());
    bench.pass(Span::from_secs(1));
    assert_eq!(words(&bench.orders(node)), ["Sleep"]);
    // A node that does not answer has to register again, because it may have fallen asleep.
    bench.pass(bench.settings.idle.sleep_timeout);
    assert_eq!(bench.closed, [(node, "the order to sleep was not answered within 1min".to_owned())]);
    assert_eq!(words_of(&mut bench, 0), "falling asleep");
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!((words_of(&mut bench, 0), words(&bench.orders(node))), ("up".into(), vec!["Registered".into()]));
    // A node that registers again with the reason has also refused.
    bench.pass(again);
    bench.report(node, NodeToMaster::FallingAsleep);
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!(words(&bench.orders(node)), ["Registered"]);
    bench.report(node, NodeToMaster::SleepFailed { reason: "`off` failed".into() });
    bench.pass(again - Span::from_secs(1));
    assert_eq!((words_of(&mut bench, 0), words(&bench.orders(node))), ("up".into(), Vec::<String>::new()));
}

/// The master is killed while a job waits for a sleeping node, and its other node does not return.
#[test]
fn a_job_that_waits_for_a_waking_node_is_not_ended_with_another_one() {
    let mut bench = asleep();
    bench.node("n2");
    let client = bench.client(7);
    bench.say(
        client,
        exec_with(1, |exec| {
            exec.request.spread = Some(multi_node::spread(2));
            exec.request.nodes = NonZeroU32::MIN;
            exec.launch.parallel = Some(limo_proto::Parallel::default());
            exec.launch.io = Io::Detached;
        }),
    );
    assert_eq!((bench.woken.len(), job_state(&mut bench)), (1, JobState::Starting));
    let mut bench = killed(bench);
    bench.pass(bench.settings.node_lease);
    assert_eq!(job_state(&mut bench), JobState::Waiting);
    let nodes = [bench.node("n2"), connect(&mut bench, "n1", "boot")];
    for node in nodes {
        assert_eq!(words(&bench.orders(node)), ["Registered", "DoExec"]);
    }
}

/// A woken node is lost after the permission to run its job, and before it reports the start.
#[test]
fn the_draw_of_a_job_that_may_have_begun_on_a_woken_node_is_held() {
    let mut bench = waking();
    let node = connect(&mut bench, "n1", "boot");
    let (job, attempt) = (bench.jobs()[0].job, Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    assert_eq!(words(&bench.orders(node)), ["Registered", "DoExec", "Go"]);
    bench.input(Input::Gone(node));
    bench.pass(bench.settings.node_lease);
    assert_eq!(job_state(&mut bench), JobState::NodeFailed);
    assert_eq!(super::liveness::held(&mut bench), super::liveness::WATTS);
}

#[test]
fn a_node_that_does_not_wake_is_drained_and_its_job_waits() {
    let mut bench = waking();
    let timeout = bench.settings.idle.wake_timeout;
    bench.pass(timeout - Span::from_secs(1));
    assert_eq!(bench.woken.len(), 1);
    bench.pass(Span::from_secs(1));
    assert_eq!(bench.woken.len(), 2);
    let id = bench.controller.tx.core.node_named("n1").expect("known").id();
    bench.input(Input::WakeFailed(id, "no route".into()));
    bench.pass(timeout + timeout);
    assert_eq!(bench.woken.len(), 3, "as often as it is said, and no more");
    let report = &nodes(&mut bench)[0];
    assert_eq!(report.state_in_words(), "drained, unreachable");
    let reason = report.reason.clone().expect("a reason");
    assert_eq!(reason, "did not wake within 5min, tried 3 times (lmaster)");
    assert_eq!((job_state(&mut bench), report.draw), (JobState::Waiting, Power::from_watts(10)));
    // The node is late but present: it takes jobs again when an operator resumes it.
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!((words_of(&mut bench, 0), words(&bench.orders(node))), ("drained".into(), vec!["Registered".into()]));
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Resume { nodes: vec!["n1".into()] })));
    assert_eq!(words(&bench.orders(node)), ["DoExec"]);
}

#[test]
fn a_failed_wake_command_is_in_the_reason() {
    let mut bench = waking();
    bench.settings.idle.wake_tries = 1;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let id = bench.controller.tx.core.node_named("n1").expect("known").id();
    bench.input(Input::WakeFailed(id, "no route".into()));
    bench.pass(bench.settings.idle.wake_timeout);
    let reason = nodes(&mut bench)[0].reason.clone();
    assert_eq!(reason.as_deref(), Some("did not wake within 5min, tried once: no route (lmaster)"));
}

#[test]
fn a_cancelled_job_is_not_sent_to_the_node_that_was_woken_for_it() {
    let mut bench = waking();
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JobId(1)]))));
    assert_eq!(job_state(&mut bench), JobState::Cancelled);
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!(words(&bench.orders(node)), ["Registered", "Sleep"]);
}

#[test]
fn a_job_over_several_nodes_is_sent_when_the_last_of_them_is_awake() {
    let two = || {
        let mut bench = sleepy();
        for name in ["n1", "n2"] {
            let node = connect(&mut bench, name, "boot");
            bench.report(node, NodeToMaster::FallingAsleep);
        }
        bench.pass(DOWN);
        let client = bench.client(7);
        let submission = exec_with(1, |exec| {
            exec.request.spread = Some(super::multi_node::spread(2));
            exec.request.nodes = NonZeroU32::MIN;
            exec.launch.parallel = Some(limo_proto::Parallel::default());
        });
        bench.say(client, submission);
        assert_eq!(bench.woken.len(), 2, "{:?}", bench.heard(client));
        bench
    };
    let mut bench = two();
    let first = connect(&mut bench, "n1", "boot");
    assert_eq!(words(&bench.orders(first)), ["Registered"]);
    let second = connect(&mut bench, "n2", "boot");
    assert_eq!(words(&bench.orders(second)), ["Registered", "DoExec"]);
    assert_eq!(words(&bench.orders(first)), ["DoExec"]);
    // The master is killed when one of the nodes is awake.
    let mut bench = two();
    connect(&mut bench, "n1", "boot");
    let mut bench = killed(bench);
    let second = connect(&mut bench, "n2", "another boot");
    assert_eq!(words(&bench.orders(second)), ["Registered"]);
    let first = connect(&mut bench, "n1", "boot");
    assert_eq!(words(&bench.orders(first)), ["Registered", "DoExec"]);
    assert_eq!((words(&bench.orders(second)), job_state(&mut bench)), (vec!["DoExec".into()], JobState::Starting));
}

#[test]
fn a_node_without_a_way_to_wake_it_stays_on() {
    let mut bench = sleepy();
    bench.settings.idle.wake_command = None;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let node = connect(&mut bench, "n1", "boot");
    assert_eq!((words(&bench.orders(node)), words_of(&mut bench, 0)), (vec!["Registered".into()], "up".into()));
    // A magic packet needs no command.
    let mac = Mac([2, 0, 0, 0, 0, 7]);
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    bench.register(peer, wakeable("n2", "boot", Wake::Wol { mac, broadcast: None }));
    assert_eq!(words(&bench.orders(peer)), ["Registered", "Sleep"]);
    bench.report(peer, NodeToMaster::FallingAsleep);
    bench.pass(DOWN);
    let client = bench.client(7);
    bench.say(client, exec_with(1, |exec| exec.request.exclude = vec!["n1".into()]));
    let to = std::net::SocketAddrV4::new(std::net::Ipv4Addr::BROADCAST, 9);
    assert_eq!(bench.woken, [WakeOrder::Packet { mac, to }]);
}
