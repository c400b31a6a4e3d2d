//! Nodes and their draw: what is used of them, what they are believed to draw, and the sums over time.

use limo_model::{JobId, NodeId, NodeSpec, Part, Power, Time};

use crate::account::Bill;
use crate::refused::Refused;
use crate::state::{Drained, Job, Node, Phase, Reading, State, UnitUse};

/// Adds what has been drawn since the last change to the sums, up to `now`, and lets readings grow stale.
pub(crate) fn settle(state: &mut State, now: Time) {
    let stale_after = state.settings.options.stale_after;
    let stale = |node: &Node| node.reading.is_some_and(|reading| now - reading.at > stale_after);
    let stale: Vec<NodeId> = state.nodes.iter().filter(|node| stale(node)).map(|node| node.id).collect();
    for id in stale {
        if let Some(node) = state.node_mut(id) {
            node.reading = None;
        }
        refresh(state, id, now);
        state.dirty = true;
    }
    settle_cluster(state, now);
}

fn settle_cluster(state: &mut State, now: Time) {
    let sums = &mut state.sums;
    sums.bill.add(sums.draw, sums.since, now, state.settings.prices.as_ref());
    for (start, end, band) in state.settings.limits.pieces(sums.since, now) {
        if *band == limo_model::Band::UNLIMITED {
            continue;
        }
        sums.limited = sums.limited + (end - start);
        if band.contains(sums.draw) {
            sums.inside = sums.inside + (end - start);
        }
    }
    sums.since = sums.since.max(now);
}

/// Brings the sums of every node up to `now`: before prices change.
pub(super) fn settle_nodes(state: &mut State, now: Time) {
    for node in &mut state.nodes {
        node.bill.add(node.draw, node.draw_since, now, state.settings.prices.as_ref());
        node.draw_since = now;
    }
}

/// Computes the believed draw of a node again, after something about it changed.
fn refresh(state: &mut State, id: NodeId, now: Time) {
    let Some(node) = state.node(id) else { return };
    let estimate = |job: &JobId| state.jobs.get(job).and_then(Job::assignment).map(|a| a.draw_on(id));
    let jobs = state.jobs_on(id);
    let draw = match node.reading {
        Some(reading) => {
            let hidden = jobs.iter().filter(|job| !is_visible(state, **job)).filter_map(estimate).sum::<Power>();
            reading.draw + hidden
        }
        None => node.spec.idle + jobs.iter().filter_map(estimate).sum::<Power>(),
    };
    if draw == node.draw {
        return;
    }
    settle_cluster(state, now);
    let Some(node) = state.nodes.get_mut(id.0 as usize) else { return };
    node.bill.add(node.draw, node.draw_since, now, state.settings.prices.as_ref());
    node.draw_since = now;
    state.sums.draw += draw - node.draw;
    node.draw = draw;
}

fn is_visible(state: &State, job: JobId) -> bool {
    matches!(state.jobs.get(&job), Some(Job { phase: Phase::Running(_, running), .. }) if running.visible)
}

/// Takes the resources of a placement for a job.
pub(crate) fn take(state: &mut State, now: Time, job: JobId, parts: &[Part]) {
    change(state, now, parts, |node, unit, part| {
        unit.cores += part.cores;
        unit.jobs.insert(job);
        node.saturating_add(part.memory)
    });
}

/// Gives them back. A reading that contains the job is lowered by its estimate until the next reading comes.
pub(crate) fn release(state: &mut State, now: Time, job: (JobId, Power, bool), parts: &[Part]) {
    let (job, power, visible) = job;
    change(state, now, parts, |node, unit, part| {
        unit.cores = unit.cores.saturating_sub(part.cores);
        unit.jobs.remove(&job);
        node.saturating_sub(part.memory)
    });
    // An even share for each part, as in `Assignment::draw_on`.
    let share = power.scaled(1, i64::try_from(parts.len()).unwrap_or(i64::MAX));
    for part in parts.iter().filter(|_| visible) {
        if let Some(node) = state.node_mut(part.unit.node) {
            let idle = node.spec.idle;
            if let Some(reading) = &mut node.reading {
                reading.draw = (reading.draw - share).max(idle.min(reading.draw));
            }
        }
        refresh(state, part.unit.node, now);
    }
}

fn change(
    state: &mut State,
    now: Time,
    parts: &[Part],
    mut each: impl FnMut(limo_model::Memory, &mut UnitUse, &Part) -> limo_model::Memory,
) {
    for part in parts {
        let Some(node) = state.node_mut(part.unit.node) else { continue };
        let memory = node.memory_used;
        if let Some(unit) = node.units.get_mut(usize::from(part.unit.unit)) {
            node.memory_used = each(memory, unit, part);
        }
        refresh(state, part.unit.node, now);
    }
}

pub(super) fn up(state: &mut State, now: Time, spec: &NodeSpec) -> Result<(), Refused> {
    spec.check()?;
    let known = state.nodes.iter().position(|node| node.spec.name == spec.name);
    let Some(index) = known else {
        // More nodes than fit a u32 do not register.
        let id = NodeId(u32::try_from(state.nodes.len()).unwrap_or(u32::MAX));
        state.nodes.push(Node {
            id,
            spec: spec.clone(),
            connected: true,
            drained: None,
            suspect_until: None,
            reading: None,
            units: vec![UnitUse::default(); spec.units.len()],
            memory_used: limo_model::Memory::ZERO,
            draw: Power::ZERO,
            draw_since: now,
            bill: Bill::default(),
        });
        refresh(state, id, now);
        return Ok(());
    };
    let node = &mut state.nodes[index];
    let busy = node.units.iter().any(|unit| !unit.jobs.is_empty());
    if busy && node.spec.units != spec.units {
        return Err(Refused::UnitsChanged { name: spec.name.clone() });
    }
    if !busy {
        node.units = vec![UnitUse::default(); spec.units.len()];
    }
    node.spec = spec.clone();
    node.connected = true;
    node.reading = None;
    let id = node.id;
    refresh(state, id, now);
    Ok(())
}

pub(super) fn away(state: &mut State, now: Time, id: NodeId) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.connected = false;
    node.reading = None;
    refresh(state, id, now);
    Ok(())
}

pub(super) fn drained(state: &mut State, id: NodeId, reason: &str, by: &str) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.drained = Some(Drained { reason: reason.to_owned(), by: by.to_owned() });
    Ok(())
}

pub(super) fn resumed(state: &mut State, id: NodeId) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    node.drained = None;
    node.suspect_until = None;
    Ok(())
}

pub(super) fn readings(state: &mut State, now: Time, draws: &[(NodeId, Power)]) -> Result<(), Refused> {
    if let Some((node, _)) = draws.iter().find(|(node, _)| state.node(*node).is_none()) {
        return Err(Refused::NoSuchNode { node: *node });
    }
    for (id, draw) in draws {
        for job in state.jobs_on(*id) {
            if let Some(Job { phase: Phase::Running(_, running), .. }) = state.jobs.get_mut(&job) {
                running.visible = true;
            }
        }
        if let Some(node) = state.node_mut(*id) {
            node.reading = Some(Reading { draw: *draw, at: now });
        }
        refresh(state, *id, now);
    }
    Ok(())
}
