//! The parts of a job at the seats that it gets: one unit of each node, or several of one type. Decides nothing.

use limo_model::{NodeId, Part, Placement, Request};

use super::{Ask, Offer, PoolKind, Pools, Seat, Source};
use crate::facts::units_like;
use crate::future::Future;
use crate::view::{View, on_units};

/// The nodes that a job may have which wants several units of them: those of the class, whichever of its units are taken.
/// They are asked for once: at the first unit of the type, in the first kind.
pub(super) fn nodes(view: &View<'_>, pools: &Pools<'_>, request: &Request, kind: &PoolKind) -> Option<Vec<NodeId>> {
    let units = &view.index().classes.class(kind.class).units;
    let mut alike = units_like(units, kind.unit);
    let is_first_unit = alike.next() == Some(kind.unit);
    let enough = alike.count() + 1 >= crate::facts::units_wanted(request);
    let kinds =
        || pools.kinds.iter().filter(|(of, nodes)| (of.class, of.unit) == (kind.class, kind.unit) && !nodes.is_empty());
    if !is_first_unit || !enough || kinds().next().is_none_or(|(first, _)| first != kind) {
        return Some(Vec::new());
    }
    let mut nodes: Vec<NodeId> = kinds().flat_map(|(_, nodes)| nodes).copied().collect();
    nodes.retain(|id| view.node(*id).is_some_and(|node| view.may_use(request, node)));
    nodes.sort_unstable();
    Some(nodes)
}

/// Where a job is at these seats: neighbours of one class with the same units are one part of each unit.
pub(super) fn placement(offer: &Offer, future: &Future<'_>, seats: &[Seat], ask: &Ask) -> Placement {
    let mut placement = Placement::new();
    let mut last: Option<(usize, NodeId, Vec<u16>)> = None;
    for seat in seats {
        let source = &offer.sources[seat.source];
        let Source { kind, cores, .. } = source;
        let units = future.units_at(seat.node, &source.units_need(ask), (ask.from, ask.span));
        let before = NodeId(seat.node.0.wrapping_sub(1));
        let follows =
            last.as_ref().is_some_and(|(class, node, of)| (*class, *node, of) == (kind.class, before, &units));
        if follows {
            let first = placement.len() - units.len();
            placement[first..].iter_mut().for_each(|part: &mut Part| part.count += 1);
        } else {
            let parts = on_units((seat.node, 1), &units, (*cores, offer.memory));
            placement.extend(parts.map(|part| Part { cap: offer.cap, ..part }));
        }
        last = Some((kind.class, seat.node, units));
    }
    placement
}
