//! Draw of running jobs under caps other than the present ones.

use limo_model::{Estimate, Part, Power, Request};

use super::estimate::{Known, under_cap};
use crate::state::{Job, State};

/// Expected draw and duration of a job with its unit at `cap`: its estimate, corrected by readings.
pub(crate) fn expected(
    state: &State,
    job: &Job,
    (request, part): (&Request, &Part),
    cap: Option<Power>,
) -> Option<Estimate> {
    let measured = job.running().map_or(1_000, |running| running.measured_permille);
    let unit = state.node(part.unit.node)?.spec.units.get(usize::from(part.unit.unit))?;
    Some(under_cap(Known::of(state), request, unit, (cap, measured)))
}

/// Draw of an active job on one unit with that unit at `cap`, if the job is not suspended.
pub(crate) fn draw_at(state: &State, job: &Job, cap: Option<Power>) -> Option<Power> {
    Some(expected(state, job, (&job.request, job.assignment()?.sole_part()?), cap)?.power)
}

/// Draw of an active job under the present cap of its unit, as if it were not suspended.
pub(crate) fn draw_if_on(state: &State, job: &Job) -> Power {
    let Some(assignment) = job.assignment() else { return Power::ZERO };
    let cap = assignment.sole_part().and_then(|part| state.node(part.unit.node)?.cap(part.unit.unit));
    draw_at(state, job, cap).unwrap_or(assignment.estimate.power)
}
