//! The draw of groups of nodes, counted from the whole record.

use limo_model::{JobId, NodeId, Power};

use super::State;

impl State {
    /// Counts the believed draw of each group, in the order of their names: its part of [`super::Sums::draw`].
    pub(crate) fn group_draws(&self) -> Vec<Power> {
        let mut draws = vec![Power::ZERO; self.settings.groups.iter().count()];
        if draws.is_empty() {
            return draws;
        }
        let mut add = |node: NodeId, more: Power| {
            if let Some(draw) = self.node(node).and_then(|of| draws.get_mut(of.group()?)) {
                *draw += more;
            }
        };
        self.nodes.iter().for_each(|node| add(node.id, node.own));
        let hidden = |id: JobId| {
            let (job, assignment) = self.jobs.get(id).and_then(|job| Some((job, job.assignment()?)))?;
            let is_seen = move |node| job.running().is_some_and(|running| running.seen_on.contains(&node));
            Some(assignment.draw_by_unit().filter(move |(unit, _)| !is_seen(unit.node)))
        };
        for (unit, share) in self.active.iter().filter_map(hidden).flatten() {
            add(unit.node, share);
        }
        draws
    }
}
