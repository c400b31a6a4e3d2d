//! Estimates of a job on a unit as JSON.

use limo_model::Estimate;
use limo_proto::Candidate;
use serde::Serialize;

use crate::clock::Clock;

/// Expected duration and draw of a job.
#[derive(Debug, Serialize)]
pub struct EstimateJson {
    duration_s: f64,
    /// Draw above idle.
    power_w: f64,
    energy_j: f64,
    /// `learned`, `imported` or `nameplate`.
    source: String,
    runs: u32,
}

impl From<&Estimate> for EstimateJson {
    fn from(estimate: &Estimate) -> Self {
        Self {
            duration_s: estimate.duration.secs(),
            power_w: estimate.power.watts(),
            energy_j: estimate.energy.joules(),
            source: estimate.source.to_string(),
            runs: estimate.runs,
        }
    }
}

/// Unit on which a job could run.
#[derive(Debug, Serialize)]
pub struct CandidateJson {
    node: String,
    unit: String,
    hardware: String,
    cap_w: Option<f64>,
    estimate: EstimateJson,
    /// Source of the estimate, in words.
    estimate_from: String,
    cost: Option<f64>,
    waiting_cost: f64,
    band_cost: f64,
    obstacle: Option<String>,
}

impl CandidateJson {
    /// Converts a candidate. `clock` formats times in the obstacle to a start there.
    pub fn new(candidate: &Candidate, clock: &Clock) -> Self {
        Self {
            node: candidate.node.clone(),
            unit: candidate.unit.clone(),
            hardware: candidate.hardware.clone(),
            cap_w: candidate.cap.map(|cap| cap.watts()),
            estimate: (&candidate.estimate).into(),
            estimate_from: candidate.origin.clone(),
            cost: candidate.cost.map(|cost| cost.whole()),
            waiting_cost: candidate.waiting.whole(),
            band_cost: candidate.band.whole(),
            obstacle: candidate.obstacle.as_ref().map(|wait| wait.shown(|time| clock.show(time)).to_string()),
        }
    }
}
