//! `assignment`: the first jobs of the queue together, on the nodes on which they use the least energy in total
//! (combinatorial optimisation, COA, of the heterogeneity paper, section 2.3.1, equations 6 to 11).
//!
//! Idea: with few free nodes, the best node for one job may matter more to another. So the first jobs that fit together
//! are assigned at once ([`crate::solve::assignment`]). A job on several nodes has one weight for each of them, the
//! energy of its part there. Constraints: as many jobs as fit, none out of order; each node gets at most one of them in
//! a plan, and the core plans again until no job starts. A sleeping node also costs the energy for waking it. Ignores:
//! price, limits, and that parts wait for the slowest one. Cost: one weight for each node and each different job, and
//! the solver.

use std::collections::BTreeMap;

use limo_model::{Energy, NodeId, Placement, Span};

use super::least_room;
use super::ranked::Seated;
use crate::facts::{Known, estimate};
use crate::future::could_have;
use crate::index::Shape;
use crate::options::RankBy;
use crate::solve::assignment::{JobRow, MOST, Weights};
use crate::state::Job;
use crate::view::View;

/// A job to place, with its shape.
pub(in crate::policy) type Asking<'a> = (&'a Job, &'a Shape);

/// The equal jobs of one row: the same nodes, each with the same weight.
type RowKey<'a> = (usize, &'a str, &'a str, Option<Span>);

/// Returns the placements of the first jobs that fit together, in their order.
pub(in crate::policy) fn assign(view: &View<'_>, jobs: &[Asking<'_>]) -> Vec<Placement> {
    let mut rows: BTreeMap<RowKey<'_>, usize> = BTreeMap::new();
    let mut offers: Vec<BTreeMap<NodeId, (Seated, Energy)>> = Vec::new();
    let mut asked = Vec::with_capacity(jobs.len());
    for (job, shape) in jobs {
        let request = &job.request;
        let key = (shape.number, request.application.as_str(), request.size.as_str(), request.time_limit);
        let row = *rows.entry(key).or_insert_with(|| {
            offers.push(offered(view, job, shape));
            offers.len() - 1
        });
        asked.push(JobRow { row, nodes: request.nodes.get() as usize });
    }
    let mut nodes: Vec<NodeId> = offers.iter().flat_map(BTreeMap::keys).copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    let weights = offers.iter().map(|offer| {
        let of = |node: &NodeId| offer.get(node).map(|(_, energy)| *energy);
        nodes.iter().map(of).collect::<Vec<Option<Energy>>>()
    });
    let weights: Vec<_> = weights.collect();
    // Weights are within the bounds, and there are at most as many rows as jobs in a round.
    let Ok(weights) = Weights::new(vec![1; nodes.len()], &weights) else { return Vec::new() };
    let mut places = weights.assign(&asked);
    // Nobody passes a job that does not fit, so the nodes of those behind it are free for the others.
    while let Some(fitting) = places.iter().position(Option::is_none) {
        places = weights.assign(&asked[..fitting]);
    }
    let placed = jobs.iter().zip(asked).zip(places.into_iter().flatten());
    let placed = placed.map(|(((job, shape), of), columns)| {
        let seat = |column: usize| offers[of.row].get(&nodes[column]).map(|(seat, _)| *seat);
        least_room::on(view, shape, job, columns.into_iter().filter_map(seat).collect())
    });
    placed.collect()
}

/// Returns the nodes that a job could have now, each with its energy there. A node that fits in several ways has the one
/// with the least energy.
fn offered(view: &View<'_>, job: &Job, shape: &Shape) -> BTreeMap<NodeId, (Seated, Energy)> {
    let (known, rank) = (Known::of(view.state()), view.rank(&job.request.application, RankBy::Application));
    let mut offered = BTreeMap::new();
    for (index, way) in shape.ways.iter().enumerate() {
        let class = view.index().classes.class(way.class);
        let Some(unit) = class.units.get(usize::from(way.unit)) else { continue };
        let typical = estimate(known, &job.request, unit).energy;
        let order = rank.unit(way.class, way.unit).map(|rank| &rank.energy);
        for position in could_have(view, shape, way, job).iter() {
            let node = class.nodes[position as usize];
            let factor = order.map_or(1_000_000, |order| order.of(position));
            let factor = i64::try_from(factor).unwrap_or(i64::MAX);
            let waking = if class.asleep.contains(position) { waking(view, node) } else { Energy::ZERO };
            let energy = (typical.scaled(factor, 1_000_000) + waking).min(MOST);
            let seat = ((index, position), energy);
            let best = offered.entry(node).or_insert(seat);
            if energy < best.1 {
                *best = seat;
            }
        }
    }
    offered
}

/// Returns the energy for waking a node.
fn waking(view: &View<'_>, node: NodeId) -> Energy {
    let up = view.node(node).and_then(|node| node.spec.rest()).map(|rest| rest.up);
    up.map_or(Energy::ZERO, |up| up.draw * up.span)
}
