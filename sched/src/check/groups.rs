//! Limits of groups of nodes: what a plan adds to the draw of each, counted from the record.
//!
//! As orders that are not confirmed count as not followed, a start needs no confirmation for the limit of a group. Only if
//! caps divide the limits, its own plan lowers caps, and it waits for these.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, NodeId, Part, Power, UnitId, nodes, width};

use super::divided::{cap_of, freed, of_starts};
use super::{Case, runs};
use crate::facts::{expected_of_units, shares_at_start, waking_draw};
use crate::options::Preempt;
use crate::plan::{Plan, Start, Violation};
use crate::state::{Job, Node};

/// Caps are divided with a precision of one part in this many.
const PRECISION: i64 = 1_000;

pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if !case.books.limits_groups {
        return;
    }
    let groups = &case.state.settings.groups;
    let mut more = Added { case, power: vec![Power::ZERO; groups.iter().count()] };
    plan.starts.iter().for_each(|start| more.start(start));
    plan.resizes.iter().for_each(|(id, placement)| more.resized(*id, placement));
    let divides = case.parts.divides();
    let starts = more.power.clone();
    if divides {
        more.power.fill(Power::ZERO);
    }
    more.switched(plan);
    let switched = more.power.clone();
    let changes_jobs = case.parts.steers() && case.state.settings.options.preempt != Preempt::Nothing;
    if divides || changes_jobs {
        more.raised(plan);
    }
    if changes_jobs {
        plan.resumes.iter().filter_map(|id| case.job(*id)).for_each(|job| more.resumed(job));
    }
    let draws = case.state.group_draws();
    for (group, ((name, spec), (draw, more))) in groups.iter().zip(draws.into_iter().zip(more.power)).enumerate() {
        let is_in = |node: NodeId| case.node(node).is_some_and(|node| node.group() == Some(group));
        let (open, gone) = case.state.relief_in(|node| node.group() == Some(group));
        let limit = spec.limit();
        let mut exceeds = |draw: Power, slack: Power| {
            if draw > limit + slack {
                found.push(Violation::GroupLimit { group: name.to_owned(), draw, limit });
            }
        };
        if more > Power::ZERO {
            exceeds(draw + open + gone + more, Power::ZERO);
        }
        if divides && plan.starts.iter().any(|start| nodes(&start.placement).any(is_in)) {
            let caps: BTreeMap<UnitId, Option<Power>> = plan.caps.iter().copied().collect();
            let planned = |unit: UnitId| caps.get(&unit).copied().unwrap_or_else(|| cap_of(case, unit));
            let open = if plan.caps.is_empty() { open } else { Power::ZERO };
            let now = draw + gone + open - freed(case, planned, |unit| is_in(unit.node));
            let at_caps = of_starts(case, &plan.starts, planned, |unit| is_in(unit.node));
            // Without caps, the draw of a job is divided among its units as by its estimate.
            let is_capped = |start: &Start| {
                start.placement.iter().flat_map(|part| part.units()).any(|unit| caps.contains_key(&unit))
            };
            let starts = if plan.starts.iter().any(is_capped) { at_caps } else { at_caps.max(starts[group]) };
            exceeds(now + switched[group] + starts, limit.scaled(1, PRECISION));
        }
    }
}

/// The power that a plan adds to each group.
struct Added<'a> {
    case: Case<'a>,
    power: Vec<Power>,
}

impl Added<'_> {
    fn add(&mut self, node: NodeId, more: Power) {
        if let Some(power) = self.case.node(node).and_then(|of| self.power.get_mut(of.group()?)) {
            *power += more;
        }
    }

    /// Adds the draw of a start, divided among its units as at its start.
    fn start(&mut self, start: &Start) {
        let Some(job) = self.case.job(start.job) else { return };
        let draw = start.estimate.power;
        let units: Vec<UnitId> = start.placement.iter().flat_map(|part| part.units()).collect();
        let shares = shares_at_start(self.case.state, job, &start.placement, draw);
        let even = draw.scaled(1, i64::try_from(units.len().max(1)).unwrap_or(i64::MAX));
        for (index, unit) in units.into_iter().enumerate() {
            self.add(unit.node, shares.get(index).copied().unwrap_or(even));
        }
    }

    /// Adds the draw of a running job on nodes that it gets in addition.
    fn resized(&mut self, id: JobId, placement: &[Part]) {
        let Some(assignment) = self.case.job(id).and_then(|job| job.assignment()) else { return };
        let each = assignment.estimate.power.scaled(1, i64::from(width(&assignment.placement).max(1)));
        let own: BTreeSet<NodeId> = nodes(&assignment.placement).collect();
        nodes(placement).filter(|node| !own.contains(node)).for_each(|node| self.add(node, each));
    }

    /// Adds the draw of nodes while they wake or fall asleep.
    fn switched(&mut self, plan: &Plan) {
        let case = self.case;
        let mut placed: Vec<NodeId> = plan.starts.iter().flat_map(|start| nodes(&start.placement)).collect();
        placed.sort_unstable();
        placed.dedup();
        for node in placed.into_iter().filter_map(|node| case.node(node)) {
            self.add(node.id, waking_draw(node));
        }
        for node in runs(plan).filter_map(|node| case.node(node)) {
            self.add(node.id, falling_asleep(node));
        }
    }

    /// Adds the draw that running jobs get by higher caps.
    fn raised(&mut self, plan: &Plan) {
        let caps: BTreeMap<UnitId, Option<Power>> = plan.caps.iter().copied().collect();
        let case = self.case;
        let after = |unit: UnitId| caps.get(&unit).copied().unwrap_or_else(|| cap_of(case, unit));
        let is_raised = |unit: UnitId| {
            let current = cap_of(case, unit);
            caps.get(&unit).is_some_and(|cap| current.is_some_and(|current| cap.is_none_or(|cap| cap > current)))
        };
        let jobs = case.state.active.iter().filter_map(|id| case.job(id)).filter(|job| job.is_active_and_kept());
        for (job, assignment) in jobs.filter_map(|job| Some((job, job.assignment()?))) {
            if !assignment.units().any(|(unit, _)| is_raised(unit)) {
                continue;
            }
            let Some(expected) = expected_of_units(case.state, job, after) else { continue };
            for ((unit, before), after) in assignment.draw_by_unit().zip(expected.by_unit(assignment)) {
                if is_raised(unit) {
                    self.add(unit.node, (after - before).at_least_zero());
                }
            }
        }
    }

    /// Adds the draw of a suspended job.
    fn resumed(&mut self, job: &Job) {
        let case = self.case;
        let expected = expected_of_units(case.state, job, |unit| cap_of(case, unit));
        let Some((assignment, expected)) = job.assignment().zip(expected) else { return };
        for ((unit, _), draw) in assignment.units().zip(expected.by_unit(assignment)) {
            self.add(unit.node, draw);
        }
    }
}

/// Returns the additional draw of a node while it falls asleep.
pub(super) fn falling_asleep(node: &Node) -> Power {
    node.spec.rest().map_or(Power::ZERO, |rest| (rest.down.draw - node.own).at_least_zero())
}
