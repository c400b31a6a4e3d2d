//! What is taken over time: power, cores and memory, of running jobs until their expected ends and of jobs planned for
//! later. Answers when a job could start at the earliest.

mod bounds;
mod draw;
mod line;
mod powered;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;

use limo_model::{Band, JobId, NodeId, Part, Power, Span, Time, UnitId};

use crate::facts::units_like;
use crate::view::{Choice, View};
use bounds::Bounds;
use draw::Draw;
use line::Line;
use powered::Powered;

/// Which limits a start has to respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Respect {
    Resources,
    ResourcesAndBand,
}

/// What must be free on a node for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitNeed {
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

/// The plan of the cluster from now on.
#[derive(Debug, Clone)]
pub(crate) struct Timeline<'a> {
    view: View<'a>,
    now: Time,
    /// The upper limit less the reserve, from each of these times on.
    ceilings: Vec<(Time, Power)>,
    power: Draw,
    /// Whether there is any upper limit.
    is_limited: bool,
    /// By node, the place of its first unit among all units.
    first_units: Vec<u32>,
    units: Vec<Line>,
    /// Of each of these units, its cores.
    cores: Vec<i64>,
    memory: Vec<Line>,
    /// Whether anything begins after now.
    has_later: bool,
    /// By node, its class.
    class_of: Vec<u32>,
    /// By node, how often something was put on it.
    versions: Vec<u32>,
    /// By node, whether anything begins there after now.
    later: Vec<bool>,
    /// Made when they are asked for. They only spare a look at nodes that are taken.
    bounds: RefCell<BTreeMap<bounds::BoundKey, Bounds>>,
    powered: RefCell<Powered>,
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
        let ceilings = ceilings(view);
        let classes = &view.index().classes;
        let class = |node| classes.place_of(node).map_or(u32::MAX, |(class, _)| class as u32);
        let mut timeline = Self {
            view: *view,
            now: view.now(),
            is_limited: ceilings.iter().any(|(_, ceiling)| !ceiling.is_unlimited()),
            ceilings,
            power: Draw::of(0, Vec::new(), &[]),
            units: vec![Line::default(); units as usize],
            cores: view.nodes().iter().flat_map(|node| &node.spec.units).map(|unit| i64::from(unit.cores)).collect(),
            memory: vec![Line::default(); first_units.len()],
            has_later: false,
            class_of: view.nodes().iter().map(|node| class(node.id)).collect(),
            versions: vec![0; first_units.len()],
            later: vec![false; first_units.len()],
            first_units,
            bounds: RefCell::default(),
            powered: RefCell::default(),
        };
        let mut changes = Vec::new();
        for (_, job) in view.active() {
            let (Some(assignment), Some(end)) = (job.assignment(), job.expected_end(view.now())) else { continue };
            timeline.occupy((&assignment.placement, assignment.alone), None, end);
            // The draw already contains the job; it only ends.
            changes.push((end, assignment.draw.mw().saturating_neg()));
        }
        timeline.power = Draw::of(view.draw().mw(), changes, &timeline.ceilings);
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
            self.touch(unit.node, from);
        }
    }

    /// Something is put on a node.
    fn touch(&mut self, node: NodeId, from: Option<Time>) {
        let is_later = from.is_some_and(|from| from > self.now);
        self.has_later |= is_later;
        self.later[node.0 as usize] |= is_later;
        self.versions[node.0 as usize] += 1;
    }

    /// A node that one job has alone. No memory of it is left to anybody either, since nobody can be there.
    fn occupy_whole(&mut self, node: NodeId, from: Option<Time>, to: Time) {
        let Some(of) = self.view.node(node) else { return };
        for (unit, spec) in of.units() {
            if let Some(place) = self.place_of(unit) {
                self.units[place].add(from, to, i64::from(spec.cores));
                self.touch(node, from);
            }
        }
    }

    /// Plans a job from `at` for as long as it is expected to take.
    pub(crate) fn plan(&mut self, choice: &Choice, at: Time) {
        let end = at + choice.estimate.duration.max(Span::from_ms(1));
        self.occupy((&choice.placement, choice.alone), Some(at), end);
        // Without limits and prices nobody asks what is drawn later.
        if at <= self.now || self.is_limited || self.view.prices().is_some() {
            self.add_draw((at, end), choice.estimate.power);
        }
    }

    /// Plans a suspended job to go on as soon as the limits leave room for it, and `margin` beyond that, without which it
    /// does not go on: nobody who comes later takes that room.
    pub(crate) fn plan_resume(&mut self, draw: Power, rest: Span, margin: Power) {
        if let Some(at) = self.earliest_power(draw + margin, (self.now, Time::MAX), rest) {
            self.add_draw((at, at + rest), draw);
        }
    }

    fn add_draw(&mut self, (from, to): (Time, Time), draw: Power) {
        self.power.add(from, to, draw.mw());
        if draw < Power::ZERO {
            // What had no room may have it now.
            self.powered.get_mut().forget();
        }
    }

    /// The expected draw at `at`.
    pub(crate) fn draw_at(&self, at: Time) -> Power {
        Power::from_mw(self.power.pieces(at).next().map_or(0, |(_, level)| level))
    }

    /// The first time after now at which the expected draw is below `level`.
    pub(crate) fn first_below(&self, level: Power) -> Option<Time> {
        self.power.pieces(self.now).skip(1).find(|(_, draw)| *draw < level.mw()).map(|(start, _)| start)
    }

    /// The first time from `from` on at which the limits leave `need` for all of `span`; perhaps none where it is after
    /// `latest`.
    pub(crate) fn earliest_power(&self, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        match self.is_limited {
            true => self.powered.borrow_mut().earliest(&self.power, need, (from, latest), span),
            false => Some(from),
        }
    }

    /// Whether the limits leave `need` now, for however short.
    pub(crate) fn has_power_now(&self, need: Power) -> bool {
        !self.is_limited || self.power.earliest(need, (self.now, self.now), Span::from_ms(1)).is_some()
    }

    /// Cores of a unit that are free now.
    pub(crate) fn free_now(&self, node: NodeId, unit: u16) -> Option<i64> {
        let place = self.place_of(UnitId { node, unit })?;
        Some(self.cores[place] - self.units[place].level(self.now))
    }

    /// The first time from `from` on at which `need` is free on a node for all of `span`; `None` where it never is.
    pub(crate) fn earliest_on(&self, node: NodeId, need: &UnitNeed, from: Time, span: Span) -> Option<Time> {
        let place = self.place_of(UnitId { node, unit: need.unit })?;
        let (line, cores) = (&self.units[place], self.cores[place] - i64::from(need.cores));
        let memory_line = self.memory.get(node.0 as usize)?;
        if need.memory == 0 && !need.alone && need.units == 1 && memory_line.is_empty() {
            return line.earliest(from, span, |_, used| used <= cores);
        }
        let of = self.view.node(node)?;
        let memory = bytes(of.spec.memory) - need.memory;
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
        (need, memory): (&UnitNeed, i64),
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
    pub(crate) fn units_at(&self, node: NodeId, need: &UnitNeed, (at, span): (Time, Span)) -> Vec<u16> {
        let Some(of) = self.view.node(node).filter(|_| need.units > 1) else { return vec![need.unit] };
        let is_free = |unit: &u16| {
            let line = self.line(UnitId { node, unit: *unit });
            line.and_then(|line| line.earliest(at, span, |_, used| used <= 0)) == Some(at)
        };
        units_like(&of.spec.units, need.unit).filter(is_free).take(need.units).collect()
    }

    /// The first time from `from` on at which a job on one unit fits for all of its duration; `None` where it never does.
    pub(crate) fn earliest(&self, choice: &Choice, from: Time, respect: Respect) -> Option<Time> {
        let part = choice.placement.first()?;
        let span = choice.estimate.duration.max(Span::from_ms(1));
        let units = choice.placement.len();
        let (unit, cores, memory) = (part.unit.unit, part.cores, bytes(part.memory));
        let need = UnitNeed { unit, cores, memory, alone: choice.alone, units };
        let mut at = from;
        loop {
            let mut next = self.earliest_on(part.unit.node, &need, at, span)?;
            if respect == Respect::ResourcesAndBand {
                next = self.earliest_power(choice.estimate.power, (next, Time::MAX), span)?;
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
        self.power.least_left(self.now, end)
    }
}

/// The upper limit less the reserve, now and from each of its changes on.
fn ceilings(view: &View<'_>) -> Vec<(Time, Power)> {
    let (limits, reserve) = (view.limits(), i64::from(view.options().reserve_permille));
    let ceiling = |(at, band): (Time, Band)| {
        let high = band.high();
        (at, if high.is_unlimited() { high } else { high - high.scaled(reserve, 1_000) })
    };
    std::iter::once((view.now(), view.band())).chain(limits.bands(view.now())).map(ceiling).collect()
}

/// A waiting job for which a later start is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub job: JobId,
    pub at: Time,
}
