//! Unreachable nodes in reports.

use std::cell::LazyCell;

use limo_model::Time;
use limo_proto::{UNREACHABLE_LIMIT, UnreachableReport};
use limo_sched::{Assignment, Core, Node};

/// Returns unreachable nodes that have jobs or held draw.
pub fn nodes(core: &Core) -> Vec<UnreachableReport> {
    let occupants = LazyCell::new(|| core.occupants());
    let report = |node: &Node| {
        let jobs = if node.is_connected() { &[] } else { occupants.of(node.id()) };
        (!jobs.is_empty() || !node.held().is_empty()).then(|| UnreachableReport {
            name: node.spec().name.clone(),
            since: node.away_since().map(|at| core.clock().shown(at)),
            lost: node.lost_since().is_some(),
            jobs: u32::try_from(jobs.len()).unwrap_or(u32::MAX),
            held: node.held_draw(),
        })
    };
    core.known_nodes().filter_map(report).take(UNREACHABLE_LIMIT).collect()
}

/// Returns the unreachable nodes of a job, each with the start of its absence.
pub fn of_job(core: &Core, assignment: &Assignment) -> Vec<(String, Option<Time>)> {
    let nodes = limo_model::nodes(&assignment.placement).filter_map(|node| core.node(node));
    let away = nodes.filter(|node| !node.is_connected());
    away.map(|node| (node.spec().name.clone(), node.away_since().map(|at| core.clock().shown(at)))).collect()
}
