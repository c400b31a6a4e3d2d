//! Changes to running jobs: caps, suspension, requeueing, and corrections of their draw by readings.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, Causes, JobId, NodeId, Power, Span, StopReason, Time, UnitId};

use super::jobs::with_times;
use super::nodes::{charge, judge_caps, renew, settle_cluster, unseen};
use super::{awaits, lost, sleep};
use crate::cluster::Cluster;
use crate::facts::{Expected, draw_at, expected_of_units};
use crate::refused::Refused;
use crate::round::Await;
use crate::state::{Change, Job, Phase, State};

/// Bounds of the measured draw, in thousandths of the expected draw, which prevent division by zero and overflow. A draw
/// above them would not be believed: caps would not hold it.
const MEASURED: (i64, i64) = (1, 1_000_000_000);

/// Least difference to the believed draw, in thousandths, at which a reading corrects it. Noise of meters is smaller.
/// The reserve below the upper limit is twice as large.
const TREMBLE: i64 = 5;

/// The caps of nodes, by unit.
pub(crate) type NodeCaps = BTreeMap<NodeId, Vec<Option<Power>>>;

/// Caps the units of some nodes anew: the draw of their jobs changes from now on, and so do their ends. Returns the
/// number of the order to each node.
pub(crate) fn hold_at(cluster: &mut Cluster, now: Time, nodes: &NodeCaps) -> Vec<(NodeId, u64)> {
    let mut generations = Vec::new();
    for id in nodes.keys() {
        let Some(node) = cluster.state.node_mut(*id) else { continue };
        node.caps.generation += 1;
        node.caps.unconfirmed = true;
        generations.push((*id, node.caps.generation));
    }
    follow_caps(cluster, now, nodes);
    generations
}

/// Expects a lost node to have lifted its caps: it does so after a while without a master.
pub(super) fn lifted(cluster: &mut Cluster, now: Time, id: NodeId) {
    let Some(node) = cluster.state.node_mut(id).filter(|node| node.caps.limits.iter().any(Option::is_some)) else {
        return;
    };
    node.caps.generation += 1;
    node.caps.unconfirmed = false;
    follow_caps(cluster, now, &NodeCaps::from([(id, Vec::new())]));
    confirmed(cluster, id, |change| matches!(change, Change::Caps(_)));
}

/// Records the caps that nodes hold from now on.
fn follow_caps(cluster: &mut Cluster, now: Time, nodes: &NodeCaps) {
    let mut before = NodeCaps::new();
    let mut jobs = BTreeSet::new();
    for (id, limits) in nodes {
        let Some(node) = cluster.state.node_mut(*id) else { continue };
        before.insert(*id, std::mem::replace(&mut node.caps.limits, limits.clone()));
        node.caps.changed = now;
        if limits.iter().any(Option::is_some) {
            cluster.index.capped.insert(*id);
        } else {
            cluster.index.capped.remove(id);
        }
        if let Some(node) = cluster.state.node(*id) {
            cluster.books.look_at(node, now);
        }
        jobs.extend(cluster.jobs_on(*id));
    }
    jobs.into_iter().for_each(|job| pace(cluster, now, job, &before));
}

/// Updates the pace of a job if its caps differ from `before`.
fn pace(cluster: &mut Cluster, now: Time, id: JobId, before: &NodeCaps) {
    let state = &cluster.state;
    let (Some(job), cap) = (state.jobs.get(id), |unit: UnitId| state.node(unit.node)?.cap(unit.unit)) else { return };
    let old_cap = |unit: UnitId| match before.get(&unit.node) {
        Some(limits) => limits.get(usize::from(unit.unit)).copied().flatten(),
        None => cap(unit),
    };
    let Some(assignment) = job.assignment() else { return };
    if assignment.units().all(|(unit, _)| old_cap(unit) == cap(unit)) {
        return;
    }
    let (Some(then), Some(after)) = (expected_of_units(state, job, old_cap), expected_of_units(state, job, cap)) else {
        return;
    };
    let rest = (job.expected_end(now).unwrap_or(now) - now).max(Span::ZERO);
    let longer = rest.scaled(after.duration.ms(), then.duration.ms().max(1)) - rest;
    let is_suspended = matches!(job.phase, Phase::Suspended(..));
    let attempt = assignment.attempt;
    with_times(cluster, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.held = assignment.held + longer;
        }
        if let Some((_, running)) = job.running_mut() {
            running.steady = false;
        }
    });
    if is_suspended {
        // Until its node confirms the suspension, it may draw what the caps now allow.
        cluster.state.reliefs.add_to_pause(id, attempt, (after.draw - then.draw).at_least_zero());
    } else {
        set_draw(cluster, now, id, (after.draw, after.shares), Some(Change::Caps(id)));
    }
}

/// Changes the expected draw of a job, after an order to its nodes or without one. Readings include an order once it is
/// confirmed.
pub(super) fn set_draw(
    cluster: &mut Cluster,
    now: Time,
    id: JobId,
    (draw, shares): (Power, Vec<Power>),
    why: Option<Change>,
) {
    settle_cluster(cluster, now);
    let assigned = cluster.state.jobs.get(id).and_then(|job| job.assignment());
    let is_released = assigned.is_some_and(|of| of.after.is_empty() && !sleep::wakes(&cluster.state, &of.placement));
    let Some(job) = cluster.state.jobs.get_mut(id) else { return };
    spend(job, now);
    let seen = job.running().map(|running| running.seen_on.clone()).unwrap_or_default();
    let Some(assignment) = job.assignment_mut() else { return };
    let before: Vec<(UnitId, Power)> = assignment.draw_by_unit().collect();
    let is_sole = before.len() == 1;
    let (attempt, is_drawing) = (assignment.attempt, assignment.pending.is_zero());
    // A released start may draw power before its node has reported it.
    let may_draw = is_drawing || is_released;
    let hidden_since = std::mem::replace(&mut assignment.hidden_since, now);
    (assignment.draw, assignment.shares) = (draw, shares);
    let after: Vec<Power> = assignment.draw_by_unit().map(|(_, draw)| draw).collect();
    if !is_drawing {
        let pending = assignment.draw_of_units();
        cluster.state.sums.pending += pending - std::mem::replace(&mut assignment.pending, pending);
    }
    cluster.index.note_draw(id, job);
    for ((unit, before), after) in before.into_iter().zip(after) {
        let more = after - before;
        if may_draw {
            let generation = cluster.state.node(unit.node).map_or(0, |node| node.caps.generation);
            match why {
                None => {}
                Some(Change::Caps(_)) => cluster.state.reliefs.add_caps(unit.node, generation, more),
                Some(Change::Pause(job)) => cluster.state.reliefs.add_pause(job, attempt, more),
            }
        }
        let is_seen = seen.contains(&unit.node);
        if !is_seen {
            cluster.add_draw(unit.node, more);
            charge(&mut cluster.state, (unit.node, 1), before, hidden_since, now);
        }
        let is_ordered = may_draw && (is_sole || !more.is_zero());
        if let Some((node, why)) = cluster.state.node_mut(unit.node).filter(|_| is_ordered).zip(why) {
            match node.unseen.iter_mut().find(|(change, _)| *change == why) {
                Some((_, power)) => *power += more,
                None => node.unseen.push((why, more)),
            }
            cluster.index.unseen.insert(unit.node);
            if let Some(reading) = node.reading.as_mut().filter(|_| is_seen) {
                // It may contain only a part of the job's draw.
                reading.draw = (reading.draw + more).max(node.spec.idle.min(reading.draw));
            }
        }
        if is_seen {
            renew(cluster, unit.node, now);
        }
    }
}

/// Settles the energy of a job until now, because its draw changes.
fn spend(job: &mut Job, now: Time) {
    if let Some((assignment, running)) = job.running_mut() {
        running.spent += assignment.draw * (now - running.since);
        running.since = now;
    }
}

/// Suspends a job for the upper limit. Returns false if it is suspended already, and its node then gets no command.
pub(crate) fn suspend(cluster: &mut Cluster, now: Time, id: JobId) -> bool {
    if cluster.state.jobs.get(id).is_some_and(|job| job.causes().is_some()) {
        with_times(cluster, id, |job| {
            if let Phase::Suspended(_, _, causes) = &mut job.phase {
                causes.add_limit(now);
            }
        });
        return false;
    }
    stand_still(cluster, now, id, Causes::limit(now));
    true
}

/// Suspends a running job: its draw is zero from now on.
pub(super) fn stand_still(cluster: &mut Cluster, now: Time, id: JobId, causes: Causes) {
    with_times(cluster, id, |job| {
        if let Phase::Running(assignment, mut running) = std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
            running.steady = false;
            job.phase = Phase::Suspended(assignment, running, causes);
        }
    });
    set_draw(cluster, now, id, (Power::ZERO, Vec::new()), Some(Change::Pause(id)));
}

pub(crate) fn resume(cluster: &mut Cluster, now: Time, id: JobId) {
    with_times(cluster, id, |job| {
        if let Phase::Suspended(mut assignment, mut running, causes) =
            std::mem::replace(&mut job.phase, Phase::Waiting(None))
        {
            assignment.held = assignment.held + (now - causes.since());
            running.resumed = now;
            job.phase = Phase::Running(assignment, running);
        }
    });
    let cap = |unit: UnitId| cluster.state.node(unit.node)?.cap(unit.unit);
    let expected = cluster.state.jobs.get(id).and_then(|job| expected_of_units(&cluster.state, job, cap));
    if let Some(Expected { draw, shares, .. }) = expected {
        set_draw(cluster, now, id, (draw, shares), Some(Change::Pause(id)));
    }
}

/// Ends a running job, which then waits again. The caller gives the command.
pub(crate) fn requeue(cluster: &mut Cluster, id: JobId, why: StopReason) -> Option<Attempt> {
    with_times(cluster, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.stop = Some((why, true));
        }
    });
    cluster.state.jobs.get(id)?.assignment().map(|assignment| assignment.attempt)
}

/// Checks that a job can be requeued: it starts or runs, its user allowed it, and it is not being ended.
pub(crate) fn check_requeue(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let assignment = job.assignment().ok_or(Refused::NotRunning { job: id })?;
    if !job.request.may_requeue {
        return Err(Refused::MayNotRunAgain { job: id });
    }
    if assignment.stop.is_some() { Err(Refused::EndsAlready { job: id }) } else { Ok(()) }
}

/// Handles a person's request; the command follows with the next round.
pub(super) fn requeue_requested(cluster: &mut Cluster, id: JobId, by: &str) -> Result<(), Refused> {
    check_requeue(&cluster.state, id)?;
    with_times(cluster, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.stop = Some((StopReason::RequeuedBy { by: by.to_owned() }, false));
        }
    });
    cluster.index.to_stop.insert(id);
    Ok(())
}

/// Records a node's confirmation of an order: later readings include it.
pub(super) fn confirmed(cluster: &mut Cluster, id: NodeId, what: impl Fn(Change) -> bool) {
    if let Some(node) = cluster.state.node_mut(id) {
        node.unseen.retain(|(change, _)| !what(*change));
        if node.unseen.is_empty() {
            cluster.index.unseen.remove(&id);
        }
    }
}

/// Records the caps of a node; a unit whose cap could not be set has none.
pub(super) fn capped(
    cluster: &mut Cluster,
    now: Time,
    (id, generation): (NodeId, u64),
    failed: &[u16],
) -> Result<(), Refused> {
    let node = cluster.state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    if node.caps.generation != generation {
        return Ok(());
    }
    node.caps.failed.extend(failed);
    node.caps.unconfirmed = false;
    judge_caps(cluster, now, id);
    if !failed.is_empty() {
        let node = cluster.state.node(id).ok_or(Refused::NoSuchNode { node: id })?;
        let mut limits = node.caps().1;
        awaits::failed(cluster, id);
        (0..).zip(&mut limits).filter(|(unit, _)| failed.contains(unit)).for_each(|(_, cap)| *cap = None);
        follow_caps(cluster, now, &NodeCaps::from([(id, limits)]));
    }
    confirmed(cluster, id, |change| matches!(change, Change::Caps(_)));
    awaits::confirmed(cluster, |awaited| matches!(awaited, Await::Capped { node, .. } if *node == id));
    Ok(())
}

pub(super) fn paused(cluster: &mut Cluster, (id, number): (JobId, Attempt), paused: bool) -> Result<(), Refused> {
    let state = &mut cluster.state;
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let assignment = job.assignment().filter(|assignment| assignment.attempt == number);
    let nodes = assignment.ok_or(Refused::OldAttempt { job: id, attempt: number })?;
    let nodes: Vec<NodeId> = nodes.placement.iter().flat_map(|part| part.nodes()).collect();
    if matches!(job.phase, Phase::Suspended(..)) == paused {
        nodes.iter().for_each(|node| confirmed(cluster, *node, |change| change == Change::Pause(id)));
        // Its part on a lost node may go on, so the wait lasts until the end of the job.
        if !nodes.iter().any(|node| lost::is_held(cluster, *node, id)) {
            awaits::confirmed(cluster, |awaited| matches!(awaited, Await::Paused { job, .. } if *job == id));
        }
    }
    Ok(())
}

/// Corrects the believed draw of running jobs by a reading: its value above idle is the draw of the jobs that it
/// contains, and of a job over several nodes the draw of its units there. Only uncapped jobs can draw more than believed. A job with a lower draw is not limited by its cap.
pub(super) fn correct(cluster: &mut Cluster, id: NodeId) {
    if !cluster.parts.steers() && !cluster.parts.divides() {
        return;
    }
    if unseen(cluster, id).is_some() {
        return;
    }
    let Some(node) = cluster.state.node(id) else { return };
    let Some(reading) = node.reading else { return };
    let shown = shown_jobs(cluster, id);
    let believed: Power = shown.iter().map(|shown| shown.draw).sum();
    let more = (reading.draw - node.spec.idle).at_least_zero() - believed;
    if more.mw().saturating_abs().saturating_mul(1_000) < believed.mw().saturating_mul(TREMBLE) {
        return;
    }
    let moves = |shown: &&Shown| more < Power::ZERO || !shown.is_held;
    let movable: Power = shown.iter().filter(moves).map(|shown| shown.draw).sum();
    if movable <= Power::ZERO {
        return;
    }
    let now = cluster.state.sums.since;
    for Shown { job, draw, full, .. } in shown.iter().filter(moves) {
        let (job_id, Some(job)) = (*job, cluster.state.jobs.get_mut(*job)) else { continue };
        spend(job, now);
        let Some((assignment, running)) = job.running_mut() else { continue };
        let found = *draw + more.scaled(draw.mw(), movable.mw());
        let measured = i128::from(running.measured(id)) * i128::from(found.mw()) / i128::from(full.mw().max(1));
        let (least, most) = MEASURED;
        let measured = i64::try_from(measured).unwrap_or(most).clamp(least, most);
        match assignment.sole_part() {
            Some(_) => running.measured_permille = measured,
            None => drop(running.measured_on.insert(id, measured)),
        }
        assignment.set_draw_on(id, found);
        cluster.index.note_draw(job_id, job);
    }
}

/// A job that a reading of its node contains.
struct Shown {
    job: JobId,
    /// Draw, never zero: an idle job may draw power later.
    draw: Power,
    /// Draw without a cap.
    full: Power,
    /// True if the cap of the unit slows down the job.
    is_held: bool,
}

/// Returns the jobs that a reading of `node` contains, each with its draw there.
fn shown_jobs(cluster: &Cluster, node: NodeId) -> Vec<Shown> {
    let state = &cluster.state;
    let present = |unit: UnitId| state.node(unit.node)?.cap(unit.unit);
    let of_job = |id: JobId| {
        let job = &**state.jobs.get(id)?;
        // A job that is being ended draws until its end.
        let Phase::Running(assignment, running) = &job.phase else { return None };
        let is_over = assignment.ended.iter().any(|part| part.node == node);
        if is_over || !running.seen_on.contains(&node) {
            return None;
        }
        let full = draw_at(state, job, node, |_| None)?;
        let is_held = draw_at(state, job, node, present)? < full;
        let draw = assignment.draw_on(node).max(Power::from_mw(1));
        Some(Shown { job: id, draw, full, is_held })
    };
    cluster.jobs_on(node).into_iter().filter_map(of_job).collect()
}
