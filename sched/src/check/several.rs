//! Checks that a job gets its accelerators on each node. The check that they are free is the same for all jobs.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Memory, NodeId, Part, Request, runs};

use super::Case;
use crate::facts::units_wanted;

/// Returns the number of nodes in a placement, each counted once.
pub(super) fn nodes(placement: &[Part]) -> u32 {
    runs(placement).iter().fold(0, |sum: u32, (_, count)| sum.saturating_add(*count))
}

/// Returns true if each node has that many parts, on different units of one type, which together have the memory once.
pub(super) fn as_asked(case: Case<'_>, request: &Request, placement: &[Part]) -> bool {
    let mut by_node: BTreeMap<NodeId, Vec<&Part>> = BTreeMap::new();
    for (part, node) in placement.iter().flat_map(|part| part.nodes().map(move |node| (part, node))) {
        by_node.entry(node).or_default().push(part);
    }
    by_node.iter().all(|(node, parts)| {
        let unit = |part: &&Part| case.node(*node).and_then(|node| node.spec.units.get(usize::from(part.unit.unit)));
        let types: BTreeSet<Option<&str>> =
            parts.iter().map(|part| unit(part).map(|unit| unit.hardware.as_str())).collect();
        let units: BTreeSet<u16> = parts.iter().map(|part| part.unit.unit).collect();
        let memory = parts.iter().fold(Memory::ZERO, |sum, part| sum.saturating_add(part.memory));
        types.len() == 1
            && units.len() == units_wanted(request)
            && parts.len() == units.len()
            && memory == request.memory
    })
}
