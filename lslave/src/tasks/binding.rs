//! The cores of the job to which each of its tasks is bound.

use std::path::Path;

use limo_containment::{Cores, Domain, Topology};
use limo_model::CpuBind;

use super::Plan;
use crate::groups::SYSTEM;

/// Returns the masks for the tasks of this node, each as `sched_setaffinity(2)` takes it; an empty one binds nothing.
pub fn masks(plan: &Plan) -> Vec<Vec<usize>> {
    let tasks = plan.files.len();
    let domain = match plan.bind {
        CpuBind::None => return vec![Vec::new(); tasks],
        CpuBind::Cores => None,
        CpuBind::Sockets => Some(Domain::Socket),
        CpuBind::Numa => Some(Domain::Numa),
    };
    // Without cores of its own, the job has those of others, too.
    let own = Cores::of_process(0).ok().filter(|cores| cores.count() == plan.cores as usize);
    let Some(own) = own else { return vec![Vec::new(); tasks] };
    Topology::read(Path::new(SYSTEM), &own).divide(&own, tasks, domain).iter().map(Cores::mask).collect()
}
