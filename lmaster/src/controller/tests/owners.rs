//! Owners of nodes: reports of nodes become events, and nodes get the standing order of their group.

use limo_model::{GroupTable, Groups, Outcome};
use limo_proto::{AttemptState, JobState, NodeReport, NodeState};

use super::*;

const ORDER: MasterToNode = MasterToNode::Owners { evict_after: Some(Span::from_secs(60)) };

fn groups(owners: &str) -> Groups {
    let tables: BTreeMap<String, GroupTable> =
        toml::from_str(&format!("[desks]\nnodes = [\"n1\"]\nowners = {owners}\n")).expect("tables");
    Groups::of_tables(tables).expect("groups")
}

fn configure(bench: &mut Bench, owners: &str) {
    bench.settings.groups = groups(owners);
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
}

const SUSPEND: &str = "{ jobs = \"suspend\", start_after = \"5min\", evict_after = \"1min\" }";

/// Registers `n1`, which can tell if its owner is there.
fn desk(bench: &mut Bench, owner: Option<bool>, attempts: Vec<AttemptReport>) -> PeerId {
    let peer = bench.peer();
    bench.input(Input::NodeConnected(peer));
    let registration = slave("n1", "boot", attempts);
    bench.register(peer, Registration { slave: NewSlave { owner, ..registration.slave }, ..registration });
    peer
}

/// Starts a requeueable job on `n1`.
fn running() -> (Bench, PeerId, JobId) {
    let mut bench = Bench::new();
    configure(&mut bench, SUSPEND);
    let node = desk(&mut bench, Some(false), Vec::new());
    assert_eq!(bench.orders(node), [MasterToNode::Registered, ORDER]);
    let client = bench.client(7);
    bench.say(
        client,
        exec_with(1, |exec| {
            exec.request.may_requeue = true;
            exec.launch.io = Io::Detached;
        }),
    );
    let (job, attempt) = (JobId(1), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.orders(node);
    (bench, node, job)
}

fn nodes(bench: &mut Bench) -> Vec<NodeReport> {
    let root = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Nodes(limo_proto::NodesQuery)) else {
        panic!("no answer")
    };
    let Answer::Nodes(nodes) = *answer else { panic!("{answer:?}") };
    nodes
}

fn owner(is_there: bool) -> NodeToMaster {
    NodeToMaster::Owner { is_there }
}

#[test]
fn a_job_is_suspended_while_the_owner_is_there() {
    let (mut bench, node, job) = running();
    let attempt = Attempt(1);
    bench.report(node, owner(true));
    assert_eq!(bench.orders(node), [MasterToNode::Suspend { job, attempt }]);
    bench.report(node, NodeToMaster::Paused { job, attempt, paused: true });
    let [report] = &bench.jobs()[..] else { panic!("one job") };
    let suspended = report.suspended.as_ref().map(ToString::to_string);
    assert_eq!(
        (report.state, suspended.as_deref()),
        (JobState::Suspended, Some("suspended: the owner of a node is there"))
    );
    assert_eq!(nodes(&mut bench)[0].state, NodeState::Owner);
    bench.pass(Span::from_secs(30));
    bench.report(node, owner(false));
    assert_eq!(bench.orders(node), [MasterToNode::Resume { job, attempt }]);
    assert_eq!((bench.jobs()[0].state, nodes(&mut bench)[0].state), (JobState::Running, NodeState::Owner));
    bench.pass(Span::from_secs(301));
    assert_eq!(nodes(&mut bench)[0].state, NodeState::Up);
}

#[test]
fn a_job_that_was_suspended_for_too_long_runs_elsewhere() {
    let (mut bench, node, job) = running();
    let attempt = Attempt(1);
    let other = bench.node("n2");
    bench.orders(other);
    bench.report(node, owner(true));
    bench.orders(node);
    bench.pass(Span::from_secs(60));
    assert_eq!(words(&bench.orders(node)), ["Evict"]);
    let (outcome, usage) = (Outcome::Signaled(15), Default::default());
    bench.report(node, NodeToMaster::Ended { job, attempt, outcome, usage });
    assert_eq!(words(&bench.orders(other)), ["DoExec"]);
    assert_eq!(words(&bench.orders(node)), ["EndedAck"]);
}

#[test]
fn an_eviction_by_the_node_lets_the_job_run_again() {
    let (mut bench, node, job) = running();
    let attempt = Attempt(1);
    let other = bench.node("n2");
    bench.orders(other);
    bench.report(node, owner(true));
    bench.report(node, NodeToMaster::Evicted { job, attempt });
    bench.report(node, NodeToMaster::Evicted { job, attempt });
    let (outcome, usage) = (Outcome::Signaled(15), Default::default());
    bench.report(node, NodeToMaster::Ended { job, attempt, outcome, usage });
    assert_eq!(words(&bench.orders(other)), ["DoExec"]);
}

#[test]
fn what_happened_without_a_connection_is_told_at_the_registration() {
    let (mut bench, node, job) = running();
    bench.input(Input::Gone(node));
    let other = bench.node("n2");
    bench.orders(other);
    let report = |state, is_evicted| AttemptReport { is_evicted, ..attempt_report(job, Attempt(1), state) };
    let node = desk(&mut bench, Some(true), vec![report(AttemptState::Running, false)]);
    // It is ordered by the round, and repeated like all orders.
    assert_eq!(words(&bench.orders(node)), ["Registered", "Owners", "Suspend", "Suspend"]);
    bench.input(Input::Gone(node));
    let (outcome, usage) = (Outcome::Signaled(15), Default::default());
    let node = desk(&mut bench, Some(true), vec![report(AttemptState::Ended { outcome, usage }, true)]);
    assert_eq!(words(&bench.orders(node)), ["Registered", "EndedAck", "Owners"]);
    assert_eq!(words(&bench.orders(other)), ["DoExec"], "it was evicted");
    // The owner left while the node was not connected.
    bench.input(Input::Gone(node));
    desk(&mut bench, Some(false), Vec::new());
    bench.pass(Span::from_secs(301));
    assert_eq!(nodes(&mut bench)[0].state, NodeState::Up);
}

#[test]
fn rules_may_change_and_need_a_node_that_can_tell() {
    let (mut bench, node, job) = running();
    bench.report(node, owner(true));
    bench.orders(node);
    configure(&mut bench, "{ jobs = \"run\" }");
    let resume = MasterToNode::Resume { job, attempt: Attempt(1) };
    let orders = bench.orders(node);
    assert!(orders.contains(&MasterToNode::Owners { evict_after: None }) && orders.contains(&resume), "{orders:?}");
    configure(&mut bench, SUSPEND);
    let orders = bench.orders(node);
    assert!(orders.contains(&ORDER), "{orders:?}");
    assert_eq!((bench.jobs()[0].state, nodes(&mut bench)[0].reason.clone()), (JobState::Suspended, None));
    bench.input(Input::Gone(node));
    let node = desk(&mut bench, None, Vec::new());
    assert_eq!(words(&bench.orders(node)), ["Registered"], "no standing order");
    let reason = nodes(&mut bench)[0].reason.clone().expect("a reason");
    assert!(reason.ends_with("start it with --owner"), "{reason}");
}

/// Returns the seconds, the joules and the seconds with known energy of each state on the disk.
fn states(bench: &Bench) -> Vec<(&'static str, i64, i64, i64)> {
    let mut sums: BTreeMap<NodeActivity, (i64, i64, i64)> = BTreeMap::new();
    for row in bench.disk.states.values() {
        assert_eq!(row.node, "n1");
        let sum = sums.entry(row.state).or_default();
        let (span, joules, seen) = (row.span.ms() / 1_000, row.energy.mj() / 1_000, row.seen.ms() / 1_000);
        *sum = (sum.0 + span, sum.1 + joules, sum.2 + seen);
    }
    sums.into_iter().map(|(state, (span, joules, seen))| (state.name(), span, joules, seen)).collect()
}

/// Sends a reading a second.
fn measured(bench: &mut Bench, node: PeerId, secs: i64, watts: i64) {
    for _ in 0..secs {
        bench.pass(Span::from_secs(1));
        bench.report(node, NodeToMaster::Reading(limo_proto::Sample::once(Power::from_watts(watts))));
    }
}

#[test]
fn time_and_energy_of_each_state_survive_restarts() {
    let (mut bench, node, job) = running();
    let attempt = Attempt(1);
    // The first reading has no predecessor.
    measured(&mut bench, node, 10, 30);
    bench.report(node, owner(true));
    bench.report(node, NodeToMaster::Paused { job, attempt, paused: true });
    measured(&mut bench, node, 20, 20);
    bench.report(node, owner(false));
    bench.report(node, NodeToMaster::Paused { job, attempt, paused: false });
    measured(&mut bench, node, 30, 30);
    let (outcome, usage) = (Outcome::Exited(0), Default::default());
    bench.report(node, NodeToMaster::Ended { job, attempt, outcome, usage });
    measured(&mut bench, node, 40, 10);
    bench.report(node, owner(true));
    measured(&mut bench, node, 5, 40);
    bench.input(Input::Gone(node));
    bench.pass(Span::from_secs(50));
    bench.input(Input::Stop);
    let before = [("idle", 40, 400, 40), ("user", 5, 200, 5), ("job", 40, 1_170, 39), ("suspended", 20, 400, 20)];
    let away = |secs| ("away", secs, 0, 0);
    assert_eq!(states(&bench), [&before[..], &[away(50)]].concat());
    // Another process adds rows of its own to the same hour. After a kill, only the newest minute is missing.
    let mut bench = bench.killed();
    bench.pass(Span::from_secs(200));
    let mut bench = bench.killed();
    bench.pass(Span::from_secs(1));
    bench.input(Input::Stop);
    let found = states(&bench);
    let [rest @ .., (_, secs, 0, 0)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(rest, before);
    assert!((50 + 120..=50 + 201).contains(secs), "{found:?}");
}

/// The node may have suspended the job for an owner who has left since, while no master could hear of it.
#[test]
fn a_running_job_is_resumed_when_its_node_registers() {
    let (bench, _, job) = running();
    let attempt = Attempt(1);
    let mut bench = bench.killed();
    configure(&mut bench, SUSPEND);
    let report = attempt_report(job, attempt, AttemptState::Running);
    let node = desk(&mut bench, Some(false), vec![report]);
    assert!(bench.orders(node).contains(&MasterToNode::Resume { job, attempt }));
}
