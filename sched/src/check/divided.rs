//! Effects of a plan of a policy that divides the upper limit: its starts and the caps that make room for them.
//!
//! Two states are the worst: all orders are followed and all starts run, or no order is followed yet and only the starts
//! run that do not wait. Caps lower than the lowest of a unit do not exist, so a limit that is too low for the lowest caps
//! is exceeded.

use std::collections::BTreeMap;

use limo_model::{Part, Power, UnitId};

use super::Case;
use crate::facts::{by_unit, expected};
use crate::plan::{Plan, Start, Violation};
use crate::state::{Job, Node};

/// Caps are divided with a precision of one part in this many.
const PRECISION: i64 = 1_000;

pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let high = case.high();
    if plan.starts.is_empty() || !case.parts.divides() || high.is_unlimited() {
        return;
    }
    let caps: BTreeMap<UnitId, Option<Power>> = plan.caps.iter().copied().collect();
    let planned = |unit: UnitId| caps.get(&unit).copied().unwrap_or_else(|| cap_of(case, unit));
    let (all, (unconfirmed, away)) = (|_: UnitId| true, case.state.relief());
    let now = case.state.sums.draw + away - case.state.never_begins();
    let followed = now - freed(case, planned, all) + of_starts(case, &plan.starts, planned, all);
    let begins = |start: &&Start| plan.caps.is_empty() && !start.waits_for_relief;
    let at_once: Power = plan.starts.iter().filter(begins).map(|start| start.estimate.power).sum();
    // Without unconfirmed orders there is nothing to wait for.
    if at_once > Power::ZERO && unconfirmed > Power::ZERO && now + unconfirmed + at_once > high {
        found.push(Violation::UpperLimit { draw: now + unconfirmed + at_once, high });
    } else if followed > high {
        let lowest = |unit: UnitId| case.node(unit.node).and_then(|node| node.cap_range(unit.unit)).map(|(low, _)| low);
        let floor = now - freed(case, lowest, all) + of_starts(case, &plan.starts, lowest, all);
        let most = floor.max(high);
        if followed > most + most.scaled(1, PRECISION) {
            found.push(Violation::UpperLimit { draw: followed, high });
        }
    }
}

pub(super) fn cap_of(case: Case<'_>, unit: UnitId) -> Option<Power> {
    case.node(unit.node)?.cap(unit.unit)
}

/// Returns the power that running jobs give if those of their units that `counts` accepts get other caps. A unit that keeps its cap gives none, whatever
/// its readings, and neither do jobs with unreachable nodes and parts that have ended.
pub(super) fn freed(case: Case<'_>, cap: impl Fn(UnitId) -> Option<Power>, counts: impl Fn(UnitId) -> bool) -> Power {
    let is_there = |part: &Part| part.nodes().all(|node| case.node(node).is_some_and(Node::is_connected));
    let of_job = |job: &Job| {
        let assignment = job.assignment().filter(|of| of.placement.iter().all(is_there))?;
        let left = assignment.left();
        let of_unit = |((unit, part), (_, draw)): ((UnitId, &Part), (UnitId, Power))| {
            let cap = cap(unit).filter(|cap| Some(*cap) != cap_of(case, unit) && !left.contains(&unit.node))?;
            counts(unit).then_some(())?;
            let part = Part { unit, count: 1, ..*part };
            let after = expected(case.state, job, (&job.request, &part), Some(cap))?.power;
            Some((draw - after).at_least_zero())
        };
        Some(assignment.units().zip(assignment.draw_by_unit()).filter_map(of_unit).sum::<Power>())
    };
    let jobs = case.state.active.iter().filter_map(|id| case.job(id));
    jobs.filter(|job| job.is_active_and_kept()).filter_map(of_job).sum()
}

/// Returns the draw of starts with their units at these caps, on those that `counts` accepts.
pub(super) fn of_starts(
    case: Case<'_>,
    starts: &[Start],
    cap: impl Fn(UnitId) -> Option<Power>,
    counts: impl Fn(UnitId) -> bool,
) -> Power {
    let of_start = |start: &Start| {
        let units = start.placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)));
        let units = units.filter(|(unit, _)| counts(*unit));
        let capped = units.map(|(unit, part)| ((unit, part), cap(unit).or(part.cap)));
        Some(by_unit(case.state, case.job(start.job)?, capped)?.0.into_iter().sum::<Power>())
    };
    starts.iter().filter_map(of_start).sum()
}
