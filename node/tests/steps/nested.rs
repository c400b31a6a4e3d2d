//! Steps in the allocation of a job on the node.

use limo_model::{JobId, Outcome, Power};
use limo_node::{Connected, Effect, Input};
use limo_proto::{DoExec, MasterToNode, NodeToMaster, StepOf};
use limo_shepherd::{Ended, Handle, Order, Why};

use crate::bench::{ATTEMPT, Bench, JOB, exec};

const STEP: JobId = JobId(8);

/// Starts an attempt; returns its name at its shepherd.
fn start(bench: &mut Bench, exec: DoExec) -> Handle {
    let job = exec.job;
    bench.master(MasterToNode::DoExec(Box::new(exec)));
    bench.durable();
    bench.master(MasterToNode::Go { job, attempt: ATTEMPT, expected: Power::ZERO });
    bench.durable();
    let handle = bench.launched();
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default(), freezes: true });
    handle
}

fn step() -> DoExec {
    DoExec { job: STEP, step: Some(StepOf { job: JOB, attempt: ATTEMPT, number: 0 }), ..exec() }
}

/// Returns a node with a running job and a step of it.
fn running() -> (Bench, Handle, Handle) {
    let mut bench = Bench::registered();
    let job = start(&mut bench, exec());
    let of_step = start(&mut bench, step());
    bench.told();
    bench.effects.clear();
    (bench, job, of_step)
}

fn ends(bench: &mut Bench, handle: Handle) {
    let why = Why::OfItself;
    let ended = Ended { status: 0, elapsed: 5, user_cpu: 0, system_cpu: 0, max_rss: 0, why, exceeded_memory: None };
    bench.input(Input::Exited { handle, ended });
    bench.input(Input::Emptied { handle, left: 0 });
}

fn orders(bench: &mut Bench) -> Vec<Order> {
    let order = |effect: Effect| match effect {
        Effect::Order(order) => Some(order),
        _ => None,
    };
    std::mem::take(&mut bench.effects).into_iter().filter_map(order).collect()
}

#[test]
fn the_end_of_a_job_follows_those_of_its_steps() {
    let (mut bench, job, of_step) = running();
    ends(&mut bench, job);
    let stop = Order::Stop { handle: of_step, grace: 30_000, evicts: false };
    assert_eq!(orders(&mut bench), [stop], "the step is stopped, and no end is recorded");
    ends(&mut bench, of_step);
    bench.durable();
    let told = bench.told();
    assert!(matches!(told.as_slice(), [NodeToMaster::Ended { job: STEP, .. }]), "{told:?}");
    bench.durable();
    let told = bench.told();
    let [NodeToMaster::Ended { job: JOB, outcome: Outcome::Exited(0), .. }] = told.as_slice() else {
        panic!("{told:?}");
    };
}

#[test]
fn a_step_that_ended_before_holds_up_nothing() {
    let (mut bench, job, of_step) = running();
    ends(&mut bench, of_step);
    bench.durable();
    bench.told();
    ends(&mut bench, job);
    bench.durable();
    assert!(matches!(bench.told().as_slice(), [NodeToMaster::Ended { job: JOB, .. }]));
}

#[test]
fn a_step_needs_its_job() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(step())));
    let told = bench.told();
    let [NodeToMaster::JobRefused { job: STEP, reason, .. }] = told.as_slice() else { panic!("{told:?}") };
    let words = format!("attempt {ATTEMPT} of job {JOB}, in which the step is to run, does not run here");
    assert_eq!(reason.to_string(), words);
    let (mut bench, job, _) = running();
    ends(&mut bench, job);
    let late = DoExec { job: JobId(9), ..step() };
    bench.master(MasterToNode::DoExec(Box::new(late)));
    assert!(matches!(bench.told().as_slice(), [NodeToMaster::JobRefused { job: JobId(9), .. }]));
}

#[test]
fn steps_are_suspended_with_their_job_and_the_master_hears_of_the_job_only() {
    let (mut bench, job, of_step) = running();
    bench.master(MasterToNode::Suspend { job: JOB, attempt: ATTEMPT });
    let frozen = |on: bool| [job, of_step].map(|handle| Order::Frozen { handle, on });
    assert_eq!(orders(&mut bench), frozen(true));
    assert!(matches!(bench.told().as_slice(), [NodeToMaster::Paused { job: JOB, paused: true, .. }]));
    bench.master(MasterToNode::Resume { job: JOB, attempt: ATTEMPT });
    assert_eq!(orders(&mut bench), frozen(false));
    assert!(matches!(bench.told().as_slice(), [NodeToMaster::Paused { job: JOB, paused: false, .. }]));
}
