//! Formats the number of a job for tables: `7`, `12_3` for a task, `12_[4-9%2]` for the waiting tasks of an array, `7.0` for a step.

use limo_proto::JobReport;

/// Formats the number of a job, a task or an array. Without brackets it can be typed wherever a command takes a job.
pub fn job_label(job: &JobReport) -> String {
    if let Some((of, number)) = job.step {
        return format!("{of}.{number}");
    }
    match (&job.task, job.array.as_ref().and_then(|array| array.waiting.as_ref())) {
        (Some((array, task)), _) => format!("{array}_{task}"),
        (None, Some(waiting)) => format!("{}_[{waiting}]", job.job),
        (None, None) => job.job.to_string(),
    }
}
