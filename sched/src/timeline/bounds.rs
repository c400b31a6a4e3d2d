//! Lower bounds of when nodes are free, so that a search for the first one looks at few of them. Decides nothing: each
//! node that could be the first is asked itself.

use limo_model::{NodeId, Span, Time, UnitId};

use super::{Need, Timeline};

/// Nodes that are passed together: about the root of the thousand that a cluster has.
pub(super) const BLOCK: u32 = 32;

/// Bounds are kept for few lengths of time, each 16 times the one before, since each has to ask all nodes: profiles of
/// one cluster mostly are of the same two or three.
const STEP: u32 = 4;

/// A unit of the nodes, how many of its cores must be free, and for how long: at least two to the power of that, in ms.
pub(super) type Key = (u16, u32, u32);

/// When each node has that for the first time. What is put on nodes only makes it later, so a bound stays one, and is
/// looked at again when somebody comes by.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// By node; the end of time where it never has.
    pub times: Vec<Time>,
    /// By node, how often something was put on it when it was asked; none before.
    pub asked: Vec<Option<u32>>,
    /// By block of nodes, the first of their times.
    pub blocks: Vec<Time>,
}

impl Bounds {
    pub fn new(nodes: usize, now: Time) -> Self {
        let blocks = nodes.div_ceil(BLOCK as usize);
        Self { times: vec![now; nodes], asked: vec![None; nodes], blocks: vec![now; blocks] }
    }

    pub fn look(&mut self, block: usize) {
        let first = block * BLOCK as usize;
        let end = (first + BLOCK as usize).min(self.times.len());
        self.blocks[block] = self.times[first..end].iter().copied().min().unwrap_or(Time::MAX);
    }
}

impl Timeline<'_> {
    /// Of these nodes, which are in order, the one that has `need` free first for all of `span` from `from` on, of equal
    /// ones the first, and when. None where that is not before `best`.
    pub(crate) fn first_on(
        &self,
        nodes: &[NodeId],
        need: &Need,
        (from, span): (Time, Span),
        best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        self.first_seat(nodes, need, (from, span), best)
            .unwrap_or_else(|| self.first_by_bounds(nodes, need, (from, span), best))
    }

    fn first_by_bounds(
        &self,
        nodes: &[NodeId],
        need: &Need,
        (from, span): (Time, Span),
        mut best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        let key @ (_, _, power) = self.key(need, span);
        let mut all = self.bounds.borrow_mut();
        let bounds = all.entry(key).or_insert_with(|| Bounds::new(self.first_units.len(), self.now));
        let (mut found, mut rest, mut end) = (None, nodes, 0);
        while let Some(first) = rest.first() {
            let block = (first.0 / BLOCK) as usize;
            let next = first.0 - first.0 % BLOCK + BLOCK;
            // Mostly there are as many in each block.
            let is_end = end > 0 && rest.get(end).is_none_or(|node| node.0 >= next);
            if !(is_end && rest.get(end - 1).is_some_and(|node| node.0 < next)) {
                end = rest[..rest.len().min(BLOCK as usize)].partition_point(|node| node.0 < next);
            }
            let (here, others) = rest.split_at(end);
            rest = others;
            if bounds.blocks.get(block).is_none_or(|bound| ((*bound).max(from), *first) >= best) {
                continue;
            }
            let mut is_later = false;
            for node in here {
                let place = node.0 as usize;
                if (bounds.times[place].max(from), *node) >= best {
                    continue;
                }
                if bounds.asked[place] != Some(self.versions[place]) {
                    bounds.asked[place] = Some(self.versions[place]);
                    bounds.times[place] = self.bound(UnitId { node: *node, unit: need.unit }, need.cores, power);
                    is_later = true;
                }
                let bound = bounds.times[place];
                if bound == Time::MAX || (bound.max(from), *node) >= best {
                    continue;
                }
                let Some(at) = self.earliest_on(*node, need, from, span) else { continue };
                if (at, *node) < best {
                    best = (at, *node);
                    found = Some(best);
                }
                if at == from {
                    break;
                }
            }
            if is_later {
                bounds.look(block);
            }
            if found.is_some_and(|(at, _)| at == from) {
                break;
            }
        }
        found
    }

    pub(super) fn key(&self, need: &Need, span: Span) -> Key {
        // What only becomes less is free for long where it is free at all.
        let power = if self.has_later { span.ms().max(1).ilog2() / STEP * STEP } else { 0 };
        (need.unit, need.cores, power)
    }

    fn bound(&self, unit: UnitId, cores: u32, power: u32) -> Time {
        let span = Span::from_ms(1 << power);
        let found = self.place_of(unit).and_then(|place| {
            let most = self.cores[place] - i64::from(cores);
            self.units[place].earliest(self.now, span, |_, used| used <= most)
        });
        found.unwrap_or(Time::MAX)
    }
}
