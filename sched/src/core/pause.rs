//! Suspensions by persons: checks of requests, and the commands that follow with the next round.

use limo_model::JobId;

use super::Core;
use crate::apply;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::round::Command;
use crate::state::Phase;

pub(super) fn suspensions(cluster: &mut Cluster, commands: &mut Vec<Command>) {
    if cluster.state.to_suspend.is_empty() {
        return;
    }
    for job in std::mem::take(&mut cluster.state.to_suspend).iter() {
        // A suspended job that must end is resumed, so that it ends sooner.
        if let Some(Phase::Suspended(assignment, ..)) = cluster.state.jobs.get(job).map(|job| &job.phase)
            && assignment.stop.is_none()
        {
            commands.push(Command::Suspend { job, attempt: assignment.attempt });
        }
    }
}

impl Core {
    /// Checks that a person can suspend a job.
    ///
    /// # Errors
    /// [`Refused`] if it is over, does not run, is ending, is suspended by a person, or is on a reserved node.
    pub fn check_suspend(&self, job: JobId) -> Result<(), Refused> {
        apply::check_suspend(&self.cluster, job)
    }

    /// Checks that a person can resume a job.
    ///
    /// # Errors
    /// [`Refused`] if it is over, is ending, or is not suspended by a person.
    pub fn check_resume(&self, job: JobId) -> Result<(), Refused> {
        apply::check_resume(&self.cluster.state, job)
    }
}
