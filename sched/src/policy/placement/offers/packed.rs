//! The seats of packed jobs: the first nodes in order, each with as many chunks as fit there, together enough for the job.
//! Decides nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use limo_model::{NodeId, Request, Time};

use super::{Ask, Offer, Pools, Seat, Source, nodes_of};
use crate::facts::most_chunks;
use crate::future::{Future, Stair, first_time, stairs};
use crate::index::Class;

/// Returns the most chunks of a job on an empty node, by one of its units.
pub(super) fn most(request: &Request, class: &Class, unit: usize) -> u32 {
    most_chunks(request, (&class.units, class.memory), unit)
}

/// Returns the most chunks of a job on these empty nodes together, at most one on each unless it is packed.
pub(super) fn capacity(pools: &Pools<'_>, sources: &[Source]) -> usize {
    if sources.iter().all(|source| source.most == 1) {
        let mut nodes: Vec<NodeId> = sources.iter().flat_map(|source| nodes_of(pools, source)).copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        return nodes.len();
    }
    let mut most: BTreeMap<NodeId, u32> = BTreeMap::new();
    for (source, node) in
        sources.iter().flat_map(|source| nodes_of(pools, source).iter().map(move |node| (source, node)))
    {
        let known = most.entry(*node).or_default();
        *known = source.most.max(*known);
    }
    most.values().map(|chunks| *chunks as usize).sum()
}

impl Offer {
    /// Returns the seats of the first start, apart from power, in order of nodes.
    pub(super) fn packed_seats(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Option<Vec<Seat>> {
        let mut at = ask.from;
        loop {
            let steps = self.steps(future, pools, Ask { from: at, ..ask });
            let by_node = steps.chunk_by(|one, other| one.node == other.node);
            let more = by_node.flat_map(|steps| {
                let before = std::iter::once(0).chain(steps.iter().map(|step| step.chunks));
                steps.iter().zip(before).map(|(step, before)| Stair { at: step.at, chunks: step.chunks - before })
            });
            let next = first_time(more.collect(), u32::try_from(self.nodes).unwrap_or(u32::MAX))?;
            if next > ask.latest {
                return None;
            }
            if next == at {
                return Some(self.chosen(steps, at));
            }
            at = next;
        }
    }

    /// Returns the seats with more and more chunks on each node, in order of nodes and of times.
    fn steps(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Vec<Seat> {
        let mut steps = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            for node in nodes_of(pools, source) {
                let first = |chunks, from| future.earliest_on(*node, &source.need(&ask, chunks), from, ask.span);
                let seat = |stair: Stair| Seat { at: stair.at, node: *node, source: index, chunks: stair.chunks };
                steps.extend(stairs(source.most, ask.from, first).into_iter().map(seat));
            }
        }
        let unit = |seat: &Seat| self.sources[seat.source].kind.unit;
        steps.sort_unstable_by_key(|seat| (seat.node, seat.at, Reverse(seat.chunks), unit(seat)));
        let mut last: Option<(NodeId, u32)> = None;
        steps.retain(|seat| {
            let is_more = last.is_none_or(|(node, chunks)| node != seat.node || chunks < seat.chunks);
            last = if is_more { Some((seat.node, seat.chunks)) } else { last };
            is_more
        });
        steps
    }

    /// Chooses among the seats at a time with enough of them: the first nodes, those that are awake before others.
    fn chosen(&self, mut steps: Vec<Seat>, at: Time) -> Vec<Seat> {
        steps.retain(|seat| seat.at == at);
        if self.wake > limo_model::Span::ZERO {
            steps.sort_by_key(|seat| self.sources[seat.source].wakes);
        }
        let mut missing = u32::try_from(self.nodes).unwrap_or(u32::MAX);
        for seat in &mut steps {
            seat.chunks = seat.chunks.min(missing);
            missing -= seat.chunks;
        }
        steps.retain(|seat| seat.chunks > 0);
        steps.sort_unstable_by_key(|seat| seat.node);
        steps
    }
}
