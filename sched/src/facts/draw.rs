//! Draw of running jobs under caps other than the present ones.

use limo_model::{Estimate, EstimateSource, NodeId, Part, Power, Request, Span, UnitId, UnitSpec, width};

use super::chunks::{chunks_in, divided};
use super::estimate::{Known, margin, under_cap};
use super::fits::allows_unit;
use crate::state::{Assignment, Job, Node, Sleep, State};

/// Returns the largest additional draw of a sleeping node when it is woken, without jobs. It is zero for a node that
/// is awake or waking.
pub(crate) fn waking_draw(node: &Node) -> Power {
    let rest = node.spec.rest().filter(|_| node.sleep == Sleep::Asleep);
    rest.map_or(Power::ZERO, |rest| (rest.up.draw.max(node.spec.idle) - rest.draw).at_least_zero())
}

/// Returns the expected draw and duration of a job with its unit at `cap`: its estimate, with the factor of the unit,
/// corrected by readings.
pub(crate) fn expected(
    state: &State,
    job: &Job,
    (request, part): (&Request, &Part),
    cap: Option<Power>,
) -> Option<Estimate> {
    let typical = typical(state, job, (request, part), cap)?;
    Some(state.variation.of(&request.application).factor(part.unit, cap).of_estimate(typical))
}

/// Returns the same for a typical unit.
fn typical(state: &State, job: &Job, (request, part): (&Request, &Part), cap: Option<Power>) -> Option<Estimate> {
    let measured = measured(job, part.unit);
    let unit = state.unit(part.unit)?;
    let chunks = chunks_in(request, unit, part);
    Some(under_cap(Known::of(state), request, unit, (cap, measured)).times(chunks as usize))
}

/// Returns the draw of a job on a unit by readings, in thousandths of the expected one.
fn measured(job: &Job, unit: UnitId) -> i64 {
    job.running().map_or(1_000, |running| running.measured(unit.node))
}

/// Returns the draw of an active job on a node with each of its units there at the cap from `cap_of`, as if it were not
/// suspended.
pub(crate) fn draw_at(
    state: &State,
    job: &Job,
    node: NodeId,
    cap_of: impl Fn(UnitId) -> Option<Power>,
) -> Option<Power> {
    let here = job.assignment()?.placement.iter().filter(|part| part.is_on(node));
    let of_part = |part: &Part| {
        let part = Part { unit: UnitId { node, ..part.unit }, count: 1, ..*part };
        Some(expected(state, job, (&job.request, &part), cap_of(part.unit))?.power)
    };
    here.map(of_part).sum()
}

/// The expected draw of an active job over all of its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub draw: Power,
    /// The draw of each unit, in the order of the placement; set even for an even division.
    pub shares: Vec<Power>,
    /// Expected duration of its slowest part, not its time limit. Cores beside accelerators do not count.
    pub duration: Span,
}

impl Expected {
    /// Returns the draw of each unit of the job, in the order of its placement.
    pub fn by_unit(&self, assignment: &Assignment) -> impl Iterator<Item = Power> {
        let units = width(&assignment.placement).max(1);
        let even = self.draw.scaled(1, units.into());
        (0..units as usize).map(move |unit| self.shares.get(unit).copied().unwrap_or(even))
    }
}

/// Returns the draw and duration of an active job, as if it were not suspended, with each of its units at the cap
/// from `cap_of`. Parts that wait for the slowest one continue to draw power.
pub(crate) fn expected_of_units(
    state: &State,
    job: &Job,
    mut cap_of: impl FnMut(UnitId) -> Option<Power>,
) -> Option<Expected> {
    let assignment = job.assignment()?;
    // Readings that correct single units change the division of the draw at the start.
    let mut as_started = job.running().is_none_or(|running| running.measured_on.is_empty());
    let units = assignment.units().map(|(id, part)| {
        let cap = cap_of(id);
        as_started &= cap == part.cap;
        ((id, part), cap)
    });
    let (shares, duration) = by_unit(state, job, units)?;
    if assignment.sole_part().is_some() {
        return Some(Expected { draw: shares.into_iter().sum(), shares: Vec::new(), duration });
    }
    Some(match as_started {
        true => {
            let draw = assignment.estimate.power;
            Expected {
                draw,
                shares: if is_even(state, &job.request) { Vec::new() } else { divided(draw, &shares) },
                duration,
            }
        }
        false => Expected { draw: shares.iter().copied().sum(), shares, duration },
    })
}

/// The estimate of a job on a unit without the unit's factors.
struct KnownUnit<'a> {
    unit: &'a UnitSpec,
    cap: Option<Power>,
    /// Cores of the job, and what measurements say of its draw.
    of: (u32, i64),
    estimate: Estimate,
}

/// Returns the expected draw of a job on each of these units, with the unit at a cap, and the duration of its slowest
/// part, not its time limit. Cores beside accelerators do not count.
pub(crate) fn by_unit<'a>(
    state: &State,
    job: &Job,
    units: impl Iterator<Item = ((UnitId, &'a Part), Option<Power>)>,
) -> Option<(Vec<Power>, Span)> {
    let request = Request { time_limit: None, ..Request::clone(&job.request) };
    let factors = state.variation.of(&request.application);
    let (mut shares, mut duration) = (Vec::new(), Span::ZERO);
    // Adjacent parts are usually equal.
    let mut last: Option<KnownUnit<'_>> = None;
    for ((id, part), cap) in units {
        let unit = state.unit(id)?;
        let of = (part.cores, measured(job, id));
        let each = match last {
            Some(last) if last.cap == cap && last.of == of && last.unit == unit => last.estimate,
            _ => {
                let part = Part { unit: id, ..*part };
                let span = match allows_unit(&request, unit) {
                    true => typical(state, job, (&request, &part), cap)?.duration,
                    false => Span::ZERO,
                };
                Estimate { duration: span, ..typical(state, job, (&job.request, &part), cap)? }
            }
        };
        last = Some(KnownUnit { unit, cap, of, estimate: each });
        let each = factors.factor(id, cap).of_estimate(each);
        duration = duration.max(each.duration);
        shares.push(each.power);
    }
    Some((shares, duration))
}

/// Returns the time by which its caps delay a job on a placement that would take `span` without them.
pub(crate) fn delay_by_caps(state: &State, job: &Job, placement: &[Part], span: Span) -> Span {
    let units = || placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)));
    let capped = by_unit(state, job, units().map(|(unit, part)| ((unit, part), part.cap)));
    let free = by_unit(state, job, units().map(|of| (of, None)));
    let Some(((_, capped), (_, free))) = capped.zip(free) else { return Span::ZERO };
    longer(span, (capped, free))
}

/// Returns the time that is added to `span` if a job takes the first duration in place of the second one.
fn longer(span: Span, (capped, free): (Span, Span)) -> Span {
    (span.scaled(capped.ms(), free.ms().max(1)) - span).max(Span::ZERO)
}

/// Returns the draw of a start under the present caps of its units, the draw of each unit, and the time by which these
/// caps delay a job that would take `span` at the caps of its placement. `None` if they are the same.
pub(crate) fn under_present_caps(
    state: &State,
    job: &Job,
    placement: &[Part],
    span: Span,
) -> Option<(Power, Vec<Power>, Span)> {
    let units = || placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)));
    let present = |unit: UnitId| state.node(unit.node)?.cap(unit.unit);
    if units().all(|(unit, part)| present(unit) == part.cap) {
        return None;
    }
    let (shares, capped) = by_unit(state, job, units().map(|of| (of, present(of.0))))?;
    let (_, free) = by_unit(state, job, units().map(|(unit, part)| ((unit, part), part.cap)))?;
    let draw = shares.iter().copied().sum();
    let is_on_one = matches!(placement, [part] if part.count == 1);
    Some((draw, if is_on_one { Vec::new() } else { shares }, longer(span, (capped, free))))
}

/// Returns the margin of its prediction that the estimate of a start contains; zero if caps, factors
/// or another number of nodes change that.
pub(crate) fn margin_at_start(state: &State, job: &Job, (placement, estimate): (&[Part], &Estimate)) -> Power {
    let is_capped = placement.iter().any(|part| part.cap.is_some());
    let changes = is_capped || job.request.malleable || !state.variation.is_empty();
    if estimate.source != EstimateSource::Predicted || changes {
        return Power::ZERO;
    }
    let of_part = |part: &Part| {
        let unit = state.unit(part.unit)?;
        let margin = margin(Known::of(state), &job.request, unit);
        Some(margin.scaled(i64::from(part.count) * i64::from(chunks_in(&job.request, unit, part)), 1))
    };
    placement.iter().filter_map(of_part).sum::<Power>().min(estimate.power)
}

/// Returns the division of a job's draw at its start among its units, in the order of its placement; empty for an even
/// one.
pub(crate) fn shares_at_start(state: &State, job: &Job, placement: &[Part], draw: Power) -> Vec<Power> {
    let is_on_one = matches!(placement, [part] if part.count == 1);
    if is_even(state, &job.request) || is_on_one {
        return Vec::new();
    }
    let factors = state.variation.of(&job.request.application);
    // The nodes of a part have equal units.
    let weights = placement.iter().flat_map(|part| {
        let typical = typical(state, job, (&job.request, part), part.cap).map_or(Power::ZERO, |of| of.power);
        part.units().map(move |unit| factors.factor(unit, part.cap).of_power(typical))
    });
    let weights: Vec<Power> = weights.collect();
    divided(draw, &weights)
}

/// Returns true if each unit of a job draws the same.
fn is_even(state: &State, request: &Request) -> bool {
    !request.is_packed() && state.variation.is_empty()
}

/// Returns the draw of an active job under the present caps of its units, as if it were not suspended.
pub(crate) fn draw_if_on(state: &State, job: &Job) -> Power {
    let cap_of = |unit: UnitId| state.node(unit.node)?.cap(unit.unit);
    let expected = expected_of_units(state, job, cap_of).map(|expected| expected.draw);
    expected.or_else(|| Some(job.assignment()?.estimate.power)).unwrap_or_default()
}
