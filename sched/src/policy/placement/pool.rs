//! `pool`: of the suitable nodes that are free now, those that come first by one of the ranks S1 to S6 or `learned`.
//!
//! Idea: nodes of a pool have owners, who come before jobs, so a job gets nodes whose owners are not expected, or those
//! that use the least energy (htc-sim-2015, section V). Nodes of equal rank are taken awake before asleep. Among those
//! that are equal in this too, `ties` decides: they stand in a ring, in the order of their keys ([`PoolKey`]) and
//! numbers. With `first` a job begins at the first of them, with `random` at one that a hash of the seed, the job and
//! its attempt chooses with equal chances. From there on it takes nodes in order, and passes those on which it does not
//! fit. So a job on one node gets each free node with equal chances, if it fits on all of them; the nodes of a job on
//! several are neighbours in the ring. Constraints: only nodes on which the job can start now. Ignores: prices, limits
//! of the draw, nodes that will be free soon. S2 ignores the differences of equal units. Cost: one step for each
//! combination of class, group and idle draw that has a free node, a search among the nodes of equal rank, and one step
//! for each node that is taken, or that is free in part and too small for the job.

use std::cell::OnceCell;

use limo_model::{Digest, JobId};

use super::ranked::Seated;
use crate::facts::{Known, estimate, host_power, units_wanted};
use crate::future::{asks_each, could_have};
use crate::index::{PoolCell, PoolIndex, PoolKey, Shape};
use crate::options::{PoolOptions, PoolRank, Ties};
use crate::state::{Job, hour_of_week};
use crate::structure::Bits;
use crate::view::View;

/// The rank of nodes after that by their own sessions: two numbers, the least first.
type Rank = (i64, i64);

/// Cells of equal rank, each with the index of its candidate in the shape.
type Tied<'a> = [(Rank, usize, &'a PoolCell)];

/// Returns as many of the best nodes as the job requests, or fewer if no more are free.
pub(super) fn best(view: &View<'_>, shape: &Shape, (id, job): (JobId, &Job)) -> Vec<Seated> {
    let Some(pool) = view.index().pool.as_ref() else { return Vec::new() };
    let (wanted, search) = (job.request.nodes.get() as usize, RankSearch::of(view, pool, shape, (id, job)));
    let mut found = Vec::new();
    let (mut cells, mut last) = (pool.cells().peekable(), 0);
    while let Some(own) = cells.peek().map(|(key, _)| key.own).filter(|_| found.len() < wanted) {
        let equal = std::iter::from_fn(|| cells.next_if(|(key, _)| key.own == own));
        let ranked = |(key, cell): (&PoolKey, _)| {
            // Cells and candidates are usually both in the order of classes.
            let is_its = |way: &usize| shape.ways[*way].class == key.class as usize;
            last = (last..shape.ways.len()).chain(0..last).find(is_its)?;
            Some((search.rank(key, last), last, cell))
        };
        let mut ranked: Vec<_> = equal.filter_map(ranked).collect();
        ranked.sort_by_key(|(rank, ..)| *rank);
        for tied in ranked.chunk_by(|before, after| before.0 == after.0) {
            for asleep in [false, true] {
                let missing = wanted - found.len();
                found.extend(search.in_ring(tied, asleep).take(missing));
            }
        }
    }
    found
}

/// The search for the nodes of one job.
struct RankSearch<'s, 'v> {
    view: &'s View<'v>,
    pool: &'s PoolIndex,
    shape: &'s Shape,
    job: &'s Job,
    /// The place in the ring, as a part of 2^64.
    start: u64,
    /// True for groups that are open to owners now, in the order of names.
    open: Vec<bool>,
    /// The hour of the week whose values count for the rank `learned`; `None` if the job explores.
    hour: Option<u8>,
    /// By candidate: the nodes that the job could have, if each must be checked.
    checked: Vec<OnceCell<Bits>>,
}

impl<'s, 'v> RankSearch<'s, 'v> {
    fn of(view: &'s View<'v>, pool: &'s PoolIndex, shape: &'s Shape, (id, job): (JobId, &'s Job)) -> Self {
        let options = view.options().pool;
        let start = match options.ties {
            Ties::First => 0,
            Ties::Random => start(options.seed, id, job.attempts),
        };
        let open = match options.rank {
            PoolRank::S4 => {
                let wall = view.clock().shown(view.now());
                view.settings().groups.iter().map(|(_, group)| group.is_open(wall)).collect()
            }
            _ => Vec::new(),
        };
        let is_learned = options.rank == PoolRank::Learned && !explores(options, id, job.attempts);
        let hour = is_learned.then(|| hour_of_week(view.clock().shown(view.now())));
        let is_plain = shape.ask.is_plain() && !asks_each(view, shape);
        let checked = if is_plain { Vec::new() } else { shape.ways.iter().map(|_| OnceCell::new()).collect() };
        Self { view, pool, shape, job, start, open, hour, checked }
    }

    /// Returns the rank of the nodes of a cell.
    fn rank(&self, key: &PoolKey, way: usize) -> Rank {
        let is_open = || key.group.and_then(|group| self.open.get(usize::from(group)).copied()).unwrap_or(false);
        match self.view.options().pool.rank {
            PoolRank::S1 | PoolRank::S3a | PoolRank::S3b => (0, 0),
            PoolRank::Learned => {
                let value = self.hour.map_or(0, |hour| self.view.state().learned_at(key.group, hour));
                (-i64::from(value), 0)
            }
            PoolRank::S2 => self.energy(key, way),
            PoolRank::S4 => (i64::from(is_open()), 0),
            PoolRank::S5a => (self.pool.sums(key.group).used.ms(), 0),
            PoolRank::S5b => (self.pool.sums(key.group).mean_used().ms(), 0),
            PoolRank::S6 => {
                let begun = self.view.state().lately_begun(key.group, self.view.now());
                (i64::try_from(begun).unwrap_or(i64::MAX), 0)
            }
        }
    }

    /// Returns the energy of a node while it runs the job, and its draw by the nameplate.
    fn energy(&self, key: &PoolKey, way: usize) -> Rank {
        let (known, way) = (Known::of(self.view.state()), &self.shape.ways[way]);
        let (units, request) = (&self.view.index().classes.class(way.class).units, &self.job.request);
        let Some(unit) = units.get(usize::from(way.unit)) else { return (0, 0) };
        let each = estimate(known, request, unit).times(units_wanted(request));
        let all = each.with_draw(key.idle + host_power(known, request, units));
        let nameplate = key.idle + units.iter().map(|unit| unit.nameplate).sum();
        (all.energy.mj(), nameplate.mw())
    }

    /// Returns the nodes of equal rank on which the job fits, from its place in their ring on.
    fn in_ring<'t>(&'t self, tied: &'t Tied<'_>, asleep: bool) -> impl Iterator<Item = Seated> + use<'t, 's, 'v> {
        let nodes = move |(_, way, cell): &'t (_, usize, &PoolCell)| (*way, cell.nodes(asleep));
        let all = tied.iter().map(|of| nodes(of).1.len()).sum::<usize>();
        // Less than `all`, because `start` is a part of 2^64.
        let mut start = ((u128::from(self.start) * all as u128) >> 64) as usize;
        let mut at = 0;
        while let Some(count) = tied.get(at).map(|of| nodes(of).1.len()).filter(|count| *count <= start) {
            (at, start) = (at + 1, start - count);
        }
        let (before, from) = tied.split_at(at);
        let split = from.split_first().map(|(of, after)| (nodes(of), after));
        let ring = split.into_iter().flat_map(move |((way, list), after)| {
            let (head, tail) = list.split_at(start.min(list.len()));
            let whole = after.iter().chain(before).map(nodes);
            std::iter::once((way, tail)).chain(whole).chain(std::iter::once((way, head)))
        });
        let ring = ring.flat_map(|(way, nodes)| nodes.iter().map(move |node| (way, *node)));
        let seated = move |(way, node)| {
            let (_, position) = self.view.index().classes.place_of(node)?;
            self.fits((way, position), asleep).then_some((way, position))
        };
        ring.filter_map(seated)
    }

    fn fits(&self, (index, position): Seated, asleep: bool) -> bool {
        let way = &self.shape.ways[index];
        match self.checked.get(index) {
            Some(checked) => {
                checked.get_or_init(|| could_have(self.view, self.shape, way, self.job)).contains(position)
            }
            None if asleep => true,
            None => {
                let levels = self.view.index().classes.class(way.class).levels.get(usize::from(way.unit));
                levels.is_some_and(|levels| levels.free(position) >= way.cores)
            }
        }
    }
}

/// Returns the place of an attempt in rings, as a part of 2^64. The zeros after the number mix it into all bits.
fn start(seed: u32, job: JobId, attempt: u32) -> u64 {
    let digest = Digest::new().with(&seed.to_le_bytes()).with(&attempt.to_le_bytes());
    digest.with(&job.0.to_le_bytes()).with(&[0; 8]).value()
}

/// Returns true for one of 16 attempts, on average. Such an attempt gets any node, so that the rank `learned` also learns about
/// groups that seem bad.
fn explores(options: PoolOptions, job: JobId, attempt: u32) -> bool {
    // The seed differs from that of the place in rings.
    options.ties == Ties::Random && start(!options.seed, job, attempt) >> 60 == 0
}

#[cfg(test)]
mod tests;
