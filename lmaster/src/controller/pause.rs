//! Suspension and resumption of running jobs by persons. A request applies to all of its jobs or to none. For an
//! array, it applies to the tasks for which it is possible.

use limo_model::{Cause, JobId};
use limo_proto::Answer;
use limo_sched::{Array, Refused};

use super::deeds::Deed;
use super::numbers::Numbers;
use super::{Controller, PeerId};

impl Controller {
    pub(super) fn suspend_jobs(&mut self, peer: PeerId, jobs: &[JobId]) {
        let jobs = self.with_tasks(jobs, |controller, job| controller.tx.core.check_suspend(job));
        let check =
            |controller: &Self, job| controller.tx.core.check_suspend(job).map_err(|refused| refused.to_string());
        match self.may_all(peer, &jobs, check) {
            Ok(()) => self.do_all(peer, Deed::Suspend, jobs),
            Err(reason) => self.refuse(peer, reason, None),
        }
    }

    pub(super) fn resume_jobs(&mut self, peer: PeerId, jobs: &[JobId]) {
        let jobs = self.with_tasks(jobs, |controller, job| controller.tx.core.check_resume(job));
        if let Err(reason) = self.may_all(peer, &jobs, |controller, job| controller.may_resume(peer, job)) {
            return self.refuse(peer, reason, None);
        }
        let high = self.tx.core.settings().limits.band(self.tx.now).high();
        let limited = |job: &JobId| {
            let causes = self.tx.core.job(*job).and_then(|job| job.causes());
            causes.is_some_and(|causes| causes.since_of(Cause::Limit).is_some())
        };
        let warning = |job: JobId| format!("job {job} stays suspended: the upper limit {high}");
        let warnings: Vec<String> = jobs.iter().filter(limited).map(warning).collect();
        let answer = if warnings.is_empty() { Answer::Done } else { Answer::Warned(warnings) };
        self.do_all_and_answer(peer, Deed::Resume, jobs, answer);
    }

    /// Checks that the caller may resume a job: only operators resume one that an operator suspended.
    fn may_resume(&self, peer: PeerId, job: JobId) -> Result<(), String> {
        self.tx.core.check_resume(job).map_err(|refused| refused.to_string())?;
        let owner = self.live_of(job).map(|live| live.request.user.as_str());
        let by = self.tx.core.job(job).and_then(|job| job.causes()?.by()).filter(|by| Some(*by) != owner);
        match by {
            Some(by) if !self.caller(peer).is_some_and(|caller| caller.operator) => {
                Err(format!("job {job} is suspended by {by}: only an operator can resume it"))
            }
            _ => Ok(()),
        }
    }

    /// Replaces arrays by those of their tasks that `check` allows. An array without such a task remains, and is
    /// refused later.
    fn with_tasks(&self, jobs: &[JobId], check: impl Fn(&Self, JobId) -> Result<(), Refused>) -> Numbers {
        let tasks = |own: &JobId| -> Vec<JobId> {
            let count = self.tx.core.array(*own).map_or(0, |array| array.tasks.count());
            let tasks = (0..count).map(|place| Array::job_at(*own, place));
            let able: Vec<JobId> = tasks.filter(|task| check(self, *task).is_ok()).collect();
            if able.is_empty() { vec![*own] } else { able }
        };
        jobs.iter().flat_map(tasks).collect()
    }
}
