//! The expected time and draw of a job under the orders that use walltimes.

use limo_model::{Estimate, Placement, Power, UnitKind};

use crate::facts::{Known, chunks_in, wants_host_cores};
use crate::policy::placement::least_room;
use crate::state::Job;
use crate::view::View;

/// Returns the estimate of a job on a placement: its walltime after the time to wake its nodes. The draw is the sum
/// over its nodes.
pub(super) fn estimate(view: &View<'_>, job: &Job, placement: &Placement) -> Estimate {
    let (known, classes) = (Known::of(view.state()), &view.index().classes);
    let mut power = Power::ZERO;
    let (mut source, mut runs) = (limo_model::EstimateSource::Nameplate, 0);
    let mut last: Option<((usize, u16, u32), Power)> = None;
    for part in placement {
        // Adjacent parts usually have one class.
        let class = classes.place_of(part.unit.node).map_or(usize::MAX, |(class, _)| class);
        let key = (class, part.unit.unit, part.cores);
        let each = match last {
            Some((known, each)) if known == key => each,
            _ => {
                let Some((_, unit)) = view.unit(part.unit) else { continue };
                let estimate = crate::facts::estimate(known, &job.request, unit);
                // Cores beside accelerators are the last of the parts.
                if !(wants_host_cores(&job.request) && unit.kind == UnitKind::Cpu) {
                    (source, runs) = (estimate.source, estimate.runs);
                }
                let power = estimate.times(chunks_in(&job.request, unit, part) as usize).power;
                last = Some((key, power));
                power
            }
        };
        power += Power::from_mw(each.mw().saturating_mul(i64::from(part.count)));
    }
    let walltime = job.request.time_limit.unwrap_or(view.options().default_duration);
    let duration = walltime + least_room::waking(view, placement);
    Estimate { duration, power, energy: power * duration, source, runs }
}
