//! `ranked` and `window`: nodes by the variation of their units (heterogeneity paper, sections 2.3 and 2.3.2).
//!
//! Idea: equal nodes differ in draw and speed. `ranked` (power-aware algorithm, PAA) gives a job the free nodes with the
//! least energy. `window` (sliding window algorithm, SWA) gives a job on several nodes those of similar speed, because
//! its parts wait for the slowest one: all nodes are put in order of the duration, and a window over 5/4 of the
//! requested number slides down from the fastest until it has enough free nodes. Of these the job gets the fastest
//! ones. Constraints: nodes on which the job can start now; for `ranked`, awake ones first. Unclear text: without a
//! window with enough free nodes, the window grows by a quarter until it has them; with `window-waits` the job waits
//! instead. Under caps all nodes draw the same, so `ranked` compares energies instead of draws. Both orders use the
//! factors of the application, if it has any, else those for all applications; with `rank-by=all` always the latter,
//! as in the paper. Types of node are compared by their estimates. Packed jobs, and jobs on neighbours only, are placed
//! by least room. Ignores: price, limits. Cost: one look at each free node of the job's classes, once in a plan for all
//! jobs that are alike. Options: `rank-by`, `window-permille`, `window-waits`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use limo_model::{JobId, Placement, PlacementRule};

use super::{least_room, pool};
use crate::facts::{Known, estimate};
use crate::future::{asks_each, could_have};
use crate::index::{HeadReservation, Shape, UnitOrder, Way};
use crate::options::Allocation;
use crate::state::Job;
use crate::view::View;

/// A node: the index of its candidate in the shape, and its position in the class.
pub(in crate::policy) type Seated = (usize, u32);

/// The placements of a plan that were found so far. They hold until the first start.
#[derive(Default)]
pub(in crate::policy) struct KnownPlacements<'a> {
    /// By shape, application and number of nodes.
    by_kind: BTreeMap<(usize, &'a str, u32), KnownPlacement>,
}

/// The placement of jobs with some typical costs, if there is one.
struct KnownPlacement {
    costs: Vec<i64>,
    placement: Option<Placement>,
}

impl<'a> KnownPlacements<'a> {
    /// Does the same as [`find`] for a job of a shape that waits.
    pub fn find(
        &mut self,
        view: &View<'a>,
        shape: &'a Shape,
        (id, job): (JobId, &'a Job),
        reservation: Option<&HeadReservation>,
    ) -> Option<Placement> {
        if asks_each(view, shape) || view.options().allocation == Allocation::Contiguous {
            return find(view, shape, (id, job), reservation);
        }
        let key = (shape.number, job.request.application.as_str(), job.request.nodes.get());
        let costs = typical_costs(view, shape, job);
        if let Some(known) = self.by_kind.get(&key).filter(|known| are_proportional(&known.costs, &costs)) {
            return known.placement.clone();
        }
        let placement = find(view, shape, (id, job), reservation);
        self.by_kind.insert(key, KnownPlacement { costs, placement: placement.clone() });
        placement
    }
}

/// Returns the energy and the duration of a job on typical nodes of each of its classes.
fn typical_costs(view: &View<'_>, shape: &Shape, job: &Job) -> Vec<i64> {
    let known = Known::of(view.state());
    let unit = |way: &Way| view.index().classes.class(way.class).units.get(usize::from(way.unit));
    let typical = |way: &Way| unit(way).map(|unit| estimate(known, &job.request, unit));
    let costs = |way: &Way| typical(way).map_or([0; 2], |typical| [typical.energy.mj(), typical.duration.ms()]);
    shape.ways.iter().flat_map(costs).collect()
}

/// Returns true if costs put nodes in the same order: the energies are proportional, and so are the durations.
fn are_proportional(ones: &[i64], others: &[i64]) -> bool {
    let of = |costs: &[i64], at: usize| i128::from(costs.get(at).copied().unwrap_or(0));
    let is_same = |at: usize| of(ones, at) * of(others, at % 2) == of(others, at) * of(ones, at % 2);
    ones.len() == others.len()
        && (0..2).all(|at| of(ones, at) > 0 && of(others, at) > 0)
        && (2..ones.len()).all(is_same)
}

/// Returns a placement for the job now, if there is one.
pub(in crate::policy) fn find(
    view: &View<'_>,
    shape: &Shape,
    (id, job): (JobId, &Job),
    reservation: Option<&HeadReservation>,
) -> Option<Placement> {
    let wanted = job.request.nodes.get();
    if job.request.is_packed() || view.options().allocation == Allocation::Contiguous {
        return least_room::find(view, shape, job, reservation);
    }
    if !asks_each(view, shape) && wanted > shape.room() {
        return None;
    }
    let wanted = wanted as usize;
    let found: Vec<Seated> = match view.parts().placement {
        PlacementRule::Pool => pool::best(view, shape, (id, job)),
        PlacementRule::Window if wanted > 1 => {
            let order = NodeOrder::of(view, shape, job, Key::Duration);
            let (mut free, mut taken) = (order.free(view, shape, job), Vec::new());
            let mut before = vec![0; order.rows.len()];
            let next = || {
                let Reverse(node) = free.pop()?;
                taken.push(node.seat);
                Some(order.place(&node, &mut before))
            };
            let first = SlidingWindow::of(view, &order).first(wanted, next)?;
            taken.drain(first..first + wanted).collect()
        }
        _ => {
            let mut free = NodeOrder::of(view, shape, job, Key::Energy).free(view, shape, job);
            std::iter::from_fn(|| free.pop()).map(|Reverse(node)| node.seat).take(wanted).collect()
        }
    };
    (found.len() == wanted).then(|| least_room::on(view, shape, job, found))
}

/// The measure by which nodes are put in order.
#[derive(Debug, Clone, Copy)]
enum Key {
    Energy,
    Duration,
}

/// A free node. By energy, sleeping ones come last; then the cost counts, the candidate and the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    is_last: bool,
    cost: i128,
    seat: Seated,
}

/// All nodes of the job's classes in order, by candidate: the typical cost, and the factors of the class.
struct NodeOrder<'v> {
    key: Key,
    rows: Vec<(i64, Option<&'v UnitOrder>)>,
}

impl<'v> NodeOrder<'v> {
    fn of(view: &View<'v>, shape: &Shape, job: &Job, key: Key) -> Self {
        let known = Known::of(view.state());
        let rank = view.rank(&job.request.application, view.options().ranks.by);
        let each = |way: &Way| {
            let unit = view.index().classes.class(way.class).units.get(usize::from(way.unit));
            let typical = unit.map(|unit| estimate(known, &job.request, unit));
            let typical = typical.map_or(0, |typical| match key {
                Key::Energy => typical.energy.mj(),
                Key::Duration => typical.duration.ms(),
            });
            let order = rank.unit(way.class, way.unit).map(|rank| match key {
                Key::Energy => &rank.energy,
                Key::Duration => &rank.duration,
            });
            (typical, order)
        };
        Self { key, rows: shape.ways.iter().map(each).collect() }
    }

    /// Returns the nodes that the job could have now, best first. Only those that are taken from the heap are put in order.
    fn free(&self, view: &View<'_>, shape: &Shape, job: &Job) -> BinaryHeap<Reverse<Free>> {
        let mut free = Vec::new();
        for (index, (way, (typical, order))) in shape.ways.iter().zip(&self.rows).enumerate() {
            let asleep = &view.index().classes.class(way.class).asleep;
            let node = |position: u32| Free {
                is_last: matches!(self.key, Key::Energy) && asleep.contains(position),
                cost: i128::from(*typical) * i128::from(order.map_or(0, |order| order.of(position))),
                seat: (index, position),
            };
            free.extend(could_have(view, shape, way, job).iter().map(|position| Reverse(node(position))));
        }
        free.into()
    }

    /// Number of nodes, free or not.
    fn nodes(&self) -> usize {
        self.rows.iter().filter_map(|(_, order)| *order).map(UnitOrder::len).sum()
    }

    /// Returns the number of nodes before a free one. `before` has those of each row before an earlier free node, and
    /// then those before this one.
    fn place(&self, free: &Free, before: &mut [usize]) -> usize {
        for ((index, (typical, order)), before) in self.rows.iter().enumerate().zip(before.iter_mut()) {
            let is_before = |factor: u64, position: u32| {
                (i128::from(*typical) * i128::from(factor), (index, position)) < (free.cost, free.seat)
            };
            *before = order.map_or(0, |order| order.before(*before, is_before));
        }
        before.iter().sum()
    }
}

/// The rules of a window over all nodes in order.
#[derive(Debug, Clone, Copy)]
struct SlidingWindow {
    /// Number of all nodes.
    nodes: usize,
    /// Length of the first window, in thousandths of the nodes that a job requests.
    permille: u32,
    /// True if a job waits for a window of this length, instead of taking one that is longer by a quarter.
    waits: bool,
}

impl SlidingWindow {
    fn of(view: &View<'_>, order: &NodeOrder<'_>) -> Self {
        let ranks = view.options().ranks;
        Self { nodes: order.nodes(), permille: ranks.window_permille, waits: ranks.window_waits }
    }

    /// Returns the first of the `wanted` free nodes in the first window that has so many. `next` returns the places of the
    /// free nodes among all nodes, in order.
    fn first(self, wanted: usize, mut next: impl FnMut() -> Option<usize>) -> Option<usize> {
        let mut places = Vec::new();
        let mut length = (wanted.saturating_mul(self.permille as usize)).div_ceil(1_000).max(wanted);
        loop {
            // The shortest window with enough free nodes begins at a free node. A window that ends at the same node and
            // begins before it is met at the same time.
            for first in 0.. {
                while places.len() < first + wanted
                    && let Some(place) = next()
                {
                    places.push(place);
                }
                match places.get(first + wanted - 1) {
                    Some(last) if last - places[first] < length => return Some(first),
                    Some(_) => {}
                    None => break,
                }
            }
            if self.waits || length >= self.nodes {
                return None;
            }
            length = (length.saturating_mul(5)).div_ceil(4).min(self.nodes);
        }
    }
}

#[cfg(test)]
mod tests;
