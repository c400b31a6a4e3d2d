//! Effects of a plan on running jobs: units must obey their caps, and only permitted jobs are capped, suspended or
//! resumed.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, Power, UnitId};

use super::Case;
use crate::facts::expected_of_units;
use crate::plan::{Plan, Violation};
use crate::state::{Job, Phase};

pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    for (unit, cap) in plan.caps.iter().filter_map(|(unit, cap)| Some((*unit, (*cap)?))) {
        let range = case.node(unit.node).and_then(|node| node.cap_range(unit.unit));
        if !range.is_some_and(|(low, high)| (low..=high).contains(&cap)) {
            found.push(Violation::UnitCap { unit, cap });
        }
    }
    shared_caps(case, plan, found);
    let mut seen = BTreeSet::new();
    let touched = plan.suspends.iter().chain(&plan.requeues).chain(&plan.resumes);
    found.extend(touched.filter(|job| !seen.insert(**job)).map(|job| Violation::Twice { job: *job }));
    let not = |job: &JobId, may: &dyn Fn(&Job) -> bool| !case.job(*job).is_some_and(may);
    // A job that a person resumes stays suspended until there is enough power for it, even without its user's
    // permission.
    let suspendible = |job: &Job| (job.is_running_on() && job.request.may_suspend) || job.may_continue();
    let requeueable = |job: &Job| job.is_running_on() && job.request.may_requeue;
    let suspended = |job: &Job| matches!(job.phase, Phase::Suspended(..));
    let preempted = plan.suspends.iter().filter(|job| not(job, &suspendible));
    let preempted = preempted.chain(plan.requeues.iter().filter(|job| not(job, &requeueable)));
    found.extend(preempted.map(|job| Violation::NotPreemptible { job: *job }));
    found.extend(
        plan.resumes.iter().filter(|job| not(job, &suspended)).map(|job| Violation::NotSuspended { job: *job }),
    );
    let paused = plan.resumes.iter().filter(|job| case.job(**job).is_some_and(Job::is_paused));
    found.extend(paused.map(|job| Violation::SuspendedByPerson { job: *job }));
    upper_limit(case, plan, found);
    rises(case, plan, found);
}

/// Checks that caps rise only by power that is surely free, if the policy divides the upper limit.
fn rises(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let cap_of = |unit: UnitId| case.node(unit.node).and_then(|node| node.cap(unit.unit));
    let is_higher = |unit: UnitId, cap: Option<Power>| {
        cap_of(unit).is_some_and(|current| cap.is_none_or(|cap| cap > current)) && case.books.used(unit) > 0
    };
    let raised: BTreeMap<UnitId, Option<Power>> =
        plan.caps.iter().copied().filter(|(unit, cap)| is_higher(*unit, *cap)).collect();
    if raised.is_empty() || !case.parts.divides() {
        return;
    }
    let after = |unit: UnitId| raised.get(&unit).copied().unwrap_or_else(|| cap_of(unit));
    let more = |job: &Job| {
        let assignment = job.assignment().filter(|of| of.units().any(|(unit, _)| raised.contains_key(&unit)))?;
        Some((expected_of_units(case.state, job, after)?.draw - assignment.draw).at_least_zero())
    };
    let jobs = case.state.active.iter().filter_map(|id| case.job(id));
    let more: Power = jobs.filter(|job| job.is_active_and_kept()).filter_map(more).sum();
    let (unconfirmed, away) = case.state.relief();
    let now = case.state.sums.draw - case.state.never_begins();
    let (draw, high) = (now + unconfirmed + away + more, case.high());
    if draw > high && more > Power::ZERO {
        found.push(Violation::UpperLimit { draw, high });
    }
}

/// Checks that a unit has one cap for all its jobs. The units of a job may have different caps.
fn shared_caps(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let parts = || plan.starts.iter().flat_map(|start| &start.placement);
    if case.books.capped.is_empty() && parts().all(|part| part.cap.is_none()) {
        return;
    }
    let mut caps = BTreeMap::new();
    for start in &plan.starts {
        let mut shared = |(unit, asked): (UnitId, Option<Power>)| {
            let now = || match case.parts.divides() {
                // The policy moves the caps below those that jobs request.
                true => requested(case, unit),
                false => case.node(unit.node).and_then(|node| node.cap(unit.unit)),
            };
            let cap = if case.books.used(unit) > 0 { now() } else { asked };
            *caps.entry(unit).or_insert(cap) != asked
        };
        if start.placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cap))).any(&mut shared) {
            found.push(Violation::SharedCap { job: start.job });
        }
    }
}

/// Returns the lowest cap with which a job was started on a unit.
fn requested(case: Case<'_>, unit: UnitId) -> Option<Power> {
    let jobs = case.state.active.iter().filter_map(|id| case.job(id)?.assignment());
    jobs.filter_map(|assignment| assignment.cap_on(unit)).min()
}

/// Checks that resumed jobs do not take the draw above the upper limit, if the policy keeps it by changing running
/// jobs.
fn upper_limit(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    // Without the right to change running jobs, a policy resumes all of them.
    if plan.resumes.is_empty() || !case.parts.keeps_upper_limit() || !case.parts.steers() {
        return;
    }
    let more = plan.resumes.iter().filter_map(|job| case.job(*job));
    let more: Power = more.map(|job| crate::facts::draw_if_on(case.state, job)).sum();
    // A resumed job draws at once, whatever orders to others are followed.
    let (unconfirmed, away) = case.state.relief();
    let (draw, high) = (case.state.sums.draw + unconfirmed + away + more, case.high());
    if draw > high && case.state.settings.options.preempt != crate::options::Preempt::Nothing {
        found.push(Violation::UpperLimit { draw, high });
    }
}
