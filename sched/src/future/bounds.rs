//! Lower bounds of the times at which nodes are free, so that a search for the first free node checks few nodes. Each
//! candidate node is still checked itself.

use std::collections::BTreeMap;

use limo_model::{NodeId, Span, Time};

use super::{Future, NodeNeed, Seats, Units};

/// Nodes that are skipped together: about the square root of 1,000 nodes, a typical cluster.
pub(super) const BLOCK: usize = 32;

/// Bounds are stored for a few durations, each 4 times the one before, because computing them checks all nodes.
/// Profiles of one cluster mostly have two or three durations.
const STEP: u32 = 2;

/// For starts after now, the shortest duration with its own bounds. Plans before a start must not count as free, and
/// most jobs are longer than a few minutes.
const LEAST: i64 = 1 << 18;

const NEVER: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BoundKey {
    /// Index of the unit.
    unit: u16,
    /// Number of cores that must be free.
    cores: u32,
    /// Exponent of the duration: at least two to this power, in ms.
    power: u32,
    /// Time from which the bound holds.
    since: Time,
}

/// The first time with these free resources, for each node. Placements only make it later, so bounds stay valid and
/// are refreshed lazily.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// Times by node; the end of time if the node is never free.
    times: Vec<Time>,
    /// Number of placements on each node at its last check; [`NEVER`] before the first.
    asked: Vec<u32>,
    /// Earliest time of each block of nodes, by class.
    blocks: Vec<Time>,
}

impl Future<'_> {
    /// Returns the node on which `need` is first free for all of `span` from `from` on, and the time. Among equal
    /// times it is the first node. The nodes are in order and of one class. Returns `None` if the time is not before
    /// `best`.
    pub(crate) fn first_on(
        &self,
        nodes: &[NodeId],
        need: &NodeNeed,
        (from, span): (Time, Span),
        mut best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        let class = self.places.get(nodes.first()?.0 as usize)?.0 as usize;
        let seats = self.rooms.get(class)?.seats()?;
        let key = self.key(need, (from, span));
        let mut all = self.bounds.borrow_mut();
        if !all.contains_key(&key) {
            let bounds = self.new_bounds(&all, &key);
            all.insert(key, bounds);
        }
        let bounds = all.get_mut(&key)?;
        let count = self.places.len().div_ceil(BLOCK);
        let (mut found, mut rest, mut end) = (None, nodes, 0);
        while let Some(first) = rest.first() {
            let block = first.0 as usize / BLOCK;
            end = in_block(rest, block, end);
            let (here, others) = rest.split_at(end);
            rest = others;
            if !is_before((bounds.blocks[class * count + block].max(from), *first), best) {
                continue;
            }
            // The block was not searched yet.
            let mut is_later = bounds.blocks[class * count + block] == key.since;
            for node in here {
                let place = node.0 as usize;
                let mut bound = bounds.times[place];
                if bound == Time::MAX || !is_before((bound.max(from), *node), best) {
                    continue;
                }
                if bounds.asked[place] != self.versions[place] {
                    bound = bound_on(seats, self.places[place].1, &key);
                    (bounds.asked[place], bounds.times[place]) = (self.versions[place], bound);
                    is_later = true;
                    if bound == Time::MAX || !is_before((bound.max(from), *node), best) {
                        continue;
                    }
                }
                let at = match self.only_ends(place, need) {
                    true => Some(bound.max(from)),
                    false => seats.earliest(self.places[place].1 as usize, (from, span), need),
                };
                if let Some(at) = at.filter(|at| is_before((*at, *node), best)) {
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

    /// Returns true if no job is planned on a node, and only cores are requested. A start may then last for any time,
    /// so the bound is exact.
    fn only_ends(&self, place: usize, need: &NodeNeed) -> bool {
        !self.later[place] && need.memory == 0 && matches!(need.of, Units::Cores { .. })
    }

    /// Copies other bounds for the same number of cores: those for a shorter time, or any bounds for nodes without
    /// planned jobs.
    fn new_bounds(&self, all: &BTreeMap<BoundKey, Bounds>, key: &BoundKey) -> Bounds {
        let nodes = self.places.len();
        let classes = self.view.index().classes.len();
        let blocks = vec![key.since; nodes.div_ceil(BLOCK) * classes];
        let least = BoundKey { power: 0, since: self.now, ..*key };
        let known = all.range(least..).next().filter(|(of, _)| of.unit == key.unit && of.cores == key.cores);
        let Some((of, known)) = known.filter(|(of, _)| of.since <= key.since) else {
            return Bounds { times: vec![key.since; nodes], asked: vec![NEVER; nodes], blocks };
        };
        let is_shorter = of.power <= key.power;
        let time = |place: usize| if is_shorter || !self.later[place] { known.times[place] } else { key.since };
        let asked = |place: usize| if self.later[place] { NEVER } else { known.asked[place] };
        Bounds { times: (0..nodes).map(time).collect(), asked: (0..nodes).map(asked).collect(), blocks }
    }

    /// Returns the earliest of the times of the nodes of a class in a block.
    fn first_time(&self, times: &[Time], class: usize, block: usize) -> Time {
        let first = block * BLOCK;
        let end = (first + BLOCK).min(times.len());
        let both = times[first..end].iter().zip(&self.places[first..end]);
        both.fold(Time::MAX, |least, (time, of)| if of.0 as usize == class { least.min(*time) } else { least })
    }

    fn key(&self, need: &NodeNeed, (from, span): (Time, Span)) -> BoundKey {
        // If jobs only end, a node that is free stays free.
        let power = if self.has_later { span.ms().max(1).ilog2() / STEP * STEP } else { 0 };
        let every = Span::from_ms(LEAST.max(1 << power));
        let passed = (from - self.now).max(Span::ZERO).ms() / every.ms();
        let since = if self.has_later { self.now + every.scaled(passed, 1) } else { self.now };
        let (unit, cores) = match need.of {
            Units::Cores { unit, cores } => (unit, cores),
            // A bound for one unit does not hold for all units.
            Units::Any { like, .. } => (like, 0),
            Units::All => (0, 1),
        };
        BoundKey { unit, cores, power, since }
    }
}

fn bound_on(seats: &Seats, position: u32, key: &BoundKey) -> Time {
    let need = NodeNeed { of: Units::Cores { unit: key.unit, cores: key.cores }, memory: 0 };
    let span = Span::from_ms(1 << key.power);
    seats.earliest(position as usize, (key.since, span), &need).unwrap_or(Time::MAX)
}

/// Compares pairs in two comparisons, because each skipped node needs them.
fn is_before((at, node): (Time, NodeId), (best, other): (Time, NodeId)) -> bool {
    at < best || (at == best && node < other)
}

/// Returns the number of these ordered nodes in the block of the first. Usually each block has the same number.
fn in_block(nodes: &[NodeId], block: usize, guess: usize) -> usize {
    let is_here = |node: &NodeId| node.0 as usize / BLOCK == block;
    let is_end = nodes.get(guess).is_none_or(|node| !is_here(node));
    if guess > 0 && is_end && nodes.get(guess - 1).is_some_and(is_here) {
        return guess;
    }
    nodes[..nodes.len().min(BLOCK)].partition_point(is_here)
}
