//! The nodes of classes that are looked at one by one: what is free of each now, what the jobs on them give back, and which
//! of them take jobs.

use std::collections::BTreeMap;

use limo_model::{Memory, NodeId, Span, Time};

use super::seats::{STEPS, Seats};
use crate::state::{Assignment, Job, Node};
use crate::view::View;

pub(super) struct ClassSeats {
    pub class: usize,
    pub seats: Seats,
    /// The nodes that take jobs.
    pub open: Vec<Open>,
    /// How long nodes need to wake that sleep.
    wakes: BTreeMap<u32, Span>,
}

impl ClassSeats {
    pub fn wake(&self, position: u32) -> Span {
        self.wakes.get(&position).copied().unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Open {
    pub position: u32,
    /// How long it needs to wake.
    pub wake: Span,
    /// From when on it could take a job: a node that is switched has to be there first.
    pub from: Time,
}

/// How far ahead something is expected that should have come already, or takes no known time.
pub(super) const SOON: Span = Span::from_ms(1);

/// When a job is expected to end, which is after now.
pub(super) fn end_of(job: &Job, now: Time) -> Option<(Time, &Assignment)> {
    let (end, assignment) = job.expected_end(now).zip(job.assignment())?;
    Some((end.max(now + SOON), assignment))
}

/// Of each class that is `by_node` its nodes, with the ends of the jobs on them.
pub(super) fn seats(view: &View<'_>, by_node: &[bool]) -> Vec<Option<ClassSeats>> {
    let now = view.now();
    let mut all: Vec<Option<ClassSeats>> =
        by_node.iter().enumerate().map(|(class, by_node)| by_node.then(|| class_seats(view, class))).collect();
    let mut capped: BTreeMap<NodeId, Time> = capped(view).map(|node| (node, now)).collect();
    if all.iter().all(Option::is_none) {
        return all;
    }
    for (_, id) in view.index().ends.keys() {
        let Some((end, assignment)) = view.job(*id).and_then(|job| end_of(job, now)) else { continue };
        for (part, node) in assignment.placement.iter().flat_map(|part| part.nodes().map(move |node| (part, node))) {
            let Some((class, position)) = view.index().classes.place_of(node) else { continue };
            let Some(of) = &mut all[class] else { continue };
            let position = position as usize;
            if let Some(until) = capped.get_mut(&node) {
                *until = end.max(*until);
            } else if assignment.alone {
                of.seats.give_all(position, end);
            } else {
                of.seats.give(position, end, (Some(usize::from(part.unit.unit)), part.cores.into()));
                if part.memory > Memory::ZERO {
                    of.seats.give(position, end, (None, part.memory.bytes()));
                }
            }
        }
    }
    for (node, until) in capped {
        let Some((class, position)) = view.index().classes.place_of(node) else { continue };
        if let Some(of) = &mut all[class] {
            of.seats.block(position as usize, until);
        }
    }
    for of in all.iter_mut().flatten() {
        of.seats.open(of.open.iter().map(|open| (open.position, open.from)));
    }
    all
}

/// Nodes with a unit that is held at the cap of its jobs: nobody joins them.
fn capped<'a>(view: &View<'a>) -> impl Iterator<Item = NodeId> {
    let view = *view;
    let is_taken = move |node: &Node| {
        node.units().any(|(unit, _)| node.cap(unit.unit).is_some() && view.index().cores_used(unit) > 0)
    };
    view.index().capped.iter().copied().filter(move |node| view.node(*node).is_some_and(is_taken))
}

/// A class as it is now: free cores and memory, and the nodes that take jobs.
fn class_seats(view: &View<'_>, index: usize) -> ClassSeats {
    let (now, classes) = (view.now(), &view.index().classes);
    let class = classes.class(index);
    let free = |position: usize| {
        let cores = class.levels.iter().map(|levels| u64::from(levels.free(position as u32)));
        let used = classes.memory_used(class.nodes[position]);
        let mut free = Vec::with_capacity(STEPS * (class.units.len() + 1));
        free.extend(cores.chain([class.memory.saturating_sub(used).bytes()]));
        free
    };
    let seats = Seats::new(&class.units, class.memory, now, (0..class.nodes.len()).map(free));
    let open = |position: u32| {
        let node = view.node(class.nodes[position as usize]);
        let is_switching = class.switching.contains(position);
        let sleeps = is_switching || class.asleep.contains(position);
        let wake = node.and_then(|node| node.spec.rest).filter(|_| sleeps).map_or(Span::ZERO, |rest| rest.up.span);
        Open { position, wake, from: if is_switching { now + SOON } else { now } }
    };
    let open: Vec<Open> = (0..class.nodes.len() as u32).filter(|at| !class.closed.contains(*at)).map(open).collect();
    let sleep = open.iter().filter(|open| open.wake > Span::ZERO);
    let wakes = sleep.map(|open| (open.position, open.wake)).collect();
    ClassSeats { class: index, seats, open, wakes }
}
