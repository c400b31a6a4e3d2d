//! The start of the first waiting job, and the resources that later jobs must leave free for it.

use std::ops::Range;

use limo_model::{JobId, NodeId, Part, Placement, Power, Span, Time, UnitId};

use super::then::Then;
use super::{Asker, now};
use crate::index::{Freed, Gains, HeadReservation, Shape, Way};
use crate::options::Allocation;
use crate::plan::Start;
use crate::state::Job;
use crate::structure::Bits;
use crate::view::View;

/// The power for a reserved job, apart from nodes.
pub(crate) trait PowerRoom {
    /// Returns the first time from `not_before` on at which the limits and budgets leave `power`.
    fn earliest(&mut self, power: Power, span: Option<Span>, not_before: Time) -> Option<Time>;

    /// Returns true if a constant limit leaves `power` when the draw has fallen by `freed`.
    fn leaves(&self, power: Power, freed: Power) -> bool;
}

/// A walk through the future ends of jobs.
struct Walk<'a> {
    view: View<'a>,
    head: Asker<'a>,
    /// Number of chunks that the job requests: of nodes, unless it is packed.
    wanted: u32,
    /// Number of chunks for which there is room.
    count: u32,
    freed: Power,
    gains: Gains,
    /// True if nodes are checked one by one, as in [`HeadReservation`].
    by_node: bool,
    /// With neighbours only: the free positions, by candidate.
    free: Option<Vec<Bits>>,
    /// True if a run of them is long enough, computed once their number suffices. From then on, only freed nodes can
    /// change it.
    has_run: Option<bool>,
}

impl HeadReservation {
    /// Returns the earliest time at which there are enough nodes for the first job, and `power` for its draw.
    pub(crate) fn of(view: &View<'_>, head: Asker<'_>, power: Power, room: &mut impl PowerRoom) -> Self {
        let span = head.job.request.time_limit;
        let mut walk = Walk::new(view, head);
        let mut at = walk.switches(view.now());
        let mut guess = Some(at).filter(|at| *at > view.now());
        let mut ends = view.index().ends.iter().peekable();
        // The following code runs once for each instant at which jobs end, from now on.
        let mut not_before = None;
        let found = loop {
            if not_before.is_none() && walk.fits() {
                not_before = Some(room.earliest(power, span, at));
            }
            match not_before {
                Some(Some(earliest)) if earliest <= at && room.leaves(power, walk.freed) => break true,
                Some(None) => break false,
                _ => {}
            }
            let Some(((end, _), _)) = ends.peek() else {
                break not_before.flatten().is_some() && room.leaves(power, walk.freed);
            };
            let next = overdue(*end, view.now()).max(at);
            if let Some(earliest) = not_before.flatten().filter(|earliest| *earliest > at && *earliest < next) {
                at = earliest;
                continue;
            }
            at = next;
            guess = guess.or(Some(at).filter(|at| *at > *end));
            while let Some(((_, id), release)) = ends.next_if(|((end, _), _)| overdue(*end, view.now()) <= at) {
                walk.end(*id, release);
            }
        };
        let at = if found { at.max(not_before.flatten().unwrap_or(at)) } else { Time::MAX };
        let run = walk.free.as_ref().and_then(|free| first_run(&head.shape.ways, free, walk.wanted));
        Self {
            at,
            is_guess: guess == Some(at),
            power,
            span,
            freed: walk.freed,
            extra: walk.count.saturating_sub(walk.wanted),
            shape: head.shape.number,
            run: run.filter(|_| found),
            gains: walk.gains,
            by_node: walk.by_node,
        }
    }

    /// Returns the expected start, if known.
    pub(crate) fn expected(&self) -> Option<Time> {
        Some(self.at).filter(|at| *at < Time::MAX && !self.is_guess)
    }

    fn ways<'a>(&self, view: &View<'a>) -> &'a [Way] {
        view.index().shapes.all().get(self.shape).map_or(&[], |shape| &shape.ways)
    }

    /// Removes the nodes of the reservation from the `free` positions of a class.
    pub(crate) fn remove_from(&self, class: usize, free: &mut Bits) {
        if let Some((of, run)) = &self.run
            && *of == class
        {
            free.remove_range(run.clone());
        }
    }

    /// Returns the largest number of nodes for a job of the shape that would not end before the reservation. This is
    /// a bound; it is exact if all units are taken whole.
    pub(crate) fn spare(&self, view: &View<'_>, shape: &Shape) -> u32 {
        if self.run.is_some() || self.by_node {
            return u32::MAX;
        }
        let whole = |way: &Way| {
            let units = &view.index().classes.class(way.class).units;
            let cores = units.get(usize::from(way.unit)).map(|unit| unit.cores);
            let shared = self.ways(view).iter().find(|own| own.class == way.class && own.unit == way.unit);
            shared.is_some_and(|own| Some(own.cores) == cores && Some(way.cores) == cores)
        };
        if shape.ways.iter().all(whole) { self.extra } else { u32::MAX }
    }

    /// Returns true if a job on `placement` until `end`, perhaps alone there, leaves enough resources for `head`.
    pub(crate) fn leaves_room(&self, view: &View<'_>, head: JobId, start: (&Placement, bool), end: Time) -> bool {
        end <= self.at || self.run.is_some() || self.cost(view, head, start) <= self.extra
    }

    /// Updates the reservation of `head` after the start of another job.
    pub(crate) fn give(&mut self, view: &View<'_>, head: JobId, start: &Start, end: Time) {
        let alone = view.job(start.job).is_some_and(|job| job.request.exclusive);
        if end <= self.at {
            self.freed += start.estimate.power;
            self.gain(view, (&start.placement, alone));
        } else if self.run.is_none() {
            self.extra = self.extra.saturating_sub(self.cost(view, head, (&start.placement, alone)));
        }
    }

    /// Counts the resources that the job returns by then, on partly used nodes.
    fn gain(&mut self, view: &View<'_>, (placement, alone): (&Placement, bool)) {
        if self.by_node {
            return nodes(placement).for_each(|(node, parts)| gain_of(view, &mut self.gains, (node, parts, alone)));
        }
        let cores = |unit| view.unit(unit).map(|(_, unit)| unit.cores);
        for part in placement.iter().filter(|part| !alone && Some(part.cores) != cores(part.unit)) {
            part.units().for_each(|unit| self.gains.add_cores(unit, part.cores));
        }
    }

    /// Returns the number of nodes that `placement` would take from `head` at that time; the number of chunks, if
    /// `head` is packed.
    fn cost(&self, view: &View<'_>, head: JobId, (placement, alone): (&Placement, bool)) -> u32 {
        if self.by_node {
            let Some(job) = view.job(head) else { return 0 };
            return nodes(placement).map(|(node, parts)| self.loses(view, job, (node, parts, alone))).sum();
        }
        same_nodes(placement).map(|parts| self.cost_in_cores(view, (parts, alone))).sum()
    }

    /// Returns the number of chunks of the first job that would lose their room on a node then, if another job has `parts`
    /// of it.
    fn loses(&self, view: &View<'_>, head: &Job, (node, parts, alone): (NodeId, &[Part], bool)) -> u32 {
        let Some(way) = way_on(view, self.ways(view), node) else { return 0 };
        let then = Then { view: *view, gains: &self.gains };
        let before = then.chunks(head, (way, node), &[]);
        let beside = if alone || before == 0 { 0 } else { then.chunks(head, (way, node), parts) };
        before.saturating_sub(beside)
    }

    /// Does the same for a first job that requests cores only. The nodes are those of some parts of a job, which may
    /// be alone there.
    fn cost_in_cores(&self, view: &View<'_>, (parts, alone): (&[Part], bool)) -> u32 {
        let classes = &view.index().classes;
        let Some((class, position)) = parts.first().and_then(|part| classes.place_of(part.unit.node)) else { return 0 };
        let Some(way) = self.ways(view).iter().find(|way| way.class == class) else { return 0 };
        if alone {
            return parts[0].count;
        }
        let Some(part) = parts.iter().find(|part| part.unit.unit == way.unit) else { return 0 };
        let unit = usize::from(way.unit);
        let cores = classes.class(class).units.get(unit).map_or(0, |unit| unit.cores);
        if part.cores == cores {
            return part.count;
        }
        let levels = &classes.class(class).levels[unit];
        let costs = |(position, unit): &(u32, UnitId)| {
            let then = levels.free(*position) + self.gains.cores(*unit);
            then >= way.cores && then.saturating_sub(part.cores) < way.cores
        };
        (position..position + part.count).zip(part.units()).filter(costs).count() as u32
    }
}

/// Returns the parts of a job on the same nodes: parts on several units of a node follow each other.
fn same_nodes(placement: &Placement) -> impl Iterator<Item = &[Part]> {
    placement.chunk_by(|one, other| (one.unit.node, one.count) == (other.unit.node, other.count))
}

/// Returns each node of a placement, with its parts.
fn nodes(placement: &Placement) -> impl Iterator<Item = (NodeId, &[Part])> {
    same_nodes(placement).flat_map(|parts| parts[0].nodes().map(move |node| (node, parts)))
}

/// Returns the candidate by which a job could have a node.
fn way_on<'a>(view: &View<'_>, ways: &'a [Way], node: NodeId) -> Option<&'a Way> {
    let (class, _) = view.index().classes.place_of(node)?;
    ways.iter().find(|way| way.class == class)
}

/// Adds the resources that a job returns on a node. The job has `parts` of it, or is alone there.
fn gain_of(view: &View<'_>, gains: &mut Gains, (node, parts, alone): (NodeId, &[Part], bool)) {
    if !alone {
        return gains.add(node, parts);
    }
    let units = view.node(node).into_iter().flat_map(|node| node.units());
    units.for_each(|(unit, spec)| gains.add_cores(unit, spec.cores));
    parts.iter().for_each(|part| gains.add_memory(node, part.memory));
}

/// Returns the expected time of an end; an overdue end is expected now.
fn overdue(end: Time, now: Time) -> Time {
    if end < now { now + Span::from_ms(1) } else { end }
}

fn first_run(ways: &[Way], free: &[Bits], wanted: u32) -> Option<(usize, Range<u32>)> {
    let runs = ways.iter().zip(free);
    let mut found =
        runs.filter_map(|(way, free)| free.first_run(wanted).map(|first| (way.class, first..first + wanted)));
    found.next()
}

impl<'a> Walk<'a> {
    fn new(view: &View<'a>, head: Asker<'a>) -> Self {
        let asks_each = now::asks_each(view, head.shape);
        let by_node = asks_each || !head.shape.ask.is_plain();
        let is_packed = head.job.request.is_packed();
        let contiguous = view.options().allocation == Allocation::Contiguous && !is_packed;
        let free: Option<Vec<Bits>> = ((asks_each || contiguous) && !is_packed)
            .then(|| head.shape.ways.iter().map(|way| now::could_have(view, head.shape, way, head.job)).collect());
        let count = match &free {
            _ if is_packed => now::room(view, head),
            Some(free) if asks_each => free.iter().map(Bits::count).sum(),
            _ => head.shape.room(),
        };
        let free = free.filter(|_| contiguous);
        let wanted = head.job.request.nodes.get();
        Self { view: *view, head, wanted, count, freed: Power::ZERO, gains: Gains::NONE, by_node, free, has_run: None }
    }

    /// Counts nodes that are falling asleep or waking. Returns the first time to check.
    fn switches(&mut self, now: Time) -> Time {
        if self.view.index().sleeping == 0 {
            return now;
        }
        let before = self.count;
        for (index, way) in self.head.shape.ways.iter().enumerate() {
            let class = self.view.index().classes.class(way.class);
            for at in now::soon(&self.view, way) {
                let node = class.nodes[at as usize];
                let chunks = if self.by_node { self.chunks(way, node) } else { 1 };
                if chunks == 0 {
                    continue;
                }
                self.count = self.count.saturating_add(chunks);
                if let Some(free) = &mut self.free {
                    free[index].insert(at);
                }
            }
        }
        if self.count > before { now + Span::from_ms(1) } else { now }
    }

    fn fits(&mut self) -> bool {
        let wanted = self.wanted;
        let run = |free: &Vec<Bits>| first_run(&self.head.shape.ways, free, wanted).is_some();
        self.count >= wanted && *self.has_run.get_or_insert_with(|| self.free.as_ref().is_none_or(run))
    }

    /// Marks positions of a candidate as free again.
    fn free_again(&mut self, way: usize, run: Range<u32>) {
        if let Some(free) = self.free.as_mut().and_then(|free| free.get_mut(way)) {
            free.insert_range(run.clone());
            if self.has_run == Some(false) {
                self.has_run = Some(free.run_around(run.start).len() >= self.wanted as usize);
            }
        }
    }

    fn end(&mut self, id: JobId, release: &Freed) {
        self.freed += release.power;
        if self.by_node {
            return self.end_by_node(id);
        }
        let way = |class, unit| self.head.shape.ways.iter().find(|way| way.class == class && way.unit == unit);
        match release.whole {
            Some((class, unit, _)) if way(class, unit).is_none() => {}
            Some((class, unit, nodes)) if self.view.index().classes.is_open(class) => {
                self.count += nodes;
                self.mark(id, release, (class, unit));
            }
            _ => self.end_in_cores(id),
        }
    }

    /// With neighbours only: marks the nodes of a job that has whole units as free.
    fn mark(&mut self, id: JobId, release: &Freed, (class, unit): (usize, u16)) {
        let ways = &self.head.shape.ways;
        let way = ways.iter().position(|way| way.class == class && way.unit == unit);
        let Some(way) = way.filter(|_| self.free.is_some()) else { return };
        if let Some((from, to)) = release.run {
            return self.free_again(way, from..to);
        }
        let placement = self.view.job(id).and_then(|job| job.assignment()).map(|assignment| &assignment.placement);
        for part in placement.into_iter().flatten() {
            self.view.index().classes.runs(part, |_, run| self.free_again(way, run));
        }
    }

    /// Handles the end of a job for a first job that requests cores only.
    fn end_in_cores(&mut self, id: JobId) {
        let classes = &self.view.index().classes;
        let Some(assignment) = self.view.job(id).and_then(|job| job.assignment()) else { return };
        for (unit, cores) in kept(&self.view, &assignment.placement, assignment.alone) {
            let Some((class, position)) = classes.place_of(unit.node) else { continue };
            let ways = &self.head.shape.ways;
            let way = ways.iter().position(|way| way.class == class && way.unit == unit.unit);
            let Some(index) = way.filter(|_| !classes.class(class).closed.contains(position)) else { continue };
            let before = self.is_free(unit, &ways[index]);
            self.gains.add_cores(unit, cores);
            if !before && self.is_free(unit, &ways[index]) {
                self.count += 1;
                self.free_again(index, position..position + 1);
            }
        }
    }

    /// Returns true if the first job could have the node of a unit, considering its cores only.
    fn is_free(&self, unit: UnitId, way: &Way) -> bool {
        let cores = self.view.unit(unit).map_or(0, |(_, spec)| spec.cores);
        let free = cores.saturating_sub(self.view.index().cores_used(unit));
        free + self.gains.cores(unit) >= way.cores
    }

    fn end_by_node(&mut self, id: JobId) {
        let classes = &self.view.index().classes;
        let Some(assignment) = self.view.job(id).and_then(|job| job.assignment()) else { return };
        for (node, parts) in nodes(&assignment.placement) {
            let Some((class, position)) = classes.place_of(node) else { continue };
            let ways = &self.head.shape.ways;
            let Some(index) = ways.iter().position(|way| way.class == class) else { continue };
            let before = self.chunks(&ways[index], node);
            gain_of(&self.view, &mut self.gains, (node, parts, assignment.alone));
            let more = self.chunks(&ways[index], node).saturating_sub(before);
            if more > 0 {
                self.count = self.count.saturating_add(more);
                self.free_again(index, position..position + 1);
            }
        }
    }

    /// Returns the chunks that the first job could have on the node once the jobs seen so far have ended.
    fn chunks(&self, way: &Way, node: NodeId) -> u32 {
        Then { view: self.view, gains: &self.gains }.chunks(self.head.job, (way, node), &[])
    }
}

/// Returns the cores of each unit that a job on `placement` keeps from others.
fn kept<'a>(view: &View<'a>, placement: &'a [Part], alone: bool) -> Box<dyn Iterator<Item = (UnitId, u32)> + 'a> {
    let view = *view;
    if alone {
        let nodes = placement.iter().flat_map(Part::nodes).filter_map(move |node| view.node(node));
        return Box::new(nodes.flat_map(|node| node.units().map(|(unit, spec)| (unit, spec.cores))));
    }
    Box::new(placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cores))))
}
