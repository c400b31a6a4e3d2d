//! Daily reboots: the turn of a node, its order, and the proof by its boot id.

use limo_model::{DayWindow, GroupTable, Groups, NodeActivity};
use limo_proto::NodeState;

use super::sleep::killed;
use super::*;

const WINDOW: &str = "00:00-24:00";

/// Starts a master with a group of `n1` that has reboots, and a job on the node.
fn running(defer: &str, may_requeue: bool) -> (Bench, PeerId) {
    let mut bench = Bench::new();
    let text = format!("[desks]\nnodes = [\"n1\"]\nreboot = {{ window = \"{WINDOW}\", defer = \"{defer}\" }}\n");
    let tables: BTreeMap<String, GroupTable> = toml::from_str(&text).expect("tables");
    bench.settings.groups = Groups::of_tables(tables).expect("groups");
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let node = bench.node("n1");
    let client = bench.client(7);
    let request = exec_with(1, |exec| {
        exec.request.may_requeue = may_requeue;
        exec.launch.io = Io::Detached;
    });
    bench.say(client, request);
    let (job, attempt) = (JobId(1), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.orders(node);
    (bench, node)
}

/// Returns the time until the next turn of `n1`, and from then until the end of the window.
fn next_turn(bench: &Bench) -> (Span, Span) {
    let window: DayWindow = WINDOW.parse().expect("a window");
    let now = bench.controller.tx.wall();
    let (turn, until) = window.next_turn("n1", now);
    (turn - now, until - turn)
}

/// Passes the time until the turn of `n1`.
fn at_turn(bench: &mut Bench) {
    let (left, _) = next_turn(bench);
    bench.pass(left - Span::from_ms(1));
    assert_eq!(shown(bench), (NodeState::Up, None), "its turn has not come");
    bench.pass(Span::from_ms(1));
}

fn shown(bench: &mut Bench) -> (NodeState, Option<String>) {
    let root = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Nodes(NodesQuery)) else { panic!("no answer") };
    let Answer::Nodes(nodes) = *answer else { panic!("{answer:?}") };
    (nodes[0].state, nodes[0].reason.clone())
}

fn waits() -> (NodeState, Option<String>) {
    (NodeState::Drained, Some("reboots when its jobs have ended and its owner is away".to_owned()))
}

fn failed(reason: &str) -> (NodeState, Option<String>) {
    (NodeState::Up, Some(format!("did not reboot: {reason}")))
}

/// Brings a node to the order to reboot.
fn ordered() -> (Bench, PeerId) {
    let (mut bench, node) = running("until-end", false);
    at_turn(&mut bench);
    assert_eq!((shown(&mut bench), words(&bench.orders(node)).len()), (waits(), 0));
    bench.report(node, ended(JobId(1), Attempt(1), 0));
    assert_eq!(words(&bench.orders(node)), ["EndedAck", "Reboot"]);
    assert_eq!(shown(&mut bench), (NodeState::Drained, Some("reboots".to_owned())));
    (bench, node)
}

fn register(bench: &mut Bench, boot: &str) -> PeerId {
    bench.node_with("n1", boot, Vec::new())
}

#[test]
fn another_boot_id_proves_the_reboot() {
    let (mut bench, node) = ordered();
    bench.input(Input::Gone(node));
    bench.pass(Span::from_secs(30));
    assert_eq!(shown(&mut bench).0, NodeState::Unreachable);
    register(&mut bench, "another boot");
    assert_eq!(shown(&mut bench), (NodeState::Up, None));
    bench.pass(Span::from_secs(60));
    bench.input(Input::Stop);
    let in_state = |state| {
        let rows = bench.disk.states.values().filter(|row| row.state == state);
        rows.map(|row| row.span.ms() / 1_000).sum::<i64>()
    };
    // States are looked at once a second.
    assert!((29..=30).contains(&in_state(NodeActivity::Reboot)), "{:?}", bench.disk.states);
    assert_eq!(in_state(NodeActivity::Away), 0, "it was expected to be away");
}

#[test]
fn a_restarted_master_knows_the_boot_id_before() {
    let mut bench = killed(ordered().0);
    register(&mut bench, "another boot");
    assert_eq!(shown(&mut bench), (NodeState::Up, None));
    let mut bench = killed(ordered().0);
    let node = register(&mut bench, "boot");
    let reason = "it registered again without a restart of the machine";
    assert_eq!((shown(&mut bench), words(&bench.orders(node)).contains(&"Reboot".to_owned())), (failed(reason), false));
}

#[test]
fn a_failure_is_shown_until_the_next_day() {
    let (mut bench, node) = ordered();
    bench.report(node, NodeToMaster::RebootFailed { reason: "`false` failed".into() });
    assert_eq!(shown(&mut bench), failed("`false` failed"));
    let (left, _) = next_turn(&bench);
    assert_eq!(left, Span::from_secs(86_400), "its turn is the same each day");
    bench.pass(left);
    assert_eq!(words(&bench.orders(node)), ["Reboot"]);
    bench.pass(Span::from_secs(600));
    assert_eq!(shown(&mut bench), failed("it was still connected 10min after the order"));
}

#[test]
fn a_deferred_reboot_is_left_out_after_its_window() {
    let (mut bench, node) = running("until-end", true);
    at_turn(&mut bench);
    // The turn is the present time.
    let (day, _) = next_turn(&bench);
    let (_, rest) = next_turn(&bench);
    assert_eq!(day, Span::from_secs(86_400));
    bench.pass(rest - Span::from_ms(1));
    assert_eq!(shown(&mut bench), waits());
    bench.pass(Span::from_ms(1));
    assert_eq!(shown(&mut bench), failed("its jobs or its owner were there until the end of the window"));
    assert!(words(&bench.orders(node)).is_empty());
}

#[test]
fn a_reboot_at_once_evicts_jobs_that_may_run_again() {
    let (mut bench, node) = running("no", true);
    at_turn(&mut bench);
    assert_eq!(words(&bench.orders(node)), ["Evict"]);
    bench.report(node, ended(JobId(1), Attempt(1), 0));
    assert_eq!(words(&bench.orders(node)), ["EndedAck", "Reboot"]);
    let (mut bench, node) = running("no", false);
    at_turn(&mut bench);
    assert_eq!((shown(&mut bench), words(&bench.orders(node)).len()), (waits(), 0), "it may not run again");
}

#[test]
fn another_configuration_ends_the_wait() {
    let (mut bench, _) = running("until-end", false);
    at_turn(&mut bench);
    bench.settings.groups = Groups::default();
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    assert_eq!(shown(&mut bench), (NodeState::Up, None));
}
