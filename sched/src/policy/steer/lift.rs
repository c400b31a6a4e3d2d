//! Caps that rise without a decision about power: those of units without jobs, and, if the policy does not change
//! running jobs, those that another policy lowered. Also the comparison of caps.

use std::collections::BTreeMap;

use limo_model::{Power, UnitId};

use crate::plan::Plan;
use crate::state::Assignment;
use crate::view::View;

/// Lifts the caps of units without jobs.
pub(super) fn lift_idle(view: &View<'_>, plan: &mut Plan) {
    plan.caps.extend(capped(view).filter(|unit| view.index().cores_used(*unit) == 0).map(|unit| (unit, None)));
}

/// Returns units to the caps with which their jobs were started.
pub(super) fn let_go(view: &View<'_>, plan: &mut Plan) {
    if view.index().capped.is_empty() {
        return;
    }
    let mut aims: BTreeMap<UnitId, Option<Power>> = BTreeMap::new();
    let units = view.active().filter_map(|(_, job)| job.assignment()).flat_map(Assignment::units);
    for (unit, part) in units {
        aims.entry(unit).and_modify(|aim| *aim = higher(*aim, part.cap)).or_insert(part.cap);
    }
    let held = |unit: UnitId| Some((unit, *aims.get(&unit)?));
    plan.caps.extend(capped(view).filter_map(held).filter(|(unit, aim)| is_below(cap_of(view, *unit), *aim)));
}

/// Returns the higher one of two caps; no cap is the highest.
pub(super) fn higher(one: Option<Power>, other: Option<Power>) -> Option<Power> {
    one.zip(other).map(|(one, other)| one.max(other))
}

pub(super) fn is_below(cap: Option<Power>, aim: Option<Power>) -> bool {
    cap.is_some_and(|cap| aim.is_none_or(|aim| cap < aim))
}

pub(super) fn cap_of(view: &View<'_>, unit: UnitId) -> Option<Power> {
    view.node(unit.node)?.cap(unit.unit)
}

pub(super) fn capped<'a>(view: &View<'a>) -> impl Iterator<Item = UnitId> + use<'a> {
    let view = *view;
    let nodes = view.index().capped.iter().filter_map(move |id| view.node(*id));
    nodes.flat_map(|node| node.units().map(|(unit, _)| unit).filter(|unit| node.cap(unit.unit).is_some()))
}
