//! The search of the order `program` between two rounds.

use limo_model::JobId;
use serde::{Deserialize, Serialize};

/// The best list of the waiting jobs so far, and the place at which the search for a better one stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Program {
    pub best: Vec<JobId>,
    /// The list that the search changes; empty if it is the best one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<JobId>,
    /// Lists tried in the present round of annealing, and those that it tries in all.
    pub turn: u32,
    pub length: u32,
    /// Lists tried since the best one was found.
    pub stale: u32,
    /// Number of rounds that searched: the seed of the random moves.
    pub seed: u64,
    /// A digest of the jobs, nodes and limits for which it searches.
    pub problem: u64,
    /// The result of the last search.
    #[serde(default)]
    pub found: SearchResult,
}

/// The best list of a search beside that of LS (power-capping-2018, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SearchResult {
    /// Number of jobs in the lists.
    pub jobs: usize,
    /// Sum of the weighted waits of the best list from the time of the search on (equation 2), in ms times thousandths.
    pub cost: i64,
    /// The same of the list of LS.
    pub of_rule: i64,
}
