//! Active jobs by node.

use limo_model::{JobId, NodeId};

/// The active jobs of nodes. The index has those of nodes with a meter or with owners who evict: readings and owners need
/// them.
#[derive(Debug, Clone, Default)]
pub struct Occupants {
    /// By node, in order.
    jobs: Vec<Vec<JobId>>,
}

impl Occupants {
    /// Returns the jobs of a node, in order.
    pub fn of(&self, node: NodeId) -> &[JobId] {
        self.jobs.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Adds a job to a node, if the node does not have it.
    pub(crate) fn insert(&mut self, node: NodeId, job: JobId) {
        let at = node.0 as usize;
        if at >= self.jobs.len() {
            self.jobs.resize(at + 1, Vec::new());
        }
        if let Err(place) = self.jobs[at].binary_search(&job) {
            self.jobs[at].insert(place, job);
        }
    }

    /// Removes a job from a node, if the node has it.
    pub(crate) fn remove(&mut self, node: NodeId, job: JobId) {
        let Some(jobs) = self.jobs.get_mut(node.0 as usize) else { return };
        if let Ok(place) = jobs.binary_search(&job) {
            jobs.remove(place);
        }
    }

    /// Returns true if all nodes have the same jobs.
    #[cfg(debug_assertions)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let count = self.jobs.len().max(other.jobs.len());
        (0..).map(NodeId).take(count).all(|node| self.of(node) == other.of(node))
    }
}
