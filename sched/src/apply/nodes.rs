//! Nodes and their draw: what is used of them, what they are believed to draw, and the sums over time.

use limo_model::{Energy, JobId, Money, NodeId, NodeSpec, Part, Power, Span, Time, width};

use super::{lost, steer};
use crate::account::{Bill, cost_of};
use crate::index::Index;
use crate::refused::Refused;
use crate::state::{Assignment, Change, Drained, Node, Reading, Sleep, State};

/// Adds what has been drawn since the last change to the sums, up to `now`; lets readings grow stale and suspicions end.
pub(crate) fn settle(state: &mut State, now: Time) {
    super::reservations::pass(state, now);
    let stale_after = state.settings.options.stale_after;
    while let Some((at, id)) = state.index.readings.first().copied().filter(|(at, _)| now - *at > stale_after) {
        state.index.readings.remove(&(at, id));
        state.index.memo = None;
        hide_jobs(state, id, now);
        if let Some(node) = state.node_mut(id) {
            node.reading = None;
        }
        renew(state, id, now);
        state.dirty = true;
    }
    while let Some((until, id)) = state.index.suspects.first().copied().filter(|(until, _)| *until <= now) {
        state.index.suspects.remove(&(until, id));
        if let Some(node) = state.node_mut(id) {
            node.suspect_until = None;
        }
        refresh_place(state, id, now);
        state.dirty = true;
    }
    settle_cluster(state, now);
}

pub(super) fn settle_cluster(state: &mut State, now: Time) {
    let sums = &mut state.sums;
    if now <= sums.since {
        return;
    }
    let (budgets, prices) = (&state.settings.budgets, state.settings.prices.as_ref());
    let (idle, estimated) = (state.index.idle, state.index.idle + state.index.active_draw);
    state.spending.spend(budgets, (idle, estimated), prices, (sums.since, now));
    sums.bill.add(sums.draw, sums.since, now, prices);
    for (start, end, band) in state.settings.limits.pieces(sums.since, now) {
        if *band == limo_model::Band::UNLIMITED {
            continue;
        }
        sums.limited = sums.limited + (end - start);
        if band.contains(sums.draw) {
            sums.inside = sums.inside + (end - start);
        }
    }
    sums.since = now;
}

/// Brings the sums of every node up to `now`: before prices change.
pub(super) fn settle_nodes(state: &mut State, now: Time) {
    for node in &mut state.nodes {
        node.bill.add(node.own, node.since, now, state.settings.prices.as_ref());
        node.since = now;
    }
}

/// Settles what the node itself drew until now, and finds its own draw again.
pub(super) fn renew(state: &mut State, id: NodeId, now: Time) {
    settle_cluster(state, now);
    let Some(node) = state.nodes.get_mut(id.0 as usize) else { return };
    let own = node.reading.map_or_else(|| node.still_draw() + node.held_draw(), |reading| reading.draw);
    if own != node.own {
        node.bill.add(node.own, node.since, now, state.settings.prices.as_ref());
        node.since = now;
        state.sums.draw += own - node.own;
        node.own = own;
    }
}

/// Whether jobs can be put on the node may have changed.
fn refresh_place(state: &mut State, id: NodeId, now: Time) {
    if let Some(node) = state.nodes.get(id.0 as usize) {
        state.index.classes.refresh(node, now);
        state.index.memo = None;
    }
}

/// No reading shows the jobs of a node any more: estimates take its place.
fn hide_jobs(state: &mut State, id: NodeId, now: Time) {
    for job in state.jobs_on(id) {
        if let Some((assignment, running)) = state.jobs.get_mut(job).and_then(|job| job.running_mut())
            && running.seen_on.remove(&id)
        {
            let share = assignment.draw_on(id);
            assignment.hidden_since = now;
            settle_cluster(state, now);
            state.sums.draw += share;
        }
    }
}

/// A reading of the node shows its running jobs from now on.
fn show_jobs(state: &mut State, id: NodeId, now: Time) {
    for job in state.jobs_on(id) {
        let Some((assignment, running)) = state.jobs.get_mut(job).and_then(|job| job.running_mut()) else { continue };
        if running.seen_on.insert(id) {
            let (share, since) = (assignment.draw_on(id), assignment.hidden_since);
            settle_cluster(state, now);
            state.sums.draw -= share;
            charge(state, (id, 1), share, since, now);
        }
    }
}

/// Adds what a job drew on each of some nodes in a row to their accounts.
pub(super) fn charge(state: &mut State, (first, count): (NodeId, u32), share: Power, from: Time, to: Time) {
    let span: Span = to - from;
    let energy: Energy = share * span;
    let cost = cost_of(energy, from, span, state.settings.prices.as_ref()).unwrap_or(Money::ZERO);
    let run = first.0 as usize..(first.0 as usize).saturating_add(count as usize).min(state.nodes.len());
    state.job_energy.add(run.clone(), energy.mj());
    state.job_cost.add(run, cost.micro());
}

/// Takes the resources of a placement for a job, and wakes those of its nodes that sleep.
pub(crate) fn take(state: &mut State, now: Time, job: JobId, assignment: &Assignment) {
    settle_cluster(state, now);
    state.index.take(job, assignment);
    state.index.active_draw += assignment.estimate.power;
    state.sums.draw += assignment.share().scaled(i64::from(width(&assignment.placement)), 1);
}

/// Gives them back. A reading that contains the job is lowered by its estimate until the next reading comes.
pub(crate) fn release(state: &mut State, now: Time, job: JobId, assignment: &Assignment, seen: &[NodeId]) {
    settle_cluster(state, now);
    state.index.give(job, assignment);
    state.index.active_draw -= assignment.estimate.power;
    for node in assignment.placement.iter().flat_map(|part| part.nodes()) {
        steer::confirmed(state, node, |change| matches!(change, Change::Caps(of) | Change::Pause(of) if of == job));
    }
    let share = assignment.share();
    for part in &assignment.placement {
        if seen.is_empty() {
            state.sums.draw -= share.scaled(i64::from(part.count), 1);
            charge(state, (part.unit.node, part.count), share, assignment.hidden_since, now);
        } else {
            part.nodes().for_each(|node| release_seen(state, now, (job, node, share), assignment.hidden_since, seen));
        }
        note_idle(state, part, now);
    }
}

fn release_seen(
    state: &mut State,
    now: Time,
    (job, id, share): (JobId, NodeId, Power),
    hidden_since: Time,
    seen: &[NodeId],
) {
    if !seen.contains(&id) {
        state.sums.draw -= share;
        return charge(state, (id, 1), share, hidden_since, now);
    }
    if lost::is_held(state, id, job) {
        // The reading goes on showing it.
        return;
    }
    if let Some(node) = state.node_mut(id) {
        let idle = node.spec.idle;
        if let Some(reading) = &mut node.reading {
            reading.draw = (reading.draw - share).max(idle.min(reading.draw));
        }
    }
    renew(state, id, now);
}

/// From when on the nodes of a part have no job. Only nodes that can sleep are asked for it.
fn note_idle(state: &mut State, part: &Part, now: Time) {
    let run = part.unit.node.0 as usize..(part.unit.node.0.saturating_add(part.count)) as usize;
    if state.settings.options.rest == crate::options::RestRule::Never {
        return;
    }
    for node in state.nodes.get_mut(run).into_iter().flatten() {
        node.idle_since = now;
    }
}

pub(super) fn up(state: &mut State, now: Time, spec: &NodeSpec) -> Result<(), Refused> {
    spec.check()?;
    let kinds = state.index.classes.len();
    let id = match state.index.names.get(&spec.name).copied() {
        Some(id) => {
            let busy = !state.jobs_on(id).is_empty();
            let Some(node) = state.nodes.get_mut(id.0 as usize) else { return Ok(()) };
            if busy && node.spec.units != spec.units {
                return Err(Refused::UnitsChanged { name: spec.name.clone() });
            }
            state.index.idle += spec.idle - node.spec.idle;
            if let Some(reading) = node.reading.take() {
                state.index.readings.remove(&(reading.at, id));
            }
            node.spec = spec.clone();
            node.connected = true;
            node.away_since = None;
            node.lost = None;
            node.unseen.clear();
            node.caps.failed.clear();
            // A daemon that answers runs on a node that is awake.
            state.index.sleeping -= u32::from(node.sleep != Sleep::Awake);
            node.sleep = Sleep::Awake;
            node.idle_since = now;
            hide_jobs(state, id, now);
            id
        }
        None => enter(state, now, spec),
    };
    renew(state, id, now);
    let mut index = std::mem::take(&mut state.index);
    index.memo = None;
    let moved = index.classes.place(&state.nodes[id.0 as usize], now);
    if index.classes.len() != kinds {
        index.queue_again(state);
    }
    // Places in classes must follow from the nodes alone, not from what they once were.
    state.index = if moved { Index::of(state, now) } else { index };
    Ok(())
}

/// A node that was never seen before.
pub(super) fn enter(state: &mut State, now: Time, spec: &NodeSpec) -> NodeId {
    // More nodes than fit a u32 do not register.
    let id = NodeId(u32::try_from(state.nodes.len()).unwrap_or(u32::MAX));
    state.nodes.push(Node {
        id,
        spec: spec.clone(),
        connected: true,
        drained: None,
        suspect_until: None,
        sleep: Sleep::Awake,
        reading: None,
        own: Power::ZERO,
        bill: Bill::default(),
        since: now,
        idle_since: now,
        caps: Default::default(),
        unseen: Vec::new(),
        away_since: None,
        lost: None,
        held: Vec::new(),
    });
    state.job_energy.push();
    state.job_cost.push();
    state.index.names.insert(spec.name.clone(), id);
    state.index.memory.push(limo_model::Memory::ZERO);
    state.index.idle += spec.idle;
    id
}

pub(super) fn away(state: &mut State, now: Time, id: NodeId) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    if std::mem::replace(&mut node.connected, false) {
        node.away_since = Some(now);
    }
    if let Some(reading) = node.reading.take() {
        state.index.readings.remove(&(reading.at, id));
    }
    hide_jobs(state, id, now);
    renew(state, id, now);
    refresh_place(state, id, now);
    Ok(())
}

pub(super) fn drained(state: &mut State, now: Time, id: NodeId, reason: &str, by: &str) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.drained = Some(Box::new(Drained { reason: reason.to_owned(), by: by.to_owned() }));
    refresh_place(state, id, now);
    Ok(())
}

pub(super) fn resumed(state: &mut State, now: Time, id: NodeId) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.drained = None;
    if let Some(until) = node.suspect_until.take() {
        state.index.suspects.remove(&(until, id));
    }
    refresh_place(state, id, now);
    Ok(())
}

/// A node that did not do as it was told gets no job for a while.
pub(super) fn suspect(state: &mut State, now: Time, id: NodeId, until: Time) {
    let Some(node) = state.node_mut(id) else { return };
    if let Some(before) = node.suspect_until.replace(until) {
        state.index.suspects.remove(&(before, id));
    }
    state.index.suspects.insert((until, id));
    refresh_place(state, id, now);
}

pub(super) fn readings(state: &mut State, now: Time, draws: &[(NodeId, Power)]) -> Result<(), Refused> {
    if let Some((node, _)) = draws.iter().find(|(node, _)| state.node(*node).is_none()) {
        return Err(Refused::NoSuchNode { node: *node });
    }
    for (id, draw) in draws {
        show_jobs(state, *id, now);
        let Some(node) = state.nodes.get_mut(id.0 as usize) else { continue };
        let unseen: Power = node.unseen.iter().map(|(_, power)| *power).sum();
        let draw = (*draw + unseen).max(node.spec.idle.min(*draw));
        if let Some(before) = node.reading.replace(Reading { draw, at: now }) {
            state.index.readings.remove(&(before.at, *id));
        }
        state.index.readings.insert((now, *id));
        renew(state, *id, now);
        steer::correct(state, *id);
    }
    Ok(())
}

/// Nodes begin to sleep or to wake, or are done with it.
pub(crate) fn switch(state: &mut State, now: Time, id: NodeId, to: Sleep) {
    let Some(node) = state.nodes.get_mut(id.0 as usize) else { return };
    state.index.sleeping += u32::from(to != Sleep::Awake);
    state.index.sleeping -= u32::from(node.sleep != Sleep::Awake);
    if to == Sleep::Awake {
        node.idle_since = now;
    }
    node.sleep = to;
    renew(state, id, now);
    if let Some(node) = state.nodes.get(id.0 as usize) {
        state.index.classes.refresh(node, now);
    }
}

/// Begins to wake the nodes of a placement that sleep; returns their runs.
pub(crate) fn wake(state: &mut State, now: Time, placement: &[Part]) -> Vec<(NodeId, u32)> {
    let mut runs: Vec<(NodeId, u32)> = Vec::new();
    if state.settings.options.rest == crate::options::RestRule::Never && state.index.sleeping == 0 {
        return runs;
    }
    for node in placement.iter().flat_map(|part| part.nodes()) {
        if !state.node(node).is_some_and(|node| node.sleep == Sleep::Asleep) {
            continue;
        }
        switch(state, now, node, Sleep::Waking);
        match runs.last_mut() {
            Some((first, count)) if first.0 + *count == node.0 => *count += 1,
            _ => runs.push((node, 1)),
        }
    }
    runs
}

/// The nodes of some runs are asleep, or awake again.
pub(super) fn switched(state: &mut State, now: Time, runs: &[(NodeId, u32)], to: Sleep) -> Result<(), Refused> {
    let nodes = || runs.iter().flat_map(|(first, count)| (first.0..first.0.saturating_add(*count)).map(NodeId));
    if let Some(node) = nodes().find(|node| state.node(*node).is_none()) {
        return Err(Refused::NoSuchNode { node });
    }
    nodes().for_each(|node| switch(state, now, node, to));
    Ok(())
}
