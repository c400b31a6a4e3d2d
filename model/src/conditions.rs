//! What must be so before a job may run at all, as its user asked for it. Whether it is so is not decided here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::time::Time;

/// All of them must be met. Most jobs have none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// Not before somebody releases it.
    pub hold: bool,
    /// Not before then.
    pub begin: Option<Time>,
    /// On jobs that were not over when it was handed in.
    pub dependencies: Vec<Dependency>,
    /// Not while an earlier job of the same user and the same name is not over.
    pub singleton: bool,
}

/// Something that must become of another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dependency {
    /// What must become of it.
    pub condition: Condition,
    /// The other job.
    pub job: JobId,
}

/// What must become of it, in the words of `sbatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It has begun, or is over without that.
    After,
    /// It is over.
    AfterAny,
    /// It ended with exit code 0, by itself.
    AfterOk,
    /// It ended otherwise.
    AfterNotOk,
}

impl Condition {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::After, Self::AfterAny, Self::AfterOk, Self::AfterNotOk];

    /// As it is typed before the colon of `lrun -d`.
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

/// As it is typed: `afterok:12`.
impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.condition, self.job)
    }
}
