//! What is taken over time: power, cores and memory, of running jobs until their expected ends and of jobs planned for
//! later. Answers when a job could start at the earliest.

mod line;

use std::cell::RefCell;
use std::collections::BTreeMap;

use limo_model::{JobId, NodeId, Part, Power, Span, Time, UnitId};

use crate::apply::units_like;
use crate::view::{Choice, View};
use line::Line;

/// Which limits a start has to respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Respect {
    Resources,
    ResourcesAndBand,
}

/// What must be free on a node for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub unit: u16,
    /// Free cores of that unit.
    pub cores: u32,
    /// Free memory, in bytes.
    pub memory: i64,
    /// Every unit must be free of all jobs.
    pub alone: bool,
    /// Where it is more than one: so many units of its type must be free of all jobs, whichever.
    pub units: usize,
}

/// When each node has so many cores of a unit free for the first time.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// By node; the end of time where it never has.
    pub times: Vec<Time>,
    /// The first of them.
    pub first: Time,
}

impl Bounds {
    fn of(times: Vec<Time>) -> Self {
        let first = times.iter().copied().min().unwrap_or(Time::MAX);
        Self { times, first }
    }

    fn set(&mut self, node: NodeId, time: Time) {
        let Some(of) = self.times.get_mut(node.0 as usize) else { return };
        let before = std::mem::replace(of, time);
        if before == self.first {
            self.first = self.times.iter().copied().min().unwrap_or(Time::MAX);
        } else {
            self.first = self.first.min(time);
        }
    }
}

/// The plan of the cluster from now on.
#[derive(Debug, Clone)]
pub(crate) struct Timeline<'a> {
    view: View<'a>,
    now: Time,
    /// The upper limit less the reserve, from each of these times on.
    ceilings: Vec<(Time, Power)>,
    power: Line,
    /// By node, the place of its first unit among all units.
    first_units: Vec<u32>,
    units: Vec<Line>,
    memory: Vec<Line>,
    /// Made when they are asked for. They only spare a look at nodes that are taken.
    bounds: RefCell<BTreeMap<(u16, u32), Bounds>>,
}

pub(crate) fn bytes(memory: limo_model::Memory) -> i64 {
    i64::try_from(memory.bytes()).unwrap_or(i64::MAX)
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(view: &View<'a>) -> Self {
        let mut units = 0;
        let mut first = |node: &crate::state::Node| {
            let first = units;
            units += node.spec.units.len() as u32;
            first
        };
        let first_units: Vec<u32> = view.nodes().iter().map(&mut first).collect();
        let mut timeline = Self {
            view: *view,
            now: view.now(),
            ceilings: ceilings(view),
            power: Line::default(),
            units: vec![Line::default(); units as usize],
            memory: vec![Line::default(); first_units.len()],
            first_units,
            bounds: RefCell::default(),
        };
        let mut changes = Vec::new();
        // A piece of the line never spans a change of the limits.
        changes.extend(timeline.ceilings.iter().skip(1).map(|(at, _)| (*at, 0)));
        for (_, job) in view.active() {
            let (Some(assignment), Some(end)) = (job.assignment(), job.expected_end(view.now())) else { continue };
            timeline.occupy((&assignment.placement, assignment.alone), None, end);
            // The draw already contains the job; it only ends.
            changes.push((end, assignment.draw.mw().saturating_neg()));
        }
        timeline.power = Line::of(view.draw().mw(), changes);
        timeline
    }

    fn place_of(&self, unit: UnitId) -> Option<usize> {
        let first = *self.first_units.get(unit.node.0 as usize)? as usize;
        let end = self.first_units.get(unit.node.0 as usize + 1).map_or(self.units.len(), |next| *next as usize);
        Some(first + usize::from(unit.unit)).filter(|place| *place < end)
    }

    fn line(&self, unit: UnitId) -> Option<&Line> {
        self.place_of(unit).map(|place| &self.units[place])
    }

    fn occupy(&mut self, (placement, alone): (&[Part], bool), from: Option<Time>, to: Time) {
        if alone {
            let runs = limo_model::runs(placement).into_iter();
            for node in runs.flat_map(|(first, count)| first.0..first.0.saturating_add(count)) {
                self.occupy_whole(NodeId(node), from, to);
            }
            return;
        }
        for (part, unit) in placement.iter().flat_map(|part| part.units().map(move |unit| (part, unit))) {
            let Some(place) = self.place_of(unit) else { continue };
            self.units[place].add(from, to, i64::from(part.cores));
            let memory = bytes(part.memory);
            if memory > 0 {
                self.memory[unit.node.0 as usize].add(from, to, memory);
            }
            self.bound_again(unit);
        }
    }

    /// A node that one job has alone. No memory of it is left to anybody either, since nobody can be there.
    fn occupy_whole(&mut self, node: NodeId, from: Option<Time>, to: Time) {
        let Some(of) = self.view.node(node) else { return };
        for (unit, spec) in of.units() {
            if let Some(place) = self.place_of(unit) {
                self.units[place].add(from, to, i64::from(spec.cores));
                self.bound_again(unit);
            }
        }
    }

    /// Plans a job from `at` for as long as it is expected to take.
    pub(crate) fn plan(&mut self, choice: &Choice, at: Time) {
        let end = at + choice.estimate.duration.max(Span::from_ms(1));
        self.occupy((&choice.placement, choice.alone), Some(at), end);
        self.power.add(Some(at), end, choice.estimate.power.mw());
    }

    /// Plans a suspended job to go on as soon as the limits leave room for it: nobody who comes later takes that room.
    pub(crate) fn plan_resume(&mut self, draw: Power, rest: Span) {
        if let Some(at) = self.earliest_power(draw, self.now, rest) {
            self.power.add(Some(at), at + rest, draw.mw());
        }
    }

    /// The upper limit at `at`, less the reserve.
    pub(crate) fn ceiling(&self, at: Time) -> Power {
        let next = self.ceilings.partition_point(|(from, _)| *from <= at);
        self.ceilings.get(next.saturating_sub(1)).map_or(Power::MAX, |(_, ceiling)| *ceiling)
    }

    /// The expected draw at `at`.
    pub(crate) fn draw_at(&self, at: Time) -> Power {
        Power::from_mw(self.power.pieces(at).next().map_or(0, |(_, _, level)| level))
    }

    /// The first time after now at which the expected draw is below `level`.
    pub(crate) fn first_below(&self, level: Power) -> Option<Time> {
        self.power.pieces(self.now).skip(1).find(|(_, _, draw)| *draw < level.mw()).map(|(start, _, _)| start)
    }

    /// The first time from `from` on at which the limits leave `need` for all of `span`.
    pub(crate) fn earliest_power(&self, need: Power, from: Time, span: Span) -> Option<Time> {
        if self.ceilings.iter().all(|(_, ceiling)| ceiling.is_unlimited()) {
            return Some(from);
        }
        self.power.earliest(from, span, |start, level| Power::from_mw(level) + need <= self.ceiling(start))
    }

    /// The first time from `from` on at which `need` is free on a node for all of `span`; `None` where it never is.
    pub(crate) fn earliest_on(&self, node: NodeId, need: &Need, from: Time, span: Span) -> Option<Time> {
        let of = self.view.node(node)?;
        let cores = i64::from(of.spec.units.get(usize::from(need.unit))?.cores) - i64::from(need.cores);
        let memory = bytes(of.spec.memory) - need.memory;
        let line = self.line(UnitId { node, unit: need.unit })?;
        let memory_line = self.memory.get(node.0 as usize)?;
        if need.alone {
            return self.earliest_alone(of, (from, span)).filter(|_| memory >= 0);
        }
        if need.units > 1 {
            return self.earliest_several(of, (need, memory), (from, span));
        }
        if memory_line.is_empty() && memory >= 0 {
            return line.earliest(from, span, |_, used| used <= cores);
        }
        let mut at = from;
        loop {
            let next = line.earliest(at, span, |_, used| used <= cores)?;
            let next = memory_line.earliest(next, span, |_, used| used <= memory)?;
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// The first time from `from` on at which no job is on a node for all of `span`.
    fn earliest_alone(&self, node: &crate::state::Node, (from, span): (Time, Span)) -> Option<Time> {
        let mut at = from;
        loop {
            let mut next = at;
            for line in node.units().filter_map(|(unit, _)| self.line(unit)) {
                next = line.earliest(next, span, |_, used| used <= 0)?;
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// The first time from `from` on at which so many units of a type are free together, and the memory, for all of `span`.
    fn earliest_several(
        &self,
        node: &crate::state::Node,
        (need, memory): (&Need, i64),
        (from, span): (Time, Span),
    ) -> Option<Time> {
        let mut at = from;
        loop {
            let first = |unit: u16| self.line(UnitId { node: node.id, unit })?.earliest(at, span, |_, used| used <= 0);
            let mut times: Vec<Time> = units_like(&node.spec.units, need.unit).filter_map(first).collect();
            times.sort_unstable();
            // Those that are free before may be taken by then: they are asked again.
            let next = *times.get(need.units - 1)?;
            let next = self.memory.get(node.id.0 as usize)?.earliest(next, span, |_, used| used <= memory)?;
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// The units of a node that a job gets which needs that, from `at` on for all of `span`: the first that are free.
    pub(crate) fn units_at(&self, node: NodeId, need: &Need, (at, span): (Time, Span)) -> Vec<u16> {
        let Some(of) = self.view.node(node).filter(|_| need.units > 1) else { return vec![need.unit] };
        let is_free = |unit: &u16| {
            let line = self.line(UnitId { node, unit: *unit });
            line.and_then(|line| line.earliest(at, span, |_, used| used <= 0)) == Some(at)
        };
        units_like(&of.spec.units, need.unit).filter(is_free).take(need.units).collect()
    }

    /// Calls `each` with the first times from now on at which the nodes have so many cores of a unit free, for however
    /// short a time: nothing fits before.
    pub(crate) fn with_bounds<T>(&self, (unit, cores): (u16, u32), each: impl FnOnce(&Bounds) -> T) -> T {
        let mut bounds = self.bounds.borrow_mut();
        let found = bounds.entry((unit, cores)).or_insert_with(|| {
            let nodes = 0..self.first_units.len() as u32;
            Bounds::of(nodes.map(|node| self.bound(UnitId { node: NodeId(node), unit }, cores)).collect())
        });
        each(found)
    }

    fn bound(&self, unit: UnitId, cores: u32) -> Time {
        let of = self.view.unit(unit).map(|(_, unit)| i64::from(unit.cores) - i64::from(cores));
        let found = of
            .zip(self.line(unit))
            .and_then(|(most, line)| line.earliest(self.now, Span::from_ms(1), |_, used| used <= most));
        found.unwrap_or(Time::MAX)
    }

    fn bound_again(&mut self, unit: UnitId) {
        let mut bounds = std::mem::take(self.bounds.get_mut());
        for ((of, cores), times) in &mut bounds {
            if *of == unit.unit {
                times.set(unit.node, self.bound(unit, *cores));
            }
        }
        *self.bounds.get_mut() = bounds;
    }

    /// The first time from `from` on at which a job on one node fits for all of its duration; `None` where it never does.
    pub(crate) fn earliest(&self, choice: &Choice, from: Time, respect: Respect) -> Option<Time> {
        let part = choice.placement.first()?;
        let span = choice.estimate.duration.max(Span::from_ms(1));
        let units = choice.placement.len();
        let (unit, cores, memory) = (part.unit.unit, part.cores, bytes(part.memory));
        let need = Need { unit, cores, memory, alone: choice.alone, units };
        let mut at = from;
        loop {
            let mut next = self.earliest_on(part.unit.node, &need, at, span)?;
            if respect == Respect::ResourcesAndBand {
                next = self.earliest_power(choice.estimate.power, next, span)?;
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// The least that the upper limit leaves for `span` from now on.
    pub(crate) fn headroom_for(&self, span: Span) -> Power {
        let end = self.now + span.max(Span::from_ms(1));
        let pieces = self.power.pieces(self.now).take_while(|(start, _, _)| *start < end);
        let left = pieces.map(|(start, _, level)| self.ceiling(start) - Power::from_mw(level)).min();
        left.unwrap_or(Power::MAX)
    }
}

/// The upper limit less the reserve, now and from each of its steps on.
fn ceilings(view: &View<'_>) -> Vec<(Time, Power)> {
    let (limits, reserve) = (view.limits(), i64::from(view.options().reserve_permille));
    let ceiling = |at: Time| {
        let high = limits.at(at).high();
        if high.is_unlimited() { high } else { high - high.scaled(reserve, 1_000) }
    };
    let mut found = vec![(view.now(), ceiling(view.now()))];
    while let Some(next) = found.last().and_then(|(at, _)| limits.next_step(*at)) {
        found.push((next, ceiling(next)));
    }
    found
}

/// A waiting job for which a later start is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub job: JobId,
    pub at: Time,
}
