//! Lost nodes: unreachable for so long that their jobs count as ended without a report. The draw of those jobs is
//! *held*: it stays part of the believed draw until it is known to have ended. Caps count as lifted, because a node does
//! not keep them for longer without a master. If caps divide the upper limit, or the node has not confirmed that it
//! suspended a job, the nameplates of its units count.

use limo_model::{Attempt, JobId, NodeId, NodeSpec, Part, Power, Time};

use super::nodes::{renew, settle_cluster};
use super::{sleep, steer};
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Assignment, Held};

/// Marks a node as lost: the draw of each of its attempts is held from its end on.
pub(super) fn lost(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    let node = cluster.state.node(id).filter(|node| !node.is_removed()).ok_or(Refused::NoSuchNode { node: id })?;
    if node.is_connected() {
        return Err(Refused::NodeIsConnected { name: node.spec.name.clone() });
    }
    let open = |job: &JobId| {
        let assignment = cluster.state.jobs.get(*job)?.assignment()?;
        let is_over = assignment.ended.iter().any(|part| part.node == id);
        (!is_over).then_some((*job, assignment.attempt))
    };
    let attempts: Vec<_> = cluster.jobs_on(id).iter().filter_map(open).collect();
    let Some(node) = cluster.state.node_mut(id) else { return Ok(()) };
    node.lost.get_or_insert(now);
    for (job, attempt) in attempts {
        if !node.held.iter().any(|held| (held.job, held.attempt) == (job, attempt)) {
            node.held.push(Held { job, attempt, draw: Power::ZERO });
        }
    }
    if !node.held.is_empty() {
        cluster.index.held.insert(id);
    }
    steer::lifted(cluster, now, id);
    Ok(())
}

/// Handles the end of an attempt: on lost nodes its draw is assumed to continue.
/// `unfollowed` is true if its nodes have not confirmed that they suspended it.
pub(super) fn hold(
    cluster: &mut Cluster,
    now: Time,
    (job, attempt): (JobId, Attempt),
    assignment: &Assignment,
    unfollowed: bool,
) {
    if cluster.index.held.is_empty() {
        return;
    }
    let is_on = |node: &NodeId| assignment.placement.iter().any(|part| part.is_on(*node));
    let lost: Vec<NodeId> = cluster.index.held.iter().copied().filter(is_on).collect();
    // A job whose nodes are still waking draws no power on a lost node. If all of them have woken, it may have begun,
    // although no start was recorded.
    let may_have_begun = assignment.pending.is_zero() || !sleep::wakes(&cluster.state, &assignment.placement);
    let divides = cluster.parts.divides();
    settle_cluster(cluster, now);
    for id in lost {
        let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { continue };
        let is_this = |held: &Held| (held.job, held.attempt) == (job, attempt);
        if !may_have_begun {
            node.held.retain(|held| !is_this(held));
            if node.held.is_empty() {
                cluster.index.held.remove(&id);
            }
        } else if let Some(held) = node.held.iter_mut().find(|held| is_this(held)) {
            // A meter may have shown less, under a cap that is lifted; and an order to suspend may not have arrived.
            let most = if divides || unfollowed { nameplate_of(&node.spec, assignment, id) } else { Power::ZERO };
            let draw = assignment.draw_on(id).max(most);
            cluster.index.active_draw += draw - held.draw;
            cluster.books.active += draw - held.draw;
            held.draw = draw;
        }
        renew(cluster, id, now);
    }
}

/// Returns the draw of an attempt on a node by the nameplates of its units.
fn nameplate_of(spec: &NodeSpec, assignment: &Assignment, id: NodeId) -> Power {
    let here = assignment.placement.iter().filter(|part| part.is_on(id));
    let of_part = |part: &Part| {
        let unit = spec.units.get(usize::from(part.unit.unit))?;
        Some(unit.nameplate.scaled(part.cores.into(), unit.cores.into()))
    };
    here.filter_map(of_part).sum()
}

/// Returns true if the draw of the job is held on the node.
pub(super) fn is_held(cluster: &Cluster, id: NodeId, job: JobId) -> bool {
    cluster.index.held.contains(&id)
        && cluster.state.node(id).is_some_and(|node| node.held.iter().any(|held| held.job == job))
}

/// Releases the held draw of a node, except for `kept`.
pub(super) fn released(cluster: &mut Cluster, now: Time, id: NodeId, kept: &[(JobId, Attempt)]) -> Result<(), Refused> {
    if cluster.state.node(id).is_none() {
        return Err(Refused::NoSuchNode { node: id });
    }
    settle_cluster(cluster, now);
    let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { return Ok(()) };
    let before = node.held_draw();
    node.held.retain(|held| kept.contains(&(held.job, held.attempt)));
    cluster.index.active_draw -= before - node.held_draw();
    cluster.books.active -= before - node.held_draw();
    if node.held.is_empty() {
        cluster.index.held.remove(&id);
    }
    renew(cluster, id, now);
    Ok(())
}
