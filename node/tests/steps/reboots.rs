//! A node reboots only without jobs, and takes none until its command has failed.

use limo_model::Power;
use limo_node::{Effect, Input};
use limo_proto::{MasterToNode, NodeToMaster};

use crate::bench::*;

fn reboots(bench: &mut Bench) -> bool {
    std::mem::take(&mut bench.effects).iter().any(|effect| matches!(effect, Effect::Reboot))
}

#[test]
fn a_node_with_a_job_does_not_reboot() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    bench.told();
    bench.master(MasterToNode::Reboot);
    let reason = format!("job {JOB} is on the node");
    assert_eq!(bench.told(), [NodeToMaster::RebootFailed { reason: reason.as_str().into() }]);
    assert!(!reboots(&mut bench));
}

#[test]
fn a_node_takes_no_job_until_its_command_has_failed() {
    let mut bench = Bench::registered();
    bench.told();
    bench.master(MasterToNode::Reboot);
    assert!(reboots(&mut bench));
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    let refused = |told: Vec<NodeToMaster>| matches!(&told[..], [NodeToMaster::JobRefused { .. }]);
    assert!(refused(bench.told()), "the node restarts");
    bench.input(Input::RebootFailed("`false` failed".to_owned()));
    assert_eq!(bench.told(), [NodeToMaster::RebootFailed { reason: "`false` failed".into() }]);
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    let (job, attempt, expected) = (JOB, ATTEMPT, Power::ZERO);
    bench.master(MasterToNode::Go { job, attempt, expected });
    bench.durable();
    bench.launched();
}
