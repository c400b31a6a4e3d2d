//! The expected time and draw of a job on the nodes that it gets.

use limo_model::{Estimate, Placement, Power, Span, UnitKind};

use crate::facts::{Known, chunks_in, wants_host_cores};
use crate::policy::placement::least_room;
use crate::state::Job;
use crate::view::View;

/// Returns the estimate of a job on a placement, under the orders that use walltimes: its walltime after the time to wake
/// its nodes. The draw is the sum over its nodes.
pub(super) fn estimate(view: &View<'_>, job: &Job, placement: &Placement) -> Estimate {
    let expected = expected(view, job, placement);
    let walltime = job.request.time_limit.unwrap_or(view.options().default_duration);
    let duration = walltime + least_room::waking(view, placement);
    Estimate { duration, energy: expected.power * duration, ..expected }
}

/// Returns the estimate of a job on a placement: the sum of the draws of its nodes, until the slowest one has finished
/// after the time to wake them (heterogeneity paper, equations 2 to 5).
pub(super) fn slowest(view: &View<'_>, job: &Job, placement: &Placement) -> Estimate {
    let expected = expected(view, job, placement);
    let duration = expected.duration + least_room::waking(view, placement);
    Estimate { duration, energy: expected.power * duration, ..expected }
}

/// Returns the sum of the draws, and the duration of the slowest part on awake nodes.
fn expected(view: &View<'_>, job: &Job, placement: &Placement) -> Estimate {
    let (known, classes) = (Known::of(view.state()), &view.index().classes);
    let variation = &view.state().variation;
    let factors = (!variation.is_empty()).then(|| variation.of(&job.request.application));
    let (mut power, mut duration) = (Power::ZERO, Span::ZERO);
    let (mut source, mut runs) = (limo_model::EstimateSource::Nameplate, 0);
    let mut last: Option<((usize, u16, u32), Estimate)> = None;
    for part in placement {
        // Adjacent parts usually have one class.
        let class = classes.place_of(part.unit.node).map_or(usize::MAX, |(class, _)| class);
        let key = (class, part.unit.unit, part.cores);
        let each = match last {
            Some((known, each)) if known == key => each,
            _ => {
                let Some((_, unit)) = view.unit(part.unit) else { continue };
                let estimate = crate::facts::estimate(known, &job.request, unit);
                let mut each = estimate.times(chunks_in(&job.request, unit, part) as usize);
                // Cores beside accelerators are the last of the parts.
                match wants_host_cores(&job.request) && unit.kind == UnitKind::Cpu {
                    true => each.duration = Span::ZERO,
                    false => (source, runs) = (estimate.source, estimate.runs),
                }
                last = Some((key, each));
                each
            }
        };
        match factors {
            None => {
                power += Power::from_mw(each.power.mw().saturating_mul(i64::from(part.count)));
                duration = duration.max(each.duration);
            }
            Some(factors) => {
                for factor in part.units().map(|unit| factors.factor(unit, part.cap)) {
                    power += factor.of_power(each.power);
                    duration = duration.max(factor.of_span(each.duration));
                }
            }
        }
    }
    let duration = job.request.time_limit.map_or(duration, |limit| limit.min(duration));
    Estimate { duration, power, energy: power * duration, source, runs }
}
