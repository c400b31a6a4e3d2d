//! Steps: commands that run in the allocation of a running job.

use serde::{Deserialize, Serialize};

use crate::JobId;

/// Most steps of one job that are not over.
pub const STEPS_LIMIT: usize = 10_000;

/// The place of a step in its job. A step has a job number of its own; users know it as `JOB.STEP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// The job in whose allocation it runs.
    pub of: JobId,
    /// Number among the steps of its job, from 0. The master sets it.
    pub number: u32,
    /// True if it shares the cores, the memory and the accelerators of its job with other steps.
    pub overlap: bool,
}

/// Returns the job and the number of a step that is named as `JOB.STEP`; `None` for another text.
pub fn parse_step(text: &str) -> Option<(JobId, u32)> {
    let (job, number) = text.split_once('.')?;
    Some((JobId(job.parse().ok()?), number.parse().ok()?))
}
