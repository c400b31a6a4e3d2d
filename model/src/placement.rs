//! Placements: the units that a job has, as parts over consecutive nodes.

use serde::{Deserialize, Serialize};

use crate::{Memory, NodeId, Power, UnitId};

/// The place of a job: its share of each of its units.
pub type Placement = Vec<Part>;

/// A job's share of one unit and of the node's memory, equal on each of `count` consecutive nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The unit on the first node; other nodes have the unit of the same index.
    pub unit: UnitId,
    /// Number of nodes, at least 1.
    pub count: u32,
    /// Cores on each of the nodes, at least 1.
    pub cores: u32,
    /// Memory on each of the nodes.
    pub memory: Memory,
    /// The cap of the unit while the job runs, if the policy chose one.
    pub cap: Option<Power>,
}

impl Part {
    /// Returns the nodes of the part, in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.unit.node.0..self.unit.node.0.saturating_add(self.count)).map(NodeId)
    }

    /// Returns the units of the part, one on each node.
    pub fn units(&self) -> impl Iterator<Item = UnitId> + use<> {
        let unit = self.unit.unit;
        self.nodes().map(move |node| UnitId { node, unit })
    }

    /// Returns true if `node` is one of the part's nodes.
    pub fn is_on(&self, node: NodeId) -> bool {
        node.0.checked_sub(self.unit.node.0).is_some_and(|offset| offset < self.count)
    }
}

/// Returns the number of nodes of a placement, counted once for each part.
pub fn width(placement: &[Part]) -> u32 {
    placement.iter().fold(0, |sum: u32, part| sum.saturating_add(part.count))
}

/// Returns the nodes of a placement, each once, as ranges in ascending order: the first node and the number of nodes.
pub fn runs(placement: &[Part]) -> impl Iterator<Item = (NodeId, u32)> + use<> {
    // Most placements have one part, and each event of a job asks for its nodes.
    let (one, several) = match placement {
        [part] => (Some((part.unit.node, part.count)), Vec::new()),
        _ => (None, runs_of_several(placement)),
    };
    one.into_iter().chain(several)
}

fn runs_of_several(placement: &[Part]) -> Vec<(NodeId, u32)> {
    let mut parts: Vec<(u32, u32)> = placement.iter().map(|part| (part.unit.node.0, part.count)).collect();
    parts.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for (first, count) in parts {
        let end = first.saturating_add(count);
        match runs.last_mut().filter(|(from, count)| first <= from.saturating_add(*count)) {
            Some((from, count)) => *count = (*count).max(end - *from),
            None => runs.push((first, count)),
        }
    }
    runs.into_iter().map(|(first, count)| (NodeId(first), count)).collect()
}

/// Returns the nodes of a placement, each once, in ascending order.
pub fn nodes(placement: &[Part]) -> impl Iterator<Item = NodeId> + use<> {
    let of_run = |(first, count): (NodeId, u32)| (first.0..first.0.saturating_add(count)).map(NodeId);
    runs(placement).flat_map(of_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_once() {
        let part = |node: u32, unit: u16, count: u32| {
            let unit = UnitId { node: NodeId(node), unit };
            Part { unit, count, cores: 1, memory: Memory::ZERO, cap: None }
        };
        let check = |parts: &[Part], expected: &[(u32, u32)]| {
            let expected: Vec<_> = expected.iter().map(|(first, count)| (NodeId(*first), *count)).collect();
            assert_eq!(runs(parts).collect::<Vec<_>>(), expected);
            let each = expected.iter().flat_map(|(first, count)| (first.0..first.0 + count).map(NodeId));
            assert_eq!(nodes(parts).collect::<Vec<_>>(), each.collect::<Vec<_>>());
        };
        check(&[part(5, 0, 2), part(1, 0, 1)], &[(1, 1), (5, 2)]);
        check(&[part(1, 1, 3), part(1, 2, 3), part(4, 1, 1)], &[(1, 4)]);
        check(&[part(1, 1, 3), part(2, 2, 1), part(3, 0, 3)], &[(1, 5)]);
        check(&[part(1, 1, 3), part(2, 2, 1)], &[(1, 3)]);
        check(&[], &[]);
        check(&[part(7, 1, 3)], &[(7, 3)]);
    }
}
