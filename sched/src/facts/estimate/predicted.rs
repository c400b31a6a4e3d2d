//! Estimates from predictions, which a job has from its submission on.
//!
//! The draw that counts against limits is a quantile of the job's own prediction. With `margin=sum`, jobs on nodes count
//! with a part of its distance from the mean.
//! The energy is that of the predicted mean. A predicted duration is only shown: time limits bound jobs, as for the
//! nameplate.

use limo_model::{Confidence, Estimate, EstimateSource, Power, Predicted, Request, UnitSpec};

use super::{Known, nameplate};
use crate::facts::cores_on;

/// Returns the job's prediction for this type of unit.
fn on<'r>(request: &'r Request, unit: &UnitSpec) -> Option<&'r Predicted> {
    let cores = cores_on(request, unit);
    request.predicted.iter().find(|of| of.hardware == unit.hardware && of.cores == cores)
}

/// Returns the draw that is not exceeded with this confidence. The distance of the 90 % quantile from the mean is
/// measured, and others are in proportion to it as those of a normal variable. No unit draws more than its nameplate.
fn quantile(of: &Predicted, confidence: Confidence, unit: &UnitSpec) -> Power {
    let mut margin = (of.high - of.mean).at_least_zero();
    if !confidence.is_ninety() {
        let factor = confidence.deviations() / Confidence::NINETY.deviations();
        margin = Power::from_mw(libm::round(margin.mw() as f64 * factor) as i64);
    }
    (of.mean + margin).min(unit.nameplate)
}

pub(super) fn estimate(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Option<Estimate> {
    let of = on(request, unit)?;
    let usual = nameplate(known, request, unit);
    let energy = of.mean.min(unit.nameplate) * usual.duration;
    let power = quantile(of, known.confidence, unit);
    Some(Estimate { power, energy, source: EstimateSource::Predicted, ..usual })
}

/// Returns the margin of a prediction above its mean; zero without a prediction.
pub(in crate::facts) fn margin(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Power {
    let margin = on(request, unit).map(|of| quantile(of, known.confidence, unit) - of.mean.min(unit.nameplate));
    margin.unwrap_or_default()
}

/// Describes the source of an estimate without a profile.
pub(super) fn origin(known: Known<'_>, request: &Request, unit: &UnitSpec) -> String {
    let Some(of) = on(request, unit) else { return format!("nameplate of {}", unit.hardware) };
    let Predicted { model, mean, deviation, duration, .. } = of;
    let (high, confidence) = (quantile(of, known.confidence, unit), known.confidence);
    format!(
        "predicted by model {model}: {mean}, deviation {deviation}, at most {high} with confidence {confidence}; {duration}"
    )
}
