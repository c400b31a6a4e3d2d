//! New time limits of jobs that are not over.
//!
//! The nodes of a running job learn of its new limit from the master. A longer run may break promises that earlier plans
//! relied on, such as an end before the upper limit falls: then nothing starts, as after the suspension of a job by a person.
//! Only reservations refuse a limit.

use std::sync::Arc;

use limo_model::{Estimate, EstimateSource, JobId, Request, Span, Time};

use super::jobs::with_times;
use super::reservations;
use crate::cluster::Cluster;
use crate::facts::Known;
use crate::refused::Refused;
use crate::round::NewLimit;
use crate::state::{Job, Phase};

/// Checks that a job can get another time limit.
pub(crate) fn check(cluster: &Cluster, now: Time, id: JobId, limit: Option<Span>) -> Result<(), Refused> {
    let job = cluster.state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let least = job.request.warning.map_or(Span::ZERO, |warning| warning.before);
    if limit.is_some_and(|limit| limit <= least) {
        return Err(Refused::LimitTooShort { job: id, least });
    }
    if limit.is_none() && job.request.warning.is_some() {
        return Err(Refused::LimitNeeded { job: id });
    }
    let later = Job { request: Arc::new(with_limit(&job.request, limit)), ..Job::clone(job) };
    match later.phase {
        Phase::Waiting(_) => reservations::check(&cluster.state, now, &later.request),
        _ => reservations::check_limit(cluster, now, id, &later),
    }
}

fn with_limit(request: &Request, limit: Option<Span>) -> Request {
    Request { time_limit: limit, ..request.clone() }
}

/// Sets the time limit of a job; of an array, also that of its waiting tasks.
pub(super) fn set(cluster: &mut Cluster, now: Time, id: JobId, limit: Option<Span>) -> Result<(), Refused> {
    check(cluster, now, id, limit)?;
    let tasks = cluster.state.arrays.get(&id).map_or(0, |array| u64::from(array.made));
    for each in (id.0..=id.0 + tasks).map(JobId) {
        if cluster.state.jobs.get(each).is_some_and(|job| each == id || job.is_waiting()) {
            set_one(cluster, each, limit);
        }
    }
    Ok(())
}

fn set_one(cluster: &mut Cluster, id: JobId, limit: Option<Span>) {
    let Some(job) = cluster.state.jobs.get(id) else { return };
    let (before, waits) = (job.request.time_limit, job.is_waiting());
    let request = cluster.requests.share(&with_limit(&job.request, limit));
    if waits && let Some(place) = cluster.state.queue.place(id) {
        let index = &mut cluster.index;
        index.shapes.insert(Known::of(&cluster.state), &index.classes, place, &request);
    }
    let default = cluster.state.settings.options.default_duration;
    with_times(cluster, id, |job| {
        (job.request, job.new_limit) = (request, Some(NewLimit { limit }));
        if let Some(assignment) = job.assignment_mut() {
            assignment.estimate = bounded(assignment.estimate, (before, limit), default);
        }
    });
}

/// Returns the estimate of a job on its nodes after a change of its limit. An estimate that the earlier limit had cut becomes
/// as long as the new one, because the uncut time is not known.
fn bounded(estimate: Estimate, (before, limit): (Option<Span>, Option<Span>), default: Span) -> Estimate {
    let was_cut = before.is_some_and(|before| before <= estimate.duration);
    let follows = was_cut || estimate.source == EstimateSource::Nameplate;
    let duration = match limit {
        Some(limit) if follows || limit < estimate.duration => limit,
        None if follows => default.max(estimate.duration),
        _ => estimate.duration,
    };
    let energy = if duration == estimate.duration { estimate.energy } else { estimate.power * duration };
    Estimate { duration, energy, ..estimate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Power;

    #[test]
    fn an_estimate_follows_the_limit_that_cut_it() {
        let secs = Span::from_secs;
        let check = |source, duration: i64, limits: (Option<i64>, Option<i64>), expected: i64| {
            let power = Power::from_watts(10);
            let energy = power * secs(duration);
            let estimate = Estimate { duration: secs(duration), power, energy, source, runs: 1 };
            let found = bounded(estimate, (limits.0.map(secs), limits.1.map(secs)), secs(3600));
            assert_eq!(
                (found.duration, found.energy),
                (secs(expected), power * secs(expected)),
                "{duration} {limits:?}"
            );
        };
        let learned = EstimateSource::Learned;
        check(learned, 100, (Some(100), Some(300)), 300);
        check(learned, 100, (Some(200), Some(300)), 100);
        check(learned, 100, (Some(200), Some(50)), 50);
        check(learned, 100, (None, Some(50)), 50);
        check(learned, 100, (Some(100), None), 3600);
        check(learned, 100, (Some(200), None), 100);
        check(EstimateSource::Nameplate, 3600, (None, Some(7200)), 7200);
    }
}
