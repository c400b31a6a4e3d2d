//! What running jobs would draw under other caps than now.

use limo_model::{Estimate, Part, Power, Request};

use super::estimate::{Known, under_cap};
use crate::state::{Job, State};

/// What a job with that request is expected to do with its unit at `cap`: by its estimate, corrected by readings.
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

/// What an active job on one unit would draw with that unit at `cap`, if it went on.
pub(crate) fn draw_at(state: &State, job: &Job, cap: Option<Power>) -> Option<Power> {
    Some(expected(state, job, (&job.request, job.assignment()?.sole_part()?), cap)?.power)
}

/// What an active job draws, or would draw if it were not suspended, under the cap that its unit has.
pub(crate) fn draw_if_on(state: &State, job: &Job) -> Power {
    let Some(assignment) = job.assignment() else { return Power::ZERO };
    let cap = assignment.sole_part().and_then(|part| state.node(part.unit.node)?.cap(part.unit.unit));
    draw_at(state, job, cap).unwrap_or(assignment.estimate.power)
}
