//! The future of the cluster: free resources from now on, with running jobs until their expected ends and planned
//! jobs, and the expected draw. Computes the earliest start of a job. Decides nothing.

mod balance;
mod bounds;
mod chances;
mod count;
mod ledger;
mod line;
#[cfg(test)]
mod naive;
mod now;
mod open;
mod packed;
mod planned;
mod power;
mod powered;
mod rooms;
mod seats;
mod slack;
mod stairs;
#[cfg(test)]
mod tests;
mod then;

use std::cell::RefCell;
use std::collections::BTreeMap;

use limo_model::{Band, NodeId, Power, Span, Time, UnitKind};

use crate::facts::HostCores;
use crate::view::{Choice, View};
use bounds::Bounds;
use line::PowerLine;

pub(crate) use chances::{Chance, Chances};
pub(crate) use ledger::{Ledger, Obstacle};
pub(crate) use line::Ceiling;
pub(crate) use now::{add, asks_each, chunks, could_have, free, has_room, room};
pub(crate) use packed::{add_chunks, host_of, in_order};
pub(crate) use planned::{Asker, Planned, Planner};
use rooms::Ending;
pub(crate) use rooms::Room;
pub(crate) use seats::{NodeNeed, Seats, Units, bytes};
pub(crate) use slack::PowerRoom;
pub(crate) use stairs::{Stair, additions, first_time, stairs};

/// Assumed delay of an overdue event, or of one at an unknown time.
pub(crate) const SOON: Span = Span::from_ms(1);

/// Limits that a start has to respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Respect {
    Resources,
    ResourcesAndBand,
}

/// The cluster from now on.
#[derive(Debug, Clone)]
pub(crate) struct Future<'a> {
    view: View<'a>,
    now: Time,
    /// Rooms by class.
    pub rooms: Vec<Room>,
    power: Option<PowerLine>,
    /// True if any placement begins after now.
    has_later: bool,
    /// Class of each node, and its position in it.
    places: Vec<(u32, u32)>,
    /// Number of placements on each node.
    versions: Vec<u32>,
    /// True if any placement begins on the node after now, by node.
    later: Vec<bool>,
    /// Bounds, computed on demand. They only avoid checks of busy nodes.
    bounds: RefCell<BTreeMap<bounds::BoundKey, Bounds>>,
}

impl<'a> Future<'a> {
    /// Makes the future of the draw alone. It has no nodes.
    pub(crate) fn of_draw(view: &View<'a>) -> Self {
        let falls = Ending::all(view).map(|ending| fall(&ending)).collect();
        Self { power: Some(line_of(view, falls)), ..Self::with_rooms(view, Vec::new()) }
    }

    /// Makes the future with every class node by node, and the draw.
    pub(crate) fn new(view: &View<'a>) -> Self {
        let mut falls = Vec::with_capacity(view.state().active.len());
        let rooms = rooms::named(view, |ending| falls.push(fall(ending)));
        Self { power: Some(line_of(view, falls)), ..Self::with_rooms(view, rooms) }
    }

    /// Makes the future node by node, without the draw.
    pub(crate) fn without_draw(view: &View<'a>) -> Self {
        Self::with_rooms(view, rooms::named(view, |_| ()))
    }

    /// Makes the future without the draw: classes selected by `by_node` node by node, the others as sums. No job may
    /// join another one on a capped unit.
    pub(crate) fn counted(view: &View<'a>, by_node: &[bool]) -> Self {
        Self::with_rooms(view, rooms::counted(view, by_node))
    }

    fn with_rooms(view: &View<'a>, rooms: Vec<Room>) -> Self {
        let is_named = rooms.iter().any(|room| room.seats().is_some());
        let nodes = if is_named { view.nodes() } else { &[] };
        let place = |node| {
            let place = view.index().classes.place_of(node);
            place.map_or((u32::MAX, 0), |(class, position)| (class as u32, position))
        };
        Self {
            view: *view,
            now: view.now(),
            rooms,
            power: None,
            has_later: false,
            places: (0..).take(nodes.len()).map(|node| place(NodeId(node))).collect(),
            versions: vec![0; nodes.len()],
            later: vec![false; nodes.len()],
            bounds: RefCell::default(),
        }
    }

    /// Returns the seats of a node's class, and its position there.
    fn seats_of(&self, node: NodeId) -> Option<(&Seats, usize)> {
        let (class, position) = *self.places.get(node.0 as usize)?;
        Some((self.rooms.get(class as usize)?.seats()?, position as usize))
    }

    fn line(&self) -> Option<&PowerLine> {
        debug_assert!(self.power.is_some(), "a future without a draw is asked for it");
        self.power.as_ref()
    }

    /// Reserves the needs of a job on a node in a free window.
    pub(crate) fn take(&mut self, node: NodeId, window: (Time, Time), need: &NodeNeed) {
        let Some((class, position)) = self.places.get(node.0 as usize) else { return };
        let Some(Room::Named(seats)) = self.rooms.get_mut(*class as usize) else { return };
        seats.take(*position as usize, window, need);
        let is_later = window.0 > self.now;
        self.has_later |= is_later;
        self.later[node.0 as usize] |= is_later;
        self.versions[node.0 as usize] += 1;
    }

    /// Plans a job from `at` for its expected duration.
    pub(crate) fn plan(&mut self, choice: &Choice, at: Time) {
        let end = at + choice.estimate.duration.max(SOON);
        if choice.alone {
            let need = NodeNeed { of: Units::All, memory: 0 };
            let runs = limo_model::runs(&choice.placement);
            for node in runs.flat_map(|(first, count)| first.0..first.0.saturating_add(count)) {
                self.take(NodeId(node), (at, end), &need);
            }
        } else {
            for (part, unit) in choice.placement.iter().flat_map(|part| part.units().map(move |unit| (part, unit))) {
                let of = Units::Cores { unit: unit.unit, cores: part.cores };
                self.take(unit.node, (at, end), &NodeNeed { of, memory: bytes(part.memory) });
            }
        }
        // Without limits and prices, no job depends on the later draw.
        let has_prices = self.view.prices().is_some();
        if let Some(power) = self.power.as_mut().filter(|power| at <= self.now || power.is_limited() || has_prices) {
            power.add((at, end), choice.estimate.power + choice.waking);
        }
    }

    /// Plans a suspended job to resume as soon as the limits leave power for it plus `margin`. Later jobs cannot take
    /// that power.
    pub(crate) fn plan_resume(&mut self, draw: Power, rest: Span, margin: Power) {
        let at = self.earliest_power(draw + margin, (self.now, Time::MAX), rest);
        if let Some((at, power)) = at.zip(self.power.as_mut()) {
            power.add((at, at + rest), draw);
        }
    }

    /// Returns the expected draw at `at`.
    pub(crate) fn draw_at(&self, at: Time) -> Power {
        let level = self.line().and_then(|line| line.draw.pieces(at).next());
        Power::from_mw(level.map_or(0, |(_, level)| level))
    }

    /// Returns the first time after now at which the expected draw is below `level`.
    pub(crate) fn first_below(&self, level: Power) -> Option<Time> {
        let mut later = self.line()?.draw.pieces(self.now).skip(1);
        later.find(|(_, draw)| *draw < level.mw()).map(|(start, _)| start)
    }

    /// Returns the first time from `from` on at which the limits leave `need` for all of `span`; it may return `None`
    /// for a time after `latest`.
    pub(crate) fn earliest_power(&self, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        self.line().map_or(Some(from), |line| line.earliest(need, (from, latest), span))
    }

    /// Returns true if the limits leave `need` now, for any duration.
    pub(crate) fn has_power_now(&self, need: Power) -> bool {
        let line = self.line().filter(|line| line.is_limited());
        line.is_none_or(|line| line.draw.earliest(need, (self.now, self.now), SOON).is_some())
    }

    /// Returns the cores of a unit that are free now.
    pub(crate) fn free_now(&self, node: NodeId, unit: u16) -> Option<i64> {
        let (seats, position) = self.seats_of(node)?;
        seats.cores_now(position, unit)
    }

    /// Returns the first time from `from` on at which `need` is free on a node for all of `span`; `None` if it never
    /// is.
    pub(crate) fn earliest_on(&self, node: NodeId, need: &NodeNeed, from: Time, span: Span) -> Option<Time> {
        let (seats, position) = self.seats_of(node)?;
        seats.earliest(position, (from, span), need)
    }

    /// Returns the units of a node for a job with that need from `at` on for all of `span`: the first that are free.
    pub(crate) fn units_at(&self, node: NodeId, need: &NodeNeed, (at, span): (Time, Span)) -> Vec<u16> {
        let of = self.seats_of(node);
        of.map_or(Vec::new(), |(seats, position)| seats.units(position, (at, at + span), need))
    }

    /// Returns the first time from `from` on at which a job on one unit fits for all of its duration; `None` if it
    /// never does.
    pub(crate) fn earliest(&self, choice: &Choice, from: Time, respect: Respect) -> Option<Time> {
        let part = choice.placement.first()?;
        let span = choice.estimate.duration.max(SOON);
        let of = match choice.placement.len() {
            _ if choice.alone => Units::All,
            1 => Units::Cores { unit: part.unit.unit, cores: part.cores },
            all => {
                let host = self.host_of(choice);
                Units::Any { like: part.unit.unit, count: all - usize::from(host.is_some()), host }
            }
        };
        let need = NodeNeed { of, memory: bytes(part.memory) };
        let mut at = from;
        loop {
            let mut next = self.earliest_on(part.unit.node, &need, at, span)?;
            if respect == Respect::ResourcesAndBand {
                next = self.earliest_power(choice.estimate.power + choice.waking, (next, Time::MAX), span)?;
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// Returns the cores that a job takes next to its accelerators; they are the last of its parts on a node.
    fn host_of(&self, choice: &Choice) -> Option<HostCores> {
        let last = choice.placement.last()?;
        let (node, unit) = self.view.unit(last.unit).filter(|(_, unit)| unit.kind == UnitKind::Cpu)?;
        // Jobs on one unit share its cap, and this job has no cap.
        let is_capped = node.cap(last.unit.unit).is_some()
            && self.view.index().cores_used(last.unit) > 0
            && !self.view.parts().divides();
        Some(HostCores { unit: last.unit.unit, cores: if is_capped { unit.cores } else { last.cores } })
    }

    /// Returns the least power that the upper limit leaves for `span` from now on.
    pub(crate) fn headroom_for(&self, span: Span) -> Power {
        let end = self.now + span.max(SOON);
        self.line().map_or(Power::MAX, |line| line.least_left(self.now, end))
    }
}

/// Returns the draw of the running jobs until their expected ends.
fn line_of(view: &View<'_>, falls: Vec<(Time, i64)>) -> PowerLine {
    PowerLine::new(view.draw(), falls, &ceilings(view))
}

/// Returns the change of the draw at the end of a job. The draw already contains the job, so only its end is added.
fn fall(ending: &Ending<'_>) -> (Time, i64) {
    (ending.end, ending.draw.mw().saturating_neg())
}

/// Returns the upper limit minus the reserve, now and from each of its changes on.
fn ceilings(view: &View<'_>) -> Vec<(Time, Power)> {
    let (limits, reserve) = (view.limits(), i64::from(view.options().reserve_permille));
    let ceiling = |(at, band): (Time, Band)| {
        let high = band.high();
        (at, if high.is_unlimited() { high } else { high - high.scaled(reserve, 1_000) })
    };
    std::iter::once((view.now(), view.band())).chain(limits.bands(view.now())).map(ceiling).collect()
}
