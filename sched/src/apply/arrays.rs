//! Arrays: their tasks become jobs in turn, and are counted at their ends.

use std::sync::Arc;

use limo_model::{JobEnd, JobId, Outcome, Request, Tasks, Time};

use super::jobs::{cancel_requested, check_submission, dequeue, enqueue, new_job};
use super::{eligible, jobs, licences, quota};
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::round::Finished;
use crate::state::{Array, Job, Phase, State};

/// The largest number of tasks of one array that wait as jobs at a time. All of them can start in one plan; the next
/// plan of the same round starts more if they fit. Tasks behind them are ignored, like jobs beyond the depth.
const AHEAD: u32 = 256;

pub(super) fn submitted(
    cluster: &mut Cluster,
    now: Time,
    own: JobId,
    (tasks, request): (Tasks, Arc<Request>),
) -> Result<(), Refused> {
    check_submission(cluster, now, (own, tasks.count()), &request)?;
    cluster.state.next_job += 1 + u64::from(tasks.count());
    jobs::admit(cluster, now, own, request);
    cluster.state.arrays.insert(own, Array::new(tasks));
    if !eligible::block(cluster, now, own) {
        cluster.index.hungry.insert(own);
    }
    Ok(())
}

/// Makes jobs of the next tasks, for arrays that have started tasks or have none yet.
pub(crate) fn make_tasks(cluster: &mut Cluster, now: Time) {
    for own in std::mem::take(&mut cluster.index.hungry) {
        let (Some(array), Some(job)) = (cluster.state.arrays.get(&own), cluster.state.jobs.get(own)) else { continue };
        if cluster.state.blocked.contains(own) {
            continue;
        }
        if array.made > 0 && cluster.state.is_in_line(Array::job_at(own, array.made - 1)) {
            continue;
        }
        let at_a_time = array.tasks.limit().map_or(u32::MAX, std::num::NonZeroU32::get);
        let room = AHEAD.saturating_sub(array.waiting).min(at_a_time.saturating_sub(array.live())).min(array.left());
        // The wait reason of the array no longer equals that of its tasks.
        let request = match job.request.conditions {
            None => Arc::clone(&job.request),
            Some(_) => Arc::new(Request { conditions: None, ..Request::clone(&job.request) }),
        };
        let task = Job { eligible: job.eligible, new_limit: job.new_limit, ..new_job(request, job.submitted) };
        for _ in 0..room {
            let Some(array) = cluster.state.arrays.get_mut(&own) else { break };
            let id = Array::job_at(own, array.make_next());
            cluster.state.jobs.insert(id, Box::new(task.clone()));
            if cluster.state.queue.last().is_some_and(|last| last > id) {
                // Jobs behind it were considered already.
                cluster.index.cache = None;
            }
            enqueue(cluster, now, id);
            // The next task is made once this one has room in the quota, and its licences.
            if cluster.state.is_in_line(id) {
                break;
            }
        }
    }
}

/// Turns the last waiting tasks back into tasks without jobs, if they never began.
pub(super) fn unmake_tasks(cluster: &mut Cluster, now: Time, own: JobId) {
    while let Some(place) = cluster.state.arrays.get(&own).and_then(|array| array.made.checked_sub(1))
        && let id = Array::job_at(own, place)
        && (cluster.state.queue.contains(id) || cluster.state.is_in_line(id))
        && cluster.state.jobs.get(id).is_some_and(|job| job.attempts == 0)
        && let Some(array) = cluster.state.arrays.get_mut(&own)
    {
        array.made = place;
        dequeue(cluster, id);
        if let Some(task) = cluster.state.jobs.remove(id) {
            quota::give_back(cluster, now, id, &task.request);
            licences::give_back(cluster, now, id, &task.request);
        }
    }
}

/// Handles a task that waits.
pub(super) fn queued(state: &mut State, id: JobId) {
    if let Some((_, array)) = state.array_of_mut(id) {
        array.waiting += 1;
    }
}

/// Records the start of a task. If the next one exceeds its user's quota, or waits for licences, that becomes the array's wait reason.
pub(crate) fn started(cluster: &mut Cluster, id: JobId) {
    let Some((own, array)) = cluster.state.array_of(id) else { return };
    let next = Array::job_at(own, array.made.saturating_sub(1));
    if !cluster.state.is_in_line(next) || cluster.state.blocked.contains(own) {
        return;
    }
    for job in [own, next] {
        if let Some(job) = cluster.state.jobs.get_mut(job) {
            job.phase = Phase::Waiting(None);
        }
    }
    cluster.index.blocked.untold.insert(next);
}

/// Notes that a task no longer waits: the next one may wait now.
pub(super) fn unqueued(cluster: &mut Cluster, id: JobId) {
    if let Some((own, array)) = cluster.state.array_of_mut(id) {
        array.waiting -= 1;
        cluster.index.hungry.insert(own);
    }
}

/// Cancels an array: its running tasks are ended one by one, and no other task begins.
pub(super) fn cancelled(cluster: &mut Cluster, now: Time, own: JobId, by: &str) {
    unmake_tasks(cluster, now, own);
    let Some(array) = cluster.state.arrays.get_mut(&own) else { return };
    array.cancelled_by.get_or_insert_with(|| by.to_owned());
    let (made, never) = (array.made, array.numbers(own, array.made));
    for place in 0..made {
        let id = Array::job_at(own, place);
        // Finished tasks are no longer jobs.
        let _ = cancel_requested(cluster, now, id, by);
    }
    eligible::never(cluster, now, never);
    // Otherwise the array ends after the last of its tasks that began.
    if cluster.state.arrays.get(&own).is_some_and(Array::is_over) {
        end(cluster, now, own);
    }
}

/// Ends a task before it becomes a job.
pub(super) fn drop_task(cluster: &mut Cluster, now: Time, id: JobId, by: &str) -> Result<(), Refused> {
    let unknown = Refused::NoSuchJob { job: id };
    let Some((own, array)) = cluster.state.array_of_mut(id) else { return Err(unknown) };
    let place = array.place_of(own, id).filter(|place| array.is_coming(*place)).ok_or(unknown)?;
    array.dropped.insert(place);
    let (submitted, new_limit) = cluster.state.jobs.get(own).map_or((now, None), |job| (job.submitted, job.new_limit));
    cluster.state.finish(Finished {
        job: id,
        end: JobEnd::Cancelled { by: by.to_owned() },
        submitted,
        started: None,
        ended: now,
        placement: Vec::new(),
        usage: Default::default(),
        account: Default::default(),
        steady: false,
        tasks: None,
        evictions: Default::default(),
        kept: Default::default(),
        steps: 0,
        new_limit,
    });
    eligible::never(cluster, now, id..=id);
    Ok(())
}

/// Counts newly finished tasks. An array ends with its last task.
pub(crate) fn count_tasks(cluster: &mut Cluster, now: Time) {
    let from = std::mem::replace(&mut cluster.index.counted, cluster.state.finished.len());
    if cluster.state.arrays.is_empty() {
        return;
    }
    let mut over = Vec::new();
    let finished = std::mem::take(&mut cluster.state.finished);
    for one in &finished[from..] {
        let Some((own, array)) = cluster.state.array_of_mut(one.job) else { continue };
        count(array, one);
        if array.is_over() {
            over.push(own);
        } else {
            cluster.index.hungry.insert(own);
        }
    }
    cluster.state.finished = finished;
    over.into_iter().for_each(|own| end(cluster, now, own));
}

/// Removes an array that ends before any of its tasks began, and counts the cancelled tasks.
pub(super) fn take_out(cluster: &mut Cluster, own: JobId) -> Option<Array> {
    let mut array = cluster.state.arrays.remove(&own)?;
    for one in &cluster.state.finished[cluster.index.counted..] {
        if array.place_of(own, one.job).is_some() {
            count(&mut array, one);
        }
    }
    Some(array)
}

fn count(array: &mut Array, over: &Finished) {
    let ended = &mut array.ended;
    match &over.end {
        JobEnd::Ran { outcome: Outcome::Exited(0), stopped: None } => ended.counts.completed += 1,
        JobEnd::Ran { outcome, .. } => {
            ended.counts.failed += 1;
            ended.code = ended.code.max(outcome.exit_code());
        }
        JobEnd::Cancelled { .. } | JobEnd::Refused { .. } | JobEnd::Unmet { .. } => ended.counts.cancelled += 1,
    }
    ended.started = [ended.started, over.started].into_iter().flatten().min();
    ended.account.add(&over.account);
    ended.usage.add(&over.usage);
}

/// Ends an array: it is reported as a job with the highest exit code of its tasks.
fn end(cluster: &mut Cluster, now: Time, own: JobId) {
    dequeue(cluster, own);
    let (Some(array), Some(job)) = (cluster.state.arrays.remove(&own), cluster.state.jobs.remove(own)) else { return };
    cluster.index.hungry.remove(&own);
    let Array { cancelled_by, ended, .. } = array;
    let end = match cancelled_by {
        Some(by) => JobEnd::Cancelled { by },
        None => JobEnd::Ran { outcome: Outcome::Exited(ended.code), stopped: None },
    };
    eligible::over(cluster, now, (own, &job.request), &end);
    cluster.state.finish(Finished {
        job: own,
        end,
        submitted: job.submitted,
        started: ended.started,
        ended: now,
        placement: Vec::new(),
        usage: ended.usage,
        account: ended.account,
        steady: false,
        tasks: Some(ended.counts),
        evictions: Default::default(),
        kept: Default::default(),
        steps: 0,
        new_limit: job.new_limit,
    });
}
