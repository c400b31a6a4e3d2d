//! Checks that a job gets its accelerators on each node, and the cores next to them. The check that they are free is
//! the same for all jobs.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Memory, NodeId, Part, Request, UnitKind, UnitSpec, runs};

use super::Case;
use crate::facts::{units_wanted, wants_host_cores};

/// Returns the number of nodes in a placement, each counted once.
pub(super) fn nodes(placement: &[Part]) -> u32 {
    runs(placement).fold(0, |sum: u32, (_, count)| sum.saturating_add(count))
}

/// Returns true for a CPU on which the job may have cores next to its accelerators.
pub(super) fn is_host(request: &Request, unit: &UnitSpec) -> bool {
    wants_host_cores(request) && unit.kind == UnitKind::Cpu
}

/// A part of a job on one node, with its unit if there is one.
pub(super) type OnNode<'a> = (&'a Part, Option<&'a UnitSpec>);

/// Returns the parts of a placement on each of its nodes.
pub(super) fn by_node<'a>(case: Case<'a>, placement: &'a [Part]) -> BTreeMap<NodeId, Vec<OnNode<'a>>> {
    let mut by_node: BTreeMap<NodeId, Vec<OnNode<'a>>> = BTreeMap::new();
    for (part, node) in placement.iter().flat_map(|part| part.nodes().map(move |node| (part, node))) {
        let unit = case.node(node).and_then(|node| node.spec.units.get(usize::from(part.unit.unit)));
        by_node.entry(node).or_default().push((part, unit));
    }
    by_node
}

/// Returns true if each node has that many parts on different units of one type, and the parts there together request
/// the memory once. Parts on a CPU next to accelerators are not counted.
pub(super) fn accelerators_as_asked(case: Case<'_>, request: &Request, placement: &[Part]) -> bool {
    by_node(case, placement).values().all(|all| {
        let parts = || all.iter().filter(|(_, unit)| !unit.is_some_and(|unit| is_host(request, unit)));
        let types: BTreeSet<Option<&str>> = parts().map(|(_, unit)| unit.map(|unit| unit.hardware.as_str())).collect();
        let units: BTreeSet<u16> = parts().map(|(part, _)| part.unit.unit).collect();
        let memory = all.iter().fold(Memory::ZERO, |sum, (part, _)| sum.saturating_add(part.memory));
        types.len() == 1
            && units.len() == units_wanted(request)
            && parts().count() == units.len()
            && memory == request.memory
    })
}

/// Returns true if each node has one part on a CPU with as many cores as the job requests next to its accelerators, or
/// none if it requests none.
pub(super) fn host_cores_as_asked(case: Case<'_>, request: &Request, placement: &[Part]) -> bool {
    by_node(case, placement).values().all(|all| {
        let hosts =
            all.iter().filter_map(|(part, unit)| unit.filter(|unit| is_host(request, unit)).map(|of| (part, of)));
        let hosts: Vec<bool> = hosts.map(|(part, unit)| part.cores == request.cores.on(unit.cores)).collect();
        !wants_host_cores(request) || hosts == [true]
    })
}
