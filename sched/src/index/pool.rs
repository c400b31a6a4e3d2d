//! Free nodes in the order of the placement `pool`: ordered sets by what their ranks depend on.

use std::collections::BTreeMap;

use limo_model::{NodeId, PlacementRule, Power, SessionSums, Span};

use super::Classes;
use crate::options::{Knowledge, PoolRank};
use crate::state::{Node, State, group_place};

/// Key on which the ranks of a node depend: first the rank by its own sessions, then class, group and idle draw. Nodes
/// have equal keys if the rank in force does not tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolKey {
    /// The rank by sessions at the node itself, S3; zero under other ranks.
    pub own: i64,
    pub class: u32,
    /// The group, as a place in the order of names; `None` also under ranks that do not depend on it.
    pub group: Option<u16>,
    /// Zero under ranks that do not depend on it.
    pub idle: Power,
}

/// Free nodes with the same key, in order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PoolCell {
    awake: Vec<NodeId>,
    asleep: Vec<NodeId>,
}

/// A node: its rank of its own, its group and idle draw as in its key, and the cell that has it while it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Pooled {
    own: i64,
    group: Option<u16>,
    idle: Power,
    place: Option<(PoolKey, bool)>,
}

/// The free nodes: those with a free core that are awake, and those that sleep and can be woken. A change of one node
/// costs O(log n) for the cell, and moves the numbers of the free nodes behind it in the cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolIndex {
    rank: PoolRank,
    knowledge: Knowledge,
    nodes: Vec<Pooled>,
    cells: BTreeMap<PoolKey, PoolCell>,
    /// Sums over the sessions at nodes in no group, then over those of each group. Gaps do not count.
    sums: Vec<SessionSums>,
}

impl PoolCell {
    /// Returns the nodes that sleep, or those that are awake.
    pub fn nodes(&self, asleep: bool) -> &[NodeId] {
        if asleep { &self.asleep } else { &self.awake }
    }

    fn nodes_mut(&mut self, asleep: bool) -> &mut Vec<NodeId> {
        if asleep { &mut self.asleep } else { &mut self.awake }
    }
}

impl PoolIndex {
    /// Makes the index, if the placement is `pool`.
    pub fn of(state: &State, classes: &Classes) -> Option<Self> {
        if state.settings.parts().placement != PlacementRule::Pool {
            return None;
        }
        let options = state.settings.options.pool;
        let (rank, knowledge) = (options.rank, options.knowledge);
        let sums = vec![SessionSums::default(); state.settings.groups.iter().count() + 1];
        let mut index = Self { rank, knowledge, nodes: Vec::new(), cells: BTreeMap::new(), sums };
        for node in state.nodes.iter().filter(|node| !node.is_removed()) {
            index.rank(node, classes);
            if let (Some(of_node), Some(sums)) = (index.sessions_of(node), index.sums.get_mut(group_place(node.group)))
            {
                sums.add_sessions_of(&of_node);
            }
        }
        Some(index)
    }

    /// Returns the free nodes in the order of their keys.
    pub fn cells(&self) -> impl Iterator<Item = (&PoolKey, &PoolCell)> {
        self.cells.iter()
    }

    /// Returns the sums over the sessions of a group.
    pub fn sums(&self, group: Option<u16>) -> SessionSums {
        self.sums.get(group_place(group)).copied().unwrap_or_default()
    }

    fn sessions_of(&self, node: &Node) -> Option<SessionSums> {
        let record = node.sessions.as_deref()?;
        match self.knowledge {
            Knowledge::Past => Some(record.past),
            Knowledge::Trace => record.trace,
        }
    }

    /// Returns the rank of a node by its own sessions. A node without a gap comes before all others: its owner has not
    /// come so far.
    fn own(&self, node: &Node) -> i64 {
        let sums = || self.sessions_of(node).unwrap_or_default();
        match self.rank {
            PoolRank::S3a => sums().mean_gap().map_or(i64::MIN, |gap| -gap.ms()),
            PoolRank::S3b => i64::from(sums().sessions),
            _ => 0,
        }
    }

    /// Adds a session that has ended.
    pub fn count(&mut self, node: &Node, used: Span) {
        if let Some(sums) = self.sums.get_mut(group_place(node.group)).filter(|_| self.knowledge == Knowledge::Past) {
            sums.add_session(used);
        }
    }

    /// Updates all that is known about a node.
    pub fn rank(&mut self, node: &Node, classes: &Classes) {
        let at = node.id.0 as usize;
        self.nodes.resize(self.nodes.len().max(at + 1), Pooled::default());
        let own = self.own(node);
        let group = node.group.filter(|_| self.rank.is_by_group());
        let idle = if self.rank == PoolRank::S2 { node.spec.idle } else { Power::ZERO };
        self.nodes[at] = Pooled { own, group, idle, ..self.nodes[at] };
        self.update(node.id, classes);
    }

    /// Updates a node after a change of its free resources.
    pub fn update(&mut self, id: NodeId, classes: &Classes) {
        let Some(node) = self.nodes.get_mut(id.0 as usize) else { return };
        let key = |(class, asleep)| (PoolKey { own: node.own, class, group: node.group, idle: node.idle }, asleep);
        let place = free_place(id, classes).map(key);
        let before = std::mem::replace(&mut node.place, place);
        if before == place {
            return;
        }
        if let Some((key, asleep)) = before
            && let Some(cell) = self.cells.get_mut(&key)
        {
            let nodes = cell.nodes_mut(asleep);
            if let Ok(at) = nodes.binary_search(&id) {
                nodes.remove(at);
            }
            if cell.awake.is_empty() && cell.asleep.is_empty() {
                self.cells.remove(&key);
            }
        }
        if let Some((key, asleep)) = place {
            let nodes = self.cells.entry(key).or_default().nodes_mut(asleep);
            if let Err(at) = nodes.binary_search(&id) {
                nodes.insert(at, id);
            }
        }
    }
}

/// Returns the class of a free node, and true if it sleeps.
fn free_place(id: NodeId, classes: &Classes) -> Option<(u32, bool)> {
    let (index, position) = classes.place_of(id)?;
    let class = classes.class(index);
    let asleep = class.asleep.contains(position);
    let is_free = || class.levels.iter().any(|of| of.usable().contains(position) && of.free(position) > 0);
    (asleep || is_free()).then_some((index as u32, asleep))
}
