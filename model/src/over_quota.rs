//! What of a quota stands against a job, with the numbers.

use crate::{Energy, JobId, Span, Time, Window};
use serde::{Deserialize, Serialize};

/// Which limit of its user's quota a job waits for: what it needs, what the user has, and the most that there may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum OverQuota {
    /// So many of the user's jobs run or may start.
    Jobs { has: u32, most: u32 },
    /// Those have so many cores.
    Cores { needs: u32, has: u64, most: u32 },
    /// So much was used in the day, week or month that ends then, or is expected of those jobs.
    Energy { needs: Energy, has: Energy, most: Energy, window: Window, until: Time },
    /// There is room, but not for the job before it.
    Turn { job: JobId },
}

impl OverQuota {
    /// When what was used no longer counts.
    pub fn until(&self) -> Option<Time> {
        match self {
            Self::Energy { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// The same with its time later by `by`.
    pub fn moved(self, by: Span) -> Self {
        match self {
            Self::Energy { needs, has, most, window, until } => {
                Self::Energy { needs, has, most, window, until: until.moved(by) }
            }
            other @ (Self::Jobs { .. } | Self::Cores { .. } | Self::Turn { .. }) => other,
        }
    }

    /// As people read it; `until` is shown where it is given.
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
