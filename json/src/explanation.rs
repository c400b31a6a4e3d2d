//! The reason why a job waits, and the places where it could run, as JSON.

use limo_model::Currency;
use limo_proto::Explanation;
use serde::Serialize;

use crate::{CandidateJson, Clock, JobJson};

/// A waiting job with its candidates.
#[derive(Debug, Serialize)]
pub struct ExplanationJson {
    schema: u32,
    job: JobJson,
    mode: String,
    currency: Currency,
    price_per_mwh: Option<f64>,
    draw_w: f64,
    /// Lower limit; `null` if there is none.
    band_low_w: Option<f64>,
    /// Upper limit; `null` if there is none.
    band_high_w: Option<f64>,
    candidates: Vec<CandidateJson>,
    /// Number of further candidates.
    candidates_left_out: u32,
    /// The start that the policy plans; `null` if it plans none.
    planned_start_unix_ms: Option<i64>,
    /// Nodes of the planned start, or their number.
    planned_on: Option<String>,
}

impl ExplanationJson {
    /// Converts an explanation. `clock` formats the times in reasons.
    pub fn new(explanation: &Explanation, clock: &Clock) -> Self {
        let band = explanation.band;
        Self {
            schema: super::SCHEMA,
            job: JobJson::new(&explanation.job, clock),
            mode: explanation.mode.to_string(),
            currency: Currency::agreed(),
            price_per_mwh: explanation.price.map(|price| price.per_mwh()),
            draw_w: explanation.draw.watts(),
            band_low_w: (!band.low().is_zero()).then(|| band.low().watts()),
            band_high_w: (!band.high().is_unlimited()).then(|| band.high().watts()),
            candidates: explanation.candidates.iter().map(|candidate| CandidateJson::new(candidate, clock)).collect(),
            candidates_left_out: explanation.more,
            planned_start_unix_ms: explanation.planned.as_ref().map(|planned| planned.at.unix_ms()),
            planned_on: explanation.planned.as_ref().map(|planned| planned.place.clone()),
        }
    }
}
