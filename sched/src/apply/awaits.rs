//! Starts that wait for confirmations: of the caps of their own units, and of orders that free the power they need.
//!
//! Each waits for all orders that were unconfirmed when it was planned. So whatever the order of the confirmations, a
//! released start finds the power that its plan counted on. An order that fails, whose node goes away, or that is not
//! confirmed in time ends the attempts that wait for it; their jobs wait again.

use std::collections::BTreeSet;

use limo_model::{JobId, NodeId, Part, Span, StopReason, Time};

use super::jobs::with_times;
use super::nodes::judge_caps;
use crate::cluster::Cluster;
use crate::round::Await;
use crate::state::State;

/// Records a confirmation: later starts need not wait for it, and those that waited for nothing else are released.
pub(super) fn confirmed(cluster: &mut Cluster, is_over: impl Fn(&Await) -> bool) {
    if cluster.index.awaiting.is_empty() && cluster.state.reliefs.is_empty() {
        return;
    }
    cluster.state.reliefs.take(&is_over);
    for id in cluster.index.awaiting.clone() {
        let Some(job) = cluster.state.jobs.get_mut(id) else { continue };
        let Some(assignment) = job.assignment_mut() else { continue };
        assignment.after.retain(|awaited| !is_over(awaited));
        if assignment.after.is_empty() {
            cluster.index.awaiting.remove(&id);
            cluster.state.to_release.insert(id);
        }
    }
}

/// Lets the starts that still wait also wait for the newest orders: the limit may have fallen since they were planned.
pub(crate) fn wait_for_newest(cluster: &mut Cluster) {
    let newest: Vec<Await> = cluster.state.reliefs.awaited().collect();
    for id in &cluster.index.awaiting {
        let own = cluster.state.jobs.get(*id).and_then(|job| job.assignment());
        let own = unconfirmed_caps(&cluster.state, own.map_or(&[][..], |assignment| &assignment.placement));
        if let Some(assignment) = cluster.state.jobs.get_mut(*id).and_then(|job| job.assignment_mut()) {
            assignment.after.extend(newest.iter().chain(&own));
            assignment.after.sort_unstable();
            assignment.after.dedup();
        }
    }
}

/// Lets a start wait for these orders, and for all others that free power.
pub(crate) fn wait_for(cluster: &mut Cluster, id: JobId, orders: &[Await]) {
    if orders.is_empty() {
        return;
    }
    let Some(assignment) = cluster.state.jobs.get_mut(id).and_then(|job| job.assignment_mut()) else { return };
    assignment.after.extend(cluster.state.reliefs.awaited().chain(orders.iter().copied()));
    assignment.after.sort_unstable();
    assignment.after.dedup();
    cluster.index.awaiting.insert(id);
}

/// Returns the confirmations of caps that units of a placement do not surely hold yet.
pub(crate) fn unconfirmed_caps(state: &State, placement: &[Part]) -> Vec<Await> {
    let units = placement.iter().flat_map(Part::units);
    let nodes = units.filter_map(|unit| Some((state.node(unit.node)?, unit.unit)));
    let unconfirmed = nodes.filter(|(node, unit)| node.caps.unconfirmed && node.cap(*unit).is_some());
    unconfirmed.map(|(node, _)| Await::Capped { node: node.id, generation: node.caps.generation }).collect()
}

/// Ends the attempts that wait for a node, which did not follow its order.
pub(super) fn failed(cluster: &mut Cluster, id: NodeId) {
    if cluster.index.awaiting.is_empty() {
        return;
    }
    let Some(node) = cluster.state.node(id).map(|node| node.spec.name.clone()) else { return };
    let waits = |job: &JobId| {
        let after = cluster.state.jobs.get(*job).and_then(|job| job.assignment()).map(|of| of.after.as_slice());
        let is_awaited = |awaited: &Await| cluster.state.awaited_nodes(awaited).any(|node| node.id == id);
        after.unwrap_or_default().iter().any(is_awaited)
    };
    let jobs: Vec<JobId> = cluster.index.awaiting.iter().copied().filter(waits).collect();
    for job in jobs {
        with_times(cluster, job, |job| {
            if let Some(assignment) = job.assignment_mut().filter(|assignment| assignment.stop.is_none()) {
                assignment.stop = Some((StopReason::Unconfirmed { node: node.clone() }, false));
            }
        });
        cluster.index.to_stop.insert(job);
    }
}

/// Returns the time at which a job has waited too long for its confirmations; `None` while a node still has to wake.
fn overdue_at(state: &State, id: JobId) -> Option<Time> {
    let assignment = state.jobs.get(id)?.assignment()?;
    let mut since = assignment.assigned;
    for node in assignment.after.iter().flat_map(|awaited| state.awaited_nodes(awaited)) {
        if !node.is_awake() {
            return None;
        }
        since = since.max(node.idle_since);
    }
    Some(since + state.settings.options.suspect_for.max(Span::from_ms(1)))
}

/// Returns the time at which the first wait for a confirmation has taken too long.
pub(crate) fn next_overdue(cluster: &Cluster) -> Option<Time> {
    if cluster.index.awaiting.is_empty() {
        return None;
    }
    cluster.index.awaiting.iter().filter_map(|job| overdue_at(&cluster.state, *job)).min()
}

/// Gives up orders that were not confirmed in time: the starts that wait for them end, and no other start counts on them.
/// Returns the nodes that did not confirm their caps. These count as failed until the node registers again.
pub(crate) fn overdue(cluster: &mut Cluster, now: Time) -> BTreeSet<NodeId> {
    let mut silent = BTreeSet::new();
    if next_overdue(cluster).is_none_or(|at| at > now) {
        return silent;
    }
    let is_late = |job: &&JobId| overdue_at(&cluster.state, **job).is_some_and(|at| at <= now);
    let late =
        cluster.index.awaiting.iter().filter(is_late).filter_map(|job| cluster.state.jobs.get(*job)?.assignment());
    let late: Vec<Await> = late.flat_map(|assignment| assignment.after.iter().copied()).collect();
    for awaited in late {
        cluster.state.reliefs.give_up(&awaited);
        let nodes: Vec<NodeId> = cluster.state.awaited_nodes(&awaited).map(|node| node.id).collect();
        if let Await::Capped { node, .. } = awaited {
            silent.insert(node);
        }
        nodes.into_iter().for_each(|node| failed(cluster, node));
    }
    for node in &silent {
        if let Some(node) = cluster.state.node_mut(*node) {
            let capped = (0..).zip(&node.caps.limits).filter(|(_, cap)| cap.is_some());
            node.caps.failed.extend(capped.map(|(unit, _)| unit));
        }
        judge_caps(cluster, now, *node);
    }
    silent
}
