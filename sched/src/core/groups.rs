//! Groups of nodes in reports, and their reboots.

use limo_model::{GroupSpec, NodeId, Power, Reboot};

use super::Core;
use crate::state::Node;

impl Core {
    /// Returns the groups in the order of their names, each with the believed draw of its nodes. It includes jobs that are
    /// about to start.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &GroupSpec, Power)> {
        let draw = |group| self.cluster.index.groups.draw(group);
        let groups = self.settings().groups.iter().enumerate();
        groups.map(move |(group, (name, spec))| (name, spec, draw(group)))
    }

    /// Returns true if nothing on a node keeps it from the reboot for which its turn has come.
    pub fn may_reboot(&self, id: NodeId) -> bool {
        let is_ready = |node: &Node| node.connected && node.is_awake() && node.owner.here.is_none();
        let is_wanted = |node: &Node| matches!(node.reboot(), Some(Reboot::Wanted { .. }));
        self.node(id).is_some_and(|node| is_wanted(node) && is_ready(node)) && self.cluster.books.is_free(id)
    }
}
