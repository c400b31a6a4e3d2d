//! Starts at a cap with a profile (`caps=from-profile`).
//!
//! Idea: if power or energy is not enough for a job, it starts at the highest cap for which it is enough. The cap is
//! set before the job starts, so the job counts with its profile at that cap. It keeps the cap until it ends.
//! Constraints: the job is on one unit, and the unit obeys the cap and has no other job. By the profile, the job also
//! ends before its time limit at that cap. Other jobs start only at full speed. Ignores: energy and price. A lower
//! cap may cost more energy in total.

use limo_model::{Placement, Power};

use crate::facts::{Known, Looked};
use crate::state::Job;
use crate::view::View;

/// Returns the caps at which the job could run on a placement, highest first, each with its expected draw.
pub(in crate::policy) fn caps(view: &View<'_>, job: &Job, placement: &Placement) -> Vec<(Power, Power)> {
    let [part] = &placement[..] else { return Vec::new() };
    let Some((node, unit)) = view.unit(part.unit).filter(|_| part.count == 1) else { return Vec::new() };
    let (known, request) = (Known::of(view.state()), &job.request);
    let looked = Looked::up(known, request, unit);
    let obeyed = |cap: &Power| node.cap_range(part.unit.unit).is_some_and(|(low, high)| (low..=high).contains(cap));
    let drawn = |cap: Power| {
        let factor = view.state().variation.of(&request.application).factor(part.unit, Some(cap));
        let estimate = factor.of_estimate(looked.under_cap(known, request, unit, Some(cap)));
        // A longer run is expected to end at the limit.
        let is_in_time = request.time_limit.is_none_or(|limit| estimate.duration < limit);
        is_in_time.then_some((cap, estimate.power))
    };
    looked.caps(unit).into_iter().rev().filter(obeyed).filter_map(drawn).collect()
}
