//! What is taken over time: power, cores and memory, of running jobs until their expected ends and of jobs planned for
//! later. Answers when a job could start at the earliest.

use std::collections::BTreeMap;

use limo_model::{Band, Curve, JobId, NodeId, Placement, Power, Span, Time, UnitId};

use crate::view::{Choice, View};

/// A level that changes at known times.
#[derive(Debug, Clone, Default)]
struct Load {
    base: i64,
    changes: BTreeMap<Time, i64>,
}

impl Load {
    fn add(&mut self, from: Option<Time>, to: Time, amount: i64) {
        match from {
            None => self.base = self.base.saturating_add(amount),
            Some(from) => self.change(from, amount),
        }
        self.change(to, amount.saturating_neg());
    }

    /// Sums are held at the ends of the range: what a node claims of itself must not wrap.
    fn change(&mut self, at: Time, amount: i64) {
        let change = self.changes.entry(at).or_default();
        *change = change.saturating_add(amount);
    }

    /// The pieces from `from` on: start, end, level. The last one never ends.
    fn pieces(&self, from: Time) -> impl Iterator<Item = (Time, Time, i64)> {
        let before = self.changes.range(..=from).map(|(_, change)| *change);
        let mut level = before.fold(self.base, i64::saturating_add);
        let mut start = from;
        let rest = self.changes.range((std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded));
        rest.map(|(at, change)| (*at, *change)).chain([(Time::MAX, 0)]).map(move |(at, change)| {
            let piece = (start, at, level);
            start = at;
            level = level.saturating_add(change);
            piece
        })
    }

    /// The first time from `from` on after which `fits` holds for all of `span`.
    fn earliest(&self, from: Time, span: Span, fits: impl Fn(Time, i64) -> bool) -> Option<Time> {
        let mut start = from;
        for (piece, end, level) in self.pieces(from) {
            if !fits(piece, level) {
                start = end;
            } else if end - start >= span {
                return Some(start);
            }
        }
        None
    }
}

/// Which limits a start has to respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Respect {
    Resources,
    ResourcesAndBand,
}

/// The plan of the cluster from now on.
#[derive(Debug, Clone)]
pub(crate) struct Timeline<'a> {
    now: Time,
    limits: &'a Curve<Band>,
    reserve_permille: i64,
    power: Load,
    units: BTreeMap<UnitId, Load>,
    memory: BTreeMap<NodeId, Load>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(view: &View<'a>) -> Self {
        let mut timeline = Self {
            now: view.now(),
            limits: view.limits(),
            reserve_permille: i64::from(view.options().reserve_permille),
            power: Load { base: view.draw().mw(), ..Load::default() },
            units: BTreeMap::new(),
            memory: BTreeMap::new(),
        };
        // A piece of the load never spans a change of the limits.
        let mut at = view.now();
        while let Some(next) = timeline.limits.next_step(at) {
            timeline.power.changes.entry(next).or_default();
            at = next;
        }
        for (_, job) in view.active() {
            let (Some(assignment), Some(end)) = (job.assignment(), job.expected_end(view.now())) else { continue };
            timeline.occupy(&assignment.placement, None, end);
            // The draw already contains the job; it only ends.
            timeline.power.change(end, assignment.draw.mw().saturating_neg());
        }
        timeline
    }

    fn occupy(&mut self, placement: &Placement, from: Option<Time>, to: Time) {
        for (part, unit) in placement.iter().flat_map(|part| part.units().map(move |unit| (part, unit))) {
            self.units.entry(unit).or_default().add(from, to, i64::from(part.cores));
            let bytes = i64::try_from(part.memory.bytes()).unwrap_or(i64::MAX);
            self.memory.entry(unit.node).or_default().add(from, to, bytes);
        }
    }

    /// Plans `choice` from `at` for as long as it is expected to take.
    pub(crate) fn plan(&mut self, choice: &Choice, at: Time) {
        let end = at + choice.estimate.duration.max(Span::from_ms(1));
        self.occupy(&choice.placement(), Some(at), end);
        self.power.add(Some(at), end, choice.estimate.power.mw());
    }

    /// Plans a suspended job to go on as soon as the limits leave room for it: nobody who comes later takes that room.
    pub(crate) fn plan_resume(&mut self, draw: Power, rest: Span) {
        let fits = |start: Time, level: i64| Power::from_mw(level) + draw <= self.ceiling(start);
        if let Some(at) = self.power.earliest(self.now, rest, fits) {
            self.power.add(Some(at), at + rest, draw.mw());
        }
    }

    /// The upper limit at `at`, less the reserve.
    pub(crate) fn ceiling(&self, at: Time) -> Power {
        let high = self.limits.at(at).high();
        if high.is_unlimited() { high } else { high - high.scaled(self.reserve_permille, 1_000) }
    }

    /// The expected draw at `at`.
    pub(crate) fn draw_at(&self, at: Time) -> Power {
        Power::from_mw(self.power.pieces(at).next().map_or(self.power.base, |(_, _, level)| level))
    }

    /// The first time after now at which the expected draw is below `level`.
    pub(crate) fn first_below(&self, level: Power) -> Option<Time> {
        self.power.pieces(self.now).skip(1).find(|(_, _, draw)| *draw < level.mw()).map(|(start, _, _)| start)
    }

    /// The first time from `from` on at which `choice` fits for all of its duration; `None` where it never does.
    pub(crate) fn earliest(&self, view: &View<'_>, choice: &Choice, from: Time, respect: Respect) -> Option<Time> {
        let (node, unit) = view.unit(choice.unit())?;
        let span = choice.estimate.duration.max(Span::from_ms(1));
        let cores = i64::from(unit.cores) - i64::from(choice.part.cores);
        let bytes = |memory: limo_model::Memory| i64::try_from(memory.bytes()).unwrap_or(i64::MAX);
        let memory = bytes(node.spec().memory) - bytes(choice.part.memory);
        let need = choice.estimate.power;
        let empty = Load::default();
        let unit_load = self.units.get(&choice.unit()).unwrap_or(&empty);
        let memory_load = self.memory.get(&choice.unit().node).unwrap_or(&empty);
        let mut at = from;
        loop {
            let mut next = unit_load.earliest(at, span, |_, used| used <= cores)?;
            next = memory_load.earliest(next, span, |_, used| used <= memory)?;
            if respect == Respect::ResourcesAndBand {
                let fits = |start: Time, level: i64| Power::from_mw(level) + need <= self.ceiling(start);
                next = self.power.earliest(next, span, fits)?;
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// The least that the upper limit leaves while `choice` would run, if it started now.
    pub(crate) fn headroom_for(&self, choice: &Choice) -> Power {
        let end = self.now + choice.estimate.duration.max(Span::from_ms(1));
        let pieces = self.power.pieces(self.now).take_while(|(start, _, _)| *start < end);
        let left = pieces.map(|(start, _, level)| self.ceiling(start) - Power::from_mw(level)).min();
        left.unwrap_or(Power::MAX)
    }
}

/// A waiting job for which a later start is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub job: JobId,
    pub at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    #[test]
    fn the_earliest_hole_that_is_long_enough() {
        let mut load = Load::default();
        load.add(None, at(10), 4);
        load.add(Some(at(15)), at(30), 3);
        let check = |from, span, most: i64, expected: Option<i64>| {
            let found = load.earliest(at(from), Span::from_ms(span), |_, level| level <= most);
            assert_eq!(found.map(Time::unix_ms), expected, "from {from} for {span} at most {most}");
        };
        check(0, 5, 0, Some(10));
        check(0, 6, 0, Some(30));
        check(0, 100, 3, Some(10));
        check(0, 100, 4, Some(0));
        check(12, 3, 0, Some(12));
        check(0, 1, -1, None);
    }
}
