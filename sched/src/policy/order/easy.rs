//! `easy`, `powercap`, `energybud`, `reducepc`: backfilling with a reservation for the first waiting job.
//!
//! Idea (energy-budget-2017, Algorithm 1): jobs start in queue order while resources are free. The first job that
//! must wait gets a reservation at the earliest time at which enough running jobs are expected to have ended. A later
//! job may start now if it is expected to end before that time, or does not use the resources of the reservation.
//! With a power limit or an energy budget ([`Gate`]), power and energy are such resources, and the reservation
//! includes them (Algorithm 2). Constraints: walltimes are the expected durations, and end the jobs. A job without a
//! walltime is expected to take `default_duration`, and is never ended. All jobs with an expected end at the time of
//! the reservation count for it. With neighbouring nodes only ([`crate::Allocation::Contiguous`]) the reservation is
//! the first run of nodes that is long enough, and no other job may use its nodes. The reservation counts everything
//! that the first job requests on a node: cores, accelerators, memory, and the permission to use the node. Ignores:
//! prices (except for the release of a budget), deadlines, the speed and efficiency of nodes. A plan starts one job
//! at most; the core makes plans until no further job starts. The result for a job that cannot start is kept until an
//! event other than a submission, so the cost of a round depends only on the changes. Unclear text: nodes with the
//! fewest free cores are taken first, by number, and sleeping nodes last. Options: `allocation`, `default_duration`,
//! `depth` (jobs that looked possible but were not, before a plan stops), `hold_after`, `monitor_every`.

use limo_model::{CapRule, Estimate, JobId, Placement, Power, Span, Time, Wait};

use super::conservative::{asker, later};
use super::expected::estimate;
use crate::engine::{Later, Pass, Verdict};
use crate::facts::Known;
use crate::future::{Asker, asks_each, has_room};
use crate::index::{HeadReservation, PlanCache, Shape};
use crate::options::Allocation;
use crate::plan::{Plan, Start};
use crate::policy::admission::Gate;
use crate::policy::placement::{Placements, capped, least_room};
use crate::state::Job;
use crate::structure::Need;
use crate::view::View;

impl PlanCache {
    /// Returns true if the first job, which may now be on other nodes, would still draw the power reserved for it.
    fn still_knows_power(&self, view: &View<'_>, head: &Candidate<'_>) -> bool {
        self.wait.is_some() || self.reservation.power == head_power(view, head)
    }
}

/// A plan under construction.
pub(in crate::policy) struct EasyPass<'a> {
    view: View<'a>,
    gate: Gate<'a>,
    /// True if a job may start at a cap of its profile.
    has_caps: bool,
    has_begun: bool,
    /// Set when the first job cannot start.
    behind: Option<Box<Behind>>,
    /// The job to decide about.
    candidate: Option<Candidate<'a>>,
    /// The cache for the next plan.
    found: Option<PlanCache>,
    /// The first job, which waits, and its expected start.
    head: Option<(JobId, Time)>,
}

/// Decisions about later jobs, with the reservation of the first one.
struct Behind {
    cache: PlanCache,
    /// True if an earlier plan has found the reservation.
    is_known: bool,
}

/// A waiting job that the loop of a plan considers.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    id: JobId,
    /// Place in the queue.
    place: u64,
    job: &'a Job,
    shape: &'a Shape,
    need: Need,
}

impl<'a> Pass<'a> for EasyPass<'a> {
    fn next(&mut self) -> Option<(JobId, &'a Job)> {
        self.candidate = match self.behind.take() {
            Some(behind) => self.next_behind(behind),
            None if self.has_begun => None,
            None => self.begin(),
        };
        self.candidate.map(|candidate| (candidate.id, candidate.job))
    }

    fn place(&mut self, _: (JobId, &'a Job)) -> Verdict {
        let Some(candidate) = self.candidate else { return Verdict::Untold };
        let Some(mut behind) = self.behind.take() else {
            if let Some(start) = self.start(&candidate, None) {
                return Verdict::Start(start);
            }
            let cache = self.cache(&candidate);
            self.reserve(&cache);
            self.behind = Some(Box::new(Behind { cache, is_known: false }));
            return Verdict::Untold;
        };
        let Some(start) = self.start(&candidate, Some(&behind.cache)) else {
            behind.cache.misses += 1;
            self.behind = Some(behind);
            return Verdict::Untold;
        };
        let mut cache = behind.cache;
        let end = self.view.now() + start.estimate.duration;
        cache.reservation.give(&self.view, cache.head, &start, end);
        cache.wait = None;
        let is_capped = start.placement.iter().any(|part| part.cap.is_some());
        self.found = Some(cache).filter(|cache| !is_capped && self.outlives_a_start(cache));
        Verdict::Start(start)
    }

    fn is_over(&mut self, plan: &Plan) -> bool {
        !plan.starts.is_empty()
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if !plan.starts.is_empty() {
            return self.found.take();
        }
        plan.is_unfinished = false;
        match self.behind.take() {
            Some(behind) => self.settle(behind.cache, plan),
            None => {
                self.nobody_waits(plan);
                None
            }
        }
    }

    fn later(&mut self) -> Vec<Later> {
        let later = self
            .head
            .and_then(|(head, at)| asker(&self.view, self.view.job(head)?).map(|asker| later(asker, (head, at))));
        later.into_iter().collect()
    }
}

impl<'a> EasyPass<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let (behind, candidate, found, head) = (None, None, None, None);
        let has_caps = view.parts().caps == CapRule::FromProfile;
        Self { view: *view, gate: Gate::of(view), has_caps, has_begun: false, behind, candidate, found, head }
    }

    /// Returns the first job, or the first one about which no earlier plan has decided.
    fn begin(&mut self) -> Option<Candidate<'a>> {
        let (view, now) = (self.view, self.view.now());
        self.has_begun = true;
        let head = self.first()?;
        let holds =
            |cache: &&PlanCache| cache.head == head.id && now < cache.until && cache.still_knows_power(&view, &head);
        if let Some(cache) = view.index().cache.as_ref().filter(holds) {
            self.reserve(cache);
            return self.next_behind(Box::new(Behind { cache: cache.clone(), is_known: true }));
        }
        Some(head)
    }

    /// Returns the next job that looks possible in addition to the reservation. Returns `None` if all jobs were
    /// checked, or too many looked possible.
    fn next_behind(&mut self, mut behind: Box<Behind>) -> Option<Candidate<'a>> {
        let is_enough = behind.cache.misses >= self.view.options().depth;
        if is_enough && behind.is_known {
            // Without the cache a plan could reach further jobs, but the decisions must stay the same.
            self.gate = Gate::of(&self.view);
            return self.first();
        }
        let candidate = if is_enough { None } else { self.next_possible(&behind.cache) };
        if !is_enough {
            behind.cache.next = candidate.map_or(self.view.state().next_job, |candidate| candidate.place + 1);
        }
        self.behind = Some(behind);
        candidate
    }

    fn reserve(&mut self, cache: &PlanCache) {
        let since = self.view.job(cache.head).map_or(Time::MAX, Job::eligible);
        self.gate.reserve(&self.view, &cache.reservation, since);
    }

    fn candidate(&self, shape: &'a Shape, (place, need): (u64, Need)) -> Option<Candidate<'a>> {
        let id = self.view.job_at(place);
        self.view.job(id).map(|job| Candidate { id, place, job, shape, need })
    }

    /// Returns the first job in the queue that could ever run on a known node, and does not wait for reservations. A
    /// job that waits for them delays no other job. Checks at most `depth` jobs.
    fn first(&self) -> Option<Candidate<'a>> {
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
    fn start(&mut self, candidate: &Candidate<'_>, cache: Option<&PlanCache>) -> Option<Start> {
        let reservation = cache.map(|cache| &cache.reservation);
        let mut placements = Placements::of(&self.view, candidate.shape, candidate.job);
        let mut has_room = false;
        while let Some(placement) = placements.next(reservation) {
            let estimate = estimate(&self.view, candidate.job, &placement);
            if self.leaves_room(candidate, cache, (&placement, &estimate)) {
                return Some(Start { job: candidate.id, placement, estimate, waits_for_relief: false });
            }
            has_room = true;
        }
        if !has_room || !self.has_caps || candidate.need.parts > 1 {
            return None;
        }
        let mut placements = Placements::unshared(&self.view, candidate.shape, candidate.job);
        std::iter::from_fn(|| placements.next(reservation))
            .find_map(|placement| self.start_capped(candidate, cache, placement))
    }

    /// Starts the job on a placement at the highest cap of its profile at which it fits.
    fn start_capped(
        &mut self,
        candidate: &Candidate<'_>,
        cache: Option<&PlanCache>,
        mut placement: Placement,
    ) -> Option<Start> {
        let (view, job) = (self.view, candidate.job);
        let full = estimate(&view, job, &placement);
        let at = |power| Estimate { power, energy: power * full.duration, ..full };
        let caps = capped::caps(&view, job, &placement);
        let (cap, power) =
            caps.into_iter().find(|(_, power)| self.leaves_room(candidate, cache, (&placement, &at(*power))))?;
        placement.iter_mut().for_each(|part| part.cap = Some(cap));
        Some(Start { job: candidate.id, placement, estimate: at(power), waits_for_relief: false })
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
    fn cache(&mut self, head: &Candidate<'_>) -> PlanCache {
        let (view, power) = (self.view, head_power(&self.view, head));
        let asker = Asker { job: head.job, shape: head.shape };
        let reservation = HeadReservation::of(&view, asker, power, &mut self.gate);
        let until = reservation.expected();
        let wait = self.obstacle(head.job, until).unwrap_or(Wait::Resources { until });
        let until = self.gate.until(&self.view);
        PlanCache { head: head.id, reservation, next: head.place + 1, misses: 0, until, wait: Some(wait) }
    }

    /// Returns true if a plan after a start beside the reservation would have the same results: the same reservation,
    /// and no possible job before `next`. Only the power of the first job may differ. With a budget the reservation
    /// moves to a later time. With neighbours only, or with nodes that sleep, it may change. Jobs that looked
    /// possible before may now be possible on other nodes.
    fn outlives_a_start(&self, cache: &PlanCache) -> bool {
        cache.misses == 0
            && !self.gate.is_ledger()
            && self.view.options().allocation == Allocation::Any
            && self.view.index().sleeping == 0
            && !self.asks_each(cache.head)
    }

    /// Returns true if each node must be checked for the job, so that its nodes are not counted.
    fn asks_each(&self, job: JobId) -> bool {
        let shape = self.view.job(job).and_then(|job| self.view.index().shapes.find(&job.request));
        shape.is_none_or(|shape| asks_each(&self.view, shape))
    }

    /// Returns the wait reason of the first job, after all starts.
    fn head_wait(&self, cache: &PlanCache, until: Option<Time>) -> Wait {
        if let Some(wait) = &cache.wait {
            return wait.clone();
        }
        let mut others = EasyPass::of(&self.view);
        let head = self.view.job(cache.head);
        head.and_then(|head| others.obstacle(head, until)).unwrap_or(Wait::Resources { until })
    }

    /// Returns the first job from `cache.next` on that looks possible: the earliest of the heads of all shapes.
    fn next_possible(&mut self, cache: &PlanCache) -> Option<Candidate<'a>> {
        let now = self.view.now();
        let mut best: Option<(u64, Need, &'a Shape)> = None;
        for shape in self.view.index().shapes.all().iter().filter(|shape| shape.waiting.reaches(cache.next)) {
            let (room, spare) = least_room::room(&self.view, shape, &cache.reservation);
            let (gate, has_caps) = (&mut self.gate, self.has_caps);
            let looks_possible = |need: &Need| {
                let end = now + Span::from_ms(need.span);
                let passes = end <= cache.reservation.at || need.parts <= spare;
                // At a cap the job may need less power.
                let has_power = |gate: &mut Gate<'_>| {
                    (has_caps && need.parts == 1) || gate.admits_at_least(Power::from_mw(need.power), end)
                };
                passes && need.parts <= room && has_power(gate)
            };
            let found = shape.waiting.next(cache.next, looks_possible);
            if let Some((key, need)) = found.filter(|(key, _)| best.as_ref().is_none_or(|best| *key < best.0)) {
                best = Some((key, need, shape));
            }
        }
        let (key, need, shape) = best?;
        self.candidate(shape, (key, need))
    }

    /// Ends a plan in which no waiting job could ever run.
    fn nobody_waits(&mut self, plan: &mut Plan) {
        for (id, job) in self.view.untold() {
            let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
            list.push((id, Wait::NoNode));
        }
    }

    /// Ends a plan without a start: gives reasons to the first job and to new ones. Returns the cache for the next
    /// plan.
    fn settle(&mut self, mut cache: PlanCache, plan: &mut Plan) -> Option<PlanCache> {
        let view = self.view;
        let all = cache.misses < view.options().depth;
        let until = cache.reservation.expected();
        let is_new = |id: JobId| view.index().untold.contains(id);
        let wait = self.head_wait(&cache, until);
        if !is_new(cache.head) {
            plan.waits.push((cache.head, wait.clone()));
        }
        for (id, job) in view.untold() {
            let wait = match id == cache.head {
                true => wait.clone(),
                // The executor of plans names the reservation.
                false if is_kept_away(&view, job) => Wait::NoNode,
                false => self.obstacle(job, None).unwrap_or(Wait::Behind { job: cache.head, until }),
            };
            let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
            list.push((id, wait));
        }
        plan.wake_at = self.gate.wake(&view, &cache.reservation);
        plan.reserved = self.gate.reserved();
        cache.wait = Some(wait);
        cache.until = cache.until.min(self.next_end(&cache));
        // Uses only results of a plan without the cache. Nodes for a job that requests memory or names nodes are not
        // counted exactly.
        let asks_each = self.asks_each(cache.head);
        self.head = Some((cache.head, cache.reservation.at));
        Some(cache).filter(|_| all && !asks_each)
    }

    /// Returns the time until which jobs end as expected: the expected end of an overdue job keeps moving.
    fn next_end(&self, cache: &PlanCache) -> Time {
        let soon = self.view.now() + Span::from_ms(1);
        if cache.reservation.is_guess {
            return soon;
        }
        let first = self.view.index().ends.keys().next();
        first.map_or(Time::MAX, |(end, _)| (*end + Span::from_ms(1)).max(soon))
    }

    /// Returns the obstacle to a job now, apart from the reservation: the number of nodes, then power and energy.
    fn obstacle(&mut self, job: &Job, until: Option<Time>) -> Option<Wait> {
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

/// Returns true if reservations keep a job from running now, regardless of free resources.
pub(super) fn is_kept_away(view: &View<'_>, job: &Job) -> bool {
    crate::apply::reason(view.cluster(), view.now(), &job.request).is_some()
}

/// Returns the future draw of the first job: on its planned nodes if they are known, else the lowest possible one.
fn head_power(view: &View<'_>, head: &Candidate<'_>) -> Power {
    let placement = Placements::of(view, head.shape, head.job).next(None);
    let known = placement.map(|placement| estimate(view, head.job, &placement).power);
    known.unwrap_or(Power::from_mw(head.need.power))
}
