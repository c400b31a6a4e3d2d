//! Lower bounds of when nodes are free, so that a search for the first one looks at few of them. Decides nothing: each
//! node that could be the first is asked itself.

use limo_model::{NodeId, Span, Time, UnitId};

use super::{Need, Timeline};

/// Nodes that are passed together: about the root of the thousand that a cluster has.
pub(super) const BLOCK: usize = 32;

/// Bounds are kept for few lengths of time, each 4 times the one before, since each has to ask all nodes: profiles of
/// one cluster mostly are of the same two or three.
const STEP: u32 = 2;

/// For starts after now, the least time after which other bounds are kept: what is planned before a start must not be
/// taken for room that there is, and jobs mostly are longer than a few minutes.
const LEAST: i64 = 1 << 18;

const NEVER: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Of the nodes.
    unit: u16,
    /// So many of its cores must be free.
    cores: u32,
    /// For at least two to the power of that, in ms.
    power: u32,
    /// From then on.
    since: Time,
}

/// When each node has that for the first time. What is put on nodes only makes it later, so a bound stays one, and is
/// looked at again when somebody comes by.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// By node; the end of time where it never has.
    times: Vec<Time>,
    /// By node, how often something was put on it when it was asked; [`NEVER`] before.
    asked: Vec<u32>,
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
        mut best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        let class = *self.class_of.get(nodes.first()?.0 as usize)? as usize;
        let key = self.key(need, (from, span));
        let mut all = self.bounds.borrow_mut();
        let bounds = all.entry(key).or_insert_with(|| self.new_bounds(key.since));
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
                if bounds.asked[place] != self.versions[place] {
                    bounds.asked[place] = self.versions[place];
                    bounds.times[place] = self.bound(*node, &key);
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
    fn only_ends(&self, place: usize, need: &Need) -> bool {
        !self.later[place] && need.memory == 0 && !need.alone && need.units == 1 && self.memory[place].is_empty()
    }

    fn new_bounds(&self, since: Time) -> Bounds {
        let nodes = self.class_of.len();
        let classes = self.view.index().classes.len();
        Bounds {
            times: vec![since; nodes],
            asked: vec![NEVER; nodes],
            blocks: vec![since; nodes.div_ceil(BLOCK) * classes],
        }
    }

    /// The first of the times of the nodes of a class in a block.
    fn first_time(&self, times: &[Time], class: usize, block: usize) -> Time {
        let first = block * BLOCK;
        let end = (first + BLOCK).min(times.len());
        let both = times[first..end].iter().zip(&self.class_of[first..end]);
        both.fold(Time::MAX, |least, (time, of)| if *of as usize == class { least.min(*time) } else { least })
    }

    fn key(&self, need: &Need, (from, span): (Time, Span)) -> Key {
        // What only becomes less is free for long where it is free at all.
        let power = if self.has_later { span.ms().max(1).ilog2() / STEP * STEP } else { 0 };
        let every = Span::from_ms(LEAST.max(1 << power));
        let passed = (from - self.now).max(Span::ZERO).ms() / every.ms();
        let since = if self.has_later { self.now + every.scaled(passed, 1) } else { self.now };
        Key { unit: need.unit, cores: need.cores, power, since }
    }

    fn bound(&self, node: NodeId, key: &Key) -> Time {
        let span = Span::from_ms(1 << key.power);
        let found = self.place_of(UnitId { node, unit: key.unit }).and_then(|place| {
            let most = self.cores[place] - i64::from(key.cores);
            self.units[place].earliest(key.since, span, |_, used| used <= most)
        });
        found.unwrap_or(Time::MAX)
    }
}

/// Of nodes in order those of the block that begins there.
fn in_block(nodes: &[NodeId], begin: u32) -> &[NodeId] {
    let rest = &nodes[nodes.partition_point(|node| node.0 < begin)..];
    let most = &rest[..rest.len().min(BLOCK)];
    &most[..most.partition_point(|node| node.0 - begin < BLOCK as u32)]
}
