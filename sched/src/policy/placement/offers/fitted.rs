//! A candidate at a cap at which the job draws a requested power, with or without a profile at that cap. The order
//! part of the policy decides about the time.

use limo_model::{Estimate, Power, Request};

use super::{Offer, Source};
use crate::facts::{Known, under_cap};
use crate::view::View;

impl Offer {
    /// Returns the same candidate with a cap at which the job draws `power`, or the lowest that the unit obeys.
    /// Returns `None` if the unit cannot be capped, has jobs, or the job would not draw less.
    pub fn fitted(&self, view: &View<'_>, request: &Request, power: Power) -> Option<Self> {
        let [source] = &self.sources[..] else { return None };
        let can_be = source.kind.obeys && source.kind.shared.is_none() && self.cap.is_none();
        if !can_be || self.nodes != 1 || !source.is_single {
            return None;
        }
        let unit = view.index().classes.class(source.kind.class).units.get(usize::from(source.kind.unit))?;
        let (lowest, highest) = unit.caps?;
        // The job has its share of the cap, rounded down.
        let whole = power.mw().saturating_mul(i64::from(source.total)) / i64::from(source.cores.max(1));
        let cap = Power::from_mw(whole.saturating_add(1)).max(lowest).min(highest);
        let each = under_cap(Known::of(view.state()), request, unit, (Some(cap), 1_000));
        let sources = vec![Source { each, ..source.clone() }];
        // Among equal candidates, those without a cap come first.
        (each.power < self.estimate.power).then(|| Self {
            sources,
            cap: Some(cap),
            rank: usize::MAX,
            estimate: Estimate { duration: each.duration + self.wake, ..each },
            ..self.clone()
        })
    }
}
