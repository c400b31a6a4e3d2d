//! New nodes of running malleable jobs: free ones, as many as the range allows, and within the upper limit.

use std::collections::BTreeSet;

use limo_model::{JobId, NodeId, Part, Power, nodes, width};

use super::{Case, one_part};
use crate::plan::{Plan, Violation};
use crate::state::Job;

pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if plan.resizes.is_empty() {
        return;
    }
    let (mut given, mut more) = (BTreeSet::new(), Power::ZERO);
    for (id, placement) in &plan.resizes {
        match case.job(*id).filter(|job| job.request.malleable && job.is_running_on()) {
            Some(job) => more += one(case, (*id, job), placement, &mut given, found),
            None => found.push(Violation::NotMalleable { job: *id }),
        }
    }
    let (unconfirmed, away) = case.state.relief();
    let (draw, high) = (case.state.sums.draw + unconfirmed + away + more, case.high());
    if case.parts.keeps_upper_limit() && more > Power::ZERO && draw > high {
        found.push(Violation::UpperLimit { draw, high });
    }
}

/// Checks the new placement of a job; returns the change of its draw.
fn one(
    case: Case<'_>,
    (id, job): (JobId, &Job),
    placement: &[Part],
    given: &mut BTreeSet<NodeId>,
    found: &mut Vec<Violation>,
) -> Power {
    let Some(assignment) = job.assignment() else { return Power::ZERO };
    let own: BTreeSet<NodeId> = nodes(&assignment.placement).collect();
    let (was, count) = (width(&assignment.placement), width(placement));
    if let Some(widths) = job.request.widths.filter(|widths| !widths.contains(count)) {
        found.push(Violation::Width { job: id, nodes: count, widths });
    }
    for part in placement {
        for node in part.nodes().filter(|node| !own.contains(node)) {
            let part = Part { unit: limo_model::UnitId { node, ..part.unit }, count: 1, ..*part };
            one_part(case, (id, job), &part, found);
            if !given.insert(node) || !case.books.is_free(node) {
                found.push(Violation::NodeTaken { job: id, node });
            }
        }
    }
    assignment.estimate.power.scaled(i64::from(count) - i64::from(was), i64::from(was.max(1)))
}
