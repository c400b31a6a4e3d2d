//! Reports of suspended jobs.

use std::fmt;

use limo_model::{Power, Time};
use serde::{Deserialize, Serialize};

/// Causes for which a job is suspended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// Start of the suspension.
    pub since: Time,
    /// The person who suspended it, if any.
    pub by: Option<String>,
    /// The upper limit in force, if it leaves no room for the job.
    pub limit: Option<Power>,
    /// True if the owner of a node of it is there.
    pub owner: bool,
}

impl fmt::Display for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("suspended")?;
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        let (owner, gap) = if self.owner { (": the owner of a node is there", ",") } else { ("", ":") };
        match self.limit {
            None => f.write_str(owner),
            Some(limit) if limit.is_unlimited() => write!(f, "{owner}{gap} the upper limit"),
            Some(limit) => write!(f, "{owner}{gap} the upper limit {limit}"),
        }
    }
}
