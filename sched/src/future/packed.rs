//! The parts of packed jobs. Does not choose nodes.

use limo_model::{Memory, NodeId, Part, Placement, Request, UnitId};

use crate::facts::HostCores;
use crate::index::Way;
use crate::view::{View, on_units};

/// Returns the memory of a number of chunks of a job.
fn memory_of(request: &Request, chunks: u32) -> Memory {
    Memory::from_bytes(request.memory.bytes().saturating_mul(u64::from(chunks)))
}

/// Returns the cores of the CPU that a number of chunks take next to their accelerators.
pub(crate) fn host_of(host: Option<HostCores>, chunks: u32) -> Option<HostCores> {
    host.map(|host| HostCores { cores: host.cores.saturating_mul(chunks), ..host })
}

/// Adds the parts of a job with this number of chunks on a node; `units` are their accelerators, if they have any.
pub(crate) fn add_chunks(
    placement: &mut Placement,
    request: &Request,
    (way, node): (&Way, NodeId),
    (chunks, units): (u32, &[u16]),
) {
    let memory = memory_of(request, chunks);
    match request.accelerators {
        Some(_) => placement.extend(on_units((node, 1), units, (way.takes, memory), host_of(way.host, chunks))),
        None => {
            let unit = UnitId { node, unit: way.unit };
            let cores = way.takes.saturating_mul(chunks);
            placement.push(Part { unit, count: 1, cores, memory, cap: None });
        }
    }
}

/// Returns the parts of a packed job in order of nodes. If each of them is on another node, equal parts on neighbours of
/// one class are joined.
pub(crate) fn in_order(view: &View<'_>, request: &Request, mut placement: Placement) -> Placement {
    placement.sort_by_key(|part| part.unit.node);
    if request.accelerators.is_some() {
        return placement;
    }
    let class = |part: &Part| view.index().classes.place_of(part.unit.node).map(|(class, _)| class);
    let mut joined = Placement::new();
    for part in placement {
        let follows = |last: &&mut Part| {
            let next = UnitId { node: NodeId(last.unit.node.0.saturating_add(last.count)), ..last.unit };
            Part { unit: next, count: 1, ..**last } == part && class(last) == class(&part)
        };
        match joined.last_mut().filter(follows) {
            Some(last) => last.count += 1,
            None => joined.push(part),
        }
    }
    joined
}
