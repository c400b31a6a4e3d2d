//! The unfinished jobs of the core. Arrays and steps are separate.

use limo_model::JobId;

use super::Core;
use crate::state::Job;

impl Core {
    /// Returns a job or a step that is not over.
    pub fn job(&self, job: JobId) -> Option<&Job> {
        self.cluster.state.jobs.get(job).map(Box::as_ref).or_else(|| self.cluster.state.steps.get(job))
    }

    /// Returns true if an assigned job must not run before its [`Command::Release`](crate::Command::Release).
    pub fn is_awaiting(&self, job: JobId) -> bool {
        self.cluster.state.to_release.contains(job) || self.job(job).is_some_and(Job::is_awaiting)
    }

    /// Returns the jobs that are not over, in order of submission.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs_from(JobId(0))
    }

    /// Returns the jobs that are not over, from this number on, in constant time.
    pub fn jobs_from(&self, from: JobId) -> impl Iterator<Item = (JobId, &Job)> {
        self.cluster.state.jobs.iter_from(from).map(|(id, job)| (id, &**job))
    }
}
