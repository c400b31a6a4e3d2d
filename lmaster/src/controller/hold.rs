//! Actions on jobs: holding, releasing, requeueing, ranking, time limits. They apply to all jobs of a request, or to
//! none.

use limo_model::{JobId, Span};

use super::deeds::Deed;
use super::numbers::Numbers;
use super::{Controller, PeerId};

impl Controller {
    pub(super) fn hold_jobs(&mut self, peer: PeerId, jobs: &[JobId]) {
        let check = |controller: &Self, job| controller.tx.core.check_hold(job).map_err(|refused| refused.to_string());
        self.for_all(peer, jobs, check, Deed::Hold);
    }

    pub(super) fn release_jobs(&mut self, peer: PeerId, jobs: &[JobId]) {
        let check = |controller: &Self, job| controller.may_release(peer, job);
        self.for_all(peer, jobs, check, Deed::Release);
    }

    pub(super) fn requeue_jobs(&mut self, peer: PeerId, jobs: &[JobId]) {
        let check =
            |controller: &Self, job| controller.tx.core.check_requeue(job).map_err(|refused| refused.to_string());
        self.for_all(peer, jobs, check, Deed::Requeue);
    }

    pub(super) fn rank_jobs(&mut self, peer: PeerId, jobs: &[JobId], priority: i32) {
        let check = |controller: &Self, job| controller.may_rank(peer, job, priority);
        self.for_all(peer, jobs, check, Deed::Priority(priority));
    }

    /// Checks that the caller may change a priority: only operators can raise it.
    fn may_rank(&self, peer: PeerId, job: JobId, priority: i32) -> Result<(), String> {
        self.tx.core.check_priority(job, priority).map_err(|refused| refused.to_string())?;
        let now = self.tx.core.job(job).map_or(0, |job| job.request.priority);
        if priority > now && !self.caller(peer).is_some_and(|caller| caller.operator) {
            return Err(format!("job {job} has the priority {now}: only an operator can raise it"));
        }
        Ok(())
    }

    pub(super) fn limit_jobs(&mut self, peer: PeerId, jobs: &[JobId], limit: Option<Span>) {
        let check = |controller: &Self, job| controller.may_limit(peer, job, limit);
        self.for_all(peer, jobs, check, Deed::TimeLimit(limit));
    }

    /// Checks that the caller may change a time limit: only operators can raise or remove it.
    fn may_limit(&self, peer: PeerId, job: JobId, limit: Option<Span>) -> Result<(), String> {
        self.tx.core.check_time_limit(self.tx.now, job, limit).map_err(|refused| refused.to_string())?;
        let now = self.tx.core.job(job).and_then(|job| job.request.time_limit);
        let is_longer = now.is_some_and(|now| limit.is_none_or(|limit| limit > now));
        if let Some(now) = now.filter(|_| is_longer)
            && !self.caller(peer).is_some_and(|caller| caller.operator)
        {
            return Err(format!("job {job} has the time limit {now}: only an operator can raise it"));
        }
        Ok(())
    }

    /// Checks that the caller may submit at a priority: only operators can exceed the default.
    pub(super) fn may_submit_at(&self, peer: PeerId, priority: i32) -> Result<(), String> {
        if priority > 0 && !self.caller(peer).is_some_and(|caller| caller.operator) {
            return Err(format!("a priority of {priority} is above 0: only an operator can submit a job with it"));
        }
        Ok(())
    }

    /// Checks that the caller may release a job: only operators can release one that an operator holds.
    fn may_release(&self, peer: PeerId, job: JobId) -> Result<(), String> {
        self.tx.core.check_release(job).map_err(|refused| refused.to_string())?;
        let owner = self.live_of(job).map(|live| &live.request.user);
        let holder = self.tx.core.job(job).and_then(|job| job.held.as_ref());
        match holder.filter(|holder| Some(*holder) != owner) {
            Some(holder) if !self.caller(peer).is_some_and(|caller| caller.operator) => {
                Err(format!("job {job} is held by {holder}: only an operator can release it"))
            }
            _ => Ok(()),
        }
    }

    fn for_all(
        &mut self,
        peer: PeerId,
        jobs: &[JobId],
        check: impl Fn(&Self, JobId) -> Result<(), String>,
        deed: Deed,
    ) {
        // A request may list the same job twice.
        let jobs: Numbers = jobs.iter().copied().collect();
        match self.may_all(peer, &jobs, check) {
            Ok(()) => self.do_all(peer, deed, jobs),
            Err(reason) => self.refuse(peer, reason, None),
        }
    }

    /// Returns the reason if the caller may not act on one of the jobs.
    pub(super) fn may_all(
        &self,
        peer: PeerId,
        jobs: &Numbers,
        check: impl Fn(&Self, JobId) -> Result<(), String>,
    ) -> Result<(), String> {
        jobs.iter().try_for_each(|job| self.may_steer(peer, job).and_then(|()| check(self, job)))
    }
}
