//! What changes about jobs while they run: caps, suspension, requeueing, and what readings say of their draw.

use limo_model::{Attempt, JobId, NodeId, Part, Power, Span, Time};

use super::jobs::with_times;
use super::nodes::{charge, renew, settle_cluster};
use crate::estimate::{Known, under_cap};
use crate::refused::Refused;
use crate::round::StopReason;
use crate::state::{Assignment, Change, Job, Phase, Running, State};

/// In thousandths of what is expected: bounds, so that nothing is divided by zero or overflows.
const MEASURED: (i64, i64) = (1, 100_000);

/// What readings say of jobs is taken over where it differs by at least this much, in thousandths: meters tremble by less,
/// and it is half of the reserve that is kept below the upper limit.
const TREMBLE: i64 = 5;

/// Holds the units of a node at other caps; the jobs on them draw less or more from now on, and end later or sooner.
/// Returns the number of this telling.
pub(crate) fn hold_at(state: &mut State, now: Time, id: NodeId, limits: Vec<Option<Power>>) -> u64 {
    let Some(node) = state.node_mut(id) else { return 0 };
    let before = std::mem::replace(&mut node.caps.limits, limits.clone());
    node.caps.generation += 1;
    node.caps.changed = now;
    let generation = node.caps.generation;
    if limits.iter().any(Option::is_some) {
        state.index.capped.insert(id);
    } else {
        state.index.capped.remove(&id);
    }
    for job in state.jobs_on(id) {
        let Some(part) = state.jobs.get(job).and_then(|job| job.assignment()?.sole_part().copied()) else { continue };
        let cap = |limits: &[Option<Power>]| limits.get(usize::from(part.unit.unit)).copied().flatten();
        if cap(&before) != cap(&limits) {
            pace(state, now, (job, part), (cap(&before), cap(&limits)));
        }
    }
    generation
}

/// A job goes on under another cap.
fn pace(state: &mut State, now: Time, (id, part): (JobId, Part), (old, new): (Option<Power>, Option<Power>)) {
    let Some(job) = state.jobs.get(id) else { return };
    let at = |cap| expected(state, job, &part, cap);
    let (Some(then), Some(after)) = (at(old), at(new)) else { return };
    let end = job.expected_end(now).unwrap_or(now);
    let is_suspended = matches!(job.phase, Phase::Suspended(..));
    with_times(state, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            let rest = (end - now).max(Span::ZERO);
            assignment.held = assignment.held + rest.scaled(after.1.ms(), then.1.ms().max(1)) - rest;
        }
        if let Some((_, running)) = job.running_mut() {
            running.steady = false;
        }
    });
    if !is_suspended {
        set_draw(state, now, id, (after.0, Change::Caps));
    }
}

/// What a job is expected to draw, and how long it would take in all, with its unit at `cap`: by its estimate, corrected
/// by readings.
fn expected(state: &State, job: &Job, part: &Part, cap: Option<Power>) -> Option<(Power, Span)> {
    let measured = job.running().map_or(1_000, |running| running.measured_permille);
    let unit = state.node(part.unit.node)?.spec.units.get(usize::from(part.unit.unit))?;
    let estimate = under_cap(Known::of(state), &job.request, unit, (cap, measured));
    Some((estimate.power, estimate.duration))
}

/// What an active job on one unit would draw with that unit at `cap`, if it went on.
pub(crate) fn draw_at(state: &State, job: &Job, cap: Option<Power>) -> Option<Power> {
    Some(expected(state, job, job.assignment()?.sole_part()?, cap)?.0)
}

/// From now on a job draws something else, because of what its node was told: readings show it once that is confirmed.
fn set_draw(state: &mut State, now: Time, id: JobId, (draw, why): (Power, Change)) {
    settle_cluster(state, now);
    let Some(job) = state.jobs.get_mut(id) else { return };
    spend(job, now);
    let seen = job.running().map(|running| running.seen_on.clone()).unwrap_or_default();
    let Some(assignment) = job.assignment_mut() else { return };
    let (before, hidden_since) = (assignment.share(), std::mem::replace(&mut assignment.hidden_since, now));
    assignment.draw = draw;
    let more = assignment.share() - before;
    let placement = assignment.placement.clone();
    for node in placement.iter().flat_map(|part| part.nodes()) {
        if !seen.contains(&node) {
            state.sums.draw += more;
            charge(state, (node, 1), before, hidden_since, now);
            continue;
        }
        if let Some(node) = state.node_mut(node) {
            match node.unseen.iter_mut().find(|(change, _)| *change == why) {
                Some((_, power)) => *power += more,
                None => node.unseen.push((why, more)),
            }
            if let Some(reading) = &mut node.reading {
                reading.draw = (reading.draw + more).max(Power::ZERO);
            }
        }
        renew(state, node, now);
    }
}

/// What it drew until now is settled: from now on it draws something else.
fn spend(job: &mut Job, now: Time) {
    if let Some((assignment, running)) = job.running_mut() {
        running.spent += assignment.draw * (now - running.since);
        running.since = now;
    }
}

pub(crate) fn suspend(state: &mut State, now: Time, id: JobId) {
    with_times(state, id, |job| {
        if let Phase::Running(assignment, running) = std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
            job.phase = Phase::Suspended(assignment, Running { steady: false, ..running }, now);
        }
    });
    set_draw(state, now, id, (Power::ZERO, Change::Pause(id)));
}

pub(crate) fn resume(state: &mut State, now: Time, id: JobId) {
    with_times(state, id, |job| {
        if let Phase::Suspended(assignment, running, since) = std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
            let assignment = Assignment { held: assignment.held + (now - since), ..assignment };
            job.phase = Phase::Running(assignment, Running { resumed: now, ..running });
        }
    });
    let draw = state.jobs.get(id).map(|job| draw_if_on(state, job)).unwrap_or_default();
    set_draw(state, now, id, (draw, Change::Pause(id)));
}

/// What an active job draws, or would draw if it were not suspended, under the cap that its unit has.
pub(crate) fn draw_if_on(state: &State, job: &Job) -> Power {
    let Some(assignment) = job.assignment() else { return Power::ZERO };
    let cap = assignment.sole_part().and_then(|part| state.node(part.unit.node)?.cap(part.unit.unit));
    draw_at(state, job, cap).unwrap_or(assignment.estimate.power)
}

/// A running job is ended, and waits again then. Its command is given by the caller.
pub(crate) fn requeue(state: &mut State, id: JobId, why: StopReason) -> Option<Attempt> {
    with_times(state, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.stop = Some((why, true));
        }
    });
    state.jobs.get(id)?.assignment().map(|assignment| assignment.attempt)
}

/// Only a job that is on its way or runs, whose user allowed it, and that is not being ended, can be requeued.
pub(crate) fn check_requeue(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let assignment = job.assignment().ok_or(Refused::NotRunning { job: id })?;
    if !job.request.may_requeue {
        return Err(Refused::MayNotRunAgain { job: id });
    }
    if assignment.stop.is_some() { Err(Refused::EndsAlready { job: id }) } else { Ok(()) }
}

/// The command follows with the next round.
pub(super) fn requeue_requested(state: &mut State, id: JobId, by: &str) -> Result<(), Refused> {
    check_requeue(state, id)?;
    with_times(state, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.stop = Some((StopReason::RequeuedBy { by: by.to_owned() }, false));
        }
    });
    state.index.to_stop.insert(id);
    Ok(())
}

/// A node confirms what it was told: its readings show it from now on.
pub(super) fn confirmed(state: &mut State, id: NodeId, change: Change) {
    if let Some(node) = state.node_mut(id) {
        node.unseen.retain(|(unseen, _)| *unseen != change);
    }
}

pub(super) fn capped(state: &mut State, (id, generation): (NodeId, u64), failed: &[u16]) -> Result<(), Refused> {
    let node = state.node_mut(id).ok_or(Refused::NoSuchNode { node: id })?;
    if node.caps.generation == generation {
        node.caps.failed.extend(failed);
        confirmed(state, id, Change::Caps);
    }
    Ok(())
}

pub(super) fn paused(state: &mut State, (id, number): (JobId, Attempt), paused: bool) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let assignment = job.assignment().filter(|assignment| assignment.attempt == number);
    let nodes = assignment.ok_or(Refused::OldAttempt { job: id, attempt: number })?;
    let nodes: Vec<NodeId> = nodes.placement.iter().flat_map(|part| part.nodes()).collect();
    if matches!(job.phase, Phase::Suspended(..)) == paused {
        nodes.into_iter().for_each(|node| confirmed(state, node, Change::Pause(id)));
    }
    Ok(())
}

/// A profile that is wrong is put right while its job runs: what a reading shows above idle is what the jobs that it
/// contains draw. More than was believed can only be drawn by jobs that no cap holds down; less, by any of them, and then
/// its cap does not hold it down.
pub(super) fn correct(state: &mut State, id: NodeId) {
    if !state.settings.preset.steers() {
        return;
    }
    let Some(node) = state.node(id).filter(|node| node.unseen.is_empty()) else { return };
    let Some(reading) = node.reading else { return };
    let shown = shown_jobs(state, id);
    let believed: Power = shown.iter().map(|shown| shown.draw).sum();
    let more = (reading.draw - node.spec.idle).at_least_zero() - believed;
    if more.mw().saturating_abs().saturating_mul(1_000) < believed.mw().saturating_mul(TREMBLE) {
        return;
    }
    let moves = |shown: &&Shown| more < Power::ZERO || shown.draw == shown.full;
    let movable: Power = shown.iter().filter(moves).map(|shown| shown.draw).sum();
    if movable <= Power::ZERO {
        return;
    }
    let now = state.sums.since;
    for Shown { job, draw, full } in shown.iter().filter(moves) {
        let Some(job) = state.jobs.get_mut(*job) else { continue };
        spend(job, now);
        let Some((assignment, running)) = job.running_mut() else { continue };
        let found = *draw + more.scaled(draw.mw(), movable.mw());
        let measured = i128::from(running.measured_permille) * i128::from(found.mw()) / i128::from(full.mw().max(1));
        let (least, most) = MEASURED;
        running.measured_permille = i64::try_from(measured).unwrap_or(most).clamp(least, most);
        assignment.draw = found;
    }
}

/// A job that a reading of its node contains.
struct Shown {
    job: JobId,
    draw: Power,
    /// Without a cap.
    full: Power,
}

fn shown_jobs(state: &State, node: NodeId) -> Vec<Shown> {
    let shown = |id: JobId| {
        let job = state.jobs.get(id)?;
        let is_shown = job.is_running_on() && job.running().is_some_and(|running| running.seen_on.contains(&node));
        let assignment = job.assignment().filter(|assignment| is_shown && assignment.sole_part().is_some())?;
        Some(Shown { job: id, draw: assignment.draw, full: draw_at(state, job, None)? })
    };
    state.jobs_on(node).into_iter().filter_map(shown).collect()
}
