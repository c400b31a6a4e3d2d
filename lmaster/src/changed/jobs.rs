//! Changes of jobs of other users, in words.

use limo_model::{JobId, Span};
use limo_sched::Core;

use super::{Back, Changed, changed};

/// Returns the change by an action on a job of another user.
pub(super) fn of_others(
    core: &Core,
    id: JobId,
    by: &str,
    (old, new): (&str, &str),
    back: Option<Back>,
) -> Option<Changed> {
    let job = core.job(id).filter(|job| job.request.user != by)?;
    Some(changed(&format!("job {id}"), (old, format!("{new}, of {}", job.request.user)), back))
}

pub(super) fn priority(core: &Core, job: JobId, new: i32, by: &str) -> Option<Changed> {
    let old = core.job(job)?.request.priority;
    let words = (format!("priority {old}"), format!("priority {new}"));
    of_others(core, job, by, (&words.0, &words.1), Some(Back::Priority { job, old, new }))
}

pub(super) fn time_limit(core: &Core, job: JobId, new: Option<Span>, by: &str) -> Option<Changed> {
    let old = core.job(job)?.request.time_limit;
    let words =
        |limit: Option<Span>| limit.map_or_else(|| "no time limit".to_owned(), |limit| format!("time limit {limit}"));
    of_others(core, job, by, (&words(old), &words(new)), Some(Back::TimeLimit { job, old, new }))
}
