//! The candidates for a job: equal units are one candidate, however many there are, and are checked together.
//!
//! A job on several nodes gets the same hardware, the same cores and the same cap on each of them. Only if no single
//! type of hardware has enough nodes, it gets mixed types, uncapped. It gets the first nodes that are free together,
//! in order; neighbours become one part. The order part of the policy decides about the time. A packed job
//! gets on each node as many chunks as fit there.

mod fitted;
mod packed;
mod pools;
mod several;
mod source;
mod ways;

use limo_model::{Estimate, NodeId, Power, Request, Span, Time, UnitSpec};

use crate::facts::{Known, allows_unit, cores_on, host_power, units_wanted, wants_several};
use crate::future::{Future, Respect, bytes};
use crate::view::{Choice, View};

use pools::{PoolKind, Waking, looked_up};
use source::Source;

pub(in crate::policy) use pools::Pools;
pub(in crate::policy) use ways::{Against, AllWays, Room, Ways};

/// A candidate: a set of equal possibilities to run a job.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Offer {
    sources: Vec<Source>,
    /// Number of chunks: of nodes, unless the job is packed.
    nodes: usize,
    is_packed: bool,
    cap: Option<Power>,
    /// Index among the caps of a unit, in the order in which they are offered.
    rank: usize,
    memory: limo_model::Memory,
    alone: bool,
    /// Time for its nodes to wake; zero if all are awake.
    wake: Span,
    /// Estimate for the whole job: the sum of its draws, and the duration of the slowest part once its nodes are
    /// awake.
    pub estimate: Estimate,
}

/// The requirements on a candidate.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) struct Ask {
    pub from: Time,
    pub span: Span,
    /// Latest start of interest.
    pub latest: Time,
    pub respect: Respect,
    /// True if units must have no jobs.
    pub whole: bool,
}

/// The first start by one candidate.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) struct Found<'o> {
    pub at: Time,
    pub offer: &'o Offer,
    ask: Ask,
    seat: Seat,
    /// Wake time of the nodes and place of the first part, which order candidates.
    pub first: (Span, NodeId, u16, usize),
}

/// A node that can have a part of the job, and the time from which it can.
#[derive(Debug, Clone, Copy)]
struct Seat {
    at: Time,
    node: NodeId,
    source: usize,
    /// Number of chunks; 1 unless the job is packed.
    chunks: u32,
}

/// Returns every candidate on the nodes of `pools`, free or not. With `caps`, it adds each cap with a profile.
pub(in crate::policy) fn offers<'a>(
    view: &View<'_>,
    pools: &Pools<'a>,
    request: &'a Request,
    caps: bool,
) -> Vec<Offer> {
    let (known, on_units) = (Known::of(view.state()), pools.on_units(request));
    let units = units_wanted(request);
    let mut ways: Vec<(&UnitSpec, Option<Power>, usize, Source)> = Vec::new();
    for (kind, nodes) in pools.kinds.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        let class = view.index().classes.class(kind.class);
        let Some(unit) = class.units.get(usize::from(kind.unit)) else { continue };
        let cores = cores_on(request, unit);
        if !class.is_open_to(request)
            || !allows_unit(request, unit)
            || cores > unit.cores
            || request.memory > class.memory
        {
            continue;
        }
        let named: Option<Vec<NodeId>> = view.may_be_denied(request).then(|| {
            let allowed = |id: &NodeId| view.node(*id).is_some_and(|node| view.may_use(request, node));
            nodes.iter().copied().filter(allowed).collect()
        });
        let named = match wants_several(request) {
            false => named,
            true => several::nodes(view, pools, request, kind),
        };
        let looked = looked_up(&on_units, known, request, (kind, unit));
        let profiled = if caps && kind.obeys { looked.caps(unit) } else { Vec::new() };
        let caps = caps_of(request, kind, profiled);
        for (named, host) in several::by_host(pools, request, (kind, &class.units), named) {
            for (rank, (cap, whole)) in caps.iter().copied().enumerate() {
                let taken = if whole || request.exclusive { unit.cores } else { cores };
                let each = looked.under_cap(known, request, unit, cap).times(units);
                let each = each.with_draw(host_power(known, request, &class.units));
                let (alone, memory) = (request.exclusive, bytes(request.memory));
                let (kind, named) = (*kind, named.clone());
                // A node that this plan already wakes needs no additional power for another job.
                let draw = |waking: Waking| if kind.shared.is_some() { Power::ZERO } else { waking.draw };
                let wakes = kind.waking.map(|waking| Waking { draw: draw(waking), ..waking });
                let total = unit.cores;
                let is_single = !wants_several(request);
                let most = packed::most(request, class, usize::from(kind.unit));
                ways.push((
                    unit,
                    cap,
                    rank,
                    Source {
                        kind,
                        named,
                        alone,
                        memory,
                        taken,
                        cores,
                        units,
                        is_single,
                        most,
                        host,
                        total,
                        each,
                        wakes,
                    },
                ));
            }
        }
    }
    let nodes = request.nodes.get() as usize;
    let offer = |sources: Vec<Source>, cap, rank| {
        let wake = sources.iter().filter_map(|source| source.wakes).map(|wakes| wakes.span).max().unwrap_or_default();
        let least = sum_of_least(&sources, nodes);
        let estimate = Estimate { duration: least.duration + wake, ..least };
        let (is_packed, memory, alone) = (request.is_packed(), request.memory, request.exclusive);
        Offer { sources, nodes, is_packed, cap, rank, memory, alone, wake, estimate }
    };
    if nodes == 1 {
        return ways.into_iter().map(|(_, cap, rank, source)| offer(vec![source], cap, rank)).collect();
    }
    let mut alike: Vec<(&UnitSpec, Option<Power>, usize, Vec<Source>)> = Vec::new();
    for (unit, cap, rank, source) in &ways {
        let same = |(of, at, _, sources): &&mut (&UnitSpec, Option<Power>, usize, Vec<Source>)| {
            let first = &sources[0];
            let is_same = (&of.hardware, of.kind, first.cores, first.each)
                == (&unit.hardware, unit.kind, source.cores, source.each);
            at == cap && is_same
        };
        match alike.iter_mut().find(same) {
            Some((.., sources)) => sources.push(source.clone()),
            None => alike.push((unit, *cap, *rank, vec![source.clone()])),
        }
    }
    let enough = |sources: &[Source]| packed::capacity(pools, sources) >= nodes;
    // Adds, to a candidate with sleeping nodes, the same candidate on awake nodes.
    let all_awake: Vec<_> =
        alike.iter().filter_map(|(unit, cap, rank, of)| Some((*unit, *cap, *rank, awake(of)?))).collect();
    alike.extend(all_awake);
    let found: Vec<Offer> = alike
        .into_iter()
        .filter(|(.., sources)| enough(sources))
        .map(|(_, cap, rank, sources)| offer(sources, cap, rank))
        .collect();
    if !found.is_empty() {
        return found;
    }
    let mixed: Vec<Source> =
        ways.into_iter().filter(|(_, cap, ..)| *cap == request.cap).map(|(.., source)| source).collect();
    let all_awake = awake(&mixed);
    let both = [Some(mixed), all_awake].into_iter().flatten().filter(|sources| enough(sources));
    both.map(|sources| offer(sources, request.cap, 0)).collect()
}

/// Returns the sources with awake nodes, if others are not awake.
fn awake(sources: &[Source]) -> Option<Vec<Source>> {
    let awake: Vec<Source> = sources.iter().filter(|source| source.wakes.is_none()).cloned().collect();
    (awake.len() < sources.len()).then_some(awake)
}

/// Returns the caps at which a job can be placed on a unit, and true if the unit must then have no other jobs. A job that
/// requests a cap has its nodes alone. Next to other jobs, the job gets the present cap. On several units it is never capped. Alone, it has no cap, or any of
/// the `profiled` ones. A job on several nodes needs the same cap everywhere, so it may wait until the other jobs
/// have ended. The same holds for a job that has its nodes alone.
fn caps_of(request: &Request, kind: &PoolKind, profiled: Vec<Power>) -> Vec<(Option<Power>, bool)> {
    if wants_several(request) {
        return vec![(None, false)];
    }
    if request.cap.is_some() {
        return if kind.obeys { vec![(request.cap, true)] } else { Vec::new() };
    }
    if let Some(cap) = kind.shared.filter(|_| request.nodes.get() == 1 && !request.exclusive) {
        return vec![(cap, false)];
    }
    let mut found: Vec<Option<Power>> = std::iter::once(None).chain(profiled.into_iter().map(Some)).collect();
    if let Some(shared) = kind.shared.filter(|_| !request.exclusive)
        && !found.contains(&shared)
    {
        found.push(shared);
    }
    found.into_iter().map(|cap| (cap, kind.shared.is_some_and(|shared| shared != cap))).collect()
}

fn nodes_of<'p>(pools: &'p Pools<'_>, source: &'p Source) -> &'p [NodeId] {
    let nodes = source.named.as_ref().or_else(|| pools.kinds.get(&source.kind));
    nodes.map_or(&[], Vec::as_slice)
}

/// Returns the estimate of a job on `nodes` nodes: if the sources differ, the lowest possible draw and the longest
/// duration.
fn sum_of_least(sources: &[Source], nodes: usize) -> Estimate {
    let count = i64::try_from(nodes).unwrap_or(i64::MAX);
    let least = sources.iter().map(|source| source.each).min_by_key(|each| each.power);
    let slowest = sources.iter().map(|source| source.each.duration).max().unwrap_or_default();
    let least = least.unwrap_or(Estimate {
        duration: slowest,
        power: Power::ZERO,
        energy: limo_model::Energy::ZERO,
        source: limo_model::EstimateSource::Nameplate,
        runs: 0,
    });
    let power = Power::from_mw(least.power.mw().saturating_mul(count));
    let energy = limo_model::Energy::from_mj(least.energy.mj().saturating_mul(count));
    Estimate { duration: slowest, power, energy, ..least }
}

impl Offer {
    /// Returns the question for the first start from then on for the duration of the job.
    pub fn ask(&self, from: Time, respect: Respect) -> Ask {
        let span = self.estimate.duration.max(Span::from_ms(1));
        Ask { from, span, latest: Time::MAX, respect, whole: false }
    }

    /// Returns the first start from `ask.from` on at which all nodes fit for all of `ask.span`.
    pub fn find(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Option<Found<'_>> {
        let powered = |draw: Power, at: Time| match ask.respect {
            Respect::Resources => Some(at),
            Respect::ResourcesAndBand => future.earliest_power(draw, (at, ask.latest), ask.span),
        };
        // No placement has a lower draw, so before that time no node need be checked.
        let mut at = powered(self.estimate.power, ask.from).filter(|at| *at <= ask.latest)?;
        loop {
            let (seat, draw) = self.seated(future, pools, Ask { from: at, ..ask })?;
            let next = seat.at;
            if next > ask.latest {
                return None;
            }
            // A repeated question is answered from the previous result.
            let fits = if next == at && draw == self.estimate.power { next } else { powered(draw, next)? };
            if fits == next {
                let first = (self.wake, seat.node, self.sources[seat.source].kind.unit, self.rank);
                return Some(Found { at: next, offer: self, ask: Ask { from: next, ..ask }, seat, first });
            }
            at = fits;
        }
    }

    /// Returns the first seat of the first start, apart from power, and the draw of all seats.
    fn seated(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Option<(Seat, Power)> {
        if self.nodes == 1 && self.sources.iter().all(|source| source.is_single) {
            let seat = self.first_seat(future, pools, ask)?;
            return Some((seat, self.draw(&[seat])));
        }
        let seats = self.seats(future, pools, ask)?;
        Some((seats[0], self.draw(&seats)))
    }

    /// Returns the seats of the first start, apart from power, in order of nodes.
    fn seats(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Option<Vec<Seat>> {
        if self.is_packed {
            return self.packed_seats(future, pools, ask);
        }
        let mut at = ask.from;
        loop {
            let mut seats = self.all_seats(future, pools, Ask { from: at, ..ask });
            if seats.len() < self.nodes {
                return None;
            }
            let mut times: Vec<Time> = seats.iter().map(|seat| seat.at).collect();
            let next = *times.select_nth_unstable(self.nodes - 1).1;
            if next > ask.latest {
                return None;
            }
            if next == at {
                seats.retain(|seat| seat.at == at);
                if self.wake > Span::ZERO {
                    seats.sort_by_key(|seat| self.sources[seat.source].wakes);
                }
                seats.truncate(self.nodes);
                seats.sort_unstable_by_key(|seat| seat.node);
                return Some(seats);
            }
            at = next;
        }
    }

    /// Returns the earliest seat; among equal ones the first.
    fn first_seat(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Option<Seat> {
        let mut best: Option<Seat> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let before = best.map_or((ask.latest, NodeId(u32::MAX)), |best| (best.at, best.node));
            let (need, nodes) = (source.need(&ask, 1), nodes_of(pools, source));
            if let Some((at, node)) = future.first_on(nodes, &need, (ask.from, ask.span), before) {
                best = Some(Seat { at, node, source: index, chunks: 1 });
            }
        }
        best
    }

    /// Returns the first seat on each node, in order of nodes.
    fn all_seats(&self, future: &Future<'_>, pools: &Pools<'_>, ask: Ask) -> Vec<Seat> {
        let mut seats = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            let need = source.need(&ask, 1);
            for node in nodes_of(pools, source) {
                let at = future.earliest_on(*node, &need, ask.from, ask.span);
                seats.extend(at.map(|at| Seat { at, node: *node, source: index, chunks: 1 }));
            }
        }
        let unit = |seat: &Seat| self.sources[seat.source].kind.unit;
        seats.sort_unstable_by_key(|seat| (seat.node, seat.at, unit(seat)));
        seats.dedup_by_key(|seat| seat.node);
        seats
    }

    /// Returns the estimate of a seat.
    fn each(&self, seat: &Seat) -> Estimate {
        self.sources[seat.source].each.times(seat.chunks as usize)
    }

    fn draw(&self, seats: &[Seat]) -> Power {
        seats.iter().map(|seat| self.each(seat).power).sum::<Power>() + self.waking(seats)
    }

    /// Returns the additional draw of the nodes of these seats that have to be woken.
    fn waking(&self, seats: &[Seat]) -> Power {
        seats.iter().filter_map(|seat| self.sources[seat.source].wakes).map(|wakes| wakes.draw).sum()
    }
}

impl Found<'_> {
    /// Returns the placement of the job.
    pub fn choice(&self, future: &Future<'_>, pools: &Pools<'_>) -> Option<Choice> {
        let offer = self.offer;
        let seats = match offer.nodes {
            1 => vec![self.seat],
            _ => offer.seats(future, pools, self.ask)?,
        };
        let placement = several::placement(offer, future, &seats, &self.ask);
        let each = || seats.iter().map(|seat| offer.each(seat));
        let duration = each().map(|each| each.duration).max().unwrap_or_default() + offer.wake;
        let waking = offer.waking(&seats);
        let (power, energy) = (each().map(|each| each.power).sum(), each().map(|each| each.energy).sum());
        let estimate = Estimate { duration, power, energy, ..offer.estimate };
        Some(Choice { placement, estimate, alone: offer.alone, waking })
    }
}
