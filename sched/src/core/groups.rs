//! Groups of nodes in reports.

use limo_model::{GroupSpec, Power};

use super::Core;

impl Core {
    /// Returns the groups in the order of their names, each with the believed draw of its nodes. It includes jobs that are
    /// about to start.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &GroupSpec, Power)> {
        let draw = |group| self.cluster.index.groups.draw(group);
        let groups = self.settings().groups.iter().enumerate();
        groups.map(move |(group, (name, spec))| (name, spec, draw(group)))
    }
}
