//! The believed draw of each group of nodes, its part of that of the cluster; and what the limits of groups leave.

use limo_model::{JobId, NodeId, Power};

use crate::state::{Assignment, Node, State};

/// The believed draw of the groups, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupDraws {
    draws: Vec<Power>,
    /// True if the draw of a group is limited.
    pub are_limited: bool,
}

impl GroupDraws {
    pub fn of(state: &State) -> Self {
        Self { draws: state.group_draws(), are_limited: state.settings.groups.are_limited() }
    }

    /// Returns the draw of a group.
    pub fn draw(&self, group: usize) -> Power {
        self.draws.get(group).copied().unwrap_or_default()
    }

    /// Changes the draw of a node's group, if it has one.
    pub fn change(&mut self, node: Option<&Node>, change: impl Fn(Power) -> Power) {
        if let Some(draw) = node.and_then(Node::group).and_then(|group| self.draws.get_mut(group)) {
            *draw = change(*draw);
        }
    }

    /// Adds the draw of a job that no reading shows.
    pub fn add(&mut self, state: &State, assignment: &Assignment) {
        self.change_all(state, assignment, |draw, share| draw + share);
    }

    /// Subtracts the draw of a job that no reading shows.
    pub fn remove(&mut self, state: &State, assignment: &Assignment) {
        self.change_all(state, assignment, |draw, share| draw - share);
    }

    fn change_all(&mut self, state: &State, assignment: &Assignment, change: impl Fn(Power, Power) -> Power) {
        if self.draws.is_empty() {
            return;
        }
        for (unit, share) in assignment.draw_by_unit() {
            self.change(state.node(unit.node), |draw| change(draw, share));
        }
    }
}

/// Power that the groups leave to starts, in the order of their names.
#[derive(Debug, Clone)]
pub(crate) struct GroupRooms {
    pub left: Vec<Power>,
    /// The part of it for which no cap must fall first.
    pub free: Vec<Power>,
    pub nodes: Vec<Vec<NodeId>>,
    pub kept: Option<KeptRoom>,
}

/// Power that groups keep for the first waiting job.
#[derive(Debug, Clone)]
pub(crate) struct KeptRoom {
    pub job: JobId,
    /// In the order of the groups.
    pub power: Vec<Power>,
}
