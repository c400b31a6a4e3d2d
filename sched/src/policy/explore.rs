//! Starts at a cap that the job explores ([`crate::facts`] says which jobs do and at which caps).
//!
//! Idea: the policy has decided about the start of a job. The job now starts on the same unit at the cap with the
//! fewest runs, among equal ones at the highest, so the profile of this cap is learned from an ordinary run.
//! Constraints: the user allows it and the job is in the operator's share. The job has its unit alone, so it slows
//! down no other job, and its node is awake. Its profile without a cap is known, and at the cap it also ends before
//! its time limit and its deadline, even if it slows down in proportion to its power. A planned start of another job
//! does not move: the callers check that. A plan explores with one start at most, so that the next plan counts it.
//! Ignores: the energy and the price of the run. Setting: `explore` ([`crate::Event::ExploreSet`]).

use std::cmp::Reverse;

use limo_model::{AdmissionRule, Estimate, JobId, Part, Power, Request, Span};

use super::order::PlanBuilder;
use crate::facts::{Measured, RUNS, allows_unit, caps, cores_on, explores, is_near, longest_at};
use crate::plan::Start;
use crate::state::Job;
use crate::view::{Choice, View};

/// A cap to explore.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explored {
    pub cap: Power,
    /// The longest expected duration of the run.
    pub longest: Span,
}

/// Returns the cap that a job explores on a placement, if it explores one there.
pub(super) fn cap(view: &View<'_>, (id, job): (JobId, &Job), placement: &[Part]) -> Option<Explored> {
    let request = &job.request;
    if !explores(view.state(), id, request) {
        return None;
    }
    let [part] = placement else { return None };
    let (node, unit) = view.unit(part.unit).filter(|(node, _)| part.count == 1 && node.is_awake())?;
    let (lowest, highest) = node.cap_range(part.unit.unit)?;
    let is_alone = (part.cores == unit.cores || request.exclusive) && view.index().cores_used(part.unit) == 0;
    let measured = Measured { state: view.state(), request, unit, cores: part.cores };
    let free = measured.free().filter(|_| is_alone)?;
    let below = free.power.min(part.cap.unwrap_or(Power::MAX)).min(highest + Power::from_mw(1));
    let deadline = request.deadline.map(|at| view.clock().cluster(at));
    let is_in_time = |longest: Span| {
        request.time_limit.is_none_or(|limit| longest <= limit)
            && deadline.is_none_or(|at| view.now() + longest.scaled(11, 10) <= at)
    };
    let explored = |cap: Power| Explored { cap, longest: longest_at(free, cap) };
    let possible = caps(lowest, below).into_iter().map(explored).filter(|explored| is_in_time(explored.longest));
    let counted = possible.map(|explored| (runs(view, measured, explored.cap), explored));
    let wanted = counted.filter(|(runs, _)| *runs < RUNS);
    wanted.min_by_key(|(runs, explored)| (*runs, Reverse(explored.cap))).map(|(_, explored)| explored)
}

/// Returns the number of runs at a cap, including those that have not ended.
pub(super) fn runs(view: &View<'_>, measured: Measured<'_>, cap: Power) -> u32 {
    let of_job = |id: &JobId| {
        let job = view.job(*id)?;
        let part = job.assignment()?.placement.first()?;
        let (_, unit) = view.unit(part.unit)?;
        let (request, other) = (measured.request, &job.request);
        let same = (&request.application, &request.size) == (&other.application, &other.size)
            && unit.hardware == measured.unit.hardware
            && part.cores == measured.cores;
        part.cap.filter(|other| same && is_near(cap, *other))
    };
    let running = view.index().measuring.iter().filter_map(of_job).count();
    measured.runs(cap).saturating_add(u32::try_from(running).unwrap_or(u32::MAX))
}

/// Returns a start of an order that expects each job to take its walltime, at the cap that the job explores, if it
/// explores one within this time. Its expected end stays the same, and it draws less, so no reservation moves.
pub(super) fn within_walltime(view: &View<'_>, job: &Job, start: Start) -> Start {
    let estimate = start.estimate;
    let explored = cap(view, (start.job, job), &start.placement);
    let Some(Explored { cap, .. }) = explored.filter(|explored| explored.longest <= estimate.duration) else {
        return start;
    };
    let power = estimate.power.min(cap);
    let placement = start.placement.iter().map(|part| Part { cap: Some(cap), ..*part }).collect();
    let estimate = Estimate { power, energy: power * estimate.duration, ..estimate };
    Start { placement, estimate, explores: true, ..start }
}

/// Orders fillers: first those that measure their application at a requested cap, the cap with the fewest runs first.
pub(super) fn least_measured_first(view: &View<'_>, fillers: &mut [(JobId, &Job)]) {
    if fillers.iter().any(|(_, job)| job.request.cap.is_some()) {
        fillers.sort_by_cached_key(|(_, job)| runs_of_filler(view, &job.request).unwrap_or(u32::MAX));
    }
}

/// Returns the number of runs of a filler's application at the cap that it requests, on the first unit that it names.
fn runs_of_filler(view: &View<'_>, request: &Request) -> Option<u32> {
    let (cap, name) = (request.cap?, request.include.first()?);
    let node = view.node(*view.index().names.get(name)?)?;
    let (_, unit) = node.units().find(|(_, unit)| allows_unit(request, unit))?;
    let cores = cores_on(request, unit);
    Some(runs(view, Measured { state: view.state(), request, unit, cores }, cap))
}

impl PlanBuilder<'_> {
    /// Returns the choice at the cap that the job explores, and true, if it explores one there: no running or planned
    /// job is delayed, and the draw is not below the lower limit.
    pub(super) fn explored(&self, job: (JobId, &Job), choice: Choice) -> (Choice, bool) {
        let found = cap(&self.view, job, &choice.placement).filter(|_| !self.has_explored);
        let Some(Explored { cap, longest }) = found else { return (choice, false) };
        let power = choice.estimate.power.min(cap);
        let estimate = Estimate { duration: longest, power, energy: power * longest, ..choice.estimate };
        let placement = choice.placement.iter().map(|part| Part { cap: Some(cap), ..*part }).collect();
        let slower = Choice { placement, estimate, ..choice.clone() };
        let (now, low) = (self.view.now(), self.view.band().low());
        let draw = match self.parts.admission {
            AdmissionRule::Band => self.actual.draw_at(now),
            _ => self.view.estimated_draw() + self.started,
        };
        let holds = !self.parts.heeds_lower_limit() || draw + power >= low;
        let fits = holds && self.planned.earliest(&slower, now, self.respect()) == Some(now);
        if fits { (slower, true) } else { (choice, false) }
    }
}
