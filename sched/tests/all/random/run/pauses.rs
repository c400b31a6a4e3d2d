//! Persons who suspend and resume jobs.

use limo_model::{JobId, Power};
use limo_sched::{Event, Job, Refused};

use super::Run;

/// Returns true if a person suspended the job.
fn is_paused(job: &Job) -> bool {
    job.causes().is_some_and(|causes| causes.by().is_some())
}

impl Run {
    fn one_of(&self, index: u8, which: impl Fn(&Job) -> bool) -> Option<JobId> {
        let jobs: Vec<JobId> = self.world.core.jobs().filter(|(_, job)| which(job)).map(|(id, _)| id).collect();
        jobs.get(usize::from(index) % jobs.len().max(1)).copied()
    }

    pub(super) fn suspend(&mut self, index: u8) -> Result<(), Refused> {
        let Some(job) = self.one_of(index, |job| job.running().is_some()) else { return Ok(()) };
        self.world.apply(Event::SuspendRequested { job, by: "ada".into() })
    }

    pub(super) fn resume(&mut self, index: u8) -> Result<(), Refused> {
        let Some(job) = self.one_of(index, |job| job.causes().is_some()) else { return Ok(()) };
        self.world.apply(Event::ResumeRequested { job, by: "ada".into() })
    }

    /// Resumes every job that is not being ended.
    pub(super) fn resume_all(&mut self) {
        while let Some(job) =
            self.one_of(0, |job| is_paused(job) && job.assignment().is_some_and(|of| of.stop.is_none()))
        {
            self.world.apply(Event::ResumeRequested { job, by: "ada".into() }).expect("a person suspended it");
        }
    }

    /// Checks that a job suspended by a person draws nothing, and stays suspended until a person resumes it.
    pub(super) fn check_pauses(&self) {
        for (id, job) in self.world.core.jobs() {
            if is_paused(job) {
                assert_eq!(job.assignment().map(|of| of.draw), Some(Power::ZERO), "job {id} draws something: {job:?}");
            }
            let undecided = job.causes().is_some_and(|causes| causes.is_empty());
            let ends = job.assignment().is_some_and(|of| of.stop.is_some());
            assert!(!undecided || ends, "job {id} stands still without a cause: {job:?}");
        }
    }
}
