//! The classes of nodes from now on. A class is counted in one sum if every job takes whole nodes; otherwise its
//! nodes are stored one by one.

use std::collections::BTreeMap;

use limo_model::{JobId, Memory, NodeId, Part, Power, Time};

use super::SOON;
use super::count::CountLine;
use super::seats::{Seats, bytes};
use crate::index::{Class, Freed, Sole};
use crate::state::{Assignment, Job, Node};
use crate::view::View;

#[derive(Debug, Clone)]
pub(crate) enum Room {
    /// Every job takes whole nodes, and all nodes take jobs.
    Counted(CountLine),
    Named(Seats),
}

impl Room {
    pub fn seats(&self) -> Option<&Seats> {
        match self {
            Self::Counted(_) => None,
            Self::Named(seats) => Some(seats),
        }
    }
}

/// An active job at its expected end.
pub(super) struct Ending<'a> {
    pub end: Time,
    pub draw: Power,
    placement: &'a [Part],
    /// True if no other job is on its nodes.
    alone: bool,
}

impl<'a> Ending<'a> {
    fn of(job: &'a Job, now: Time) -> Option<Self> {
        let Assignment { draw, ref placement, alone, .. } = *job.assignment()?;
        Some(Self { end: job.expected_end(now)?, draw, placement, alone })
    }

    /// Returns those of all active jobs.
    pub fn all(view: &View<'a>) -> impl Iterator<Item = Self> {
        let (view, now) = (*view, view.now());
        let of = move |id: &JobId| view.job(*id).and_then(|job| Self::of(job, now));
        let known = view.index().ends.iter().filter_map(move |((end, id), freed)| match &freed.sole {
            Some(Sole { part, alone, draw }) if *end > now => {
                Some(Self { end: *end, draw: *draw, placement: std::slice::from_ref(part), alone: *alone })
            }
            _ => of(id),
        });
        known.chain(view.index().standing.iter().filter_map(of))
    }
}

/// Makes all classes node by node. `see` gets each active job at its end.
pub(super) fn named<'a>(view: &View<'a>, mut see: impl FnMut(&Ending<'a>)) -> Vec<Room> {
    let mut all: Vec<Option<Seats>> =
        view.index().classes.all().iter().map(|class| Some(seats_of(view, class))).collect();
    for ending in Ending::all(view) {
        see(&ending);
        give_back(view, &mut all, &ending, &mut BTreeMap::new());
    }
    all.into_iter().flatten().map(Room::Named).collect()
}

/// Makes the classes selected by `by_node` node by node, and the others as sums. No job joins another one on a capped
/// unit.
pub(super) fn counted(view: &View<'_>, by_node: &[bool]) -> Vec<Room> {
    let (now, classes) = (view.now(), &view.index().classes);
    let seats = |(class, by_node): (&Class, &bool)| by_node.then(|| seats_of(view, class));
    let mut all: Vec<Option<Seats>> = classes.all().iter().zip(by_node).map(seats).collect();
    let mut counts: Vec<CountLine> = classes.all().iter().map(|class| CountLine::new(now, free_cores(class))).collect();
    // A suspended job has no known end.
    let stands = |node: NodeId| {
        let jobs = view.cluster().jobs_on(node).into_iter().filter_map(|id| view.job(id));
        jobs.map(|job| job.estimated_end()).any(|end| end.is_none())
    };
    let from = |node: NodeId| if stands(node) { Time::MAX } else { now };
    let mut capped: BTreeMap<NodeId, Time> = capped(view).map(|node| (node, from(node))).collect();
    let any_by_node = by_node.contains(&true);
    for ((at, id), freed) in &view.index().ends {
        if let Freed { whole: Some((class, _, nodes)), .. } = *freed
            && !by_node[class]
        {
            // Only overdue jobs require a look-up.
            let end = if *at > now { Some(*at) } else { view.job(*id).and_then(|job| job.expected_end(now)) };
            let cores = classes.class(class).units.first().map_or(0, |unit| unit.cores);
            let cores = i64::from(nodes) * i64::from(cores);
            end.into_iter().for_each(|end| counts[class].give(cores, end.max(now + SOON)));
        } else if any_by_node && let Some(ending) = view.job(*id).and_then(|job| Ending::of(job, now)) {
            give_back(view, &mut all, &ending, &mut capped);
        }
    }
    for (node, until) in capped {
        let Some((class, position)) = classes.place_of(node) else { continue };
        if let Some(seats) = &mut all[class] {
            seats.block(position as usize, until);
        }
    }
    all.into_iter().zip(counts).map(|(seats, count)| seats.map_or(Room::Counted(count), Room::Named)).collect()
}

/// Ends a job as expected, after now. For `capped` nodes, only records the end.
fn give_back(view: &View<'_>, all: &mut [Option<Seats>], ending: &Ending<'_>, capped: &mut BTreeMap<NodeId, Time>) {
    let end = ending.end.max(view.now() + SOON);
    for (part, node) in ending.placement.iter().flat_map(|part| part.nodes().map(move |node| (part, node))) {
        let Some((class, position)) = view.index().classes.place_of(node) else { continue };
        let Some(seats) = &mut all[class] else { continue };
        let position = position as usize;
        if let Some(until) = capped.get_mut(&node) {
            *until = end.max(*until);
        } else if ending.alone {
            seats.give_all(position, end);
        } else {
            seats.give(position, end, (Some(part.unit.unit), i64::from(part.cores)));
            if part.memory > Memory::ZERO {
                seats.give(position, end, (None, bytes(part.memory)));
            }
        }
    }
}

/// Returns the nodes with a unit that has the cap of its jobs, unless these caps change while the jobs run.
fn capped<'a>(view: &View<'a>) -> impl Iterator<Item = NodeId> {
    let view = *view;
    let stays = !view.parts().divides();
    let is_taken = move |node: &Node| {
        node.units().any(|(unit, _)| node.cap(unit.unit).is_some() && view.index().cores_used(unit) > 0)
    };
    view.index().capped.iter().copied().filter(move |node| stays && view.node(*node).is_some_and(is_taken))
}

/// Returns the present state of a class.
fn seats_of(view: &View<'_>, class: &Class) -> Seats {
    let classes = &view.index().classes;
    let mut free = Vec::with_capacity(class.nodes.len() * (class.units.len() + 1));
    for (position, node) in (0..).zip(&class.nodes) {
        free.extend(class.levels.iter().map(|levels| i64::from(levels.free(position))));
        free.push(bytes(class.memory.saturating_sub(classes.memory_used(*node))));
    }
    Seats::new(&class.units, class.memory, view.now(), free)
}

/// Free cores of the first units of a class.
fn free_cores(class: &Class) -> i64 {
    let first = class.levels.iter().zip(&class.units).next();
    first.map_or(0, |(levels, unit)| (1..=unit.cores).map(|cores| i64::from(levels.count_at_least(cores))).sum())
}
