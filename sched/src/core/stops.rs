//! Commands about attempts that were assigned before: those that must end, and those that may begin.

use limo_model::{JobId, Span, StopReason, Time};

use super::Core;
use crate::apply;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::round::Command;
use crate::state::Phase;

impl Core {
    /// Checks that a job can get another time limit.
    ///
    /// # Errors
    /// [`Refused`] if it is over, is warned before a limit and could not be, or could last into a reservation.
    pub fn check_time_limit(&self, now: Time, job: JobId, limit: Option<Span>) -> Result<(), Refused> {
        apply::check_limit(&self.cluster, now, job, limit)
    }
}

/// Adds starts whose last confirmation has come.
pub(super) fn releases(cluster: &mut Cluster, commands: &mut Vec<Command>) {
    if cluster.state.to_release.is_empty() {
        return;
    }
    let jobs = std::mem::take(&mut cluster.state.to_release);
    let release = |job: JobId| match &cluster.state.jobs.get(job)?.phase {
        Phase::Starting(assignment) if assignment.stop.is_none() && assignment.after.is_empty() => {
            Some(Command::Release { job, attempt: assignment.attempt })
        }
        _ => None,
    };
    commands.extend(jobs.iter().filter_map(release));
}

/// Adds the jobs that must end: by request, because their time is up, or because owners came. Each is reported once.
pub(super) fn stops(cluster: &mut Cluster, now: Time, commands: &mut Vec<Command>) {
    while let Some((at, id)) = cluster.index.limits.first().copied().filter(|(at, _)| *at <= now) {
        apply::with_times(cluster, id, |job| {
            let limit = job.request.time_limit.unwrap_or_default();
            if let Some(assignment) = job.assignment_mut() {
                assignment.stop = Some((StopReason::TimeLimit { limit }, false));
            }
        });
        cluster.index.limits.remove(&(at, id));
        cluster.index.to_stop.insert(id);
    }
    apply::evict_due(cluster, now);
    if cluster.index.to_stop.is_empty() {
        return;
    }
    for id in std::mem::take(&mut cluster.index.to_stop).iter() {
        let Some(assignment) = cluster.state.jobs.get_mut(id).and_then(|job| job.assignment_mut()) else { continue };
        if let Some((why, told @ false)) = &mut assignment.stop {
            *told = true;
            commands.push(Command::Stop { job: id, attempt: assignment.attempt, why: why.clone() });
        }
    }
}
