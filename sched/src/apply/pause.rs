//! Suspension and resumption of jobs by persons. For the upper limit, `steer` suspends and resumes.
//!
//! A job that a person suspended keeps its cores and memory. Others may use its power, because the suspension may last
//! for days.

use limo_model::{Cause, Causes, JobId, Power, Time};

use super::jobs::with_times;
use super::nodes::settle_cluster;
use super::reservations::first_on;
use super::steer::stand_still;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Assignment, Phase, State};

/// Checks that a job can be suspended: it runs and is not being ended. It may already be suspended for the upper limit.
pub(crate) fn check_suspend(cluster: &Cluster, id: JobId) -> Result<(), Refused> {
    let job = cluster.state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let running = job.assignment().filter(|_| job.running().is_some());
    let assignment = running.ok_or(Refused::CannotBeSuspended { job: id })?;
    if assignment.stop.is_some() {
        return Err(Refused::EndsAlready { job: id });
    }
    if let Some(by) = job.causes().and_then(Causes::by) {
        return Err(Refused::SuspendedAlready { job: id, by: by.to_owned() });
    }
    for node in assignment.placement.iter().flat_map(|part| part.nodes()) {
        if let Some(reservation) = first_on(cluster, node) {
            let node = cluster.state.node(node).map(|node| node.spec.name.clone()).unwrap_or_default();
            return Err(Refused::SuspendedIntoReservation { job: id, node, reservation: reservation.to_owned() });
        }
    }
    Ok(())
}

/// Checks that a person can resume a job: only one that a person suspended.
pub(crate) fn check_resume(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let Phase::Suspended(assignment, _, causes) = &job.phase else { return Err(Refused::NotSuspended { job: id }) };
    match causes.by() {
        None => Err(Refused::SuspendedForLimit { job: id }),
        Some(_) if assignment.stop.is_some() => Err(Refused::EndsAlready { job: id }),
        Some(_) => Ok(()),
    }
}

/// Records a person's suspension. The command follows with the next round, unless the job is already suspended.
pub(super) fn suspend_requested(cluster: &mut Cluster, now: Time, id: JobId, by: &str) -> Result<(), Refused> {
    check_suspend(cluster, id)?;
    let (by, frees) = (by.to_owned(), cluster.state.jobs.get(id).is_some_and(|job| job.is_paused()));
    if cluster.state.jobs.get(id).is_some_and(|job| job.causes().is_some()) {
        with_times(cluster, id, |job| {
            if let Phase::Suspended(_, _, causes) = &mut job.phase {
                causes.add_user(now, by);
            }
        });
    } else {
        stand_still(cluster, now, id, Causes::user(now, by));
        cluster.state.to_suspend.insert(id);
    }
    let estimate = cluster.state.jobs.get(id).and_then(|job| Some(job.assignment()?.estimate.power));
    if !frees {
        count(cluster, now, -estimate.unwrap_or_default());
    }
    Ok(())
}

/// Records a person's resumption. The next plan resumes the job, or the upper limit becomes the cause.
pub(super) fn resume_requested(cluster: &mut Cluster, now: Time, id: JobId) -> Result<(), Refused> {
    check_resume(&cluster.state, id)?;
    with_times(cluster, id, |job| {
        if let Phase::Suspended(_, _, causes) = &mut job.phase {
            causes.remove(Cause::User);
        }
    });
    let now_counts = cluster.state.jobs.get(id).filter(|job| !job.is_paused());
    let estimate = now_counts.and_then(|job| Some(job.assignment()?.estimate.power));
    count(cluster, now, estimate.unwrap_or_default());
    Ok(())
}

/// Handles the end of a suspended job: its estimate, which is about to be subtracted, counts again until then.
pub(super) fn ended(cluster: &mut Cluster, now: Time, assignment: &Assignment, causes: &Causes) {
    if causes.free_power() {
        count(cluster, now, assignment.estimate.power);
    }
}

/// Changes the estimated draw of all active jobs.
pub(super) fn count(cluster: &mut Cluster, now: Time, more: Power) {
    settle_cluster(cluster, now);
    cluster.index.active_draw += more;
    cluster.books.active += more;
}
