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

use limo_model::{JobId, Span, Time, Wait};

use super::conservative::{asker, later};
use super::trial::{Candidate, Trial, head_power};
use crate::engine::{Later, Pass, Verdict};
use crate::future::asks_each;
use crate::index::PlanCache;
use crate::options::Allocation;
use crate::plan::Plan;
use crate::policy::admission::Gate;
use crate::state::Job;
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
    trial: Trial<'a>,
    has_begun: bool,
    /// Set when the first job cannot start.
    behind: Option<Behind>,
    /// True if the next plan can use the results of this one, which starts a job behind the first one.
    outlives: bool,
    /// The job to decide about.
    candidate: Option<Candidate<'a>>,
    /// The first job, which waits, and its expected start.
    head: Option<(JobId, Time)>,
}

/// Decisions about later jobs, with the reservation of the first one.
struct Behind {
    cache: PlanCache,
    /// True if an earlier plan has found the reservation.
    is_known: bool,
}

impl<'a> Pass<'a> for EasyPass<'a> {
    fn next(&mut self) -> Option<(JobId, &'a Job)> {
        self.candidate = match self.behind {
            Some(_) => self.next_behind(),
            None if self.has_begun => None,
            None => self.begin(),
        };
        self.candidate.map(|candidate| (candidate.id, candidate.job))
    }

    fn place(&mut self, _: (JobId, &'a Job)) -> Verdict {
        let Some(candidate) = self.candidate else { return Verdict::Untold };
        let Some(behind) = &mut self.behind else {
            if let Some(start) = self.trial.start(&candidate, None) {
                return Verdict::Start(start);
            }
            let cache = self.trial.cache(&candidate);
            self.trial.reserve(&cache);
            self.head = Some((cache.head, cache.reservation.at));
            self.behind = Some(Behind { cache, is_known: false });
            return Verdict::Untold;
        };
        let cache = &mut behind.cache;
        let Some(start) = self.trial.start(&candidate, Some(cache)) else {
            cache.misses += 1;
            return Verdict::Untold;
        };
        let end = self.view.now() + start.estimate.duration;
        cache.reservation.give(&self.view, cache.head, &start, end);
        cache.wait = None;
        let is_capped = start.placement.iter().any(|part| part.cap.is_some());
        self.outlives = !is_capped && outlives_a_start(&self.view, &self.trial.gate, cache);
        Verdict::Start(start)
    }

    fn is_over(&mut self, plan: &Plan) -> bool {
        !plan.starts.is_empty()
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if !plan.starts.is_empty() {
            return self.behind.take().filter(|_| self.outlives).map(|behind| behind.cache);
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
        let (behind, candidate, head) = (None, None, None);
        Self { view: *view, trial: Trial::of(view), has_begun: false, behind, outlives: false, candidate, head }
    }

    /// Returns the first job, or the first one about which no earlier plan has decided.
    fn begin(&mut self) -> Option<Candidate<'a>> {
        let (view, now) = (self.view, self.view.now());
        self.has_begun = true;
        let head = self.trial.first()?;
        let holds =
            |cache: &&PlanCache| cache.head == head.id && now < cache.until && cache.still_knows_power(&view, &head);
        if let Some(cache) = view.index().cache.as_ref().filter(holds) {
            self.trial.reserve(cache);
            self.behind = Some(Behind { cache: cache.clone(), is_known: true });
            return self.next_behind();
        }
        Some(head)
    }

    /// Returns the next job that looks possible in addition to the reservation. Returns `None` if all jobs were
    /// checked, or too many looked possible.
    fn next_behind(&mut self) -> Option<Candidate<'a>> {
        let Behind { cache, is_known } = self.behind.as_mut()?;
        if cache.misses < self.view.options().depth {
            let candidate = self.trial.next_possible(cache);
            cache.next = candidate.map_or(self.view.state().next_job, |candidate| candidate.place + 1);
            return candidate;
        }
        if !*is_known {
            return None;
        }
        // Without the cache a plan could reach further jobs, but the decisions must stay the same.
        self.behind = None;
        self.trial = Trial::of(&self.view);
        self.trial.first()
    }

    /// Returns the wait reason of the first job, after all starts.
    fn head_wait(&self, cache: &PlanCache, until: Option<Time>) -> Wait {
        if let Some(wait) = &cache.wait {
            return wait.clone();
        }
        let mut others = Trial::of(&self.view);
        let head = self.view.job(cache.head);
        head.and_then(|head| others.obstacle(head, until)).unwrap_or(Wait::Resources { until })
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
        let is_new = |id: JobId| view.index().untold.contains(&id);
        let wait = self.head_wait(&cache, until);
        if !is_new(cache.head) {
            plan.waits.push((cache.head, wait.clone()));
        }
        for (id, job) in view.untold() {
            let wait = match id == cache.head {
                true => wait.clone(),
                // The executor of plans names the reservation.
                false if is_kept_away(&view, job) => Wait::NoNode,
                false => self.trial.obstacle(job, None).unwrap_or(Wait::Behind { job: cache.head, until }),
            };
            let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
            list.push((id, wait));
        }
        plan.wake_at = self.trial.gate.wake(&view, &cache.reservation);
        plan.reserved = self.trial.gate.reserved();
        cache.wait = Some(wait);
        cache.until = cache.until.min(self.next_end(&cache));
        // Uses only results of a plan without the cache. Nodes for a job that requests memory or names nodes are not
        // counted exactly.
        let asks_each = is_asked_each(&view, cache.head);
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
}

/// Returns true if reservations keep a job from running now, regardless of free resources.
pub(super) fn is_kept_away(view: &View<'_>, job: &Job) -> bool {
    crate::apply::reason(view.cluster(), view.now(), &job.request).is_some()
}

/// Returns true if a plan after a start beside the reservation would have the same results: the same reservation, and
/// no possible job before `next`. Only the power of the first job may differ. With a budget the reservation moves to a
/// later time. With neighbours only, or with nodes that sleep, it may change. Jobs that looked possible before may now
/// be possible on other nodes.
fn outlives_a_start(view: &View<'_>, gate: &Gate<'_>, cache: &PlanCache) -> bool {
    cache.misses == 0
        && !gate.is_ledger()
        && view.options().allocation == Allocation::Any
        && view.index().sleeping == 0
        && !is_asked_each(view, cache.head)
}

/// Returns true if each node must be checked for the job, so that its nodes are not counted.
fn is_asked_each(view: &View<'_>, job: JobId) -> bool {
    let shape = view.job(job).and_then(|job| view.index().shapes.find(&job.request));
    shape.is_none_or(|shape| asks_each(view, shape))
}
