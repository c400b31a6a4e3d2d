//! The number of a job as tables show it: `7`, `12_3` for a task, `12_[4-9%2]` for what waits of an array.

use limo_proto::JobReport;

/// The number of a job, a task or an array, as it can be typed where jobs are named, but for the brackets.
pub fn job_label(job: &JobReport) -> String {
    match (&job.task, job.array.as_ref().and_then(|array| array.waiting.as_ref())) {
        (Some((array, task)), _) => format!("{array}_{task}"),
        (None, Some(waiting)) => format!("{}_[{waiting}]", job.job),
        (None, None) => job.job.to_string(),
    }
}
