//! Believed and expected draws of nodes.

use std::collections::BTreeMap;

use limo_model::{JobId, NodeId, Power, Time, nodes};

use super::Core;
use crate::state::Job;

impl Core {
    /// Returns the believed draw of a node: its fresh reading or own draw, plus the estimates of jobs not in it.
    pub fn node_draw(&self, node: NodeId) -> Power {
        let hidden = |id: &JobId| hidden_share(self.cluster.state.jobs.get(*id)?, node).map(|(share, _)| share);
        let jobs = self.cluster.jobs_on(node);
        let own = self.node(node).map(|node| node.own).unwrap_or_default();
        own + jobs.iter().filter_map(hidden).sum::<Power>()
    }

    /// Returns the expected draw of an unmeasured node: without jobs, and with the estimates of its jobs.
    pub fn node_estimate(&self, node: NodeId) -> Power {
        let expected = |id: &JobId| Some(self.cluster.state.jobs.get(*id)?.assignment()?.draw_on(node));
        let still = self.node(node).map(|node| node.still_draw()).unwrap_or_default();
        let held = self.node(node).map(|node| node.held_draw()).unwrap_or_default();
        still + held + self.cluster.jobs_on(node).iter().filter_map(expected).sum::<Power>()
    }

    /// Returns the believed draws of all known nodes, as [`Core::node_draw`], in one pass over the jobs.
    pub fn node_draws(&self) -> BTreeMap<NodeId, Power> {
        let mut draws: BTreeMap<_, _> = self.known_nodes().map(|node| (node.id(), node.own)).collect();
        let state = &self.cluster.state;
        for job in state.active.iter().filter_map(|id| state.jobs.get(id)) {
            let parts = job.assignment().map_or(&[][..], |assignment| &assignment.placement);
            for node in nodes(parts) {
                if let (Some(draw), Some((share, _))) = (draws.get_mut(&node), hidden_share(job, node)) {
                    *draw += share;
                }
            }
        }
        draws
    }
}

/// Returns the draw of a job on a node that no reading shows, and the time since which it is not shown.
pub(super) fn hidden_share(job: &Job, node: NodeId) -> Option<(Power, Time)> {
    let assignment = job.assignment().filter(|assignment| assignment.pending.is_zero())?;
    let seen = job.running().is_some_and(|running| running.seen_on.contains(&node));
    (!seen).then(|| (assignment.draw_on(node), assignment.hidden_since))
}
