//! What is done about jobs that run, when the upper limit, the price or the draw changes: the rest and the moved caps of
//! `limo` (limo-2018, chapter 5, asks for both; power-capping-2018, section 4, for shared caps).
//!
//! Idea: where the draw is above the upper limit, or would be `steer_lead` ahead, it comes down at once, with the least harm that
//! does it, in this order. Caps are lowered: all units that can be capped by the same part of their draw, since equal parts
//! slow the slowest job down the least. What that does not give, suspended jobs give; then jobs that run again later.
//! Victims: fillers first; jobs without a deadline before jobs with one; those that went on a moment ago last; then
//! those that began last, which lose least. A victim that turns out not to be needed is spared.
//! Where there is room again, jobs go on in the order in which they were suspended, those with a deadline first; then caps
//! are raised, by equal parts, as far as there is room, up to what the jobs were started with. While the bottom of the
//! band is aimed for, only as far as the lower limit asks for; below it, caps are lifted whatever they were.
//! Against flapping: what was taken is given back only after `least_off`, and only where it leaves `steer_margin_permille`
//! of the limit free beyond the reserve for `least_on`. Taking knows no such delay: a limit is a limit.
//! Ignores: energy budgets; jobs over several nodes, which have no caps but can be suspended and requeued.
//! Cost: one look at each active job. Options: `preempt`, `cap_factor_permille`, `steer_margin_permille`, `least_off`,
//! `least_on`, `reserve_permille`, `steer_lead`.

use std::collections::BTreeMap;

use limo_model::{JobId, Power, Span, Time, UnitId};

use super::limo;
use crate::apply::{draw_at, draw_if_on};
use crate::options::Preempt;
use crate::plan::Plan;
use crate::state::{Job, Phase, State};
use crate::view::View;

/// A unit with jobs that run.
struct Held {
    unit: UnitId,
    /// Cores of the unit for each core that its jobs have: what they may draw of a cap.
    cores: (u32, u32),
    draw: Power,
    /// With the lowest cap.
    floor: Power,
    /// With the cap that its jobs were started with.
    aim: (Option<Power>, Power),
}

/// Whether [`steer`] could find something to do, now or later.
fn concerns(state: &State) -> bool {
    let index = &state.index;
    let held = !index.suspended.is_empty() || !index.capped.is_empty();
    held || (state.settings.preset.steers() && !state.active.is_empty() && state.settings.limits.is_limited())
}

/// What to do about running jobs; `None` where nothing is to be done.
pub(crate) fn steer(view: &View<'_>) -> Option<Plan> {
    let (state, options) = (view.state(), view.options());
    if !concerns(state) {
        return None;
    }
    let mut plan = Plan::default();
    lift_idle(view, &mut plan);
    if !view.preset().steers() || options.preempt == Preempt::Nothing {
        // Whatever another policy held down goes on.
        plan.resumes.extend(&state.index.suspended);
        plan.caps.extend(capped(view).map(|unit| (unit, None)));
        plan.caps.sort_unstable_by_key(|(unit, _)| *unit);
        plan.caps.dedup_by_key(|(unit, _)| *unit);
        return Some(plan).filter(Plan::steers);
    }
    let leaving = |job: &Job| job.assignment().filter(|assignment| assignment.stop.is_some()).map(|a| a.draw);
    let leaving: Power = view.active().filter_map(|(_, job)| leaving(job)).sum();
    let draw = view.draw() - leaving;
    let high = lowest_high(view, options.steer_lead);
    if high.is_unlimited() {
        give(view, Power::MAX, &mut plan);
        return Some(plan).filter(Plan::steers);
    }
    let reserve = high.scaled(i64::from(options.reserve_permille), 1_000);
    if draw > high - reserve.scaled(1, 2) {
        take(view, draw - (high - reserve), &mut plan);
    } else {
        give(view, room(view), &mut plan);
    }
    Some(plan).filter(Plan::steers)
}

/// When something can be done about running jobs without any event.
pub(crate) fn look_again(view: &View<'_>) -> Option<Time> {
    let (state, options, now) = (view.state(), view.options(), view.now());
    if !concerns(state) {
        return None;
    }
    let falls = view.limits().steps().iter().filter(|(at, _)| *at > now).map(|(at, _)| *at - options.steer_lead);
    let mut times: Vec<Time> = falls.collect();
    if !state.index.suspended.is_empty() || !state.index.capped.is_empty() {
        let since = state.index.suspended.iter().filter_map(|id| match state.jobs.get(*id).map(|job| &job.phase) {
            Some(Phase::Suspended(_, _, since)) => Some(*since + options.least_off),
            _ => None,
        });
        times.extend(since);
        let nodes = state.index.capped.iter().filter_map(|id| view.node(*id));
        times.extend(nodes.map(|node| node.caps.changed + options.least_off));
        times.extend(view.limits().next_step(now));
        times.extend(view.prices().and_then(|prices| prices.next_step(now)));
    }
    times.into_iter().filter(|at| *at > now).min()
}

/// The lowest upper limit from now on for `span`, and at its end.
fn lowest_high(view: &View<'_>, span: Span) -> Power {
    let (now, end) = (view.now(), view.now() + span + Span::from_ms(1));
    view.limits().pieces(now, end).map(|(_, _, band)| band.high()).min().unwrap_or(Power::MAX)
}

/// What jobs may get back now.
fn room(view: &View<'_>) -> Power {
    let options = view.options();
    let high = lowest_high(view, options.least_on);
    if high.is_unlimited() {
        return Power::MAX;
    }
    let kept = high.scaled(i64::from(options.reserve_permille) + i64::from(options.steer_margin_permille), 1_000);
    high - kept - view.draw()
}

/// Units that are capped and have no job.
fn lift_idle(view: &View<'_>, plan: &mut Plan) {
    plan.caps.extend(capped(view).filter(|unit| view.index().cores_used(*unit) == 0).map(|unit| (unit, None)));
}

fn capped<'a>(view: &View<'a>) -> impl Iterator<Item = UnitId> + use<'a> {
    let view = *view;
    let nodes = view.index().capped.iter().filter_map(move |id| view.node(*id));
    nodes.flat_map(|node| node.units().map(|(unit, _)| unit).filter(|unit| node.cap(unit.unit).is_some()))
}

/// Units that can be capped, with the jobs that run on them.
fn held(view: &View<'_>) -> Vec<Held> {
    let mut units: BTreeMap<UnitId, Held> = BTreeMap::new();
    for (_, job) in view.active() {
        let Some(assignment) = job.assignment().filter(|assignment| assignment.stop.is_none()) else { continue };
        let Some(part) = assignment.sole_part().filter(|_| !matches!(job.phase, Phase::Suspended(..))) else {
            continue;
        };
        let Some((node, unit)) = view.unit(part.unit) else { continue };
        let Some((low, _)) = node.cap_range(part.unit.unit) else { continue };
        let held = units.entry(part.unit).or_insert_with(|| Held {
            unit: part.unit,
            cores: (unit.cores, 0),
            draw: Power::ZERO,
            floor: Power::ZERO,
            aim: (part.cap, Power::ZERO),
        });
        held.cores.1 += part.cores;
        held.draw += assignment.draw;
        // At the lowest cap there is nothing left to give, whatever readings say that it draws.
        let gives = node.cap(part.unit.unit) != Some(low);
        let floor = low.scaled(i64::from(part.cores), i64::from(unit.cores)).min(assignment.draw);
        held.floor += if gives { floor } else { assignment.draw };
        // Without a cap is the highest.
        held.aim.0 = held.aim.0.zip(part.cap).map(|(one, other)| one.max(other));
    }
    for (_, job) in view.active() {
        let Some(part) = job.assignment().and_then(|assignment| assignment.sole_part()) else { continue };
        if let Some(held) = units.get_mut(&part.unit).filter(|_| job.is_active_and_kept()) {
            held.aim.1 += draw_at(view.state(), job, held.aim.0).unwrap_or_default();
        }
    }
    units.into_values().collect()
}

/// The largest number of thousandths for which `fits` holds, which holds for all below it.
fn largest_permille(fits: impl Fn(i64) -> bool) -> i64 {
    let (mut low, mut high) = (0, 1_000);
    while low < high {
        let middle = (low + high + 1) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

impl Held {
    /// The cap at which its jobs draw `draw` at most, within what the unit obeys.
    fn cap_for(&self, view: &View<'_>, draw: Power) -> Option<Power> {
        let (low, high) = view.node(self.unit.node)?.cap_range(self.unit.unit)?;
        let cap = draw.mw().saturating_mul(i64::from(self.cores.0)) / i64::from(self.cores.1.max(1));
        Some(Power::from_mw(cap).max(low).min(high))
    }

    /// The same, below the cap that it has. Where readings say that it draws more than that one lets it, it is lowered by
    /// the part by which the draw is to come down.
    fn lower_cap_for(&self, view: &View<'_>, draw: Power) -> Option<Power> {
        let (low, cap) = (view.node(self.unit.node)?.cap_range(self.unit.unit)?.0, self.cap_for(view, draw)?);
        let Some(current) = self.current(view) else { return Some(cap) };
        let lower = current.scaled(draw.mw(), self.draw.mw().max(1)).max(low);
        Some(if cap < current { cap } else { lower }).filter(|cap| *cap < current)
    }

    fn current(&self, view: &View<'_>) -> Option<Power> {
        view.node(self.unit.node)?.cap(self.unit.unit)
    }
}

/// Brings the draw down by `excess`.
fn take(view: &View<'_>, excess: Power, plan: &mut Plan) {
    let units = held(view);
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
        let cap = assignment.sole_part().and_then(|part| caps.get(&part.unit).copied());
        cap.map_or(Some(assignment.draw), |cap| draw_at(view.state(), job, cap))
    };
    if left > Power::ZERO && preempt >= Preempt::Suspend {
        plan.suspends = victims(view, &mut left, draw, |job| job.request.may_suspend);
    }
    if left > Power::ZERO && preempt >= Preempt::Requeue {
        plan.requeues = victims(view, &mut left, draw, |job| job.request.may_requeue && !job.request.may_suspend);
    }
}

/// Those of the running jobs for which `may` holds that have to give way, so that `left` watts are given.
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
        .filter(|(_, job)| job.is_running_on() && may(job))
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
    // From the one that is harmed most: whoever is not needed is spared.
    for index in (0..chosen.len()).rev() {
        let (_, draw) = chosen[index];
        if *left + draw <= Power::ZERO {
            *left += draw;
            chosen.remove(index);
        }
    }
    chosen.into_iter().map(|(id, _)| id).collect()
}

/// Gives back what there is room for: at most one job at a time, then caps.
fn give(view: &View<'_>, room: Power, plan: &mut Plan) {
    if view.index().suspended.is_empty() && view.index().capped.is_empty() {
        return;
    }
    let draw = view.draw();
    let bottom = limo::aims_low(view).then(|| view.band().low());
    let is_held = bottom.is_some_and(|low| draw >= low);
    if let Some(id) = next_to_resume(view, room, is_held) {
        plan.resumes.push(id);
        return;
    }
    if is_held {
        return;
    }
    let options = view.options();
    let below = draw < view.band().low();
    let units: Vec<Held> = held(view).into_iter().filter(|unit| is_lowered(view, unit, below)).collect();
    let gain = |unit: &Held| (unit.aim_draw(view, below) - unit.draw).at_least_zero();
    let all: Power = units.iter().map(gain).sum();
    let wanted = bottom.map_or(room, |low| room.min(low - draw));
    let permille = largest_permille(|permille| all.scaled(permille, 1_000) <= wanted);
    // The lower limit is reached rather than nearly reached.
    let permille = if below && wanted < room { (permille + 1).min(1_000) } else { permille };
    let step = view.band().high().scaled(i64::from(options.steer_margin_permille), 1_000);
    // A little more now and a little more soon is flapping.
    if permille < 1_000 && (wanted < step || all.scaled(permille, 1_000) < step) && !below {
        return;
    }
    for unit in &units {
        let aim = if below { None } else { unit.aim.0 };
        let target = unit.draw + gain(unit).scaled(permille, 1_000);
        let cap = if permille == 1_000 { aim } else { unit.cap_for(view, target) };
        if unit.current(view).is_some_and(|current| cap.is_none_or(|cap| cap > current)) {
            plan.caps.push((unit.unit, cap));
        }
    }
}

/// Whether its cap is below what it may be raised to, and long enough.
fn is_lowered(view: &View<'_>, unit: &Held, below: bool) -> bool {
    let rested = |node: &crate::state::Node| view.now() - node.caps.changed >= view.options().least_off;
    let aim = if below { None } else { unit.aim.0 };
    let lower = unit.current(view).is_some_and(|current| aim.is_none_or(|aim| current < aim));
    lower && view.node(unit.unit.node).is_some_and(rested)
}

impl Held {
    /// What its jobs draw at the cap that they were started with; `below` the band, without any.
    fn aim_draw(&self, view: &View<'_>, below: bool) -> Power {
        if !below {
            return self.aim.1;
        }
        let on = view.active().filter(|(_, job)| job.is_active_and_kept());
        let here =
            on.filter(|(_, job)| job.assignment().and_then(|a| a.sole_part()).is_some_and(|p| p.unit == self.unit));
        here.filter_map(|(_, job)| draw_at(view.state(), job, None)).sum()
    }
}

/// The suspended job that goes on now. While the bottom of the band is held, only one that is pressed.
fn next_to_resume(view: &View<'_>, room: Power, is_held: bool) -> Option<JobId> {
    let (state, options, now) = (view.state(), view.options(), view.now());
    let mut jobs: Vec<_> = Vec::new();
    for (id, job) in state.index.suspended.iter().filter_map(|id| Some((*id, &**state.jobs.get(*id)?))) {
        let Phase::Suspended(assignment, _, since) = &job.phase else { continue };
        let end = job.expected_end(now).unwrap_or(now);
        let late = job.request.deadline.is_some_and(|deadline| end >= deadline);
        let pressed = late || now - *since >= options.max_delay;
        if assignment.stop.is_some() || now - *since < options.least_off || (is_held && !pressed) {
            continue;
        }
        if draw_if_on(state, job) <= room {
            jobs.push((!pressed, job.request.filler, job.request.deadline.is_none(), *since, id));
        }
    }
    jobs.into_iter().min().map(|(.., id)| id)
}
