//! `conservative`: backfilling in which every job that waits has a planned start that no later job may delay.
//!
//! Idea (the other of the two classic ways to backfill; energy-budget-2017 builds on EASY alone): jobs in order of
//! submission; each gets the earliest time at which enough is free for all of its walltime beside what runs and what was
//! planned before it ([`super::planned`]); who can start now starts. Plans are made anew in each round, so an early end moves
//! them forward.
//! Constraints: expectations are walltimes, and jobs are ended at them; a job without one is expected to take
//! `default_duration`. A plan counts everything that a job asks of a node: cores, accelerators, memory, and whether it may
//! have the node then. A job is planned within one class of nodes, unless it needs more nodes than any class has.
//! Ignores: power, price, budgets, deadlines. A job that reservations keep away now is not planned.
//! Cost: jobs looked at (at most `depth`) x running and planned jobs; where jobs take parts of nodes also x nodes.
//! Options: `allocation`, `default_duration`, `depth`, `rest`.

use limo_model::{JobId, Placement, Wait};

use super::planned::{Asker, Planned, Planner};
use super::{estimate, is_kept_away, place, rest};
use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::policy::Policy;
use crate::state::Job;
use crate::view::View;

pub(crate) static CONSERVATIVE: Conservative = Conservative;

pub(crate) struct Conservative;

/// A plan that starts something ends when so many jobs in a row could not start: in a full cluster the others hardly can.
const MISSED: u32 = 3;

impl Policy for Conservative {
    fn plan(&self, view: &View<'_>) -> (Plan, Option<PlanCache>) {
        let mut plan = Plan::default();
        let mut planner = None;
        let (mut first, mut last): (Option<JobId>, Option<JobId>) = (None, None);
        let mut missed = 0;
        for (id, job) in view.queue() {
            let asker = asker(view, job);
            let until = match asker.and_then(|asker| planner.get_or_insert_with(|| Planner::of(view)).plan(asker)) {
                Some(Planned::Now(placement)) => {
                    plan.starts.push(start(view, (id, job), placement));
                    missed = 0;
                    // The next one of an array may come before those behind it.
                    if view.state().array_of(id).is_some() {
                        break;
                    }
                    continue;
                }
                Some(Planned::Later(at)) => Some(at),
                Some(Planned::Soon) | None => None,
            };
            // Another plan follows one that starts something, and tells why the others wait.
            if !plan.starts.is_empty() {
                missed += 1;
                if missed < MISSED {
                    continue;
                }
                break;
            }
            let wait = match (asker, first) {
                (None, _) => Wait::NoNode,
                (Some(asker), Some(first)) if place::has_room(view, asker) => Wait::Behind { job: first, until },
                _ => Wait::Resources { until },
            };
            first = first.or(asker.map(|_| id));
            last = Some(id);
            match job.request.immediate {
                true => plan.refusals.push((id, wait)),
                false => plan.waits.push((id, wait)),
            }
        }
        if !plan.starts.is_empty() {
            return (Plan { starts: plan.starts, ..Plan::default() }, None);
        }
        let depth = view.options().depth;
        let last = last.and_then(|last| view.place(last));
        for (id, job) in view.untold().filter(|(id, _)| last.is_some() && view.place(*id) > last) {
            let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
            list.push((id, Wait::Depth { depth }));
        }
        (plan.sleeps, plan.wake_at) = rest::sleeps(view);
        (plan, None)
    }
}

/// Nothing where no class could ever run the job. One that reservations keep away takes nothing from those behind it, which
/// need not wait for it.
fn asker<'a>(view: &View<'a>, job: &'a Job) -> Option<Asker<'a>> {
    let shape = view.index().shapes.find(&job.request).filter(|shape| !shape.ways.is_empty())?;
    (!is_kept_away(view, job)).then_some(Asker { job, shape })
}

fn start(view: &View<'_>, (id, job): (JobId, &Job), placement: Placement) -> Start {
    let estimate = estimate(view, job, &placement);
    Start { job: id, placement, estimate }
}
