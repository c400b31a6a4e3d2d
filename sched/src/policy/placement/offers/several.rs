//! The parts of a job at its seats: one unit of each node, or several of one type, perhaps with cores of the CPU next
//! to them. Decides nothing.

use limo_model::{Memory, NodeId, Part, Placement, Request, UnitSpec};

use super::{Ask, Offer, PoolKind, Pools, Seat, Source};
use crate::facts::{HostCores, host_cores, units_like, wants_host_cores};
use crate::future::{Future, host_of};
use crate::view::{View, on_units};

/// Returns the nodes for a job that requests several units of each: those of the class, regardless of taken units. It
/// is called once, for the first unit of the type in the first kind.
pub(super) fn nodes(view: &View<'_>, pools: &Pools<'_>, request: &Request, kind: &PoolKind) -> Option<Vec<NodeId>> {
    let units = &view.index().classes.class(kind.class).units;
    let mut alike = units_like(units, kind.unit);
    let is_first_unit = alike.next() == Some(kind.unit);
    let enough = alike.count() + 1 >= crate::facts::units_wanted(request);
    let is_alike = |of: &PoolKind| (of.class, of.unit, of.waking) == (kind.class, kind.unit, kind.waking);
    let kinds = || pools.kinds.iter().filter(|(of, nodes)| is_alike(of) && !nodes.is_empty());
    if !is_first_unit || !enough || kinds().next().is_none_or(|(first, _)| first != kind) {
        return Some(Vec::new());
    }
    let mut nodes: Vec<NodeId> = kinds().flat_map(|(_, nodes)| nodes).copied().collect();
    nodes.retain(|id| view.node(*id).is_some_and(|node| view.may_use(request, node)));
    nodes.sort_unstable();
    Some(nodes)
}

/// Cores of a CPU that a job takes next to its accelerators.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    takes: HostCores,
    /// Number of cores that must be free. These are all of them if jobs on the CPU have a cap, because this job would
    /// share it.
    needs: u32,
    /// Cores of the whole CPU.
    total: u32,
}

impl Host {
    /// Returns the cores that must be free for a number of chunks; with `whole`, no other job may be on the CPU.
    pub fn need(self, whole: bool, chunks: u32) -> HostCores {
        let is_alone = whole || self.needs > self.takes.cores;
        let cores = if is_alone { self.total } else { self.takes.cores.saturating_mul(chunks) };
        HostCores { cores, ..self.takes }
    }
}

/// Returns the nodes that a job may have, by its needs on the CPU next to its accelerators. Without such needs these
/// are all nodes. `named` is as in [`super::Source`].
pub(super) fn by_host(
    pools: &Pools<'_>,
    request: &Request,
    (kind, units): (&PoolKind, &[UnitSpec]),
    named: Option<Vec<NodeId>>,
) -> impl Iterator<Item = (Option<Vec<NodeId>>, Option<Host>)> {
    let split = match host_cores(request, units) {
        None if wants_host_cores(request) => [None, None],
        None => [Some((named, None)), None],
        Some(takes) => {
            let total = units.get(usize::from(takes.unit)).map_or(0, |unit| unit.cores);
            let of = |of: &PoolKind| (of.class, of.unit) == (kind.class, takes.unit) && of.shared.flatten().is_some();
            let capped = |id: &NodeId| {
                pools.kinds.iter().filter(|(kind, _)| of(kind)).any(|(_, nodes)| nodes.binary_search(id).is_ok())
            };
            let (capped, others): (Vec<_>, Vec<_>) = named.into_iter().flatten().partition(capped);
            let with = |needs| Some(Host { takes, needs, total });
            [Some((Some(others), with(takes.cores))), Some((Some(capped), with(total)))]
        }
    };
    let is_empty = |nodes: &Option<Vec<NodeId>>| nodes.as_ref().is_some_and(Vec::is_empty);
    split.into_iter().flatten().filter(move |(nodes, _)| !is_empty(nodes))
}

/// Returns the placement of a job at these seats: neighbours of one class with the same units are one part of each
/// unit.
pub(super) fn placement(offer: &Offer, future: &Future<'_>, seats: &[Seat], ask: &Ask) -> Placement {
    let mut placement = Placement::new();
    let mut last: Option<(usize, NodeId, u32, Vec<u16>)> = None;
    for seat in seats {
        let source = &offer.sources[seat.source];
        let Source { kind, cores, .. } = source;
        let chunks = seat.chunks;
        let units = future.units_at(seat.node, &source.units_need(ask, chunks), (ask.from, ask.span));
        let before = NodeId(seat.node.0.wrapping_sub(1));
        let follows = last.as_ref().is_some_and(|(class, node, count, of)| {
            (*class, *node, *count, of) == (kind.class, before, chunks, &units)
        });
        if follows {
            let first = placement.len() - units.len() - usize::from(source.host.is_some());
            placement[first..].iter_mut().for_each(|part: &mut Part| part.count += 1);
        } else {
            // An accelerator is taken whole by one chunk.
            let cores = if source.is_single { cores.saturating_mul(chunks) } else { *cores };
            let host = host_of(source.host.map(|host| host.takes), chunks);
            let memory = Memory::from_bytes(offer.memory.bytes().saturating_mul(u64::from(chunks)));
            let parts = on_units((seat.node, 1), &units, (cores, memory), host);
            placement.extend(parts.map(|part| Part { cap: offer.cap, ..part }));
        }
        last = Some((kind.class, seat.node, chunks, units));
    }
    placement
}
