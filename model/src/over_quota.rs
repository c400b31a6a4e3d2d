//! The limit of a quota that keeps a job waiting, with numbers.

use crate::{Energy, JobId, Span, Time, Window};
use serde::{Deserialize, Serialize};

/// The limit of the user's quota for which a job waits: the need of the job, the present use, and the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum OverQuota {
    /// Number of the user's jobs that run or may start.
    Jobs { has: u32, most: u32 },
    /// Cores of those jobs.
    Cores { needs: u32, has: u64, most: u32 },
    /// Energy that was used in the present day, week or month, plus the expected energy of those jobs.
    Energy { needs: Energy, has: Energy, most: Energy, window: Window, until: Time },
    /// The quota is not exhausted, but the job before this one comes first.
    Turn { job: JobId },
}

impl OverQuota {
    /// Returns the end of the window, when its use no longer counts.
    pub fn until(&self) -> Option<Time> {
        match self {
            Self::Energy { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Returns the limit with its time moved later by `by`.
    pub fn moved(self, by: Span) -> Self {
        match self {
            Self::Energy { needs, has, most, window, until } => {
                Self::Energy { needs, has, most, window, until: until.moved(by) }
            }
            other @ (Self::Jobs { .. } | Self::Cores { .. } | Self::Turn { .. }) => other,
        }
    }

    /// Formats the limit; shows `until` if given.
    pub fn shown(&self, until: Option<String>) -> String {
        match self {
            Self::Jobs { has, most } => format!("{has} of {most} jobs run or may start"),
            Self::Cores { needs, has, most } => {
                format!("needs {needs} cores, jobs that run or may start have {has} of {most}")
            }
            Self::Energy { needs, has, most, window, .. } => {
                let until = until.map(|until| format!(", which ends at {until}")).unwrap_or_default();
                format!("needs {needs}, {has} of {most} are used or expected in the {window}{until}")
            }
            Self::Turn { job } => format!("job {job} of the same user is before it"),
        }
    }
}
