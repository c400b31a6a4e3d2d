//! The loop of all policies: it considers the waiting jobs, starts those that fit, and gives the others a wait
//! reason. The parts of a policy choose the next job, its place, and the end of the loop.

use limo_model::{JobId, NodeId, Time, Wait};

use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::state::Job;

/// The decision about a job.
pub(crate) enum Verdict {
    Start(Start),
    Wait(Wait),
    /// The job waits; the next plan gives the reason.
    Untold,
}

/// A start that is planned for later.
pub(crate) struct Later {
    pub job: JobId,
    pub at: Time,
    pub wanted: Wanted,
}

/// The nodes of a planned start.
pub(crate) enum Wanted {
    Named(Vec<NodeId>),
    /// A number of nodes from these classes.
    Some {
        count: u32,
        classes: Vec<usize>,
    },
}

/// A policy at work on one plan.
pub(crate) trait Pass<'a> {
    /// Returns the next job to decide about; `None` leaves the other jobs to [`Pass::close`].
    fn next(&mut self) -> Option<(JobId, &'a Job)>;

    /// Decides about a job, and books its units or reservation.
    fn place(&mut self, job: (JobId, &'a Job)) -> Verdict;

    /// Returns true if the plan ends here: no later job could start.
    fn is_over(&mut self, plan: &Plan) -> bool;

    /// Adds results that do not belong to single jobs. Returns the cache for the next plan.
    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache>;

    /// Returns the later starts that are planned by a plan without starts now.
    fn later(&mut self) -> Vec<Later>;
}

/// Makes one plan, which is empty at first. With `one_by_one` it has one start at most, and another plan follows. Returns
/// the cache for the next one.
pub(crate) fn plan<'a>(pass: &mut (impl Pass<'a> + ?Sized), one_by_one: bool, plan: &mut Plan) -> Option<PlanCache> {
    while let Some((id, job)) = pass.next() {
        match pass.place((id, job)) {
            Verdict::Start(start) => plan.starts.push(start),
            Verdict::Wait(wait) if job.request.immediate => plan.refusals.push((id, wait)),
            Verdict::Wait(wait) => plan.waits.push((id, wait)),
            Verdict::Untold => plan.is_unfinished = true,
        }
        if pass.is_over(plan) || (one_by_one && !plan.starts.is_empty()) {
            plan.is_unfinished = true;
            break;
        }
    }
    pass.close(plan)
}
