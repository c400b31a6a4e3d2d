//! `conservative`: backfilling in which every job that waits has a planned start that no later job may delay.
//!
//! Idea (the other of the two classic ways to backfill; energy-budget-2017 builds on EASY alone): jobs in order of
//! submission; each gets the earliest time at which enough is free for all of its walltime beside what runs and what was
//! planned before it ([`Planner`]); who can start now starts. Plans are made anew in each round, so an early end moves
//! them forward.
//! Constraints: expectations are walltimes, and jobs are ended at them; a job without one is expected to take
//! `default_duration`. A plan counts everything that a job asks of a node: cores, accelerators, memory, and whether it may
//! have the node then. A job is planned within one class of nodes, unless it needs more nodes than any class has.
//! Ignores: power, price, budgets, deadlines. A job that reservations keep away now is not planned.
//! Cost: jobs looked at (at most `depth`) x running and planned jobs; where jobs take parts of nodes also x nodes.
//! Options: `allocation`, `default_duration`, `depth`.

use limo_model::{JobId, Time, Wait};

use super::easy::is_kept_away;
use super::expected::estimate;
use crate::engine::{Later, Pass, Verdict, Wanted};
use crate::future::{Asker, Planned, Planner, has_room};
use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::state::Job;
use crate::view::View;

/// A plan that starts something ends when so many jobs in a row could not start: in a full cluster the others hardly can.
const MISSED: u32 = 3;

pub(crate) struct ConservativePass<'a> {
    view: View<'a>,
    jobs: Box<dyn Iterator<Item = (JobId, &'a Job)> + 'a>,
    /// Made for the first job that could ever run.
    planner: Option<Planner<'a>>,
    /// The first job that waits for nodes.
    first: Option<JobId>,
    /// The last job that got a wait reason.
    last: Option<JobId>,
    has_started: bool,
    /// Jobs in a row that could not start, since one did.
    missed: u32,
    /// True if the last start was a task of an array.
    is_task: bool,
    /// The starts that are planned for later.
    planned: Vec<Later>,
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
                return Verdict::Start(Start { job: id, placement, estimate });
            }
            Some(Planned::Later(at)) => {
                self.planned.extend(asker.map(|asker| later(asker, at)));
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

    /// The next task of an array may come before those behind the one that starts.
    fn is_over(&mut self, _: &Plan) -> bool {
        self.is_task || self.missed == MISSED
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if self.has_started {
            // Another plan follows, and tells why the others wait.
            plan.waits.clear();
            plan.refusals.clear();
            return None;
        }
        let view = &self.view;
        let depth = view.options().depth;
        let last = self.last.and_then(|last| view.place(last));
        for (id, job) in view.untold().filter(|(id, _)| last.is_some() && view.place(*id) > last) {
            let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
            list.push((id, Wait::Depth { depth }));
        }
        None
    }

    fn later(&mut self) -> Vec<Later> {
        std::mem::take(&mut self.planned)
    }
}

/// Returns `None` if no class could ever run the job. A job that waits for reservations takes nothing from later ones,
/// which need not wait for it.
pub(super) fn asker<'a>(view: &View<'a>, job: &'a Job) -> Option<Asker<'a>> {
    let shape = view.index().shapes.find(&job.request).filter(|shape| !shape.ways.is_empty())?;
    (!is_kept_away(view, job)).then_some(Asker { job, shape })
}

/// The start of a job that may have any nodes of the classes that could run it.
pub(super) fn later(Asker { job, shape }: Asker<'_>, at: Time) -> Later {
    let classes = shape.ways.iter().map(|way| way.class).collect();
    Later { at, wanted: Wanted::Some { count: job.request.nodes.get(), classes } }
}
