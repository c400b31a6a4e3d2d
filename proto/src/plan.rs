//! The future of the cluster as its master knows it: limits, prices, and the starts that the policy plans.

use limo_model::{Band, JobId, Price, Span, Time};
use serde::{Deserialize, Serialize};

use crate::bound::clip;

/// Most steps of a curve in a [`PlanReport`]. Later ones are left out.
pub const STEPS_LIMIT: usize = 2_000;

/// Most starts in a [`PlanReport`].
pub const STARTS_LIMIT: usize = 1_000;

/// Asks for limits and prices in `[from, until)`, and for the starts that the policy plans now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanQuery {
    /// Begin of the time.
    pub from: Time,
    /// Exclusive end of the time.
    pub until: Time,
}

/// The answer to a [`PlanQuery`]. A value of a curve holds until the next step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanReport {
    /// Limits of the draw; empty if none were ever set.
    pub limits: Vec<(Time, Band)>,
    /// Prices; `None` where none is known.
    pub prices: Vec<(Time, Option<Price>)>,
    /// Planned starts by time.
    pub starts: Vec<PlannedJob>,
    /// Number of planned starts that are left out.
    pub more: u32,
}

/// A waiting job whose start is planned. The next round may plan it otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedJob {
    /// Number of the job.
    pub job: JobId,
    /// Its user.
    pub user: String,
    /// Its name.
    pub name: String,
    /// Time of the start.
    pub at: Time,
    /// Longest run, if limited.
    pub time_limit: Option<Span>,
    /// Its nodes, such as `n[1-3]`, or their number.
    #[serde(serialize_with = "clip::<_, 256>")]
    pub place: String,
}
