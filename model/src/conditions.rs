//! Conditions that a user sets for the start of a job. The scheduler decides if they are met.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::time::Time;

/// Conditions that must all be met. Most jobs have none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// The job waits until it is released.
    pub hold: bool,
    /// The job starts at this time or later.
    pub begin: Option<Time>,
    /// The job depends on other jobs that were unfinished at its submission.
    pub dependencies: Vec<Dependency>,
    /// The job waits until all earlier jobs of the same user and name are over.
    pub singleton: bool,
}

/// A condition on another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dependency {
    /// The required state of the other job.
    pub condition: Condition,
    /// The other job.
    pub job: JobId,
}

/// The required state of another job, named as by `sbatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The other job has begun, or is over without having begun.
    After,
    /// The other job is over.
    AfterAny,
    /// The other job ended with exit code 0, by itself.
    AfterOk,
    /// The other job ended in any other way.
    AfterNotOk,
}

impl Condition {
    /// All conditions, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::After, Self::AfterAny, Self::AfterOk, Self::AfterNotOk];

    /// Returns the word before the colon of `lrun -d`.
    pub fn name(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::AfterAny => "afterany",
            Self::AfterOk => "afterok",
            Self::AfterNotOk => "afternotok",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Formats the dependency as typed: `afterok:12`.
impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.condition, self.job)
    }
}
