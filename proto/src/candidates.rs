//! Where a job could run: what the master tells of a job that waits, and of one that was not submitted yet.

use limo_model::{Band, Estimate, Mode, Money, Power, Price, Wait};
use serde::{Deserialize, Serialize};

use crate::report::JobReport;

/// Where a waiting job could go and what speaks against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The job that was asked about.
    pub job: JobReport,
    /// The mode in force.
    pub mode: Mode,
    /// The price in force, if one is known.
    pub price: Option<Price>,
    /// The believed draw of the cluster.
    pub draw: Power,
    /// The limits in force.
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
    /// Name of the node.
    pub node: String,
    /// Name of the unit on that node.
    pub unit: String,
    /// Type of the unit.
    pub hardware: String,
    /// The cap under which it would run; `None` without one.
    pub cap: Option<Power>,
    /// What the job is expected to do there, above idle.
    pub estimate: Estimate,
    /// Source of the estimate, in words.
    pub origin: String,
    /// At the prices known for its duration, if it started now.
    pub cost: Option<Money>,
    /// What else a start now is weighed by: the time until its end, and what it lifts the draw towards the lower limit.
    pub waiting: Money,
    /// Zero or less: less if the job lifts the draw towards the lower limit.
    pub band: Money,
    /// What stands against starting here now; `None` if nothing does.
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
