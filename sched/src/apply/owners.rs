//! Owners of nodes, who come before jobs (htc-sim-2015, section III-E): suspension while they are there, and the times
//! at which nodes take jobs again.

use std::sync::OnceLock;

use limo_model::{Attempt, Cause, Causes, Eviction, JobId, NodeId, Power, Span, StopReason, Time};

use super::jobs::with_times;
use super::nodes::{refresh_place, renew, settle, switch};
use super::pause::count;
use super::steer::stand_still;
use super::{reboots, sessions, sleep};
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Job, Node, Phase, Sleep};

/// Records that the owner of a node is there. Only a change that concerns a job or a waiting one needs a plan.
pub(super) fn came(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    settle(cluster, now);
    let node = known(cluster, id)?;
    if node.owner.here.replace(now).is_some() {
        return Ok(());
    }
    let suspect_until = node.suspect_until;
    sessions::begun(cluster, now, id);
    let node = known(cluster, id)?;
    if let Some(until) = node.owner.closed_until.take().filter(|until| suspect_until != Some(*until)) {
        cluster.index.reopens.remove(&(until, id));
    }
    cluster.index.rooms = OnceLock::new();
    wake(cluster, now, id);
    sleep::note_rest(cluster, id, now);
    renew(cluster, id, now);
    cluster.state.dirty |= is_limited(cluster);
    if evicts(cluster, id) {
        refresh_place(cluster, id, now);
        cluster.jobs_on(id).into_iter().for_each(|job| suspend(cluster, now, job));
    }
    Ok(())
}

/// Begins to wake a node that sleeps while its owner is there.
pub(super) fn wake(cluster: &mut Cluster, now: Time, id: NodeId) {
    let sleeps = |node: &&Node| node.sleep == Sleep::Asleep && node.owner.here.is_some();
    if cluster.state.node(id).filter(sleeps).is_some() {
        switch(cluster, now, id, Sleep::Waking);
    }
}

/// Records that the owner of a node has left: its jobs continue, and others may start after a time.
pub(super) fn left(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    settle(cluster, now);
    let node = known(cluster, id)?;
    let Some(since) = node.owner.here.take() else { return Ok(()) };
    node.idle_since = now;
    sleep::note_rest(cluster, id, now);
    sessions::ended(cluster, (since, now), id);
    reboots::evict(cluster, id);
    renew(cluster, id, now);
    cluster.state.dirty |= is_limited(cluster);
    let node = known(cluster, id)?;
    if !node.owner.evicts() {
        return Ok(());
    }
    let start_after = node.owner.rules.map_or(Span::ZERO, |rules| rules.start_after);
    if start_after > Span::ZERO {
        node.owner.closed_until = Some(now + start_after);
        cluster.index.reopens.insert((now + start_after, id));
    } else {
        cluster.state.dirty |= cluster.wants_nodes();
    }
    cluster.index.rooms = OnceLock::new();
    refresh_place(cluster, id, now);
    cluster.jobs_on(id).into_iter().for_each(|job| release(cluster, now, job));
    Ok(())
}

/// Records that a node ends an attempt by itself.
pub(super) fn evicted(
    cluster: &mut Cluster,
    (id, attempt): (JobId, Attempt),
    (node, why): (NodeId, Eviction),
) -> Result<(), Refused> {
    let name = known(cluster, node)?.spec.name.clone();
    let job = cluster.state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let assignment = job.assignment().filter(|assignment| assignment.attempt == attempt);
    let Some(assignment) = assignment else { return Err(Refused::OldAttempt { job: id, attempt }) };
    if assignment.stop.is_none() {
        stop(cluster, id, StopReason::Evicted { node: name, why }, true);
    }
    Ok(())
}

/// Sets rules that have changed; owners who are there suspend the jobs of their nodes, or do no longer.
pub(super) fn rules_changed(cluster: &mut Cluster, now: Time, nodes: &[NodeId]) {
    for id in nodes {
        let is_open = !evicts(cluster, *id);
        if let Some(node) = cluster.state.node_mut(*id).filter(|_| is_open) {
            node.owner.closed_until = None;
        }
        for job in cluster.jobs_on(*id) {
            match owner_of(cluster, job) {
                Some(_) => suspend(cluster, now, job),
                None => release(cluster, now, job),
            }
        }
    }
}

/// Suspends a job that has just begun, if the owner of a node of it is there.
pub(super) fn begun(cluster: &mut Cluster, now: Time, id: JobId) {
    if owner_of(cluster, id).is_some() {
        suspend(cluster, now, id);
    }
}

/// Ends the jobs whose owners have waited for long enough.
pub(crate) fn evict_due(cluster: &mut Cluster, now: Time) {
    while let Some((_, id)) = cluster.index.evictions.first().copied().filter(|(at, _)| *at <= now) {
        let node = owner_of(cluster, id).map(|node| node.spec.name.clone()).unwrap_or_default();
        stop(cluster, id, StopReason::Evicted { node, why: Eviction::Owner }, false);
        cluster.index.to_stop.insert(id);
    }
}

pub(super) fn stop(cluster: &mut Cluster, id: JobId, why: StopReason, told: bool) {
    with_times(cluster, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.stop = Some((why, told));
        }
    });
}

/// Returns true if the draw of an owner may change what jobs can have.
fn is_limited(cluster: &Cluster) -> bool {
    cluster.state.settings.limits.is_limited() || cluster.index.groups.are_limited
}

pub(super) fn known(cluster: &mut Cluster, id: NodeId) -> Result<&mut Node, Refused> {
    cluster.state.node_mut(id).filter(|node| !node.is_removed()).ok_or(Refused::NoSuchNode { node: id })
}

fn evicts(cluster: &Cluster, id: NodeId) -> bool {
    cluster.state.node(id).is_some_and(|node| node.owner.evicts())
}

/// Returns the first node of a job whose owner is there and suspends it.
fn owner_of(cluster: &Cluster, id: JobId) -> Option<&Node> {
    // A job may have thousands of nodes.
    if !cluster.index.classes.may_suspend() {
        return None;
    }
    let assignment = cluster.state.jobs.get(id)?.assignment()?;
    let nodes = limo_model::nodes(&assignment.placement).filter_map(|node| cluster.state.node(node));
    nodes.into_iter().find(|node| node.owner.suspends_since().is_some())
}

/// Returns the time at which the first of the owners who are there evicts a job. One that may not run again is only
/// suspended. An unreachable node evicts its jobs by itself.
fn evicted_at(cluster: &Cluster, now: Time, job: &Job) -> Option<Time> {
    let assignment = job.assignment().filter(|_| job.request.may_requeue)?;
    let suspended = job.causes().and_then(|causes| causes.since_of(Cause::Owner)).unwrap_or(now);
    let nodes = limo_model::nodes(&assignment.placement).filter_map(|node| cluster.state.node(node));
    let evicts = |node: &Node| Some(node.owner.suspends_since()?.max(suspended) + node.owner.rules?.evict_after);
    nodes.filter(|node| node.is_connected()).filter_map(evicts).min()
}

/// Handles a node that became unreachable, or reachable again: its owner may have left meanwhile, and its jobs may have ended.
/// When it is back, the time until an eviction begins anew, because the owner may have come a moment ago.
pub(super) fn reached(cluster: &mut Cluster, now: Time, id: NodeId) {
    let suspends = |node: &&Node| node.owner.suspends_since().is_some();
    let Some(node) = cluster.state.node(id).filter(suspends) else { return };
    let anew = node.owner.rules.filter(|_| node.is_connected()).map(|rules| now + rules.evict_after);
    for id in cluster.jobs_on(id) {
        let Some(job) = cluster.state.jobs.get(id) else { continue };
        let at = evicted_at(cluster, now, job).map(|at| anew.map_or(at, |anew| at.max(anew)));
        with_times(cluster, id, |job| match &mut job.phase {
            Phase::Suspended(assignment, _, causes) if assignment.stop.is_none() => causes.add_owner(now, at),
            _ => {}
        });
    }
}

fn suspend(cluster: &mut Cluster, now: Time, id: JobId) {
    let Some(job) = cluster.state.jobs.get(id) else { return };
    let (frees, evicted_at) = (job.is_paused(), evicted_at(cluster, now, job));
    match &job.phase {
        Phase::Running(assignment, _) if assignment.stop.is_none() => {
            stand_still(cluster, now, id, Causes::owner(now, evicted_at));
            cluster.state.to_suspend.insert(id);
        }
        Phase::Suspended(assignment, ..) if assignment.stop.is_none() => with_times(cluster, id, |job| {
            if let Phase::Suspended(_, _, causes) = &mut job.phase {
                causes.add_owner(now, evicted_at);
            }
        }),
        _ => return,
    }
    cluster.state.dirty = true;
    if !frees {
        count(cluster, now, -estimate(cluster, id));
    }
}

/// Removes the owner as a cause, unless another node of the job has one who is there.
fn release(cluster: &mut Cluster, now: Time, id: JobId) {
    let Some(job) = cluster.state.jobs.get(id) else { return };
    // A job that ends does not continue first.
    let ends = job.assignment().is_some_and(|assignment| assignment.stop.is_some());
    let is_suspended = !ends && job.causes().is_some_and(|causes| causes.since_of(Cause::Owner).is_some());
    if !is_suspended {
        return;
    }
    if owner_of(cluster, id).is_some() {
        return suspend(cluster, now, id);
    }
    with_times(cluster, id, |job| {
        if let Phase::Suspended(_, _, causes) = &mut job.phase {
            causes.remove(Cause::Owner);
        }
    });
    cluster.state.dirty = true;
    if cluster.state.jobs.get(id).is_some_and(|job| !job.is_paused()) {
        count(cluster, now, estimate(cluster, id));
    }
}

fn estimate(cluster: &Cluster, id: JobId) -> Power {
    let assignment = cluster.state.jobs.get(id).and_then(|job| job.assignment());
    assignment.map(|assignment| assignment.estimate.power).unwrap_or_default()
}
