//! Planned starts: the earliest time at which a job can have nodes beside what runs and what was planned before it.
//!
//! A class in which every job takes whole nodes is counted ([`Profile`]): which nodes a job will have can then be left open.
//! In any other class nodes are looked at one by one ([`ClassSeats`]), and a planned job has nodes by name: the lowest that are
//! free then, those that sleep last, so that a start which leaves them alone moves no plan. Sums of cores only say from when on to look.
//! Knows cores, accelerators, memory, named and reserved nodes, neighbours, and nodes that sleep. Ignores power.

use limo_model::{Placement, Span, Time};

use super::class_seats::{ClassSeats, Open, SOON, end_of, seats};
use super::place;
use super::profile::Profile;
use super::seats::{Units, Want};
use crate::apply::bar;
use crate::facts::{allows_node, may_be_denied, units_like, units_wanted};
use crate::index::{Class, Freed, Shape, Way};
use crate::options::Allocation;
use crate::state::Job;
use crate::structure::Bits;
use crate::view::{View, on_units};

/// A job that waits, and what it wants of each node.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub job: &'a Job,
    pub shape: &'a Shape,
}

/// When a job is planned for.
pub(super) enum Planned {
    Now(Placement),
    /// It holds what it needs from then on.
    Later(Time),
    /// The same, once something has happened of which nobody knows when it will.
    Soon,
}

/// The free nodes from now on.
pub(super) struct Future<'a> {
    view: View<'a>,
    /// By class.
    rooms: Vec<Room>,
}

enum Room {
    /// Every job takes whole nodes: how much is free, and which nodes jobs have got that start with this plan.
    Counted(Profile, Bits),
    Named(ClassSeats),
}

impl Room {
    fn by_node(&self) -> Option<&ClassSeats> {
        match self {
            Self::Counted(..) => None,
            Self::Named(seats) => Some(seats),
        }
    }
}

/// A node in one of the ways in which a job can have nodes.
#[derive(Clone, Copy)]
struct PlannedNode {
    way: usize,
    open: Open,
    at: Time,
}

impl Asker<'_> {
    fn nodes(&self) -> usize {
        self.job.request.nodes.get() as usize
    }

    fn want(&self, class: &Class, way: &Way) -> Want {
        let unit = usize::from(way.unit);
        let of = if self.job.request.exclusive {
            Units::All
        } else if self.job.request.accelerators.is_some() {
            self.accelerators(class, way)
        } else {
            Units::Cores { unit, cores: way.cores.into() }
        };
        Want { of, memory: self.job.request.memory }
    }

    fn accelerators(&self, class: &Class, way: &Way) -> Units {
        let units = units_like(&class.units, way.unit).map(usize::from).collect();
        Units::Any { units, count: units_wanted(&self.job.request) }
    }

    /// Cores that the job takes where it takes whole nodes.
    fn cores(&self, way: &Way) -> i64 {
        i64::from(way.cores) * i64::from(self.job.request.nodes.get())
    }
}

impl<'a> Future<'a> {
    /// The free nodes if nothing more starts.
    pub fn of(view: &View<'a>) -> Self {
        let (now, classes) = (view.now(), &view.index().classes);
        let mut by_node: Vec<bool> = classes.all().iter().map(|class| is_uneven(view, class)).collect();
        for shape in view.index().shapes.all().iter().filter(|shape| shape.waiting.first().is_some()) {
            for way in &shape.ways {
                let whole = classes.class(way.class).units.first().map(|unit| unit.cores);
                by_node[way.class] |= shape.asks_each || Some(way.cores) != whole;
            }
        }
        let mut whole = Vec::with_capacity(view.index().ends.len());
        for ((_, id), freed) in &view.index().ends {
            if let Freed { whole: Some((class, _, nodes)), .. } = *freed {
                whole.push((*id, class, nodes));
                continue;
            }
            let parts = view.job(*id).and_then(|job| job.assignment()).map(|assignment| &assignment.placement);
            for (class, _) in parts.into_iter().flatten().filter_map(|part| classes.place_of(part.unit.node)) {
                by_node[class] = true;
            }
        }
        name_wide(view, &mut by_node);
        let seats = seats(view, &by_node).into_iter();
        let counted = |class: usize| {
            let class = classes.class(class);
            Room::Counted(Profile::new(now, free_cores(class)), Bits::new(class.nodes.len() as u32))
        };
        let rooms = seats.enumerate().map(|(class, seats)| seats.map_or_else(|| counted(class), Room::Named));
        let mut rooms: Vec<Room> = rooms.collect();
        for (id, class, nodes) in whole {
            let Room::Counted(profile, _) = &mut rooms[class] else { continue };
            let Some((end, _)) = view.job(id).and_then(|job| end_of(job, now)) else { continue };
            let cores = classes.class(class).units.first().map_or(0, |unit| unit.cores);
            profile.give(i64::from(nodes) * i64::from(cores), end);
        }
        Self { view: *view, rooms }
    }

    /// Plans a job at the earliest time at which it can start; none where no time is known.
    pub fn plan(&mut self, asker: Asker<'_>) -> Option<Planned> {
        let (now, request) = (self.view.now(), &asker.job.request);
        let span = request.time_limit.unwrap_or(self.view.options().default_duration).max(Span::from_ms(1));
        let all = &asker.shape.ways[..];
        let each = all.iter().map(std::slice::from_ref);
        let in_one = each.filter_map(|ways| Some((self.earliest(asker, ways, span)?, ways)));
        let in_one = in_one.min_by_key(|((at, _), _)| *at);
        let ((at, seat), ways) = in_one.or_else(|| Some((self.earliest(asker, all, span)?, all)))?;
        let seats = match seat {
            Some(seat) => vec![seat],
            None if self.is_counted(ways) => Vec::new(),
            None => self.choose(asker, ways, (at, span))?,
        };
        let placement = if at <= now { Some(self.placement(asker, ways, (span, &seats))?) } else { None };
        self.hold(asker, (ways, &seats), (at, span));
        Some(match placement {
            Some(placement) => Planned::Now(placement),
            None if at > now + SOON => Planned::Later(at),
            None => Planned::Soon,
        })
    }

    fn is_counted(&self, ways: &[Way]) -> bool {
        matches!(ways, [way] if self.rooms[way.class].by_node().is_none())
    }

    /// When the job could start in one of these ways, or over all of them; and where, if that was found on the way.
    fn earliest(&self, asker: Asker<'_>, ways: &[Way], span: Span) -> Option<(Time, Option<PlannedNode>)> {
        match ways {
            [way] => match &self.rooms[way.class] {
                Room::Counted(profile, _) => Some((profile.earliest(asker.cores(way), span)?, None)),
                Room::Named(of) if asker.nodes() == 1 && !self.has_to_ask(asker) => {
                    let want = asker.want(self.view.index().classes.class(way.class), way);
                    let (at, position) = of.seats.soonest(span, &want, |position| of.wake(position))?;
                    let open = Open { position, wake: of.wake(position), from: at };
                    Some((at, Some(PlannedNode { way: 0, open, at })))
                }
                Room::Named(_) => self.earliest_of_all(asker, ways, span).map(|at| (at, None)),
            },
            _ => self.earliest_of_all(asker, ways, span).map(|at| (at, None)),
        }
    }

    /// Returns true if there may be nodes that the job must not have at some time.
    fn has_to_ask(&self, asker: Asker<'_>) -> bool {
        may_be_denied(&asker.job.request) || !self.view.state().reservations.is_empty()
    }

    /// The first time at which there are enough nodes, of those that are looked at one by one.
    fn earliest_of_all(&self, asker: Asker<'_>, ways: &[Way], span: Span) -> Option<Time> {
        let mut from = self.view.now();
        loop {
            let mut seats = self.look(asker, ways, (from, span));
            if self.view.options().allocation == Allocation::Contiguous {
                seats.retain(|seat| seat.at == from);
                if first_run(&seats, asker.nodes()).is_some() {
                    return Some(from);
                }
                from = self.next_change(ways, from)?;
                continue;
            }
            let nth = asker.nodes().checked_sub(1).filter(|nth| *nth < seats.len())?;
            let at = seats.select_nth_unstable_by_key(nth, |seat| seat.at).1.at;
            if at == from {
                return Some(at);
            }
            from = at;
        }
    }

    /// Each node that the job could have at some time from `from` on, by itself, with the first such time.
    fn look(&self, asker: Asker<'_>, ways: &[Way], (from, span): (Time, Span)) -> Vec<PlannedNode> {
        let mut found = Vec::new();
        for (index, way) in ways.iter().enumerate() {
            let class = self.view.index().classes.class(way.class);
            let want = asker.want(class, way);
            let Some(of) = self.rooms[way.class].by_node() else { continue };
            for open in &of.open {
                let at = self.earliest_on(asker, (of, *open, &want), (from, span));
                found.extend(at.map(|at| PlannedNode { way: index, open: *open, at }));
            }
        }
        found
    }

    fn earliest_on(
        &self,
        asker: Asker<'_>,
        (of, open, want): (&ClassSeats, Open, &Want),
        (from, span): (Time, Span),
    ) -> Option<Time> {
        let (request, position) = (&asker.job.request, open.position as usize);
        let mut from = from.max(open.from);
        loop {
            let at = of.seats.earliest(position, (from, span + open.wake), want)?;
            if !self.has_to_ask(asker) {
                return Some(at);
            }
            let node = self.view.node(self.view.index().classes.class(of.class).nodes[position])?;
            if !allows_node(request, node) {
                return None;
            }
            if bar(self.view.cluster(), at, request, node).is_none() {
                return Some(at);
            }
            from = self.next_boundary(at)?;
        }
    }

    /// When a reservation begins or ends next.
    fn next_boundary(&self, after: Time) -> Option<Time> {
        self.view.index().boundaries.iter().copied().find(|at| *at > after)
    }

    fn next_change(&self, ways: &[Way], after: Time) -> Option<Time> {
        let seats = ways.iter().filter_map(|way| self.rooms[way.class].by_node());
        let opens =
            seats.clone().flat_map(|of| of.open.iter().map(|open| open.from)).filter(|from| *from > after).min();
        let changes = seats.filter_map(|of| of.seats.next_change(after)).min();
        [changes, opens, self.next_boundary(after)].into_iter().flatten().min()
    }

    /// The nodes that a job has from `at` on, by a rule that does not ask how full they are: else what starts beside a plan
    /// could move it to other nodes.
    fn choose(&self, asker: Asker<'_>, ways: &[Way], (at, span): (Time, Span)) -> Option<Vec<PlannedNode>> {
        let mut seats = self.look(asker, ways, (at, span));
        seats.retain(|seat| seat.at == at);
        if self.view.options().allocation == Allocation::Contiguous {
            return first_run(&seats, asker.nodes());
        }
        seats.sort_by_key(|seat| seat.open.wake > Span::ZERO);
        seats.truncate(asker.nodes());
        Some(seats)
    }

    /// The nodes of a job that starts now.
    fn placement(
        &mut self,
        asker: Asker<'_>,
        ways: &[Way],
        (span, seats): (Span, &[PlannedNode]),
    ) -> Option<Placement> {
        let (job, now) = (asker.job, self.view.now());
        if let [way] = ways
            && let Room::Counted(_, started) = &mut self.rooms[way.class]
        {
            let mut placement = Placement::new();
            let class = self.view.index().classes.class(way.class);
            let mut free = place::free(&self.view, asker.shape, way);
            for run in started.runs() {
                free.remove_range(run);
            }
            let found = free.lowest(job.request.nodes.get(), |run| {
                started.insert_range(run.clone());
                place::add(&mut placement, class, way, job, run);
            });
            return (found == job.request.nodes.get()).then_some(placement);
        }
        let same_run = |one: &PlannedNode, other: &PlannedNode| {
            (one.way, one.open.position + 1) == (other.way, other.open.position)
        };
        let mut placement = Placement::new();
        for run in seats.chunk_by(same_run) {
            let (way, first) = (&ways[run[0].way], run[0].open.position);
            let class = self.view.index().classes.class(way.class);
            if job.request.accelerators.is_none() {
                place::add(&mut placement, class, way, job, first..first + run.len() as u32);
                continue;
            }
            for seat in run {
                let position = seat.open.position as usize;
                let of = self.rooms[way.class].by_node()?;
                // Alone on its node a job has the first ones.
                let want = Want { of: asker.accelerators(class, way), ..asker.want(class, way) };
                let units = of.seats.units(position, (now, now + span + seat.open.wake), &want);
                let units: Vec<u16> = units.into_iter().filter_map(|unit| u16::try_from(unit).ok()).collect();
                placement.extend(on_units((class.nodes[position], 1), &units, (way.takes, job.request.memory)));
            }
        }
        Some(placement)
    }

    /// No job that is planned later has what this one needs.
    fn hold(&mut self, asker: Asker<'_>, (ways, seats): (&[Way], &[PlannedNode]), (at, span): (Time, Span)) {
        for seat in seats {
            let way = &ways[seat.way];
            let want = asker.want(self.view.index().classes.class(way.class), way);
            let until = at + span + seat.open.wake;
            if let Room::Named(of) = &mut self.rooms[way.class] {
                of.seats.take(seat.open.position as usize, (at, until), &want);
            }
        }
        if let [way] = ways
            && let Room::Counted(profile, _) = &mut self.rooms[way.class]
        {
            profile.take(asker.cores(way), at, at + span);
        }
    }
}

/// The first run of neighbours, as many as are wanted: `seats` are in order of ways and positions.
fn first_run(seats: &[PlannedNode], wanted: usize) -> Option<Vec<PlannedNode>> {
    let neighbours =
        |one: &PlannedNode, other: &PlannedNode| one.way == other.way && one.open.position + 1 == other.open.position;
    let mut runs = seats.chunk_by(neighbours);
    runs.find(|run| run.len() >= wanted).map(|run| run[..wanted].to_vec())
}

/// Returns true if sums over the class promise no node: some nodes take no jobs or sleep, or have more than cores.
fn is_uneven(view: &View<'_>, class: &Class) -> bool {
    class.units.len() != 1
        || class.closed.count() + class.asleep.count() + class.switching.count() > 0
        || view.options().allocation == Allocation::Contiguous
        || !view.index().capped.is_empty()
}

/// A job that wants more nodes than any class has that it could have, is planned over nodes of all of them.
fn name_wide(view: &View<'_>, by_node: &mut [bool]) {
    let classes = &view.index().classes;
    let open = |way: &Way| {
        let class = classes.class(way.class);
        class.nodes.len() as u32 - class.closed.count()
    };
    let most = |shape: &Shape| shape.ways.iter().map(open).max().unwrap_or(0);
    let shapes = view.index().shapes.all().iter().filter(|shape| shape.waiting.first().is_some());
    let least = shapes.map(most).min().unwrap_or(0);
    if view.index().shapes.widest <= least {
        return;
    }
    for (_, job) in view.queue().filter(|(_, job)| job.request.nodes.get() > least) {
        let shape = view.index().shapes.find(&job.request).filter(|shape| most(shape) < job.request.nodes.get());
        shape.iter().flat_map(|shape| &shape.ways).for_each(|way| by_node[way.class] = true);
    }
}

/// Free cores of a class of which no node sleeps.
fn free_cores(class: &Class) -> i64 {
    let first = class.levels.iter().zip(&class.units).next();
    first.map_or(0, |(levels, unit)| (1..=unit.cores).map(|cores| i64::from(levels.count_at_least(cores))).sum())
}
