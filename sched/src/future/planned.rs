//! Planned starts: the earliest time at which a job can have nodes in addition to running and earlier planned jobs.
//!
//! A class in which every job takes whole nodes is counted ([`Room::Counted`]), so a plan need not choose nodes. In
//! any other class nodes are checked one by one ([`Room::Named`]), and a planned job has specific nodes: the lowest
//! that are free then, sleeping ones last. So a start on other nodes does not change a plan. Sums of cores only give
//! the time from which to check. The plan considers cores, accelerators, memory, named and reserved nodes,
//! neighbours, and nodes that sleep. It ignores power.

mod packed;

use limo_model::{Placement, Span, Time};

use super::open::{Open, OpenNodes};
use super::{Chance, Future, NodeNeed, Room, SOON, Units, bytes, now};
use crate::apply::bar;
use crate::facts::{allows_node, units_wanted};
use crate::index::{Class, Shape, Way};
use crate::options::Allocation;
use crate::state::Job;
use crate::structure::Bits;
use crate::view::{View, on_units};

/// A waiting job with its needs on each node.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub job: &'a Job,
    pub shape: &'a Shape,
}

/// The time of a planned start.
pub(crate) enum Planned {
    Now(Placement),
    /// The job has its resources from this time on.
    Later(Time),
    /// The job has its resources after an event at an unknown time.
    Soon,
}

/// The nodes from now on, with all planned jobs.
pub(crate) struct Planner<'a> {
    view: View<'a>,
    future: Future<'a>,
    /// By class: if nodes are counted, the nodes of jobs that start with this plan.
    started: Vec<Bits>,
    /// By class: the nodes that take jobs, if nodes are checked one by one.
    open: Vec<OpenNodes>,
}

/// A node, with one of the candidates of a job.
#[derive(Clone, Copy)]
struct PlannedNode {
    way: usize,
    open: Open,
    at: Time,
    /// Number of chunks; 1 unless the job is packed.
    chunks: u32,
}

impl Asker<'_> {
    fn nodes(&self) -> usize {
        self.job.request.nodes.get() as usize
    }

    /// Returns the need of one chunk.
    fn need(&self, way: &Way) -> NodeNeed {
        let of = if self.job.request.exclusive {
            Units::All
        } else if self.job.request.accelerators.is_some() {
            self.accelerators(way)
        } else {
            Units::Cores { unit: way.unit, cores: way.cores }
        };
        NodeNeed { of, memory: bytes(self.job.request.memory) }
    }

    fn accelerators(&self, way: &Way) -> Units {
        Units::Any { like: way.unit, count: units_wanted(&self.job.request), host: way.host }
    }

    /// Returns the cores of a job that takes whole nodes.
    fn cores(&self, way: &Way) -> i64 {
        i64::from(way.cores) * i64::from(self.job.request.nodes.get())
    }
}

impl<'a> Planner<'a> {
    /// Returns the nodes, provided that no further job starts.
    pub fn of(view: &View<'a>) -> Self {
        let classes = view.index().classes.all();
        let by_node = by_node(view);
        let future = Future::counted(view, &by_node);
        let open = classes.iter().zip(&future.rooms);
        let open =
            open.map(|(class, room)| room.seats().map(|seats| OpenNodes::of(view, class, seats)).unwrap_or_default());
        let started = classes.iter().zip(&by_node);
        let started = started.map(|(class, by_node)| Bits::new(if *by_node { 0 } else { class.nodes.len() as u32 }));
        let (open, started) = (open.collect(), started.collect());
        Self { view: *view, future, started, open }
    }

    /// Plans a job at its earliest possible start; `None` if no time is known.
    pub fn plan(&mut self, asker: Asker<'_>) -> Option<Planned> {
        let (now, request) = (self.view.now(), &asker.job.request);
        let span = request.time_limit.unwrap_or(self.view.options().default_duration).max(Span::from_ms(1));
        let all = &asker.shape.ways[..];
        let ((at, seat), ways) = match request.is_packed() {
            true => ((self.earliest_packed(asker, span)?, None), all),
            false => {
                let each = all.iter().map(std::slice::from_ref);
                let in_one = each.filter_map(|ways| Some((self.earliest(asker, ways, span)?, ways)));
                let in_one = in_one.min_by_key(|((at, _), _)| *at);
                in_one.or_else(|| Some((self.earliest(asker, all, span)?, all)))?
            }
        };
        let seats = match seat {
            Some(seat) => vec![seat],
            None if request.is_packed() => self.choose_packed(asker, (at, span)),
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
        matches!(ways, [way] if self.future.rooms[way.class].seats().is_none())
    }

    /// Returns the earliest start of the job by one of these candidates, or by all of them, and the place if the
    /// search has found it.
    fn earliest(&self, asker: Asker<'_>, ways: &[Way], span: Span) -> Option<(Time, Option<PlannedNode>)> {
        match ways {
            [way] => match &self.future.rooms[way.class] {
                Room::Counted(line) => Some((line.earliest(asker.cores(way), span)?, None)),
                Room::Named(_) if asker.nodes() == 1 && !self.has_to_ask(asker) => {
                    let (at, open) = self.first_node(way, &asker.need(way), span)?;
                    Some((at, Some(PlannedNode { way: 0, open, at, chunks: 1 })))
                }
                Room::Named(_) => self.earliest_of_all(asker, ways, span).map(|at| (at, None)),
            },
            _ => self.earliest_of_all(asker, ways, span).map(|at| (at, None)),
        }
    }

    /// Returns the first time at which a job fits on any node of a class, and the lowest of those nodes; sleeping nodes
    /// come last.
    fn first_node(&self, way: &Way, need: &NodeNeed, span: Span) -> Option<(Time, Open)> {
        let (class, nodes) = (self.view.index().classes.class(way.class), &self.open[way.class]);
        let seats = self.future.rooms[way.class].seats()?;
        let least = match need.of {
            Units::Cores { unit: 0, cores } => i64::from(cores),
            Units::All => class.units.first().map_or(0, |unit| i64::from(unit.cores)),
            _ => 0,
        };
        let mut asleep: Option<(Time, Open)> = None;
        for Chance { at, node: position, .. } in nodes.chances.with(least) {
            if asleep.is_some_and(|(found, _)| found < at) {
                break;
            }
            let wake = nodes.wakes.get(&position).copied().unwrap_or_default();
            if !seats.fits(position as usize, (at, at + span + wake), need) {
                continue;
            }
            let open = Open { node: class.nodes[position as usize], position, wake, from: at };
            if wake == Span::ZERO {
                return Some((at, open));
            }
            asleep = asleep.or(Some((at, open)));
        }
        asleep
    }

    /// Returns true if some nodes may be denied to the job at some time.
    fn has_to_ask(&self, asker: Asker<'_>) -> bool {
        self.view.may_be_denied(&asker.job.request)
    }

    /// Returns the first time with enough nodes, if nodes are checked one by one.
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

    /// Returns each node that the job could have from `from` on, with the earliest time.
    fn look(&self, asker: Asker<'_>, ways: &[Way], (from, span): (Time, Span)) -> Vec<PlannedNode> {
        let mut found = Vec::new();
        for (index, way) in ways.iter().enumerate() {
            let need = asker.need(way);
            for open in &self.open[way.class].all {
                let at = self.earliest_on(asker, (*open, &need), (from, span));
                found.extend(at.map(|at| PlannedNode { way: index, open: *open, at, chunks: 1 }));
            }
        }
        found
    }

    fn earliest_on(
        &self,
        asker: Asker<'_>,
        (open, need): (Open, &NodeNeed),
        (from, span): (Time, Span),
    ) -> Option<Time> {
        let request = &asker.job.request;
        let mut from = from.max(open.from);
        loop {
            let at = self.future.earliest_on(open.node, need, from, span + open.wake)?;
            if !self.has_to_ask(asker) {
                return Some(at);
            }
            let node = self.view.node(open.node)?;
            if !allows_node(request, node) || !self.view.group_leaves(request, node) {
                return None;
            }
            if bar(self.view.cluster(), at, request, node).is_none() {
                return Some(at);
            }
            from = self.next_boundary(at)?;
        }
    }

    /// Returns the next begin or end of a reservation.
    fn next_boundary(&self, after: Time) -> Option<Time> {
        self.view.index().boundaries.iter().copied().find(|at| *at > after)
    }

    fn next_change(&self, ways: &[Way], after: Time) -> Option<Time> {
        let opens = ways.iter().flat_map(|way| &self.open[way.class].all).map(|open| open.from);
        let opens = opens.filter(|from| *from > after).min();
        let seats = ways.iter().filter_map(|way| self.future.rooms[way.class].seats());
        let changes = seats.filter_map(|seats| seats.next_change(after)).min();
        [changes, opens, self.next_boundary(after)].into_iter().flatten().min()
    }

    /// Chooses the nodes of a job from `at` on, independent of their load: otherwise a start could move a plan to other
    /// nodes.
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

    /// Returns the nodes of a job that starts now.
    fn placement(
        &mut self,
        asker: Asker<'_>,
        ways: &[Way],
        (span, seats): (Span, &[PlannedNode]),
    ) -> Option<Placement> {
        let (job, now) = (asker.job, self.view.now());
        if job.request.is_packed() {
            return Some(self.packed_placement(asker, ways, (span, seats)));
        }
        if let [way] = ways
            && self.is_counted(ways)
        {
            let started = &mut self.started[way.class];
            let mut placement = Placement::new();
            let class = self.view.index().classes.class(way.class);
            let mut free = now::free(&self.view, asker.shape, way);
            for run in started.runs() {
                free.remove_range(run);
            }
            let found = free.lowest(job.request.nodes.get(), |run| {
                started.insert_range(run.clone());
                now::add(&mut placement, class, way, job, run);
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
                now::add(&mut placement, class, way, job, first..first + run.len() as u32);
                continue;
            }
            for seat in run {
                // A job that is alone on its node has the first units.
                let need = NodeNeed { of: asker.accelerators(way), ..asker.need(way) };
                let window = (now, span + seat.open.wake);
                let units = self.future.units_at(seat.open.node, &need, window);
                placement.extend(on_units((seat.open.node, 1), &units, (way.takes, job.request.memory), way.host));
            }
        }
        Some(placement)
    }

    /// Withholds the needs of a planned job from later plans.
    fn hold(&mut self, asker: Asker<'_>, (ways, seats): (&[Way], &[PlannedNode]), (at, span): (Time, Span)) {
        for seat in seats {
            let until = at + span + seat.open.wake;
            let way = &ways[seat.way];
            self.future.take(seat.open.node, (at, until), &asker.need(way).times(seat.chunks));
            let Some(seats) = self.future.rooms[way.class].seats() else { continue };
            let changed =
                seats.first_cores(seat.open.position as usize).filter(|(step, _)| (at..=until).contains(step));
            let chances = &mut self.open[way.class].chances;
            changed.for_each(|(at, free)| chances.set(Chance { at, node: seat.open.position, free }));
        }
        if let [way] = ways
            && let Room::Counted(line) = &mut self.future.rooms[way.class]
        {
            line.take(asker.cores(way), at, at + span);
        }
    }
}

/// Returns the first run of neighbours of the wanted length: `seats` are in order of candidates and positions.
fn first_run(seats: &[PlannedNode], wanted: usize) -> Option<Vec<PlannedNode>> {
    let neighbours =
        |one: &PlannedNode, other: &PlannedNode| one.way == other.way && one.open.position + 1 == other.open.position;
    let mut runs = seats.chunk_by(neighbours);
    runs.find(|run| run.len() >= wanted).map(|run| run[..wanted].to_vec())
}

/// Returns the classes in which a sum does not guarantee free nodes.
fn by_node(view: &View<'_>) -> Vec<bool> {
    let classes = &view.index().classes;
    let mut by_node: Vec<bool> = classes.all().iter().map(|class| is_uneven(view, class)).collect();
    for shape in view.index().shapes.all().iter().filter(|shape| shape.waiting.first().is_some()) {
        for way in &shape.ways {
            let whole = classes.class(way.class).units.first().map(|unit| unit.cores);
            by_node[way.class] |= shape.asks_each || Some(way.cores) != whole;
        }
    }
    for ((_, id), _) in view.index().ends.iter().filter(|(_, freed)| freed.whole.is_none()) {
        let parts = view.job(*id).and_then(|job| job.assignment()).map(|assignment| &assignment.placement);
        for (class, _) in parts.into_iter().flatten().filter_map(|part| classes.place_of(part.unit.node)) {
            by_node[class] = true;
        }
    }
    name_wide(view, &mut by_node);
    by_node
}

/// Returns true if sums over the class do not guarantee free nodes. This is so if some nodes take no jobs or sleep,
/// or have other resources than cores.
fn is_uneven(view: &View<'_>, class: &Class) -> bool {
    class.units.len() != 1
        || class.closed.count() + class.asleep.count() + class.switching.count() > 0
        || view.options().allocation == Allocation::Contiguous
        || !view.index().capped.is_empty()
}

/// Marks the classes of a job that requests more nodes than any single class has. Such a job is planned over nodes of
/// all of them.
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
