//! The nodes that a job gets: those with the fewest sufficient free cores, the lowest first and sleeping nodes last;
//! or a run of neighbours. Packed jobs are in [`super::packed`].

use std::ops::Range;

use limo_model::{NodeId, Part, Placement, Request, Span, UnitId};

use super::packed;
use crate::facts::{units_like, units_wanted};
use crate::future::{Asker, add, asks_each, could_have, free};
use crate::index::{HeadReservation, Shape, Way};
use crate::options::Allocation;
use crate::state::{Job, Sleep};
use crate::structure::Bits;
use crate::view::{View, on_units};

/// Returns the largest numbers of nodes that a job of the shape could have now: one for a job that would end before
/// the reservation, and one for other jobs. Both are bounds; the second is exact if all units are taken whole.
pub(in crate::policy) fn room(view: &View<'_>, shape: &Shape, reservation: &HeadReservation) -> (u32, u32) {
    if asks_each(view, shape) {
        return (u32::MAX, u32::MAX);
    }
    if view.options().allocation == Allocation::Any {
        return (shape.room(), reservation.spare(view, shape));
    }
    let longest = |free: &Bits| free.runs().map(|run| run.len() as u32).max().unwrap_or(0);
    shape.ways.iter().fold((0, 0), |(before, beside), way| {
        let mut free = free(view, shape, way);
        let all = longest(&free);
        reservation.remove_from(way.class, &mut free);
        (before.max(all), beside.max(longest(&free)))
    })
}

/// Returns a placement for the job now, if there is one. With neighbours only, a job that would not end before the
/// reservation does not get its nodes.
pub(in crate::policy) fn find(
    view: &View<'_>,
    shape: &Shape,
    job: &Job,
    reservation: Option<&HeadReservation>,
) -> Option<Placement> {
    let wanted = job.request.nodes.get();
    if job.request.is_packed() {
        return packed::find(view, Asker { job, shape }, reservation);
    }
    if !asks_each(view, shape) && wanted > shape.room() {
        return None;
    }
    if view.options().allocation == Allocation::Contiguous {
        return neighbours(view, shape, job, reservation);
    }
    let mut placement = Placement::new();
    let mut missing = wanted;
    for asleep in [false, true] {
        for way in &shape.ways {
            if missing == 0 {
                return Some(placement);
            }
            missing -= add_some(view, &mut placement, (shape, job, way), (asleep, missing));
        }
    }
    (missing == 0).then_some(placement)
}

/// Returns the placement of a job on these nodes, each given by the index of its candidate and its position.
pub(super) fn on(view: &View<'_>, shape: &Shape, job: &Job, mut nodes: Vec<(usize, u32)>) -> Placement {
    nodes.sort_unstable();
    let mut placement = Placement::new();
    for run in nodes.chunk_by(|(way, before), (other, after)| way == other && before + 1 == *after) {
        let (way, first) = (&shape.ways[run[0].0], run[0].1);
        let run = first..first + run.len() as u32;
        let class = view.index().classes.class(way.class);
        match shape.ask.accelerators {
            0 => add(&mut placement, class, way, job, run),
            _ => run.for_each(|at| add_units(view, &mut placement, job, (way, class.nodes[at as usize]))),
        }
    }
    placement
}

/// Adds as many nodes of a class as are wanted or available; returns their number.
fn add_some(
    view: &View<'_>,
    placement: &mut Placement,
    (shape, job, way): (&Shape, &Job, &Way),
    (asleep, wanted): (bool, u32),
) -> u32 {
    let class = view.index().classes.class(way.class);
    let Some(levels) = class.levels.get(usize::from(way.unit)) else { return 0 };
    let is_plain = shape.ask.is_plain() && !asks_each(view, shape);
    let mut found = 0;
    let mut each = |run: Range<u32>| {
        found += run.end - run.start;
        match shape.ask.accelerators {
            0 => add(placement, class, way, job, run),
            _ => run.for_each(|at| add_units(view, placement, job, (way, class.nodes[at as usize]))),
        }
    };
    match asleep {
        true if is_plain => drop(class.asleep.lowest(wanted, each)),
        false if is_plain => drop(levels.lowest_fit(way.cores, wanted, each)),
        _ => {
            let mut free = could_have(view, shape, way, job);
            if asleep {
                free.intersect_with(&class.asleep);
            }
            match asleep || shape.ask.accelerators > 0 {
                // Usable nodes are awake.
                false => levels.lowest_fit_of(&free, way.cores, wanted, each),
                true => {
                    if !asleep {
                        free.intersect_with(levels.usable());
                    }
                    free.lowest(wanted, &mut each);
                }
            }
        }
    }
    found
}

/// Returns the free units of a candidate's type on a node, as many as this number of chunks needs.
pub(super) fn free_units(view: &View<'_>, request: &Request, (way, node): (&Way, NodeId), chunks: u32) -> Vec<u16> {
    let units = view.node(node).map_or(&[][..], |node| &node.spec.units);
    let is_free = |unit: &u16| view.index().cores_used(UnitId { node, unit: *unit }) == 0;
    let wanted = units_wanted(request).saturating_mul(chunks as usize);
    units_like(units, way.unit).filter(is_free).take(wanted).collect()
}

/// Adds the job's accelerators on a node on which it fits.
fn add_units(view: &View<'_>, placement: &mut Placement, job: &Job, (way, node): (&Way, NodeId)) {
    let units = free_units(view, &job.request, (way, node), 1);
    placement.extend(on_units((node, 1), &units, (way.takes, job.request.memory), way.host));
}

/// Returns the first run of free neighbours in one class.
fn neighbours(view: &View<'_>, shape: &Shape, job: &Job, reservation: Option<&HeadReservation>) -> Option<Placement> {
    let wanted = job.request.nodes.get();
    let walltime = job.request.time_limit.unwrap_or(view.options().default_duration);
    for way in &shape.ways {
        let class = view.index().classes.class(way.class);
        let mut free = could_have(view, shape, way, job);
        if let Some(reservation) = reservation
            && view.now() + walltime > reservation.at
        {
            reservation.remove_from(way.class, &mut free);
        }
        if let Some(first) = free.first_run(wanted) {
            let mut placement = Placement::new();
            match job.request.accelerators {
                None => add(&mut placement, class, way, job, first..first + wanted),
                Some(_) => (first..first + wanted).for_each(|at| {
                    add_units(view, &mut placement, job, (way, class.nodes[at as usize]));
                }),
            }
            return Some(placement);
        }
    }
    None
}

/// Returns the time until all nodes of a placement are awake.
pub(in crate::policy) fn waking(view: &View<'_>, placement: &Placement) -> Span {
    if view.index().sleeping == 0 {
        return Span::ZERO;
    }
    let each = |part: &Part| {
        let sleeping = part.nodes().filter_map(|node| view.node(node)).filter(|node| node.sleep == Sleep::Asleep);
        sleeping.filter_map(|node| node.spec.rest().map(|rest| rest.up.span)).max()
    };
    let parts = placement.iter().map(|part| view.index().classes.waking(part).or_else(|| each(part)));
    parts.map(Option::unwrap_or_default).max().unwrap_or(Span::ZERO)
}
