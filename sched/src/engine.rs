//! The one loop of all policies: it goes through the waiting jobs, starts those that have room, and tells the others why they
//! wait. The parts of a policy say which job is next, where it goes, and when to leave off. Decides nothing itself.

use limo_model::{JobId, Wait};

use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::state::Job;

/// The decision about one job.
pub(crate) enum Verdict {
    Start(Start),
    Wait(Wait),
    /// It waits; the plan that follows this one tells why.
    Untold,
}

/// A policy at work on one plan.
pub(crate) trait Pass<'a> {
    /// The next job to decide about; none where the rest is left to [`Pass::close`].
    fn next(&mut self) -> Option<(JobId, &'a Job)>;

    /// Decides about that job, and books what it gets or holds for later.
    fn place(&mut self, job: (JobId, &'a Job)) -> Verdict;

    /// Returns true if the plan ends here: none of the jobs behind could start.
    fn is_over(&mut self, plan: &Plan) -> bool;

    /// Adds what is not decided job by job. Returns what the next plan need not find again.
    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache>;
}

/// One plan, and what the next one need not find again.
pub(crate) fn plan<'a>(pass: &mut (impl Pass<'a> + ?Sized)) -> (Plan, Option<PlanCache>) {
    let mut plan = Plan::default();
    while let Some((id, job)) = pass.next() {
        match pass.place((id, job)) {
            Verdict::Start(start) => plan.starts.push(start),
            Verdict::Wait(wait) if job.request.immediate => plan.refusals.push((id, wait)),
            Verdict::Wait(wait) => plan.waits.push((id, wait)),
            Verdict::Untold => plan.is_unfinished = true,
        }
        if pass.is_over(&plan) {
            plan.is_unfinished = true;
            break;
        }
    }
    let cache = pass.close(&mut plan);
    (plan, cache)
}
