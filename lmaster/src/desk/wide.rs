//! Jobs of several tasks: which node has which of them.

use limo_model::{JobId, NodeId};
use limo_proto::Share;
use limo_sched::Assignment;

use super::{Desk, Live};

/// The nodes of a job, each once, in the order of its tasks.
pub(super) fn nodes_of(assignment: &Assignment) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = assignment.placement.iter().flat_map(|part| part.nodes()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

impl Desk {
    /// What the node at `index` of a job of several tasks has to do in it.
    pub(super) fn share(&self, job: JobId, live: &Live, (nodes, index): (&[NodeId], usize)) -> Option<Share> {
        let spread = live.request.spread?;
        let name = |node: &NodeId| self.core.node(*node).map(|node| node.spec().name.clone());
        let width = u32::try_from(nodes.len()).ok()?;
        let tasks = (0..width).map(|index| u32::try_from(spread.tasks_on(width, index).len()).unwrap_or(0));
        Some(Share {
            nodes: nodes.iter().filter_map(name).collect(),
            index: u32::try_from(index).ok()?,
            tasks: tasks.collect(),
            grace: self.grace_of(job),
        })
    }
}
