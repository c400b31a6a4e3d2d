//! `conservative`: backfilling in which every waiting job has a planned start that no later job may delay.
//!
//! Idea (the other of the two classic ways to backfill; energy-budget-2017 uses EASY only): each job, in order of
//! submission, gets the earliest time with enough free resources for all of its walltime. Running and earlier planned
//! jobs keep their resources ([`Planner`]). A job starts if its time is now. Plans are made anew in each round, so an
//! early end moves them forward. Constraints: walltimes are the expected durations, and end the jobs. A job without a
//! walltime is expected to take `default_duration`. A plan counts everything that a job requests on a node: cores,
//! accelerators, memory, and the permission to use the node then. A job is planned within one class of nodes, unless
//! it needs more nodes than any class has or is packed. Ignores: power, price, budgets, deadlines. A job that reservations exclude
//! now is not planned. Cost: considered jobs (at most `depth`) x running and planned jobs, and x nodes if jobs take
//! parts of nodes. Options: `allocation`, `default_duration`, `depth`.

use limo_model::{JobId, Time, Wait};

use super::easy::is_kept_away;
use super::expected::estimate;
use crate::engine::{Later, Pass, Verdict, Wanted};
use crate::future::{Asker, Planned, Planner, has_room};
use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::policy::explore;
use crate::state::Job;
use crate::view::View;

/// Number of consecutive jobs without a start after which a plan with a start ends: in a full cluster the other jobs
/// can hardly start.
const MISSED: u32 = 3;

pub(crate) struct ConservativePass<'a> {
    view: View<'a>,
    jobs: Box<dyn Iterator<Item = (JobId, &'a Job)> + 'a>,
    /// Made when the first job is found that could ever run.
    planner: Option<Planner<'a>>,
    /// The first job that waits for nodes.
    first: Option<JobId>,
    /// The last job that got a wait reason.
    last: Option<JobId>,
    has_started: bool,
    has_explored: bool,
    /// Number of jobs that could not start since the last one that did.
    missed: u32,
    /// True if the last start was a task of an array.
    is_task: bool,
    /// The later planned starts.
    planned: Vec<(Asker<'a>, (JobId, Time))>,
}

impl<'a> ConservativePass<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let jobs = Box::new(view.queue());
        let (planner, first, last) = (None, None, None);
        Self {
            view: *view,
            jobs,
            planner,
            first,
            last,
            has_started: false,
            has_explored: false,
            missed: 0,
            is_task: false,
            planned: Vec::new(),
        }
    }
}

impl<'a> Pass<'a> for ConservativePass<'a> {
    fn next(&mut self) -> Option<(JobId, &'a Job)> {
        self.jobs.next()
    }

    fn place(&mut self, (id, job): (JobId, &'a Job)) -> Verdict {
        let view = &self.view;
        let asker = asker(view, job);
        let planned = asker.and_then(|asker| self.planner.get_or_insert_with(|| Planner::of(view)).plan(asker));
        let until = match planned {
            Some(Planned::Now(placement)) => {
                (self.has_started, self.missed) = (true, 0);
                self.is_task = view.state().array_of(id).is_some();
                let estimate = estimate(view, job, &placement);
                let start = Start { job: id, placement, estimate, waits_for_relief: false, explores: false };
                // The next plan counts what this one explores.
                let start = if self.has_explored { start } else { explore::within_walltime(view, job, start) };
                self.has_explored |= start.explores;
                return Verdict::Start(start);
            }
            Some(Planned::Later(at)) => {
                self.planned.extend(asker.map(|asker| (asker, (id, at))));
                Some(at)
            }
            Some(Planned::Soon) | None => None,
        };
        if self.has_started {
            self.missed += 1;
            return Verdict::Untold;
        }
        let wait = match (asker, self.first) {
            (None, _) => Wait::NoNode,
            (Some(asker), Some(first)) if has_room(view, asker) => Wait::Behind { job: first, until },
            _ => Wait::Resources { until },
        };
        self.first = self.first.or(asker.map(|_| id));
        self.last = Some(id);
        Verdict::Wait(wait)
    }

    /// Returns true after a start if the next task of an array may come before later jobs.
    fn is_over(&mut self, _: &Plan) -> bool {
        self.is_task || self.missed == MISSED
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if self.has_started {
            // Another plan follows and gives the other wait reasons.
            plan.waits.clear();
            plan.refusals.clear();
            return None;
        }
        tell_others(&self.view, self.last, plan);
        None
    }

    fn later(&mut self) -> Vec<Later> {
        std::mem::take(&mut self.planned).into_iter().map(|(asker, at)| later(asker, at)).collect()
    }
}

/// Gives a reason to the new jobs behind the last one that a plan considers.
pub(super) fn tell_others(view: &View<'_>, last: Option<JobId>, plan: &mut Plan) {
    let depth = view.options().depth;
    let last = last.and_then(|last| view.place(last));
    for (id, job) in view.untold().filter(|(id, _)| last.is_some() && view.place(*id) > last) {
        let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
        list.push((id, Wait::Depth { depth }));
    }
}

/// Returns `None` if no class could ever run the job. A job that waits for reservations takes no resources from later
/// ones, so they need not wait for it.
pub(super) fn asker<'a>(view: &View<'a>, job: &'a Job) -> Option<Asker<'a>> {
    let shape = view.index().shapes.find(&job.request).filter(|shape| !shape.ways.is_empty())?;
    (!is_kept_away(view, job)).then_some(Asker { job, shape })
}

/// Returns the start of a job that may have any nodes of the classes on which it could run.
pub(super) fn later(Asker { job, shape }: Asker<'_>, (id, at): (JobId, Time)) -> Later {
    let classes = shape.ways.iter().map(|way| way.class).collect();
    let chunks = job.request.nodes.get();
    // So many idle nodes have room for all chunks of a packed job.
    let least = shape.ways.iter().map(|way| way.most).min().unwrap_or(1).max(1);
    Later { job: id, at, wanted: Wanted::Some { count: chunks.div_ceil(least), classes } }
}
