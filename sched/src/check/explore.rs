//! Caps of started jobs. A job whose user has not allowed exploration gets no cap that the policy could not have
//! chosen. A job that explores is in the operator's share, alone on its unit, and also ends in time at its cap. Shares
//! only the recorded state and the drawing of jobs with the policies.

use limo_model::{CapRule, EstimateSource, JobId, Part, Power, Profile, ProfileKey, UnitSpec};

use super::Case;
use crate::facts::{Known, Looked, by_unit, delay_by_caps, explores};
use crate::plan::{Plan, Start, Violation};
use crate::state::Job;

/// A learned profile counts from this number of runs on.
const ENOUGH: u32 = 3;

pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    for start in &plan.starts {
        let Some(job) = case.job(start.job) else { continue };
        let mut caps = start.placement.iter().filter_map(|part| part.cap);
        match caps.find(|cap| job.request.cap != Some(*cap)) {
            Some(cap) if start.explores && !may_explore(case, (start.job, job), start) => {
                found.push(Violation::Explores { job: start.job, cap });
            }
            Some(cap) if !start.explores && !is_chosen(case, plan, (start, job)) => {
                found.push(Violation::NotItsCap { job: start.job, cap });
            }
            None if start.explores => found.push(Violation::Explores { job: start.job, cap: Power::ZERO }),
            _ => {}
        }
    }
}

/// Returns true if the policy can choose the caps of a start: that of other jobs on the unit, or one with a profile,
/// or any below a lower limit, or any that lowers the draw of a job alone. It chooses none if it leaves caps untouched.
fn is_chosen(case: Case<'_>, plan: &Plan, (start, job): (&Start, &Job)) -> bool {
    if !counts_delay(case, (start, job)) {
        return false;
    }
    let others = || plan.starts.iter().filter(|other| other.job != start.job).flat_map(|other| &other.placement);
    start.placement.iter().filter_map(|part| Some((part, part.cap?))).all(|(part, cap)| {
        let Some((_, unit)) = case.unit(part.unit) else { return true };
        let is_shared = || {
            let is_here = |other: &Part| other.cap == Some(cap) && other.units().any(|of| of == part.unit);
            case.books.used(part.unit) > 0 || others().any(is_here)
        };
        let has_profile = || Looked::up(Known::of(case.state), &job.request, unit).caps(unit).contains(&cap);
        let low = case.state.settings.limits.band(case.now).low();
        let may_choose = match case.parts.caps {
            // Shared caps are set after the start.
            CapRule::Untouched | CapRule::Even | CapRule::EqualSpeed | CapRule::Ellsworth => false,
            CapRule::FromProfile => has_profile(),
            CapRule::AtStart | CapRule::FixedShare => is_below_draw(case, job, (part, cap)),
            CapRule::Moved => !low.is_zero() || has_profile(),
        };
        may_choose || is_shared()
    })
}

/// Returns true if a job alone on its units draws less at a cap than without it.
fn is_below_draw(case: Case<'_>, job: &Job, (part, cap): (&Part, Power)) -> bool {
    let draws = |cap| {
        let units = part.units().map(|unit| ((unit, part), cap));
        by_unit(case.state, job, units).map(|(draws, _)| draws).unwrap_or_default()
    };
    let is_alone = part.units().all(|unit| case.books.used(unit) == 0);
    is_alone && draws(Some(cap)).iter().zip(draws(None)).all(|(capped, free)| *capped < free)
}

/// Returns true if a start at what is left of the upper limit counts the slowdown by its caps.
fn counts_delay(case: Case<'_>, (start, job): (&Start, &Job)) -> bool {
    let walltime = job.request.time_limit.unwrap_or(case.state.settings.options.default_duration);
    !case.parts.takes_what_is_left()
        || start.estimate.duration >= walltime + delay_by_caps(case.state, job, &start.placement, walltime)
}

fn may_explore(case: Case<'_>, (id, job): (JobId, &Job), start: &Start) -> bool {
    let [part @ Part { cap: Some(cap), count: 1, .. }] = &start.placement[..] else { return false };
    let Some((_, unit)) = case.unit(part.unit) else { return false };
    let is_alone = case.books.used(part.unit) == 0 && (part.cores == unit.cores || job.request.exclusive);
    let known = |cap| known(case, (job, unit), (part, cap));
    let Some(free) = known(None).first().copied() else { return false };
    let is_measured = known(Some(*cap)).iter().any(|of| of.source != EstimateSource::Learned || of.runs >= ENOUGH);
    let slowed = i128::from(free.duration.ms()) * i128::from(free.power.mw()) / i128::from(cap.mw().max(1));
    let ends = job.request.time_limit.is_none_or(|limit| slowed <= i128::from(limit.ms()));
    explores(case.state, id, &job.request) && is_alone && !is_measured && *cap < free.power && ends
}

/// Returns the profiles of a job on a unit at a cap: for its cores, and for any number of cores.
fn known(case: Case<'_>, (job, unit): (&Job, &UnitSpec), (part, cap): (&Part, Option<Power>)) -> Vec<Profile> {
    let key = |cores| ProfileKey {
        application: job.request.application.clone(),
        size: job.request.size.clone(),
        hardware: unit.hardware.clone(),
        cores,
        nodes: None,
        cap,
    };
    [Some(part.cores), None].into_iter().filter_map(|cores| case.state.profiles.get(&key(cores)).copied()).collect()
}
