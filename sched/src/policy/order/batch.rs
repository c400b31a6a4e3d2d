//! The order `strict` with the placements `ranked`, `window` and `assignment` (heterogeneity paper, section 2.3) and `pool`
//! (htc-sim-2015, section V): jobs start in the order of the queue, the first ones perhaps together. The variation of the
//! nodes or the sessions of their owners decide about the place.
//!
//! Idea: first come, first served, without backfilling. The placement chooses the nodes: for one job, or for all that
//! fit together. Durations are those of profiles, and the slowest part of a job decides. Constraints: with the
//! admission `band` a job starts if the power band leaves its draw for all of its expected duration. The first job
//! that cannot start holds those behind it. A job without any reachable node, or kept away by a reservation, holds
//! nobody. Ignores: prices, deadlines. Options: `depth`, `default_duration` and those of the placement.

use std::collections::{BTreeSet, VecDeque};

use limo_model::{AdmissionRule, JobId, Placement, PlacementRule, Power, Wait};

use super::builder::next_change;
use super::easy::is_kept_away;
use super::expected::slowest;
use crate::engine::{Later, Pass, Verdict};
use crate::facts::waking_draw;
use crate::future::Future;
use crate::index::{PlanCache, Shape};
use crate::options::Allocation;
use crate::plan::{Plan, Start};
use crate::policy::placement::{assign, ranked};
use crate::policy::relief;
use crate::state::Job;
use crate::view::{Choice, View};

/// A plan under construction.
pub(in crate::policy) struct BatchPass<'a> {
    view: View<'a>,
    /// The jobs to decide about, and the number of jobs already returned.
    jobs: Vec<(JobId, &'a Job)>,
    asked: usize,
    /// The starts that were not asked for yet, in the order of their jobs.
    starts: VecDeque<Start>,
    /// The first job that cannot start, with its reason.
    holder: Option<(JobId, Wait)>,
}

impl<'a> BatchPass<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let mut pass = Self { view: *view, jobs: Vec::new(), asked: 0, starts: VecDeque::new(), holder: None };
        pass.decide();
        if pass.starts.is_empty() {
            // Those behind the first ones keep the reasons of earlier plans. Another plan follows one with starts.
            let decided: BTreeSet<JobId> = pass.jobs.iter().map(|(id, _)| *id).collect();
            pass.jobs.extend(view.untold().filter(|(id, _)| !decided.contains(id)));
        }
        pass
    }

    /// Returns the shape of a job that may hold others: it could run on a known node, and no reservation keeps it away.
    fn shape(&self, job: &Job) -> Option<&'a Shape> {
        let shape = self.view.index().shapes.find(&job.request).filter(|shape| !shape.ways.is_empty());
        shape.filter(|_| !is_kept_away(&self.view, job))
    }

    /// Decides about the first jobs.
    fn decide(&mut self) {
        let (view, mut power) = (self.view, Headroom::of(&self.view));
        let mut first: Vec<(JobId, &'a Job, &'a Shape)> = Vec::new();
        let is_batch = |job: &Job| {
            let is_any = view.options().allocation == Allocation::Any && !job.request.is_packed();
            view.parts().placement == PlacementRule::Assignment && is_any
        };
        let (mut nodes, mut is_together) = (0_usize, true);
        for (id, job) in view.queue() {
            let Some(shape) = self.shape(job) else {
                self.jobs.push((id, job));
                continue;
            };
            let joins = first.is_empty() || (is_together && is_batch(job) && nodes < view.nodes().len());
            if !joins {
                break;
            }
            (nodes, is_together) = (nodes.saturating_add(job.request.nodes.get() as usize), is_batch(job));
            first.push((id, job, shape));
            self.jobs.push((id, job));
        }
        let placements: Vec<Placement> = match &first[..] {
            [] => return,
            [(id, job, shape), ..] if !is_batch(job) => {
                ranked::find(&view, shape, (*id, job), None).into_iter().collect()
            }
            all => assign(&view, &all.iter().map(|(_, job, shape)| (*job, *shape)).collect::<Vec<_>>()),
        };
        for ((id, job, _), placement) in first.iter().zip(placements) {
            let choice = choice(&view, job, placement);
            if let Err(wait) = power.take(&view, &choice) {
                self.holder = Some((*id, wait));
                return;
            }
            let Choice { placement, estimate, .. } = choice;
            self.starts.push_back(Start { job: *id, placement, estimate, waits_for_relief: false, explores: false });
        }
        let next = first.get(self.starts.len());
        self.holder = next.map(|(id, ..)| (*id, Wait::Resources { until: None }));
    }
}

fn choice(view: &View<'_>, job: &Job, placement: Placement) -> Choice {
    let (estimate, waking) = (slowest(view, job, &placement), waking_of(view, &placement));
    Choice { placement, estimate, alone: job.request.exclusive, waking }
}

/// Returns the additional draw of the sleeping nodes of a placement while they wake.
pub(super) fn waking_of(view: &View<'_>, placement: &Placement) -> Power {
    match view.index().sleeping {
        0 => Power::ZERO,
        _ => limo_model::nodes(placement).filter_map(|node| view.node(node)).map(waking_draw).sum(),
    }
}

/// The power that the starts of a plan may take under the admission `band`.
pub(super) enum Headroom<'a> {
    Free,
    Band(Box<Future<'a>>),
}

impl<'a> Headroom<'a> {
    pub fn of(view: &View<'a>) -> Self {
        match view.parts().admission {
            AdmissionRule::Band => Self::Band(Box::new(Future::of_draw(view))),
            _ => Self::Free,
        }
    }

    /// Takes the power of a start; refuses with the reason for which the job waits.
    pub fn take(&mut self, view: &View<'a>, choice: &Choice) -> Result<(), Wait> {
        let Self::Band(future) = self else { return Ok(()) };
        let needs = choice.estimate.power + choice.waking;
        let left = future.headroom_for(choice.estimate.duration).at_least_zero();
        if needs > left || relief::wakes_too_early(view, &choice.placement, needs) {
            return Err(Wait::Band { needs, left, until: None });
        }
        future.plan(choice, view.now());
        Ok(())
    }
}

impl<'a> Pass<'a> for BatchPass<'a> {
    fn next(&mut self) -> Option<(JobId, &'a Job)> {
        let job = self.jobs.get(self.asked).copied();
        self.asked += 1;
        job
    }

    fn place(&mut self, (id, job): (JobId, &'a Job)) -> Verdict {
        if let Some(start) = self.starts.pop_front_if(|start| start.job == id) {
            return Verdict::Start(start);
        }
        Verdict::Wait(match &self.holder {
            _ if self.shape(job).is_none() => Wait::NoNode,
            Some((holder, wait)) if *holder == id => wait.clone(),
            Some((holder, _)) => Wait::Behind { job: *holder, until: None },
            // Others start before it; the next plan decides about it.
            None => return Verdict::Untold,
        })
    }

    fn is_over(&mut self, plan: &Plan) -> bool {
        !plan.starts.is_empty() && self.starts.is_empty()
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if !plan.is_followed() {
            plan.wake_at = next_change(&self.view);
        }
        None
    }

    fn later(&mut self) -> Vec<Later> {
        Vec::new()
    }
}
