//! Lower bounds of when nodes are free, so that a search for the first one looks at few of them. Decides nothing: each
//! node that could be the first is asked itself.

use limo_model::{NodeId, Span, Time, UnitId};

use super::{Need, Timeline};

/// Nodes that are passed together: about the root of the thousand that a cluster has.
pub(super) const BLOCK: usize = 32;

/// Bounds are kept for few lengths of time, each 4 times the one before, since each has to ask all nodes: profiles of
/// one cluster mostly are of the same two or three.
const STEP: u32 = 2;

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
    /// By class and block of nodes, the first of the times of its nodes.
    blocks: Vec<Time>,
}

impl Timeline<'_> {
    /// Of these nodes, which are in order and of one class, the one that has `need` free first for all of `span` from `from`
    /// on, of equal ones the first, and when. None where that is not before `best`.
    pub(crate) fn first_on(
        &self,
        nodes: &[NodeId],
        need: &Need,
        (from, span): (Time, Span),
        best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        let class = *self.class_of.get(nodes.first()?.0 as usize)? as usize;
        self.first_seat((nodes, class), need, (from, span), best)
            .unwrap_or_else(|| self.first_by_bounds((nodes, class), need, (from, span), best))
    }

    pub(super) fn first_by_bounds(
        &self,
        (nodes, class): (&[NodeId], usize),
        need: &Need,
        (from, span): (Time, Span),
        mut best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        let key @ (_, _, power) = self.key(need, span);
        let mut all = self.bounds.borrow_mut();
        let bounds = all.entry(key).or_insert_with(|| self.new_bounds());
        let (count, mut found) = (self.class_of.len().div_ceil(BLOCK), None);
        for block in 0..count {
            let begin = (block * BLOCK) as u32;
            if (bounds.blocks[class * count + block].max(from), NodeId(begin)) >= best {
                continue;
            }
            let here = in_block(nodes, begin);
            let mut is_later = here.is_empty();
            for node in here {
                let place = node.0 as usize;
                if bounds.times[place] == Time::MAX || (bounds.times[place].max(from), *node) >= best {
                    continue;
                }
                if bounds.asked[place] != Some(self.versions[place]) {
                    bounds.asked[place] = Some(self.versions[place]);
                    bounds.times[place] = self.bound(UnitId { node: *node, unit: need.unit }, need.cores, power);
                    is_later = true;
                }
                let bound = bounds.times[place].max(from);
                if bound == Time::MAX || (bound, *node) >= best {
                    continue;
                }
                let at =
                    if self.only_ends(place, need) { Some(bound) } else { self.earliest_on(*node, need, from, span) };
                if let Some(at) = at.filter(|at| (*at, *node) < best) {
                    best = (at, *node);
                    found = Some(best);
                }
                if at == Some(from) {
                    break;
                }
            }
            if is_later {
                bounds.blocks[class * count + block] = self.first_time(&bounds.times, class, block);
            }
            if found.is_some_and(|(at, _)| at == from) {
                break;
            }
        }
        found
    }

    /// Whether what is on a node only ends, so that who could begin there may stay for any time, and nobody asks for more
    /// than cores: a bound is exact then.
    pub(super) fn only_ends(&self, place: usize, need: &Need) -> bool {
        !self.later[place] && need.memory == 0 && !need.alone && need.units == 1 && self.memory[place].is_empty()
    }

    fn new_bounds(&self) -> Bounds {
        let nodes = self.class_of.len();
        let classes = self.view.index().classes.len();
        Bounds {
            times: vec![self.now; nodes],
            asked: vec![None; nodes],
            blocks: vec![self.now; nodes.div_ceil(BLOCK) * classes],
        }
    }

    /// The first of the times of the nodes of a class in a block.
    pub(super) fn first_time(&self, times: &[Time], class: usize, block: usize) -> Time {
        let first = block * BLOCK;
        let end = (first + BLOCK).min(times.len());
        let both = times[first..end].iter().zip(&self.class_of[first..end]);
        both.fold(Time::MAX, |least, (time, of)| if *of as usize == class { least.min(*time) } else { least })
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

/// Of nodes in order those of the block that begins there.
pub(super) fn in_block(nodes: &[NodeId], begin: u32) -> &[NodeId] {
    let rest = &nodes[nodes.partition_point(|node| node.0 < begin)..];
    let most = &rest[..rest.len().min(BLOCK)];
    &most[..most.partition_point(|node| node.0 - begin < BLOCK as u32)]
}
