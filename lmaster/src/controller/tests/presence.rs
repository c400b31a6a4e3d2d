//! A master that did not run for a while: nodes and clients could not reach it, and have as much time as before.

use limo_proto::{JobState, MasterToNode, NodeToMaster};

use super::sleep::waking;
use super::*;

const STOPPED: Span = Span::from_secs(3_600);

impl Bench {
    /// Lets time pass without a step of the master.
    fn stop(&mut self, span: Span) {
        self.now = self.now + span;
        self.input(Input::Timer);
    }
}

fn state(bench: &mut Bench) -> JobState {
    bench.jobs().first().expect("a job").state
}

#[test]
fn a_node_has_its_lease_without_the_time_of_the_stop() {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    bench.running(client, node, 1);
    bench.input(Input::Gone(node));
    bench.pass(Span::from_secs(20));
    bench.stop(STOPPED);
    bench.pass(Span::from_secs(39));
    assert_eq!(state(&mut bench), JobState::Running, "it may come back");
    bench.pass(Span::from_secs(1));
    assert_eq!(state(&mut bench), JobState::NodeFailed);
}

/// Stops the master for a time that is not told from the time between two beats.
#[test]
fn a_short_stop_counts() {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    bench.running(client, node, 1);
    bench.input(Input::Gone(node));
    bench.pass(Span::from_secs(58));
    bench.stop(Span::from_secs(2));
    assert_eq!(state(&mut bench), JobState::NodeFailed);
}

#[test]
fn the_job_of_a_disconnected_client_is_not_given_up() {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    bench.running(client, node, 1);
    bench.input(Input::Gone(client));
    bench.stop(STOPPED);
    bench.pass(Span::from_secs(59));
    assert_eq!(bench.orders(node), []);
    bench.pass(Span::from_secs(1));
    assert_eq!(words(&bench.orders(node)), ["Discard", "Stop"]);
}

#[test]
fn a_woken_node_is_not_woken_again() {
    let mut bench = waking();
    bench.stop(STOPPED);
    assert_eq!((bench.woken.len(), state(&mut bench)), (1, JobState::Starting));
    bench.pass(bench.settings.idle.wake_timeout);
    assert_eq!(bench.woken.len(), 2, "it had its time");
}

#[test]
fn an_assignment_can_still_be_acknowledged() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    bench.stop(STOPPED);
    bench.report(node, NodeToMaster::JobAck { job, attempt: Attempt(1) });
    let orders = bench.orders(node);
    assert!(matches!(orders.last(), Some(MasterToNode::Go { .. })), "{orders:?}");
    assert_eq!(bench.closed, []);
}
