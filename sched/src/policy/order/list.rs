//! `rule` and `program`: waiting jobs in a list that does not follow from their submission (power-capping-2018, sections
//! 4.2 and 4.3).
//!
//! Idea: `rule` (LS) puts the jobs in order by their weight and amount of work, and starts all that fit. `program` (DEC)
//! searches for the list whose schedule has the least sum of weighted waits, with the draw as one resource among
//! others, and starts the jobs that this schedule starts now. The schedule pools resources over the nodes, so a job may
//! not find nodes for its start; then it waits for the next end of a job, and the schedule is made again, at most
//! [`MAPPINGS`] times. Each round searches for `plan-steps`, and again after `think-every` while better lists are
//! found. The best list is part of the state; it is never worse than that of a rule. Constraints: walltimes are the
//! expected durations. With the admission `rate` the estimated draw stays below the upper limit and the rate of the
//! budget; with `band`, the believed draw below the limit for the duration of the job. A job that has waited for
//! `hold-after` comes first, and no other passes it: so none waits forever. A job that could not start on an empty cluster
//! or under any known limit holds up nobody. Unclear text: the learned constraint is that the job does not start before
//! the next end. Ignores: prices, and priorities except for the choice of the considered jobs. Cost for each start: a
//! schedule of the considered jobs (at most `depth`), all nodes, and the running jobs. Options: `list-by`, `plan-steps`,
//! `think-every`, `hold-after`, `depth`, `default-duration`, and those of the placement.

mod problem;
mod search;

use std::collections::BTreeSet;

use limo_model::{JobId, OrderRule, Span, Time, Wait};

use super::batch::{Headroom, waking_of};
use super::conservative;
use super::trial::Trial;
use crate::engine::{Later, Pass, Verdict};
use crate::future::Asker;
use crate::index::PlanCache;
use crate::options::ListBy;
use crate::plan::{Plan, Start};
use crate::solve::plan::ListRule;
use crate::state::Job;
use crate::view::{Choice, View};

use problem::WaitingJobs;
pub(crate) use search::think;

/// Number of schedules of one plan.
const MAPPINGS: usize = 5;

/// A plan under construction.
pub(in crate::policy) struct ListPass<'a> {
    view: View<'a>,
    trial: Trial<'a>,
    headroom: Headroom<'a>,
    waiting: WaitingJobs<'a>,
    /// The list, by index among the waiting jobs.
    list: Vec<u32>,
    /// The jobs to decide about, and the number of jobs already returned.
    queue: Vec<(JobId, &'a Job)>,
    asked: usize,
    /// The job that starts. A further plan follows.
    start: Option<Start>,
    /// Jobs that did not find nodes or power.
    failed: BTreeSet<JobId>,
    /// Reason for which jobs wait that could start alone.
    power: Vec<(JobId, Wait)>,
}

impl<'a> ListPass<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let waiting = WaitingJobs::of(view);
        let mut list = match view.parts().order {
            OrderRule::Program => {
                waiting.completed(view.state().program.as_deref().map_or(&[], |program| &program.best))
            }
            _ => waiting.problem.listed(view.options().lists.by.rule()),
        };
        list.sort_by_key(|job| {
            let job = waiting.jobs[*job as usize].1.job;
            if is_late(view, job) { job.eligible() } else { Time::MAX }
        });
        let mut pass = Self {
            view: *view,
            trial: Trial::of(view),
            headroom: Headroom::of(view),
            waiting,
            list,
            queue: view.queue().collect(),
            asked: 0,
            start: None,
            failed: BTreeSet::new(),
            power: Vec::new(),
        };
        pass.start = pass.first_start();
        pass
    }

    /// Returns the first start of the list.
    fn first_start(&mut self) -> Option<Start> {
        // Without a running job it waits for nothing that an end would bring.
        let is_idle = self.view.active().next().is_none();
        let first = *self.list.first()?;
        if is_late(&self.view, self.waiting.jobs[first as usize].1.job) {
            let start = self.start_of(first);
            if start.is_some() || !is_idle {
                return start;
            }
        }
        if self.view.parts().order == OrderRule::Rule {
            return self.list.clone().into_iter().find_map(|job| self.start_of(job));
        }
        for _ in 0..MAPPINGS {
            let is_new = |job: &u32| !self.failed.contains(&self.waiting.jobs[*job as usize].0);
            let now = self.waiting.problem.first_starts(&self.list).into_iter();
            let now: Vec<u32> = now.filter(is_new).collect();
            for job in &now {
                if let Some(start) = self.start_of(*job) {
                    return Some(start);
                }
                match is_idle {
                    true => self.waiting.problem.leave_out(*job),
                    false => self.waiting.problem.hold(*job),
                }
            }
            if now.is_empty() {
                break;
            }
        }
        None
    }

    /// Returns the start of a job now, if it finds nodes and power.
    fn start_of(&mut self, index: u32) -> Option<Start> {
        let (id, asker) = self.waiting.jobs[index as usize];
        if !self.waiting.may_fit(index) {
            self.failed.insert(id);
            return None;
        }
        let candidate = self.trial.asked(id, asker);
        let start = candidate.and_then(|candidate| self.trial.start(&candidate, None));
        let powered = start.map(|start| {
            let waking = waking_of(&self.view, &start.placement);
            let choice = Choice {
                placement: start.placement.clone(),
                estimate: start.estimate,
                alone: asker.job.request.exclusive,
                waking,
            };
            self.headroom.take(&self.view, &choice).map(|()| start)
        });
        match powered {
            Some(Ok(start)) => return Some(start),
            Some(Err(wait)) => self.power.push((id, wait)),
            None => {}
        }
        self.failed.insert(id);
        None
    }

    fn wait(&mut self, (id, job): (JobId, &Job)) -> Wait {
        if let Some((_, wait)) = self.power.iter().find(|(of, _)| *of == id) {
            return wait.clone();
        }
        if let Some(wait) = self.trial.obstacle(job, None) {
            return wait;
        }
        let first = self.list.first().map(|first| self.waiting.jobs[*first as usize].0);
        match first.filter(|first| *first != id && !self.failed.contains(&id)) {
            Some(job) => Wait::Behind { job, until: None },
            None => Wait::Resources { until: None },
        }
    }
}

impl ListBy {
    fn rule(self) -> ListRule {
        match self {
            Self::Work => ListRule::Work,
            Self::Weight => ListRule::Weight,
        }
    }
}

/// Returns true if no other job may pass this one, because it has waited for long.
fn is_late(view: &View<'_>, job: &Job) -> bool {
    view.now() >= job.eligible() + view.options().hold_after
}

impl<'a> Pass<'a> for ListPass<'a> {
    fn next(&mut self) -> Option<(JobId, &'a Job)> {
        let job = self.queue.get(self.asked).copied();
        self.asked += 1;
        job
    }

    fn place(&mut self, (id, job): (JobId, &'a Job)) -> Verdict {
        match self.start.take_if(|start| start.job == id) {
            Some(start) => Verdict::Start(start),
            // The next plan decides about it.
            None if self.start.is_some() => Verdict::Untold,
            None => Verdict::Wait(self.wait((id, job))),
        }
    }

    fn is_over(&mut self, plan: &Plan) -> bool {
        !plan.starts.is_empty()
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if plan.starts.is_empty() {
            conservative::tell_others(&self.view, self.queue.last().map(|(id, _)| *id), plan);
        }
        if !plan.is_followed() {
            plan.wake_at = self.trial.gate.look_again(&self.view);
        }
        None
    }

    fn later(&mut self) -> Vec<Later> {
        let starts = self.waiting.problem.schedule(&self.list).starts;
        let later = |((id, asker), after): (&(JobId, Asker<'a>), &Span)| {
            (*after > Span::ZERO).then(|| conservative::later(*asker, (*id, self.view.now() + *after)))
        };
        self.waiting.jobs.iter().zip(&starts).filter_map(later).collect()
    }
}
