//! Where a job could run: what the master tells of a job that waits, and of one that was not submitted yet.

use limo_model::{Band, Estimate, Mode, Money, Power, Price, Wait};
use serde::{Deserialize, Serialize};

use crate::report::JobReport;

/// Where a waiting job could go and what speaks against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub job: JobReport,
    pub mode: Mode,
    pub price: Option<Price>,
    pub draw: Power,
    pub band: Band,
    /// At most [`CANDIDATES_LIMIT`].
    pub candidates: Vec<Candidate>,
    /// How many candidates there are beside these.
    pub more: u32,
}

/// Candidates that are told in one answer.
pub const CANDIDATES_LIMIT: usize = 1_000;

/// One unit that could run a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub node: String,
    pub unit: String,
    pub hardware: String,
    pub cap: Option<Power>,
    pub estimate: Estimate,
    /// Source of the estimate, in words.
    pub origin: String,
    /// At the prices known for its duration, if it started now.
    pub cost: Option<Money>,
    /// What else a start now is weighed by: the time until its end, and what it lifts the draw towards the lower limit.
    pub waiting: Money,
    pub band: Money,
    /// What stands against starting here now; `None` where nothing does.
    pub obstacle: Option<Wait>,
}

/// The answer to `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRun {
    /// Where it would start now, or
    pub start: Option<Candidate>,
    /// why it would wait.
    pub wait: Option<Wait>,
    /// At most [`CANDIDATES_LIMIT`].
    pub candidates: Vec<Candidate>,
    /// How many candidates there are beside these.
    pub more: u32,
}
