//! The tests of the order `easy`: which waiting job may start now, beside the reservation of the first one.

use limo_model::{CapRule, Estimate, JobId, Placement, Power, Span, Time, Wait};

use super::easy::is_kept_away;
use super::expected::estimate;
use crate::facts::Known;
use crate::future::{Asker, has_room};
use crate::index::{HeadReservation, PlanCache, Shape};
use crate::plan::Start;
use crate::policy::admission::Gate;
use crate::policy::explore;
use crate::policy::placement::{KnownPlacements, Placements, capped, least_room};
use crate::state::Job;
use crate::structure::Need;
use crate::view::View;

/// Decides whether a job may start now.
pub(super) struct Trial<'a> {
    view: View<'a>,
    pub gate: Gate<'a>,
    /// True if a job may start at a cap.
    has_caps: bool,
    known: KnownPlacements<'a>,
    /// The next job of each shape that looks possible.
    ahead: Option<Vec<Possible<'a>>>,
}

/// A job that looks possible, by what its shape knows of it.
#[derive(Clone, Copy)]
struct Possible<'a> {
    place: u64,
    need: Need,
    shape: &'a Shape,
}

/// A waiting job that the loop of a plan considers.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub id: JobId,
    /// Place in the queue.
    pub place: u64,
    pub job: &'a Job,
    shape: &'a Shape,
    need: Need,
}

impl<'a> Trial<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let has_caps = view.parts().starts_capped();
        Self { view: *view, gate: Gate::of(view), has_caps, known: KnownPlacements::default(), ahead: None }
    }

    pub fn reserve(&mut self, cache: &PlanCache) {
        let since = self.view.job(cache.head).map_or(Time::MAX, Job::eligible);
        self.gate.reserve(&self.view, &cache.reservation, since);
    }

    fn candidate(&self, shape: &'a Shape, (place, need): (u64, Need)) -> Option<Candidate<'a>> {
        let id = self.view.job_at(place);
        self.view.job(id).map(|job| Candidate { id, place, job, shape, need })
    }

    /// Returns a job of the queue that could ever run on a known node.
    pub fn asked(&self, id: JobId, Asker { job, shape }: Asker<'a>) -> Option<Candidate<'a>> {
        let place = self.view.place(id)?;
        let need = shape.need(Known::of(self.view.state()), &self.view.index().classes, &job.request);
        Some(Candidate { id, place, job, shape, need })
    }

    /// Returns the first job in the queue that could ever run on a known node, and does not wait for reservations. A
    /// job that waits for them delays no other job. Checks at most `depth` jobs.
    pub fn first(&self) -> Option<Candidate<'a>> {
        let mut from = 0;
        for _ in 0..self.view.options().depth {
            let first = self.first_from(from)?;
            if !is_kept_away(&self.view, first.job) {
                return Some(first);
            }
            from = first.place + 1;
        }
        self.first_from(from)
    }

    fn first_from(&self, from: u64) -> Option<Candidate<'a>> {
        let shapes = self.view.index().shapes.all().iter().filter(|shape| !shape.ways.is_empty());
        let first = |shape: &'a Shape| {
            let first = if from == 0 { shape.waiting.first() } else { shape.waiting.next(from, |_| true) };
            first.map(|first| (first.0, first.1, shape))
        };
        let (key, need, shape) = shapes.filter_map(first).min_by_key(|(key, _, _)| *key)?;
        self.candidate(shape, (key, need))
    }

    /// Starts the job now if it fits in addition to the reservation; at a cap if necessary.
    pub fn start(&mut self, candidate: &Candidate<'a>, cache: Option<&PlanCache>) -> Option<Start> {
        let reservation = cache.map(|cache| &cache.reservation);
        let mut placements = Placements::of(&self.view, candidate.shape, (candidate.id, candidate.job));
        let mut has_room = false;
        while let Some(placement) = placements.next(reservation, &mut self.known) {
            let estimate = estimate(&self.view, candidate.job, &placement);
            if self.leaves_room(candidate, cache, (&placement, &estimate)) {
                let id = candidate.id;
                let start = Start { job: id, placement, estimate, waits_for_relief: false, explores: false };
                return Some(explore::within_walltime(&self.view, candidate.job, start));
            }
            has_room = true;
        }
        let has_cap = candidate.job.request.cap.is_some();
        if !has_room || !self.has_caps || has_cap {
            return None;
        }
        let mut placements = Placements::unshared(&self.view, candidate.shape, (candidate.id, candidate.job));
        while let Some(placement) = placements.next(reservation, &mut self.known) {
            if let Some(start) = self.start_capped(candidate, cache, &placement) {
                return Some(start);
            }
        }
        None
    }

    /// Starts the job on a placement at the highest caps at which it fits.
    fn start_capped(
        &mut self,
        candidate: &Candidate<'_>,
        cache: Option<&PlanCache>,
        placement: &Placement,
    ) -> Option<Start> {
        let (view, job) = (self.view, candidate.job);
        let full = estimate(&view, job, placement);
        let end = job.request.time_limit.map(|_| view.now() + full.duration);
        // A job that is slowed down ends later, when less may be left.
        let left = [end, None].map(|end| self.gate.left(full.power, end));
        let starts = capped::starts(&view, job, (placement, &full), left);
        let fits = |(placement, estimate): &capped::Capped| self.leaves_room(candidate, cache, (placement, estimate));
        let (placement, estimate) = starts.into_iter().find(fits)?;
        Some(Start { job: candidate.id, placement, estimate, waits_for_relief: false, explores: false })
    }

    /// Returns true if a start does not affect the reservation of the first job, and enough power and energy are
    /// left.
    fn leaves_room(
        &mut self,
        candidate: &Candidate<'_>,
        cache: Option<&PlanCache>,
        (placement, estimate): (&Placement, &Estimate),
    ) -> bool {
        let end = self.view.now() + estimate.duration;
        let start = (placement, candidate.job.request.exclusive);
        if cache.is_some_and(|cache| !cache.reservation.leaves_room(&self.view, cache.head, start, end)) {
            return false;
        }
        let known_end = candidate.job.request.time_limit.map(|_| end);
        self.gate.admits(estimate.power, known_end)
    }

    /// Returns the known facts about the first job, which cannot start now.
    pub fn cache(&mut self, head: &Candidate<'_>) -> PlanCache {
        let (view, power) = (self.view, head_power(&self.view, head));
        let asker = Asker { job: head.job, shape: head.shape };
        let reservation = HeadReservation::of(&view, asker, power, &mut self.gate);
        let until = reservation.expected();
        let wait = self.obstacle(head.job, until).unwrap_or(Wait::Resources { until });
        let until = self.gate.until(&self.view);
        PlanCache { head: head.id, reservation, next: head.place + 1, misses: 0, until, wait: Some(wait) }
    }

    /// Returns the next job from `cache.next` on that looks possible: the earliest of the next ones of all shapes. They
    /// are searched once, since nothing changes between two calls but `next`, to the place behind the last result.
    pub fn next_possible(&mut self, cache: &PlanCache) -> Option<Candidate<'a>> {
        let mut ahead = match self.ahead.take() {
            Some(ahead) => ahead,
            None => {
                let shapes = self.view.index().shapes.all().iter();
                shapes.filter_map(|shape| self.next_of(shape, cache.next, &cache.reservation)).collect()
            }
        };
        let earliest = (0..ahead.len()).min_by_key(|at| ahead[*at].place);
        let found = earliest.map(|at| {
            let found = ahead[at];
            match self.next_of(found.shape, found.place + 1, &cache.reservation) {
                Some(next) => ahead[at] = next,
                None => drop(ahead.swap_remove(at)),
            }
            found
        });
        self.ahead = Some(ahead);
        found.and_then(|Possible { place, need, shape }| self.candidate(shape, (place, need)))
    }

    /// Returns the first job of a shape from that place on that looks possible.
    fn next_of(&mut self, shape: &'a Shape, from: u64, reservation: &HeadReservation) -> Option<Possible<'a>> {
        if !shape.waiting.reaches(from) {
            return None;
        }
        let (room, spare) = least_room::room(&self.view, shape, reservation);
        let (now, gate, has_caps) = (self.view.now(), &mut self.gate, self.has_caps);
        let looks_possible = |need: &Need| {
            let end = now + Span::from_ms(need.span);
            let passes = end <= reservation.at || need.parts <= spare;
            // At a cap the job may need less power.
            let has_power = |gate: &mut Gate<'_>| has_caps || gate.admits_at_least(Power::from_mw(need.power), end);
            passes && need.parts <= room && has_power(gate)
        };
        let (place, need) = shape.waiting.next(from, looks_possible)?;
        Some(Possible { place, need, shape })
    }

    /// Returns the obstacle to a job now, apart from the reservation: the number of nodes, then power and energy.
    pub fn obstacle(&mut self, job: &Job, until: Option<Time>) -> Option<Wait> {
        let shape = self.view.index().shapes.find(&job.request).filter(|shape| !shape.ways.is_empty());
        let Some(shape) = shape else { return Some(Wait::NoNode) };
        if !has_room(&self.view, Asker { job, shape }) {
            return Some(Wait::Resources { until });
        }
        let need = shape.need(Known::of(self.view.state()), &self.view.index().classes, &job.request);
        let end = job.request.time_limit.map(|limit| self.view.now() + limit);
        self.gate.obstacle(Power::from_mw(need.power), end, until)
    }
}

/// Returns the future draw of the first job: on its planned nodes if they are known, else the lowest possible one. Under
/// `fixed-share` it is that at its lowest caps.
pub(super) fn head_power(view: &View<'_>, head: &Candidate<'_>) -> Power {
    if view.parts().caps == CapRule::FixedShare {
        return capped::least(view, head.shape, &head.job.request);
    }
    let placement = Placements::of(view, head.shape, (head.id, head.job)).next(None, &mut KnownPlacements::default());
    let known = placement.map(|placement| estimate(view, head.job, &placement).power);
    known.unwrap_or(Power::from_mw(head.need.power))
}
