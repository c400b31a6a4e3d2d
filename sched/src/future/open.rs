//! The nodes of a class that take jobs, with the times at which their resources become free.

use std::collections::BTreeMap;

use limo_model::{NodeId, Span, Time};

use super::{Chance, Chances, SOON, Seats};
use crate::index::Class;
use crate::view::View;

/// The nodes of a class that take jobs.
#[derive(Default)]
pub(super) struct OpenNodes {
    /// All of these nodes, in order of positions.
    pub all: Vec<Open>,
    /// Wake time of the sleeping nodes.
    pub wakes: BTreeMap<u32, Span>,
    pub chances: Chances,
}

#[derive(Clone, Copy)]
pub(super) struct Open {
    pub node: NodeId,
    pub position: u32,
    /// Wake time of the node.
    pub wake: Span,
    /// Time from which the node could take a job, after falling asleep or waking.
    pub from: Time,
}

impl OpenNodes {
    pub fn of(view: &View<'_>, class: &Class, seats: &Seats) -> Self {
        let open = |(position, node): (u32, &NodeId)| {
            let is_switching = class.switching.contains(position);
            let sleeps = is_switching || class.asleep.contains(position);
            let rest = view.node(*node).and_then(|node| node.spec.rest()).filter(|_| sleeps);
            let wake = rest.map_or(Span::ZERO, |rest| rest.up.span);
            Open { node: *node, position, wake, from: if is_switching { view.now() + SOON } else { view.now() } }
        };
        let is_open = |(position, _): &(u32, &NodeId)| !class.closed.contains(*position);
        let all: Vec<Open> = (0..).zip(&class.nodes).filter(is_open).map(open).collect();
        let wakes = all.iter().filter(|open| open.wake > Span::ZERO).map(|open| (open.position, open.wake));
        let chances = all.iter().flat_map(|open| chances(seats, open));
        Self { wakes: wakes.collect(), chances: Chances::of(chances.collect()), all }
    }
}

/// Returns the times at which resources of a node are free, once it takes jobs.
fn chances(seats: &Seats, open: &Open) -> impl Iterator<Item = Chance> {
    let (from, node) = (open.from, open.position);
    let steps = seats.first_cores(node as usize);
    let last = steps.filter(|(at, _)| *at <= from).last().map(|(_, free)| (from, free));
    let later = seats.first_cores(node as usize).filter(move |(at, _)| *at > from);
    last.into_iter().chain(later).map(move |(at, free)| Chance { at, node, free })
}
