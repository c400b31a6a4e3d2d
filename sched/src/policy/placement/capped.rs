//! Starts at a cap, because power or energy is not enough for the full speed (`caps=from-profile`, `at-start`,
//! `fixed-share`).
//!
//! Idea: under `from-profile` a job starts at the highest cap of its profile for which power and energy are enough.
//! Under the two others it takes what the admission leaves of the upper limit, and each of its units the same part of
//! its predicted draw. `at-start` is DVFS of power-capping-2018, section 5.1 (Etinski et al. 2010): the start is only
//! kept if its predicted bounded slowdown is below a threshold. The threshold is 0 while the jobs draw less than a
//! quarter of the power for jobs, 10 while they draw more than three quarters, and 2 otherwise. `fixed-share` is
//! *Simple* (Bodas et al. 2014): no unit gets less than its lowest cap, and a unit that obeys no caps gets its draw.
//! The cap is set before the job starts, so the job counts with its draw at that cap. It keeps the cap until it ends.
//! Constraints: the units obey the cap and have no other job; other jobs start only at full speed. Under `from-profile` the
//! job also ends before its time limit, by the profile. Under the two others its time limit is longer by the law of
//! slowdown, so a job on a reserved node starts only if it is not slowed down. Unclear text: the paper does not say of
//! which draw a quarter counts; the authors' program includes the job itself, whose start takes all that is left, so
//! its threshold is always 10. Here the draw before the start counts. The bounded slowdown is that of section 5.1.2, with
//! the walltime as the run time. Ignores: energy and price. A lower cap may cost more energy in total. Cost: the units
//! of the placement. No options.

use limo_model::{CapRule, Estimate, Part, Placement, Power, Request, Span, UnitId, UnitSpec, nodes};

use crate::apply::is_reserved;
use crate::facts::{Known, Looked, by_unit, delay_by_caps, estimate, units_wanted};
use crate::index::{Shape, Way};
use crate::plan::Plan;
use crate::state::Job;
use crate::view::View;

/// Run time below which a job counts as this long in its bounded slowdown: the threshold θ of section 5.1.2.
const SHORT: Span = Span::from_secs(300);

/// A start at a cap that a job could have.
pub(in crate::policy) type Capped = (Placement, Estimate);

/// Returns the starts of a job at a cap on a placement, the fastest first. `full` is its estimate at full speed there.
/// `left` has the power that the admission leaves a job that ends as expected, and a longer one.
pub(in crate::policy) fn starts(
    view: &View<'_>,
    job: &Job,
    (placement, full): (&Placement, &Estimate),
    left: impl IntoIterator<Item = Power>,
) -> Vec<Capped> {
    let units = || placement.iter().flat_map(Part::units);
    if units().any(|unit| view.index().cores_used(unit) > 0) {
        return Vec::new();
    }
    if view.parts().caps == CapRule::FromProfile {
        return with_profile(view, job, (placement, full));
    }
    left.into_iter().filter_map(|left| of_left(view, job, (placement, full), left)).collect()
}

/// Returns the starts at the caps of a job's profile, the highest first.
fn with_profile(view: &View<'_>, job: &Job, (placement, full): (&Placement, &Estimate)) -> Vec<Capped> {
    let (known, request) = (Known::of(view.state()), &job.request);
    let caps = |part: &Part| {
        let (node, unit) = view.unit(part.unit)?;
        let (low, high) = node.cap_range(part.unit.unit)?;
        let caps = Looked::up(known, request, unit).caps(unit).into_iter();
        Some(caps.filter(|cap| (low..=high).contains(cap)).collect::<Vec<_>>())
    };
    let mut common: Option<Vec<Power>> = None;
    for part in placement {
        let Some(of_part) = caps(part) else { return Vec::new() };
        match &mut common {
            Some(common) => common.retain(|cap| of_part.contains(cap)),
            None => common = Some(of_part),
        }
    }
    let start = |cap: Power| {
        let at = |part: &Part| Part { cap: Some(cap), ..*part };
        let placement: Placement = placement.iter().map(at).collect();
        let (power, duration) = expected(view, job, &placement)?;
        // A longer run is expected to end at the limit.
        let is_in_time = request.time_limit.is_none_or(|limit| duration < limit);
        is_in_time.then(|| (placement, Estimate { power, energy: power * full.duration, ..*full }))
    };
    common.unwrap_or_default().into_iter().rev().filter_map(start).collect()
}

/// Returns the draw of a job under the caps of a placement, and its duration there.
fn expected(view: &View<'_>, job: &Job, placement: &Placement) -> Option<(Power, Span)> {
    let units = placement.iter().flat_map(|part| part.units().map(move |unit| ((unit, part), part.cap)));
    let (draws, duration) = by_unit(view.state(), job, units)?;
    Some((draws.into_iter().sum(), duration))
}

/// Returns the start of a job at the power that is left, if the rule allows it.
fn of_left(view: &View<'_>, job: &Job, (placement, full): (&Placement, &Estimate), left: Power) -> Option<Capped> {
    let units = placement.iter().flat_map(|part| part.units().map(move |unit| ((unit, part), None)));
    let (draws, _) = by_unit(view.state(), job, units)?;
    let floors = floors(view, placement, &draws)?;
    let is_at_start = view.parts().caps == CapRule::AtStart;
    let targets = divided(&draws, &floors, (left, !is_at_start)).filter(|_| left < full.power)?;
    let placement = at_caps(view, placement, targets.iter().zip(&draws))?;
    let (power, _) = expected(view, job, &placement)?;
    let walltime = job.request.time_limit.unwrap_or(view.options().default_duration);
    let delay = delay_by_caps(view.state(), job, &placement, walltime);
    if is_at_start && !is_kept(view, job, (walltime, delay), left) {
        return None;
    }
    if delay > Span::ZERO && nodes(&placement).any(|node| is_reserved(view.cluster(), node)) {
        return None;
    }
    let duration = full.duration + delay;
    Some((placement, Estimate { duration, power, energy: power * duration, ..*full }))
}

/// Returns the draw of each unit of a placement at its lowest cap. `None` if `at-start` cannot cap one of them.
fn floors(view: &View<'_>, placement: &Placement, draws: &[Power]) -> Option<Vec<Power>> {
    let parts = placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part.cores)));
    let floor = |((id, cores), draw): ((UnitId, u32), &Power)| {
        let (node, unit) = view.unit(id)?;
        match node.cap_range(id.unit) {
            Some((low, _)) => Some(low.scaled(cores.into(), unit.cores.into()).min(*draw)),
            None => (view.parts().caps == CapRule::FixedShare).then_some(*draw),
        }
    };
    parts.zip(draws).map(floor).collect()
}

/// Divides the power that is left among units in proportion to their draws. A unit whose part is below its floor gets
/// its floor, if that may be. `None` if it may not, or the floors are too much.
fn divided(draws: &[Power], floors: &[Power], (left, may_bend): (Power, bool)) -> Option<Vec<Power>> {
    let mut is_low = vec![false; draws.len()];
    loop {
        let sum = |all: &[Power], low: bool| -> Power {
            all.iter().zip(&is_low).filter(|(_, is_low)| **is_low == low).map(|(power, _)| *power).sum()
        };
        let (rest, others) = (left - sum(floors, true), sum(draws, false).mw().max(1));
        if rest < Power::ZERO {
            return None;
        }
        let part = |draw: Power| {
            let part = i128::from(draw.mw()) * i128::from(rest.mw()) / i128::from(others);
            draw.min(Power::from_mw(i64::try_from(part).unwrap_or(i64::MAX)))
        };
        let target = |at: usize| if is_low[at] { floors[at] } else { part(draws[at]) };
        let targets: Vec<Power> = (0..draws.len()).map(target).collect();
        let low: Vec<usize> = (0..draws.len()).filter(|at| targets[*at] < floors[*at]).collect();
        if low.is_empty() {
            return Some(targets);
        }
        if !may_bend {
            return None;
        }
        low.into_iter().for_each(|at| is_low[at] = true);
    }
}

/// Returns true if `at-start` keeps the start of a job with this walltime and this delay by its caps.
fn is_kept(view: &View<'_>, job: &Job, (walltime, delay): (Span, Span), left: Power) -> bool {
    let given = (view.estimated_draw() - view.idle()).at_least_zero();
    let quarter = (given + left).scaled(1, 4);
    let threshold = match given {
        given if given < quarter => 0,
        given if given > quarter.scaled(3, 1) => 10,
        _ => 2,
    };
    // The bounded slowdown is at least 1.
    let late = view.now() - job.eligible() + walltime + delay;
    threshold > 0 && late < walltime.max(SHORT).scaled(threshold, 1)
}

/// Returns the least draw at which `fixed-share` starts a job of a shape: all units at their lowest caps.
pub(in crate::policy) fn least(view: &View<'_>, shape: &Shape, request: &Request) -> Power {
    let known = Known::of(view.state());
    let of_unit = |units: &[UnitSpec], unit: u16, cores: u32| {
        let spec = units.get(usize::from(unit))?;
        let full = estimate(known, request, spec).power;
        let low = spec.caps.map(|(low, _)| low.scaled(cores.into(), spec.cores.into()));
        Some(low.unwrap_or(full).min(full))
    };
    let of_way = |way: &Way| {
        let units = &view.index().classes.class(way.class).units;
        let each = of_unit(units, way.unit, way.takes)?;
        let host = way.host.and_then(|host| of_unit(units, host.unit, host.cores)).unwrap_or_default();
        Some(each.scaled(i64::try_from(units_wanted(request)).unwrap_or(i64::MAX), 1) + host)
    };
    let least = shape.ways.iter().filter_map(of_way).min().unwrap_or_default();
    least.scaled(request.nodes.get().into(), 1)
}

/// Returns the placement with each unit at the cap at which it draws its target; uncapped if that is its full draw.
fn at_caps<'a>(
    view: &View<'_>,
    placement: &Placement,
    mut targets: impl Iterator<Item = (&'a Power, &'a Power)>,
) -> Option<Placement> {
    let mut is_known = true;
    let placement = recapped(placement, |part, _| {
        let Some(((target, full), (node, unit))) = targets.next().zip(view.unit(part.unit)) else {
            is_known = false;
            return None;
        };
        let cap = target.mw().saturating_mul(i64::from(unit.cores)) / i64::from(part.cores.max(1));
        let range = node.cap_range(part.unit.unit).filter(|_| target < full);
        range.map(|(low, high)| Power::from_mw(cap).max(low).min(high))
    });
    is_known.then_some(placement)
}

/// Returns the placement with another cap for each unit. Nodes of a part with different caps become parts of their own.
fn recapped(placement: &Placement, mut cap_of: impl FnMut(&Part, UnitId) -> Option<Power>) -> Placement {
    let mut capped = Placement::new();
    for part in placement {
        let first = capped.len();
        for unit in part.units() {
            let cap = cap_of(part, unit);
            match capped[first..].last_mut().filter(|last| last.cap == cap) {
                Some(last) => last.count += 1,
                None => capped.push(Part { unit, count: 1, cap, ..*part }),
            }
        }
    }
    capped
}

/// Gives starts the caps that jobs request which are on the same units, and their draws there. For the rules of caps that
/// change caps while jobs run.
pub(in crate::policy) fn join_caps(view: &View<'_>, plan: &mut Plan) {
    if !view.parts().divides() || view.index().capped.is_empty() {
        return;
    }
    let requested = |unit: UnitId| {
        let jobs = view.cluster().jobs_on(unit.node).into_iter().filter_map(|id| view.job(id)?.assignment());
        jobs.filter_map(|assignment| assignment.cap_on(unit)).min()
    };
    for start in &mut plan.starts {
        let is_shared = |unit: UnitId| view.index().cores_used(unit) > 0;
        let cap_of = |part: &Part, unit: UnitId| if is_shared(unit) { requested(unit) } else { part.cap };
        let placement = recapped(&start.placement, cap_of);
        if placement == start.placement {
            continue;
        }
        let job = view.job(start.job);
        if let Some((power, _)) = job.and_then(|job| expected(view, job, &placement)) {
            start.estimate = Estimate { power, energy: power * start.estimate.duration, ..start.estimate };
            start.placement = placement;
        }
    }
}
