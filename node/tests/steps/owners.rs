//! A node obeys the standing order about its owner at once, with and without a master.

use std::time::Duration;

use limo_model::{Kept, Lease, Power, Span};
use limo_node::{Connected, Input, Moment, OwnerRecord, Resumed};
use limo_proto::{DoExec, Io, MasterToNode, NodeToMaster};
use limo_shepherd::{BootTime, Ended, Handle, Order, Why};
use nix::libc::{SIGCONT, SIGSTOP};

use crate::bench::*;

const EVICT_AFTER: Span = Span::from_secs(600);

/// Returns a node that obeys the order, with a running job.
fn running() -> (Bench, Handle) {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::Owners { evict_after: Some(EVICT_AFTER) });
    let handle = started(&mut bench);
    (bench, handle)
}

/// Returns the job, which may run again.
fn requeueable() -> DoExec {
    let (span, grace) = (Span::from_secs(86_400), Span::from_secs(30));
    DoExec { lease: Some(Lease { span, grace }), ..exec() }
}

/// Starts the job.
fn started(bench: &mut Bench) -> Handle {
    starts(bench, requeueable())
}

fn starts(bench: &mut Bench, exec: DoExec) -> Handle {
    bench.effects.clear();
    bench.master(MasterToNode::DoExec(Box::new(exec)));
    bench.durable();
    bench.master(MasterToNode::Go { job: JOB, attempt: ATTEMPT, expected: Power::ZERO });
    bench.durable();
    let handle = bench.launched();
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes: false });
    bench.told();
    handle
}

/// Sets the time since the start, and lets the timer expire.
fn at(bench: &mut Bench, since: Duration) {
    bench.now = Moment { since, boot: BootTime(u64::try_from(since.as_millis()).expect("short")) };
    bench.input(Input::Deadline);
}

/// Returns the signals to the job's processes, and removes all effects.
fn signals(bench: &mut Bench) -> Vec<i32> {
    let effects = std::mem::take(&mut bench.effects);
    let signals = effects.iter().filter_map(|effect| match effect {
        limo_node::Effect::Order(Order::Signal { signal, .. }) => Some(*signal),
        _ => None,
    });
    signals.collect()
}

/// Returns the graces of the requested stops, each with true if a checkpoint comes first.
fn stops(bench: &Bench) -> Vec<(u64, bool)> {
    let stops = bench.effects.iter().filter_map(|effect| match effect {
        limo_node::Effect::Order(Order::Stop { grace, evicts, .. }) => Some((*grace, *evicts)),
        _ => None,
    });
    stops.collect()
}

fn owner(is_there: bool) -> NodeToMaster {
    NodeToMaster::Owner { is_there }
}

fn paused(paused: bool) -> NodeToMaster {
    NodeToMaster::Paused { job: JOB, attempt: ATTEMPT, paused }
}

const SUSPEND: MasterToNode = MasterToNode::Suspend { job: JOB, attempt: ATTEMPT };
const RESUME: MasterToNode = MasterToNode::Resume { job: JOB, attempt: ATTEMPT };

#[test]
fn jobs_are_suspended_before_the_master_answers_and_continue_when_it_orders_so() {
    let (mut bench, _) = running();
    bench.effects.clear();
    bench.input(Input::Owner { is_there: true });
    assert_eq!(signals(&mut bench), [SIGSTOP]);
    assert_eq!(bench.told(), [owner(true)]);
    bench.master(SUSPEND);
    assert!(signals(&mut bench).is_empty());
    assert_eq!(bench.told(), [paused(true)]);
    // The order and the report have crossed.
    bench.master(RESUME);
    assert_eq!((signals(&mut bench), bench.told()), (vec![], vec![paused(true)]), "each order has an answer");
    bench.input(Input::Owner { is_there: false });
    assert_eq!((signals(&mut bench), bench.told()), (vec![], vec![owner(false)]));
    bench.master(RESUME);
    assert_eq!((signals(&mut bench), bench.told()), (vec![SIGCONT], vec![paused(false)]));
}

#[test]
fn without_a_master_jobs_are_suspended_and_continue() {
    let (mut bench, _) = running();
    bench.input(Input::Disconnected);
    bench.effects.clear();
    bench.input(Input::Owner { is_there: true });
    assert_eq!(signals(&mut bench), [SIGSTOP]);
    bench.input(Input::Owner { is_there: false });
    assert_eq!(signals(&mut bench), [SIGCONT]);
    assert_eq!(bench.told(), []);
}

#[test]
fn a_job_that_the_master_has_suspended_waits_for_the_master() {
    let (mut bench, _) = running();
    bench.master(SUSPEND);
    bench.input(Input::Disconnected);
    bench.effects.clear();
    bench.input(Input::Owner { is_there: true });
    bench.input(Input::Owner { is_there: false });
    assert!(signals(&mut bench).is_empty());
}

#[test]
fn without_the_order_the_owner_is_only_reported() {
    let mut bench = Bench::registered();
    started(&mut bench);
    bench.effects.clear();
    bench.input(Input::Owner { is_there: true });
    assert_eq!((signals(&mut bench), bench.told()), (vec![], vec![owner(true)]));
    bench.input(Input::Owner { is_there: true });
    assert_eq!(bench.told(), [], "it is known");
    // The rules of the group change while the owner is there.
    bench.master(MasterToNode::Owners { evict_after: Some(EVICT_AFTER) });
    assert_eq!(signals(&mut bench), [SIGSTOP]);
}

#[test]
fn a_job_that_starts_beside_the_owner_is_suspended_at_once() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::Owners { evict_after: Some(EVICT_AFTER) });
    bench.input(Input::Owner { is_there: true });
    started(&mut bench);
    assert_eq!(signals(&mut bench), [SIGSTOP]);
}

#[test]
fn the_state_of_the_owner_is_told_at_the_registration() {
    let (mut bench, _) = running();
    bench.input(Input::Disconnected);
    bench.input(Input::Owner { is_there: true });
    bench.connect();
    let told = bench.told();
    let Some(NodeToMaster::NewSlave(slave)) = told.first() else { panic!("{told:?}") };
    assert_eq!(slave.owner, Some(true));
    // It changes before the answer.
    bench.input(Input::Owner { is_there: false });
    assert_eq!(bench.told(), []);
    bench.master(MasterToNode::Registered);
    assert!(bench.told().contains(&owner(false)));
}

#[test]
fn a_connected_node_evicts_a_job_a_second_later_than_the_master() {
    let (mut bench, handle) = running();
    bench.input(Input::Owner { is_there: true });
    bench.told();
    let second = Duration::from_secs(1);
    assert_eq!(bench.node.deadline(), Some(601 * second));
    at(&mut bench, 600 * second);
    assert!(stops(&bench).is_empty());
    bench.effects.clear();
    at(&mut bench, 601 * second);
    assert_eq!(stops(&bench), [(30_000, true)], "the job's grace, in milliseconds");
    assert_eq!(bench.told(), [], "the eviction is not recorded");
    bench.durable();
    assert_eq!(bench.told(), [NodeToMaster::Evicted { job: JOB, attempt: ATTEMPT }]);
    let why = Why::OfItself;
    let ended = Ended { status: 15, elapsed: 5, user_cpu: 0, system_cpu: 0, max_rss: 0, why, exceeded_memory: None };
    bench.input(Input::Exited { handle, ended });
    bench.input(Input::Emptied { handle, left: 0 });
    bench.durable();
    assert!(matches!(bench.told().as_slice(), [NodeToMaster::Ended { job: JOB, .. }]));
}

#[test]
fn a_job_that_the_master_evicts_is_not_evicted_by_the_node() {
    let (mut bench, _) = running();
    bench.input(Input::Owner { is_there: true });
    bench.told();
    let second = Duration::from_secs(1);
    at(&mut bench, 600 * second);
    bench.master(MasterToNode::Evict { job: JOB, attempt: ATTEMPT, grace: Span::from_secs(5) });
    assert_eq!(stops(&bench), [(5_000, true)]);
    at(&mut bench, 601 * second);
    assert_eq!(stops(&bench), [(5_000, true)]);
    assert_eq!(bench.told(), []);
}

#[test]
fn without_a_master_a_job_is_evicted_in_time_and_reported_later() {
    let (mut bench, _) = running();
    bench.input(Input::Disconnected);
    bench.input(Input::Owner { is_there: true });
    let second = Duration::from_secs(1);
    assert_eq!(bench.node.deadline(), Some(600 * second));
    bench.effects.clear();
    at(&mut bench, 600 * second);
    assert_eq!(stops(&bench), [(30_000, true)]);
    bench.durable();
    bench.connect();
    let reports = registered(&mut bench);
    assert_eq!(reports.iter().map(|report| report.is_evicted).collect::<Vec<_>>(), [true]);
}

#[test]
fn a_job_that_may_not_run_again_is_only_suspended() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::Owners { evict_after: Some(EVICT_AFTER) });
    starts(&mut bench, exec());
    bench.input(Input::Owner { is_there: true });
    assert_eq!(signals(&mut bench), [SIGSTOP]);
    assert_eq!(bench.node.deadline(), None);
}

#[test]
fn the_order_and_the_suspended_jobs_outlive_the_daemon() {
    let record =
        OwnerRecord { evict_after: Some(EVICT_AFTER), is_there: true, suspended: [(JOB, (ATTEMPT, 1_000))].into() };
    let frozen =
        limo_node::Survivor { resumed: Resumed { frozen: true, ..Resumed::default() }, ..survivor("cookie", None) };
    let handle = Handle(9);
    let mut found = released(Io::Detached);
    found.intent.as_mut().expect("an intent").exec.lease = requeueable().lease;
    let mut bench = Bench::beside_owner(Some(found), Some(frozen.clone()), record.clone());
    bench.input(Input::Disconnected);
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes: false });
    assert_eq!(bench.node.deadline(), Some(Duration::from_secs(601)), "since it was suspended");
    bench.input(Input::Owner { is_there: false });
    assert_eq!(signals(&mut bench), [SIGCONT]);
    // The owner leaves before the shepherd has answered.
    let mut bench = Bench::beside_owner(Some(released(Io::Detached)), Some(frozen), record);
    bench.input(Input::Disconnected);
    bench.input(Input::Owner { is_there: false });
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes: false });
    assert_eq!(signals(&mut bench), [SIGCONT]);
}

#[test]
fn the_last_checkpoint_is_told_once_and_again_at_a_registration() {
    let (mut bench, handle) = running();
    bench.told();
    let [first, second, third] = [1, 2, 3].map(|ran| Kept { ran: Span::from_secs(ran), ..Kept::default() });
    let told = |kept| NodeToMaster::Checkpointed { job: JOB, attempt: ATTEMPT, kept };
    bench.input(Input::Checkpointed { handle, kept: first });
    assert_eq!(bench.told(), [told(first)]);
    bench.input(Input::Behind(true));
    bench.input(Input::Checkpointed { handle, kept: second });
    bench.input(Input::Checkpointed { handle, kept: third });
    assert_eq!(bench.told(), [], "the master reads slowly");
    bench.input(Input::Behind(false));
    assert_eq!(bench.told(), [told(third)]);
    bench.input(Input::Disconnected);
    bench.connect();
    let reports = registered(&mut bench);
    assert_eq!(reports.iter().map(|report| report.checkpointed).collect::<Vec<_>>(), [Some(third)]);
}
