//! The numbers of nodes of running malleable jobs, which only simulations have.
//!
//! Idea: malleable jobs take what others leave. While a job waits, or the draw is above the upper limit, each of them gives
//! back all nodes above the least number of its range before the plan. So waiting jobs come first under every order and
//! placement. What is free after the last plan is divided evenly: again and again, the job with the fewest nodes gets one
//! more: one that it had before if that is still free, else the first one. Constraints: whole free nodes of the same class
//! that are awake and not reserved; the upper limit if starts respect it, and the limits of groups. Under caps, quotas and
//! budgets no job grows. A smaller number costs nothing, so no start is delayed by a larger one. Ignores: prices, the lower limit,
//! and the efficiency of larger numbers. Cost: one look at each node in a round with such jobs.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, NodeId, Part, Placement, Power, Time, UnitId, width};

use super::execute::violations;
use crate::apply::{AsRunning, is_reserved, resize};
use crate::cluster::Cluster;
use crate::facts::allows_node;
use crate::plan::Plan;
use crate::round::{Command, Round};
use crate::state::Node;
use crate::view::View;

/// The malleable jobs that run when a round begins.
pub(super) struct Resizing {
    before: BTreeMap<JobId, AsRunning>,
    /// Number of commands that come before those of this component.
    first: usize,
}

/// Takes all nodes above the least number from the running malleable jobs if somebody needs them.
pub(super) fn shrink(cluster: &mut Cluster, now: Time, round: &Round) -> Resizing {
    let ids = cluster.index.malleable.iter();
    let jobs = ids.filter_map(|id| Some((*id, AsRunning::of(cluster.state.jobs.get(*id)?)?)));
    let is_plain = |of: &AsRunning| {
        let assignment = &of.assignment;
        let is_capped = |unit: UnitId| cluster.state.node(unit.node).is_some_and(|node| node.cap(unit.unit).is_some());
        assignment.ended.is_empty() && !assignment.units().any(|(unit, part)| part.cap.is_some() || is_capped(unit))
    };
    let before: BTreeMap<JobId, AsRunning> = jobs.filter(|(_, of)| is_plain(of)).collect();
    let resizing = Resizing { before, first: round.commands.len() };
    if resizing.before.is_empty() || cluster.parts.divides() {
        return Resizing { before: BTreeMap::new(), ..resizing };
    }
    let ceiling = cluster.state.settings.ceiling(cluster.state.settings.limits.band(now));
    let view = View::new(cluster, now);
    let is_over = cluster.state.sums.draw > ceiling
        || (0..).zip(view.group_ceilings()).any(|(group, most)| view.group_draw(group) > most);
    if cluster.state.queue.is_empty() && !is_over {
        return resizing;
    }
    for (id, of) in &resizing.before {
        let least = of.request.widths.map_or(u32::MAX, |widths| widths.least.get());
        if width(&of.assignment.placement) > least {
            let kept: BTreeSet<NodeId> = limo_model::nodes(&of.assignment.placement).take(least as usize).collect();
            let placement = placed(cluster, &kept, &of.assignment.placement);
            resize(cluster, now, *id, of, placement);
        }
    }
    resizing
}

/// Divides the nodes that are free after all starts among these jobs, and adds the commands to them.
pub(super) fn grow(cluster: &mut Cluster, now: Time, resizing: Resizing, round: &mut Round) {
    let Resizing { before, first } = resizing;
    if before.is_empty() {
        return;
    }
    let plan = Plan { resizes: Division::of(cluster, now, &before).finish(), ..Plan::default() };
    // A plan without changes would lack wait reasons, which this one need not give.
    let violations = if plan.resizes.is_empty() { Vec::new() } else { violations(cluster, now, &plan) };
    if violations.is_empty() {
        for (id, placement) in plan.resizes {
            if let Some(of) = before.get(&id) {
                resize(cluster, now, id, of, placement);
            }
        }
    } else {
        cluster.state.sums.rejected_plans += 1;
        round.violations.extend(violations);
    }
    let changed = before.iter().filter_map(|(id, before)| {
        let assignment = cluster.state.jobs.get(*id)?.assignment()?;
        let (attempt, placement) = (assignment.attempt, assignment.placement.clone());
        (placement != before.assignment.placement).then_some(Command::Resize { job: *id, attempt, placement })
    });
    let commands: Vec<Command> = changed.collect();
    round.commands.splice(first..first, commands);
}

/// Returns a placement of a job on these nodes: as it was before on those that it had, and on the others as on its first one.
fn placed(cluster: &Cluster, nodes: &BTreeSet<NodeId>, before: &[Part]) -> Placement {
    if nodes.len() == width(before) as usize && limo_model::nodes(before).all(|node| nodes.contains(&node)) {
        return before.to_vec();
    }
    let class = |node: NodeId| cluster.index.classes.place_of(node).map(|(class, _)| class);
    let mut placement = Placement::new();
    for node in nodes {
        let Some(like) = before.iter().find(|part| part.is_on(*node)).or(before.first()) else { continue };
        let part = Part { unit: UnitId { node: *node, ..like.unit }, count: 1, ..*like };
        match placement.last_mut().filter(|last| class(last.unit.node) == class(*node)) {
            Some(last) if last.unit.node.0 + last.count == node.0 && last.unit.unit == part.unit.unit => {
                last.count += 1
            }
            _ => placement.push(part),
        }
    }
    placement
}

/// A job that may get more nodes.
struct Grower<'a> {
    id: JobId,
    before: &'a AsRunning,
    nodes: BTreeSet<NodeId>,
    most: usize,
    /// Draw of one more node.
    each: Power,
}

/// The free nodes, and the jobs among which they are divided.
struct Division<'a> {
    cluster: &'a Cluster,
    growers: Vec<Grower<'a>>,
    /// Free nodes by class.
    free: BTreeMap<usize, BTreeSet<NodeId>>,
    /// Power that is left, in the cluster and in each group.
    left: Power,
    left_in: Vec<Power>,
}

impl<'a> Division<'a> {
    fn of(cluster: &'a Cluster, now: Time, before: &'a BTreeMap<JobId, AsRunning>) -> Self {
        let settings = &cluster.state.settings;
        let view = View::new(cluster, now);
        let limited = cluster.parts.keeps_budget() && !settings.budgets.is_empty() || settings.have_quotas();
        let growers = before.iter().filter(|_| !limited).filter_map(|(id, before)| {
            let assignment = cluster.state.jobs.get(*id)?.assignment()?;
            let width = width(&before.assignment.placement);
            Some(Grower {
                id: *id,
                before,
                nodes: limo_model::nodes(&assignment.placement).collect(),
                most: before.request.widths?.most.get() as usize,
                each: before.assignment.estimate.power.scaled(1, i64::from(width.max(1))),
            })
        });
        let mut free: BTreeMap<usize, BTreeSet<NodeId>> = BTreeMap::new();
        for node in cluster.state.nodes.iter().filter(|node| node.is_usable(now) && cluster.books.is_free(node.id)) {
            let is_capped = node.caps.limits.iter().any(Option::is_some);
            if let Some((class, _)) = cluster.index.classes.place_of(node.id)
                && !is_capped
                && !is_reserved(cluster, node.id)
            {
                free.entry(class).or_default().insert(node.id);
            }
        }
        let ceiling = settings.ceiling(view.band());
        let left = match cluster.parts.ignores_upper_limit() || ceiling.is_unlimited() {
            true => Power::MAX,
            false => ceiling - view.estimated_draw().max(view.draw() + view.unconfirmed()),
        };
        let left_in = view.group_rooms().map_or_else(Vec::new, |rooms| {
            let kept = rooms.kept.as_ref().map_or(&[][..], |kept| &kept.power);
            let kept = kept.iter().copied().chain(std::iter::repeat(Power::ZERO));
            rooms.left.iter().zip(kept).map(|(left, kept)| *left - kept).collect()
        });
        Self { cluster, growers: growers.collect(), free, left, left_in }
    }

    /// Returns the new placements of the jobs that get more nodes than they have now.
    fn finish(mut self) -> Vec<(JobId, Placement)> {
        let mut open: BTreeSet<(usize, usize)> =
            self.growers.iter().enumerate().map(|(index, grower)| (grower.nodes.len(), index)).collect();
        while let Some((count, index)) = open.pop_first() {
            if self.grow(index) {
                open.insert((count + 1, index));
            }
        }
        let changed = self.growers.into_iter().filter_map(|grower| {
            let present = self.cluster.state.jobs.get(grower.id)?.assignment()?;
            let has_more = grower.nodes.len() > width(&present.placement) as usize;
            let placement = || placed(self.cluster, &grower.nodes, &grower.before.assignment.placement);
            has_more.then(|| (grower.id, placement()))
        });
        changed.collect()
    }

    /// Gives a job one more node; returns false if it gets none.
    fn grow(&mut self, index: usize) -> bool {
        let Some(grower) = self.growers.get_mut(index) else { return false };
        let first = grower.nodes.first().and_then(|node| self.cluster.index.classes.place_of(*node));
        let Some(free) = first.and_then(|(class, _)| self.free.get_mut(&class)) else { return false };
        if grower.nodes.len() >= grower.most || grower.each > self.left {
            return false;
        }
        let group_of = |node: NodeId| self.cluster.state.node(node).and_then(Node::group);
        let left_in = &self.left_in;
        let has_power =
            |node: NodeId| group_of(node).and_then(|group| left_in.get(group)).is_none_or(|left| grower.each <= *left);
        let mut own = limo_model::nodes(&grower.before.assignment.placement).filter(|node| free.contains(node));
        let request = &grower.before.request;
        let may_have = |node: NodeId| self.cluster.state.node(node).is_some_and(|node| allows_node(request, node));
        let other = || free.iter().copied().find(|node| may_have(*node) && has_power(*node));
        let Some(node) = own.find(|node| has_power(*node)).or_else(other) else { return false };
        free.remove(&node);
        if let Some(left) = group_of(node).and_then(|group| self.left_in.get_mut(group)) {
            *left -= grower.each;
        }
        grower.nodes.insert(node);
        self.left -= grower.each;
        true
    }
}
