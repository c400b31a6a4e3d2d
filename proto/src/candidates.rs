//! Places where a job could run: the master's answer about a waiting job, or about one that was not submitted yet.

use limo_model::{Band, Estimate, Mode, Money, Power, Price, Time, Wait};
use serde::{Deserialize, Serialize};

use crate::report::JobReport;

/// The places for a waiting job, and their obstacles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The waiting job.
    pub job: JobReport,
    /// The mode in force.
    pub mode: Mode,
    /// The price in force, if one is known.
    pub price: Option<Price>,
    /// The believed draw of the cluster.
    pub draw: Power,
    /// The limits in force.
    pub band: Band,
    /// Candidates, at most [`CANDIDATES_LIMIT`].
    pub candidates: Vec<Candidate>,
    /// Number of omitted candidates.
    pub more: u32,
    /// The start that the policy plans for the job, if it plans one.
    pub planned: Option<Planned>,
}

/// A planned start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Its time.
    pub at: Time,
    /// Its nodes, such as `n[1-3]`, or their number; at most 4 KiB.
    pub place: String,
}

/// Most candidates in one answer.
pub const CANDIDATES_LIMIT: usize = 1_000;

/// A unit that could run a job.
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
    /// The expected run of the job there, above idle.
    pub estimate: Estimate,
    /// Source of the estimate, in words.
    pub origin: String,
    /// Cost at the known prices for its duration, if it started now.
    pub cost: Option<Money>,
    /// Value of the time until the job's end, which is added to the cost.
    pub waiting: Money,
    /// Value of the effect on the band: zero, or less if the job lifts the draw towards the lower limit.
    pub band: Money,
    /// The obstacle to an immediate start here; `None` without one.
    pub obstacle: Option<Wait>,
}

/// The answer to `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRun {
    /// Candidate for an immediate start.
    pub start: Option<Candidate>,
    /// Reason if the job would wait.
    pub wait: Option<Wait>,
    /// Candidates, at most [`CANDIDATES_LIMIT`].
    pub candidates: Vec<Candidate>,
    /// Number of candidates that were left out.
    pub more: u32,
}
