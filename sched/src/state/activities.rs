//! The present state of each node, for ledgers.

use limo_model::{NodeActivity, NodeId, Reboot};

use super::{Node, Phase, Sleep, State};

impl State {
    /// Returns the state of each known node. A node that was ordered to reboot does so until it registers again, or fails to.
    pub fn activities(&self) -> Vec<(NodeId, NodeActivity)> {
        let (mut runs, mut stands) = (vec![false; self.nodes.len()], vec![false; self.nodes.len()]);
        for job in self.active.iter().filter_map(|id| self.jobs.get(id)) {
            let (assignment, of) = match &job.phase {
                Phase::Running(assignment, _) => (assignment, &mut runs),
                Phase::Suspended(assignment, ..) => (assignment, &mut stands),
                Phase::Waiting(_) | Phase::Starting(_) => continue,
            };
            for node in assignment.placement.iter().flat_map(|part| part.nodes()) {
                of[node.0 as usize] = true;
            }
        }
        let activity = |node: &Node| {
            let (runs, stands) = (runs[node.id.0 as usize], stands[node.id.0 as usize]);
            let owner = node.owner.here.is_some();
            match node.sleep {
                Sleep::Asleep => NodeActivity::Sleep,
                Sleep::GoingDown => NodeActivity::Down,
                Sleep::Waking => NodeActivity::Up,
                Sleep::Awake if matches!(node.reboot(), Some(Reboot::Ordered { .. })) => NodeActivity::Reboot,
                Sleep::Awake if !node.connected => NodeActivity::Away,
                Sleep::Awake if runs && owner => NodeActivity::Both,
                Sleep::Awake if runs => NodeActivity::Job,
                Sleep::Awake if stands => NodeActivity::Suspended,
                Sleep::Awake if owner => NodeActivity::User,
                Sleep::Awake => NodeActivity::Idle,
            }
        };
        self.nodes.iter().filter(|node| !node.is_removed()).map(|node| (node.id, activity(node))).collect()
    }
}
