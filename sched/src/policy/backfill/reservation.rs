//! When the first job that waits can start, and what later jobs must leave it.

use std::collections::BTreeMap;
use std::ops::Range;

use limo_model::{JobId, Part, Placement, Power, Span, Time, UnitId};

use super::{Candidate, Desk, place};
use crate::facts::units_like;
use crate::index::{Freed, HeadReservation, Shape, Way};
use crate::options::Allocation;
use crate::plan::Start;
use crate::structure::Bits;
use crate::view::View;

/// The future, end by end.
struct Walk<'a> {
    view: View<'a>,
    head: Candidate<'a>,
    count: u32,
    freed: Power,
    gains: BTreeMap<UnitId, u32>,
    /// With neighbours only: what is free, by way.
    free: Option<Vec<Bits>>,
    /// Whether a run of them is long enough, once there are enough of them at all. From then on it can only become so
    /// around what is given back.
    has_run: Option<bool>,
}

impl HeadReservation {
    pub(super) fn of(desk: &mut Desk<'_>, head: &Candidate<'_>) -> Self {
        let view = desk.view;
        let span = head.job.request.time_limit;
        let mut walk = Walk::new(&view, head);
        let power = power(&view, head);
        let mut at = walk.switches(view.now());
        let mut guess = Some(at).filter(|at| *at > view.now());
        let mut ends = view.index().ends.iter().peekable();
        // What follows is asked once for each instant at which jobs end, from now on.
        let mut not_before = None;
        let found = loop {
            if not_before.is_none() && walk.fits() {
                not_before = Some(desk.gate.earliest(power, span, at));
            }
            match not_before {
                Some(Some(earliest)) if earliest <= at && desk.gate.leaves(power, walk.freed) => break true,
                Some(None) => break false,
                _ => {}
            }
            let Some(((end, _), _)) = ends.peek() else {
                break not_before.flatten().is_some() && desk.gate.leaves(power, walk.freed);
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
        let run = walk.free.as_ref().and_then(|free| first_run(&head.shape.ways, free, head.need.parts));
        Self {
            at,
            is_guess: guess == Some(at),
            power,
            span,
            freed: walk.freed,
            extra: walk.count.saturating_sub(head.need.parts),
            shape: head.shape.number,
            run: run.filter(|_| found),
            gains: walk.gains,
            alone: head.job.request.exclusive,
            any: head.job.request.accelerators.is_some(),
        }
    }

    /// When it is expected to start, where anybody knows.
    pub(super) fn expected(&self) -> Option<Time> {
        Some(self.at).filter(|at| *at < Time::MAX && !self.is_guess)
    }

    fn ways<'a>(&self, view: &View<'a>) -> &'a [Way] {
        view.index().shapes.all().get(self.shape).map_or(&[], |shape| &shape.ways)
    }

    /// Takes the nodes of the reservation out of `free` positions of a class.
    pub(super) fn remove_from(&self, class: usize, free: &mut Bits) {
        if let Some((of, run)) = &self.run
            && *of == class
        {
            free.remove_range(run.clone());
        }
    }

    /// The most nodes that a job of the shape can have which would not be over by then: a bound, exact where all units
    /// are taken whole.
    pub(super) fn spare(&self, view: &View<'_>, shape: &Shape) -> u32 {
        if self.run.is_some() {
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

    /// Whether a job on `placement` until `end`, perhaps alone there, leaves the first one what it needs.
    pub(super) fn leaves_room(&self, view: &View<'_>, (placement, alone): (&Placement, bool), end: Time) -> bool {
        end <= self.at || self.run.is_some() || self.cost(view, (placement, alone)) <= self.extra
    }

    /// A job starts beside the reservation.
    pub(super) fn give(&mut self, view: &View<'_>, start: &Start, end: Time) {
        let alone = view.job(start.job).is_some_and(|job| job.request.exclusive);
        if end <= self.at {
            self.freed += start.estimate.power;
            self.gain(view, (&start.placement, alone));
        }
        if end > self.at && self.run.is_none() {
            self.extra = self.extra.saturating_sub(self.cost(view, (&start.placement, alone)));
        }
    }

    /// Cores that it gives back by then, on units that it has in part.
    fn gain(&mut self, view: &View<'_>, (placement, alone): (&Placement, bool)) {
        let cores = |unit| view.unit(unit).map(|(_, unit)| unit.cores);
        if alone || self.alone || self.any {
            return kept(view, placement, alone)
                .for_each(|(unit, cores)| *self.gains.entry(unit).or_default() += cores);
        }
        for part in placement.iter().filter(|part| Some(part.cores) != cores(part.unit)) {
            part.units().for_each(|unit| *self.gains.entry(unit).or_default() += part.cores);
        }
    }

    /// How many nodes that the first job could have at that time it could not have beside `placement`.
    fn cost(&self, view: &View<'_>, (placement, alone): (&Placement, bool)) -> u32 {
        placement.iter().map(|part| self.cost_of(view, (part, alone))).sum()
    }

    fn cost_of(&self, view: &View<'_>, (part, alone): (&Part, bool)) -> u32 {
        let classes = &view.index().classes;
        let Some((class, position)) = classes.place_of(part.unit.node) else { return 0 };
        if alone || self.alone {
            // All of a node is lost to whoever wants it alone, and by whoever has it alone.
            return if self.ways(view).iter().any(|way| way.class == class) { part.count } else { 0 };
        }
        if self.any {
            // Whichever it has of them, there may be too few left then.
            let units = &classes.class(class).units;
            let meet = |way: &Way| way.class == class && units_like(units, way.unit).any(|unit| unit == part.unit.unit);
            return if self.ways(view).iter().any(meet) { part.count } else { 0 };
        }
        let Some(way) = self.ways(view).iter().find(|way| way.class == class && way.unit == part.unit.unit) else {
            return 0;
        };
        let unit = usize::from(way.unit);
        let cores = classes.class(class).units.get(unit).map_or(0, |unit| unit.cores);
        if part.cores == cores {
            return part.count;
        }
        let levels = &classes.class(class).levels[unit];
        let costs = |(position, unit): &(u32, UnitId)| {
            let then = levels.free(*position) + self.gains.get(unit).copied().unwrap_or(0);
            then >= way.cores && then.saturating_sub(part.cores) < way.cores
        };
        (position..position + part.count).zip(part.units()).filter(costs).count() as u32
    }
}

/// What the first job will draw. Where there are nodes already, what it would draw on them; else the least that it can.
pub(super) fn power(view: &View<'_>, head: &Candidate<'_>) -> Power {
    let placement = place::find(view, head.shape, head.job, None);
    let known = placement.map(|placement| super::estimate(view, head.job, &placement).power);
    known.unwrap_or(Power::from_mw(head.need.power))
}

/// An end that should have come already is expected at once.
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
    fn new(view: &View<'a>, head: &Candidate<'a>) -> Self {
        let contiguous = view.options().allocation == Allocation::Contiguous;
        let free: Option<Vec<Bits>> =
            contiguous.then(|| head.shape.ways.iter().map(|way| place::free(view, way, Some(head.job))).collect());
        let count = if place::asks_each(view, head.shape) {
            place::picked_count(view, head.shape, head.job)
        } else {
            head.shape.room()
        };
        Self { view: *view, head: *head, count, freed: Power::ZERO, gains: BTreeMap::new(), free, has_run: None }
    }

    /// Counts what is on its way to sleep or to wake, which takes some time; returns the first time to look at.
    fn switches(&mut self, now: Time) -> Time {
        if self.view.index().sleeping == 0 {
            return now;
        }
        let before = self.count;
        for (index, way) in self.head.shape.ways.iter().enumerate() {
            let class = self.view.index().classes.class(way.class);
            for at in place::soon(&self.view, way) {
                let node = class.nodes[at as usize];
                if self.head.shape.is_picky && !place::may_have(&self.view, self.head.job, node) {
                    continue;
                }
                self.count += 1;
                if let Some(free) = &mut self.free {
                    free[index].insert(at);
                }
            }
        }
        if self.count > before { now + Span::from_ms(1) } else { now }
    }

    fn fits(&mut self) -> bool {
        let wanted = self.head.need.parts;
        let run = |free: &Vec<Bits>| first_run(&self.head.shape.ways, free, wanted).is_some();
        self.count >= wanted && *self.has_run.get_or_insert_with(|| self.free.as_ref().is_none_or(run))
    }

    /// Positions of a way are free again.
    fn free_again(&mut self, way: usize, run: Range<u32>) {
        if let Some(free) = self.free.as_mut().and_then(|free| free.get_mut(way)) {
            free.insert_range(run.clone());
            if self.has_run == Some(false) {
                self.has_run = Some(free.run_around(run.start).len() >= self.head.need.parts as usize);
            }
        }
    }

    fn end(&mut self, id: JobId, release: &Freed) {
        self.freed += release.power;
        if self.wants_several() {
            return self.end_by_node(id);
        }
        let way = |class, unit| self.head.shape.ways.iter().find(|way| way.class == class && way.unit == unit);
        match release.whole {
            Some((class, unit, _)) if way(class, unit).is_none() => {}
            Some((class, unit, nodes)) if !self.head.shape.is_picky => {
                self.count += nodes;
                self.mark(id, release, (class, unit));
            }
            _ => self.end_by_node(id),
        }
    }

    /// With neighbours only: the nodes of a job that has whole units are free.
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

    fn end_by_node(&mut self, id: JobId) {
        let classes = &self.view.index().classes;
        let Some(assignment) = self.view.job(id).and_then(|job| job.assignment()) else { return };
        for (unit, cores) in kept(&self.view, &assignment.placement, assignment.alone) {
            let Some((class, position)) = classes.place_of(unit.node) else { continue };
            let any = self.wants_several();
            let ways = &self.head.shape.ways;
            let way = ways.iter().position(|way| way.class == class && (any || way.unit == unit.unit));
            let Some(index) = way else { continue };
            let before = self.is_free(unit, &ways[index]);
            *self.gains.entry(unit).or_default() += cores;
            let allowed = !self.head.shape.is_picky
                || self.view.node(unit.node).is_some_and(|node| self.view.may_use(&self.head.job.request, node));
            if allowed && !before && self.is_free(unit, &ways[index]) {
                self.count += 1;
                self.free_again(index, position..position + 1);
            }
        }
    }

    /// Whether more than one unit of a node counts for the first job.
    fn wants_several(&self) -> bool {
        self.head.job.request.exclusive || self.head.job.request.accelerators.is_some()
    }

    /// Whether the first job could have the node of a unit, as far as its cores go.
    fn is_free(&self, unit: UnitId, way: &Way) -> bool {
        let free = |unit: UnitId, cores: u32| {
            let then = cores.saturating_sub(self.view.index().cores_used(unit));
            then + self.gains.get(&unit).copied().unwrap_or(0)
        };
        let Some((node, spec)) = self.view.unit(unit) else { return false };
        if self.head.job.request.exclusive {
            return node.units().all(|(unit, spec)| free(unit, spec.cores) >= spec.cores);
        }
        if self.head.job.request.accelerators.is_some() {
            let more = |unit: UnitId| self.gains.get(&unit).copied().unwrap_or(0);
            return place::free_units(&self.view, self.head.job, (way, unit.node), more).is_some();
        }
        free(unit, spec.cores) >= way.cores
    }
}

/// The cores of each unit that a job on `placement` keeps from others.
fn kept<'a>(view: &View<'a>, placement: &'a [Part], alone: bool) -> Box<dyn Iterator<Item = (UnitId, u32)> + 'a> {
    let view = *view;
    if alone {
        let nodes = placement.iter().flat_map(Part::nodes).filter_map(move |node| view.node(node));
        return Box::new(nodes.flat_map(|node| node.units().map(|(unit, spec)| (unit, spec.cores))));
    }
    Box::new(placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cores))))
}
