//! Nodes: their use, their believed draw, and the sums over time.

use limo_model::{Energy, JobId, Money, NodeId, Power, Span, Time};

use super::{awaits, lost, owners, sleep, steer};
use crate::account::cost_of;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::round::Await;
use crate::state::{Assignment, Drained, Reading, Sleep, State};

/// Adds the draw since the last change to the sums, up to `now`; expires readings and suspicions.
pub(crate) fn settle(cluster: &mut Cluster, now: Time) {
    super::reservations::pass(cluster, now);
    let stale_after = cluster.state.settings.options.stale_after;
    while let Some((at, id)) = cluster.index.readings.first().copied().filter(|(at, _)| now - *at > stale_after) {
        cluster.index.readings.remove(&(at, id));
        cluster.index.cache = None;
        hide_jobs(cluster, id, now);
        if let Some(node) = cluster.state.node_mut(id) {
            node.reading = None;
        }
        renew(cluster, id, now);
        cluster.state.dirty = true;
    }
    while let Some((until, id)) = cluster.index.reopens.first().copied().filter(|(until, _)| *until <= now) {
        cluster.index.reopens.remove(&(until, id));
        if let Some(node) = cluster.state.node_mut(id) {
            node.suspect_until = node.suspect_until.filter(|until| *until > now);
            node.owner.closed_until = node.owner.closed_until.filter(|until| *until > now);
        }
        refresh_place(cluster, id, now);
        sleep::note_rest(cluster, id, now);
        cluster.state.dirty |= cluster.wants_nodes();
    }
    settle_cluster(cluster, now);
}

pub(super) fn settle_cluster(cluster: &mut Cluster, now: Time) {
    let sums = &mut cluster.state.sums;
    if now <= sums.since {
        return;
    }
    let (budgets, prices) = (&cluster.state.settings.budgets, cluster.state.settings.prices.as_ref());
    let (idle, estimated) = (cluster.index.idle, cluster.index.idle + cluster.index.active_draw);
    cluster.state.spending.spend(budgets, (idle, estimated), prices, (sums.since, now));
    sums.bill.add(sums.drawn(), sums.since, now, prices);
    for (start, end, band) in cluster.state.settings.limits.pieces(sums.since, now) {
        if *band == limo_model::Band::UNLIMITED {
            continue;
        }
        sums.limited = sums.limited + (end - start);
        if band.contains(sums.drawn()) {
            sums.inside = sums.inside + (end - start);
        }
    }
    sums.since = now;
}

/// Brings the sums of every node up to `now`. Called before prices change.
pub(super) fn settle_nodes(state: &mut State, now: Time) {
    for node in &mut state.nodes {
        node.bill.add(node.own, node.since, now, state.settings.prices.as_ref());
        node.since = now;
    }
}

/// Settles the node's own draw until now, and computes it again.
pub(super) fn renew(cluster: &mut Cluster, id: NodeId, now: Time) {
    settle_cluster(cluster, now);
    let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { return };
    let own = node.reading.map_or_else(|| node.still_draw() + node.held_draw(), |reading| reading.draw);
    if own != node.own {
        node.bill.add(node.own, node.since, now, cluster.state.settings.prices.as_ref());
        node.since = now;
        let before = std::mem::replace(&mut node.own, own);
        cluster.add_draw(id, own - before);
    }
}

/// Updates the ability of the node to take jobs.
pub(super) fn refresh_place(cluster: &mut Cluster, id: NodeId, now: Time) {
    if let Some(node) = cluster.state.nodes.get(id.0 as usize) {
        cluster.index.refresh(node, now);
        cluster.books.look_at(node, now);
        cluster.index.cache = None;
    }
}

/// Replaces a node's expired readings by estimates.
pub(super) fn hide_jobs(cluster: &mut Cluster, id: NodeId, now: Time) {
    for job in cluster.jobs_on(id) {
        if let Some((assignment, running)) = cluster.state.jobs.get_mut(job).and_then(|job| job.running_mut())
            && running.seen_on.remove(&id)
        {
            let share = assignment.draw_on(id);
            assignment.hidden_since = now;
            settle_cluster(cluster, now);
            cluster.add_draw(id, share);
        }
    }
}

/// Marks running jobs as shown by a reading of the node from now on.
fn show_jobs(cluster: &mut Cluster, id: NodeId, now: Time) {
    for job in cluster.jobs_on(id) {
        let Some((assignment, running)) = cluster.state.jobs.get_mut(job).and_then(|job| job.running_mut()) else {
            continue;
        };
        if running.seen_on.insert(id) {
            let (share, since) = (assignment.draw_on(id), assignment.hidden_since);
            settle_cluster(cluster, now);
            cluster.take_draw(id, share);
            charge(&mut cluster.state, (id, 1), share, since, now);
        }
    }
}

/// Adds a job's draw on each of some consecutive nodes to their accounts.
pub(super) fn charge(state: &mut State, (first, count): (NodeId, u32), share: Power, from: Time, to: Time) {
    let span: Span = to - from;
    let energy: Energy = share * span;
    let cost = cost_of(energy, from, span, state.settings.prices.as_ref()).unwrap_or(Money::ZERO);
    let run = first.0 as usize..(first.0 as usize).saturating_add(count as usize).min(state.nodes.len());
    state.job_energy.add(run.clone(), energy.mj());
    state.job_cost.add(run, cost.micro());
}

/// Takes the resources of a placement for a job, and wakes its sleeping nodes.
pub(crate) fn take(cluster: &mut Cluster, now: Time, job: JobId, assignment: &Assignment) {
    settle_cluster(cluster, now);
    cluster.index.take(job, assignment);
    cluster.books.take(assignment);
    cluster.index.active_draw += assignment.estimate.power;
    cluster.state.sums.draw += assignment.draw_of_units();
    cluster.index.groups.add(&cluster.state, assignment);
    cluster.state.sums.pending += assignment.pending;
}

/// Releases the resources. A reading that contains the job is lowered by its estimate until the next reading comes.
pub(crate) fn release(cluster: &mut Cluster, now: Time, job: JobId, assignment: &Assignment, seen: &[NodeId]) {
    settle_cluster(cluster, now);
    cluster.index.give(job, assignment);
    cluster.books.give(assignment);
    cluster.index.active_draw -= assignment.estimate.power;
    if !cluster.index.unseen.is_empty() {
        let nodes = assignment.placement.iter().flat_map(|part| part.nodes());
        nodes.for_each(|node| steer::confirmed(cluster, node, |change| change.job() == job));
    }
    // The end of an attempt confirms all orders to it.
    awaits::confirmed(cluster, |awaited| matches!(awaited, Await::Paused { job: of, .. } if *of == job));
    cluster.state.sums.pending -= assignment.pending;
    // No user pays for a node without draw.
    let since = if assignment.pending.is_zero() { assignment.hidden_since } else { now };
    match assignment.even_share().filter(|_| seen.is_empty()) {
        Some(share) => {
            cluster.state.sums.draw -= assignment.draw_of_units();
            cluster.index.groups.remove(&cluster.state, assignment);
            for part in &assignment.placement {
                charge(&mut cluster.state, (part.unit.node, part.count), share, since, now);
            }
        }
        None => {
            let shares = assignment.draw_by_unit();
            shares.for_each(|(unit, share)| release_seen(cluster, now, (job, unit.node, share), since, seen));
        }
    }
    assignment.placement.iter().for_each(|part| sleep::note_idle(cluster, part, now));
}

fn release_seen(
    cluster: &mut Cluster,
    now: Time,
    (job, id, share): (JobId, NodeId, Power),
    hidden_since: Time,
    seen: &[NodeId],
) {
    if !seen.contains(&id) {
        cluster.take_draw(id, share);
        return charge(&mut cluster.state, (id, 1), share, hidden_since, now);
    }
    if lost::is_held(cluster, id, job) {
        // The reading still includes the job.
        return;
    }
    if let Some(node) = cluster.state.node_mut(id) {
        let idle = node.spec.idle;
        if let Some(reading) = &mut node.reading {
            reading.draw = (reading.draw - share).max(idle.min(reading.draw));
        }
    }
    renew(cluster, id, now);
}

pub(super) fn away(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    let node = cluster.state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    if std::mem::replace(&mut node.connected, false) {
        node.away_since = Some(now);
    }
    if let Some(reading) = node.reading.take() {
        cluster.index.readings.remove(&(reading.at, id));
    }
    hide_jobs(cluster, id, now);
    owners::reached(cluster, now, id);
    renew(cluster, id, now);
    refresh_place(cluster, id, now);
    awaits::failed(cluster, id);
    Ok(())
}

pub(super) fn drained(cluster: &mut Cluster, now: Time, id: NodeId, reason: &str, by: &str) -> Result<(), Refused> {
    let node = cluster.state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.drained = Some(Box::new(Drained { reason: reason.to_owned(), by: by.to_owned() }));
    refresh_place(cluster, id, now);
    Ok(())
}

pub(super) fn resumed(cluster: &mut Cluster, now: Time, id: NodeId) -> Result<(), Refused> {
    let node = cluster.state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.drained = None;
    node.caps.obey_again();
    if let Some(until) = node.suspect_until.take().filter(|until| node.owner.closed_until != Some(*until)) {
        cluster.index.reopens.remove(&(until, id));
    }
    refresh_place(cluster, id, now);
    Ok(())
}

/// Closes a node to jobs while a unit of it does not obey caps and the policy divides the upper limit by caps.
pub(super) fn judge_caps(cluster: &mut Cluster, now: Time, id: NodeId) {
    let divides = cluster.parts.divides();
    let Some(caps) = cluster.state.node_mut(id).map(|node| &mut node.caps) else { return };
    let disobeys = divides && !caps.failed.is_empty();
    if std::mem::replace(&mut caps.disobeys, disobeys) != disobeys {
        refresh_place(cluster, id, now);
    }
}

/// Marks a node that failed to follow an order: it gets no job for a while.
pub(super) fn suspect(cluster: &mut Cluster, now: Time, id: NodeId, until: Time) {
    let Some(node) = cluster.state.node_mut(id) else { return };
    let closed_until = node.owner.closed_until;
    if let Some(before) = node.suspect_until.replace(until).filter(|before| closed_until != Some(*before)) {
        cluster.index.reopens.remove(&(before, id));
    }
    cluster.index.reopens.insert((until, id));
    refresh_place(cluster, id, now);
}

pub(super) fn readings(cluster: &mut Cluster, now: Time, draws: &[(NodeId, Power)]) -> Result<(), Refused> {
    if let Some((node, _)) = draws.iter().find(|(node, _)| cluster.state.node(*node).is_none()) {
        return Err(Refused::NoSuchNode { node: *node });
    }
    for (id, draw) in draws {
        show_jobs(cluster, *id, now);
        let unseen = unseen(cluster, *id);
        let expected = unseen.map(|_| expected_of_running(cluster, *id));
        let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { continue };
        let draw = (*draw + unseen.unwrap_or_default()).max(expected.unwrap_or(node.spec.idle.min(*draw)));
        if let Some(before) = node.reading.replace(Reading { draw, at: now }) {
            cluster.index.readings.remove(&(before.at, *id));
        }
        cluster.index.readings.insert((now, *id));
        renew(cluster, *id, now);
        steer::correct(cluster, *id);
    }
    Ok(())
}

/// Returns the difference that unconfirmed orders make to the draw of a node's running jobs, if it has such orders. Its
/// reading may not show them, and contains no job that is still starting.
pub(super) fn unseen(cluster: &Cluster, id: NodeId) -> Option<Power> {
    let runs = |job: JobId| cluster.state.jobs.get(job).is_some_and(|job| job.running().is_some());
    let orders = cluster.state.node(id)?.unseen.iter().filter(|(change, _)| runs(change.job()));
    orders.map(|(_, power)| *power).reduce(|sum, power| sum + power)
}

/// Returns the expected draw of a node with its running jobs. While it has unconfirmed orders, it may have followed some
/// of them already, so its reading and the ordered differences need not add up to its draw.
fn expected_of_running(cluster: &Cluster, id: NodeId) -> Power {
    let running = cluster.jobs_on(id).into_iter().filter_map(|job| cluster.state.jobs.get(job));
    let running = running.filter(|job| job.running().is_some()).filter_map(|job| job.assignment());
    let idle = cluster.state.node(id).map_or(Power::ZERO, |node| node.spec.idle);
    idle + running.map(|assignment| assignment.draw_on(id)).sum()
}

/// Updates nodes that begin or finish falling asleep or waking.
pub(crate) fn switch(cluster: &mut Cluster, now: Time, id: NodeId, to: Sleep) {
    let Some(node) = cluster.state.nodes.get_mut(id.0 as usize) else { return };
    cluster.index.sleeping += u32::from(to != Sleep::Awake);
    cluster.index.sleeping -= u32::from(node.sleep != Sleep::Awake);
    if to == Sleep::Awake {
        node.idle_since = now;
    }
    node.slept = Some(Box::new(node.slept(now)));
    node.sleep = to;
    // The reading was taken before the change.
    if let Some(reading) = node.reading.take() {
        cluster.index.readings.remove(&(reading.at, id));
        hide_jobs(cluster, id, now);
    }
    renew(cluster, id, now);
    if let Some(node) = cluster.state.nodes.get(id.0 as usize) {
        cluster.index.refresh(node, now);
        cluster.books.look_at(node, now);
    }
}
