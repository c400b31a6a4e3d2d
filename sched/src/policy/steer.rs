//! Changes to running jobs when the upper limit, the price or the draw changes. They are the suspended jobs and moved
//! caps of `limo` (limo-2018, chapter 5, asks for both; power-capping-2018, section 4, for shared caps).
//!
//! Idea: the draw may be above the upper limit minus half of the reserve, or be expected to be so `steer_lead` ahead.
//! It is then brought down to the limit minus the reserve at once, with the least harm, in this order. First, caps
//! are lowered: all units that can be capped by the same part of their draw, because equal parts slow down the
//! slowest job least. Then jobs are suspended, then jobs are requeued. Victims: fillers first; jobs without a
//! deadline before jobs with one. Jobs that continued a moment ago come last, then the jobs that began last, because
//! they lose least. An unneeded victim is spared. When power is free again, suspended jobs continue. Among those for
//! which it is enough, jobs with a deadline come first and fillers last, then the order is that of their suspension.
//! Then caps are raised by equal parts as far as power is free, up to the caps with which the jobs were started.
//! While the target is the bottom of the band, power is returned only as far as the lower limit requires it. Below
//! the lower limit, all caps may be lifted, except those at which a job measures its application. Against flapping:
//! power is returned only after `least_off`, and only if `steer_margin_permille` of the limit then stays free beyond
//! the reserve for `least_on`. Taking power has no such delay: a limit is strict. Unreachable nodes get no commands,
//! because they could not obey. A job over several units is as fast as its slowest one; each of its units has its own
//! cap. Before the upper limit, the limits of groups of nodes are kept in the same way by the jobs of each group. Ignores:
//! energy budgets. Cost: one check of each unit of each active job. Options: `preempt`,
//! `cap_factor_permille`, `steer_margin_permille`, `least_off`, `least_on`, `reserve_permille`, `steer_lead`.

mod groups;
mod lift;
mod share;
mod units;

use std::collections::BTreeMap;

use limo_model::{JobId, Power, Span, Time, UnitId};

use super::placement::aims_low;
use super::resumed;
use crate::apply::is_reserved;
use crate::facts::draw_if_on;
use crate::options::Preempt;
use crate::plan::Plan;
use crate::state::{Job, Node};
use crate::view::View;
pub(super) use groups::GroupPower;
use groups::Scope;
use lift::{cap_of, is_below, let_go, lift_idle};
pub(super) use share::divide_with_starts;
use units::{SharedUnit, held};

/// Returns true if [`steer`] could have an effect, now or later.
fn concerns(view: &View<'_>) -> bool {
    let (state, index) = (view.state(), view.index());
    let held = !index.suspended.is_empty() || !index.capped.is_empty();
    let controls = view.parts().steers() || view.parts().divides();
    let is_limited = state.settings.limits.is_limited() || view.has_groups();
    held || (controls && !state.active.is_empty() && is_limited)
}

/// Returns the changes to running jobs; `None` if there are none.
pub(crate) fn steer(view: &View<'_>) -> Option<Plan> {
    let options = view.options();
    if !concerns(view) {
        return None;
    }
    let mut plan = Plan::default();
    lift_idle(view, &mut plan);
    if view.parts().divides() {
        plan.resumes.extend(&view.index().suspended);
        share::divide(view, &mut plan);
        return Some(plan).filter(Plan::steers);
    }
    if !view.parts().steers() || options.preempt == Preempt::Nothing {
        // Suspended jobs resume, and lowered caps return to their initial values.
        plan.resumes.extend(&view.index().suspended);
        let_go(view, &mut plan);
        return Some(plan).filter(Plan::steers);
    }
    for (group, excess) in Scope::full_groups(view) {
        let mut taken = Plan::default();
        take(view, group, excess, &mut taken);
        if taken.steers() {
            taken.caps.extend(plan.caps);
            return Some(taken);
        }
    }
    let cluster = Scope::cluster(view);
    let draw = view.draw() - cluster.leaving();
    let high = lowest_high(view, options.steer_lead);
    let reserve = high.scaled(i64::from(options.reserve_permille), 1_000);
    let room = (draw <= high - reserve.scaled(1, 2)).then(|| room(view));
    if resumed::decide(view, room, &mut plan) {
        return Some(plan);
    }
    match room {
        Some(room) => give(view, room, &mut plan),
        None => take(view, cluster, draw - (high - reserve), &mut plan),
    }
    Some(plan).filter(Plan::steers)
}

/// Returns the time at which running jobs could change if no event happens.
pub(crate) fn look_again(view: &View<'_>) -> Option<Time> {
    let (state, options, now) = (view.state(), view.options(), view.now());
    if !concerns(view) {
        return None;
    }
    let mut times: Vec<Time> = view.limits().bands(now).map(|(at, _)| at - options.steer_lead).collect();
    if !view.index().suspended.is_empty() || !view.index().capped.is_empty() {
        for job in view.index().suspended.iter().filter_map(|id| state.jobs.get(*id)) {
            if let Some(since) = job.limited_since() {
                times.extend([since + options.least_off, pressed_at(view, job, since)]);
            }
        }
        let nodes = view.index().capped.iter().filter_map(|id| view.node(*id));
        times.extend(nodes.map(|node| node.caps.changed + options.least_off));
        times.extend(view.limits().next_change(now));
        times.extend(view.prices().and_then(|prices| prices.next_change(now)));
    }
    times.into_iter().filter(|at| *at > now).min()
}

/// Returns the lowest upper limit from now on for `span`, and at its end.
fn lowest_high(view: &View<'_>, span: Span) -> Power {
    let (now, end) = (view.now(), view.now() + span + Span::from_ms(1));
    let later = view.limits().bands(now).take_while(|(at, _)| *at < end).map(|(_, band)| band.high());
    later.fold(view.band().high(), Power::min)
}

/// Returns the upper limit for returned power. Power is returned for some time, not for a moment.
fn high_to_give(view: &View<'_>) -> Power {
    lowest_high(view, view.options().least_on.max(view.options().steer_lead))
}

/// Returns the power that jobs may get back now.
fn room(view: &View<'_>) -> Power {
    let high = high_to_give(view);
    if high.is_unlimited() {
        return Power::MAX;
    }
    high - high.scaled(i64::from(view.options().reserve_permille), 1_000)
        - margin(view)
        - view.draw()
        - view.unconfirmed()
}

/// Returns the power that must stay free beyond the reserve when a job resumes.
pub(super) fn margin(view: &View<'_>) -> Power {
    let high = high_to_give(view);
    if high.is_unlimited() { Power::ZERO } else { high.scaled(i64::from(view.options().steer_margin_permille), 1_000) }
}

/// Returns the largest number of thousandths for which `fits` holds. It must hold for all smaller ones.
fn largest_permille(fits: impl Fn(i64) -> bool) -> i64 {
    let (mut low, mut high) = (0, 1_000);
    while low < high {
        let middle = (low + high + 1) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Brings the draw of a group or the cluster down by `excess`.
fn take(view: &View<'_>, scope: Scope<'_>, excess: Power, plan: &mut Plan) {
    let units: Vec<SharedUnit> = held(view, &[]).into_iter().filter(|unit| scope.has(unit.unit.node)).collect();
    let lowered = |permille: i64| -> Power {
        units.iter().map(|unit| unit.draw - unit.draw.scaled(permille, 1_000).max(unit.floor)).sum()
    };
    let permille = largest_permille(|permille| lowered(permille) >= excess);
    for unit in &units {
        let target = unit.draw.scaled(permille, 1_000).max(unit.floor);
        let cap = unit.lower_cap_for(view, target).filter(|_| target < unit.draw);
        plan.caps.extend(cap.map(|cap| (unit.unit, Some(cap))));
    }
    let mut left = excess - lowered(permille);
    let preempt = view.options().preempt;
    let caps: BTreeMap<UnitId, Option<Power>> = plan.caps.iter().copied().collect();
    let draw = |job: &Job| {
        let assignment = job.assignment()?;
        let cap = |unit: UnitId| caps.get(&unit).copied().unwrap_or_else(|| cap_of(view, unit));
        match assignment.units().any(|(unit, _)| caps.contains_key(&unit)) {
            true => scope.draw_at(job, cap),
            false => Some(scope.draw_of(assignment)),
        }
    };
    if left > Power::ZERO && preempt >= Preempt::Suspend {
        plan.suspends = victims(view, &mut left, draw, |job| job.request.may_suspend && may_stand_still(view, job));
    }
    if left > Power::ZERO && preempt >= Preempt::Requeue {
        plan.requeues = victims(view, &mut left, draw, |job| {
            job.request.may_requeue && !(job.request.may_suspend && may_stand_still(view, job))
        });
    }
}

/// Returns true if the job may be suspended: a job on a reserved node is expected to end before the reservation.
fn may_stand_still(view: &View<'_>, job: &Job) -> bool {
    let placement = job.assignment().map(|assignment| assignment.placement.as_slice()).unwrap_or_default();
    !placement.iter().flat_map(|part| part.nodes()).any(|node| is_reserved(view.cluster(), node))
}

/// Returns the running jobs to restrict, among those that `may` accepts, to gain `left` watts.
fn victims(
    view: &View<'_>,
    left: &mut Power,
    draw: impl Fn(&Job) -> Option<Power>,
    may: impl Fn(&Job) -> bool,
) -> Vec<JobId> {
    let (now, least_on) = (view.now(), view.options().least_on);
    let harm = |id: JobId, job: &Job| {
        let running = job.running()?;
        let went_on = running.resumed > running.started && now - running.resumed < least_on;
        let request = &job.request;
        Some((!request.filler, request.deadline.is_some(), went_on, std::cmp::Reverse((running.started, id))))
    };
    let mut jobs: Vec<_> = view
        .active()
        .filter(|(_, job)| job.is_running_on() && may(job) && view.reaches(job))
        .filter_map(|(id, job)| Some((harm(id, job)?, id, draw(job)?)))
        .filter(|(_, _, draw)| *draw > Power::ZERO)
        .collect();
    jobs.sort_unstable();
    let mut chosen: Vec<(JobId, Power)> = Vec::new();
    for (_, id, draw) in jobs {
        if *left <= Power::ZERO {
            break;
        }
        *left -= draw;
        chosen.push((id, draw));
    }
    // Starts with the most harmed victim: unneeded ones are spared.
    for index in (0..chosen.len()).rev() {
        let (_, draw) = chosen[index];
        if *left + draw <= Power::ZERO {
            *left += draw;
            chosen.remove(index);
        }
    }
    chosen.into_iter().map(|(id, _)| id).collect()
}

/// Returns free power to jobs: resumes at most one job at a time, then raises caps.
fn give(view: &View<'_>, room: Power, plan: &mut Plan) {
    if view.index().suspended.is_empty() && view.index().capped.is_empty() {
        return;
    }
    let draw = view.draw();
    let groups = GroupPower::of(view);
    let bottom = aims_low(view).then(|| view.band().low());
    let is_held = bottom.is_some_and(|low| draw >= low);
    if let Some(id) = next_to_resume(view, (room, &groups), is_held) {
        plan.resumes.push(id);
        return;
    }
    if is_held {
        return;
    }
    let options = view.options();
    let below = draw < view.band().low();
    let units: Vec<SharedUnit> = held(view, &[]).into_iter().filter(|unit| is_lowered(view, unit, below)).collect();
    let gain = |unit: &SharedUnit| (unit.aim_draw(view, below) - unit.draw).at_least_zero();
    let all: Power = units.iter().map(gain).sum();
    let wanted = bottom.map_or(room, |low| room.min(low - draw));
    let permille = largest_permille(|permille| all.scaled(permille, 1_000) <= wanted);
    // The draw must reach the lower limit, and not only come close to it.
    let permille = if below && wanted < room { (permille + 1).min(1_000) } else { permille };
    let step = high_to_give(view).scaled(i64::from(options.steer_margin_permille), 1_000);
    // Small steps in short succession would be flapping of caps.
    if permille < 1_000 && (wanted < step || all.scaled(permille, 1_000) < step) && !below {
        return;
    }
    let permilles = groups.permilles(&units, gain, (permille, below));
    for (unit, permille) in units.iter().zip(permilles).filter_map(|(unit, permille)| Some((unit, permille?))) {
        let aim = unit.highest(below);
        let target = unit.draw + gain(unit).scaled(permille, 1_000);
        let cap = if permille == 1_000 { aim } else { unit.cap_for(view, target) };
        if is_below(cap_of(view, unit.unit), cap) {
            plan.caps.push((unit.unit, cap));
        }
    }
}

/// Returns true if the cap is below its highest allowed value, and has not changed for the least time.
fn is_lowered(view: &View<'_>, unit: &SharedUnit, below: bool) -> bool {
    let rested = |node: &Node| view.now() - node.caps.changed >= view.options().least_off;
    is_below(cap_of(view, unit.unit), unit.highest(below)) && view.node(unit.unit.node).is_some_and(rested)
}

/// Returns the suspended job to resume now. While the bottom of the band is held, only a pressed job is resumed.
fn next_to_resume(view: &View<'_>, (room, groups): (Power, &GroupPower<'_>), is_held: bool) -> Option<JobId> {
    let (state, options, now) = (view.state(), view.options(), view.now());
    let mut jobs: Vec<_> = Vec::new();
    for (id, job) in view.index().suspended.iter().filter_map(|id| Some((*id, &**state.jobs.get(*id)?))) {
        let Some(since) = job.limited_since() else { continue };
        let pressed = pressed_at(view, job, since) <= now;
        let rests = now - since < options.least_off || (is_held && !pressed);
        let ends = job.assignment().is_some_and(|assignment| assignment.stop.is_some());
        if ends || rests || !view.reaches(job) {
            continue;
        }
        if draw_if_on(state, job) <= room && groups.leaves(view, job) {
            jobs.push((!pressed, job.request.filler, job.request.deadline.is_none(), since, id));
        }
    }
    jobs.into_iter().min().map(|(.., id)| id)
}

/// Returns the time from which a suspended job resumes at any price, because its deadline or patience is near.
fn pressed_at(view: &View<'_>, job: &Job, since: Time) -> Time {
    let rest = job.expected_end(view.now()).map_or(Span::ZERO, |end| end - view.now());
    let latest = job.request.deadline.map(|deadline| view.clock().cluster(deadline) - rest);
    latest.unwrap_or(Time::MAX).min(since + view.options().max_delay)
}
