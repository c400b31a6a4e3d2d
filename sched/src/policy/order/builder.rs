//! A plan under construction for `fifo`, `limo-prototype` and `limo`. It goes through the queue once; if another plan
//! follows, it stops when no other job can start. Under the conservative order a waiting job also gets a planned
//! start, and no later job may delay it. [`Aim`] decides about the price.

use std::rc::Rc;

use limo_model::{AdmissionRule, CapRule, JobId, OrderRule, Parts, PlacementRule, Power, Request, Span, Time, Wait};

use crate::engine::{Later, Pass, Verdict, Wanted};
use crate::facts::draw_if_on;
use crate::future::{Future, NodeNeed, Respect, Units};
use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::policy::placement::{Against, Aim, AllWays, Ask, Found, Offer, Pools, Room, Ways};
use crate::policy::{explore, relief, steer};
use crate::state::{Job, Sleep};
use crate::view::{Choice, View};

/// The start of a job, and its wait reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) enum Decision {
    Start(Choice),
    /// The job is planned for later.
    Later {
        choice: Choice,
        at: Time,
        wait: Wait,
    },
    /// The job waits without a planned start. With `holds`, only pressed jobs may pass it.
    Wait {
        wait: Wait,
        holds: bool,
    },
}

/// A job to decide about.
#[derive(Clone, Copy)]
pub(in crate::policy) struct AskedJob<'d> {
    pub job: &'d Job,
    pub ways: &'d Ways,
    /// True if the job gets a wait reason.
    pub tells: bool,
}

/// A waiting job for which a later start is planned.
pub(in crate::policy) struct Reserved {
    pub job: JobId,
    pub at: Time,
}

/// A plan under construction.
pub(in crate::policy) struct PlanBuilder<'a> {
    pub view: View<'a>,
    pub parts: Parts,
    /// Running jobs and the starts of this plan.
    pub actual: Future<'a>,
    /// The same, with later planned starts.
    pub planned: Future<'a>,
    pub reserved: Vec<Reserved>,
    /// The first job that blocks later ones.
    pub holder: Option<JobId>,
    aim: Aim,
    /// The jobs to decide about, and the number of jobs already returned.
    jobs: Vec<(JobId, &'a Job)>,
    asked: usize,
    /// Nodes that take jobs, including the starts of this plan.
    pools: Pools<'a>,
    /// The candidates of the considered jobs, on these nodes.
    ways: AllWays<'a>,
    /// Additional draw of the jobs that this plan starts.
    pub started: Power,
    has_started: bool,
    pub has_explored: bool,
    /// True if a job was started or refused: then another plan follows, which gives the wait reasons.
    is_followed: bool,
    /// True if a job was started or refused since the last check if another job can start.
    is_new: bool,
    /// True if the last job waits.
    waits: bool,
    /// The later planned starts, with their nodes.
    later: Vec<Later>,
}

impl<'a> PlanBuilder<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let parts = view.parts();
        let mut actual = match parts.admission {
            AdmissionRule::Band => Future::new(view),
            _ => Future::without_draw(view),
        };
        hold_switching(view, &mut actual);
        let mut planned = actual.clone();
        let margin = steer::margin(view);
        if parts.admission == AdmissionRule::Band {
            suspended(view).into_iter().for_each(|(draw, rest)| planned.plan_resume(draw, rest, margin));
        }
        // Fillers come after all other jobs: they use only the remaining power.
        let (mut fillers, jobs): (Vec<_>, Vec<_>) = view.queue().partition(|(_, job)| job.request.filler);
        explore::least_measured_first(view, &mut fillers);
        Self {
            view: *view,
            parts,
            actual,
            planned,
            reserved: Vec::new(),
            holder: None,
            aim: Aim::of(view, parts),
            jobs: [jobs, fillers].concat(),
            asked: 0,
            pools: Pools::of(view, |node| node.is_available(view.now())),
            ways: AllWays::default(),
            started: Power::ZERO,
            has_started: false,
            has_explored: false,
            is_followed: false,
            is_new: false,
            waits: false,
            later: Vec::new(),
        }
    }
}

impl<'a> Pass<'a> for PlanBuilder<'a> {
    fn next(&mut self) -> Option<(JobId, &'a Job)> {
        let job = self.jobs.get(self.asked).copied();
        self.asked += 1;
        job
    }

    fn place(&mut self, (id, job): (JobId, &'a Job)) -> Verdict {
        // Wait reasons are not needed if another plan follows.
        let tells = job.request.immediate || !self.is_followed;
        let decision = match self.decide(job, tells) {
            Decision::Start(choice) if self.wakes_too_early(&choice) => self.wait_for_power(&choice),
            decision => decision,
        };
        self.waits = !matches!(decision, Decision::Start(_));
        let ends = !self.waits || job.request.immediate;
        (self.is_new, self.is_followed) = (self.is_new || ends, self.is_followed || ends);
        match decision {
            Decision::Start(choice) => {
                let (choice, explores) = self.explored((id, job), choice);
                Verdict::Start(self.start(id, choice, explores))
            }
            Decision::Wait { wait, .. } | Decision::Later { wait, .. } if job.request.immediate => Verdict::Wait(wait),
            Decision::Later { choice, at, wait } => {
                let wanted = limo_model::nodes(&choice.placement).collect();
                self.later.push(Later { job: id, at, wanted: Wanted::Named(wanted) });
                match self.parts.order {
                    OrderRule::Conservative => {
                        self.planned.plan(&choice, at);
                        self.reserved.push(Reserved { job: id, at });
                    }
                    _ => self.holder = self.holder.or(Some(id)),
                }
                told(wait, tells)
            }
            Decision::Wait { wait, holds } => {
                self.holder = self.holder.or(Some(id).filter(|_| holds));
                told(wait, tells)
            }
        }
    }

    fn is_over(&mut self, _: &Plan) -> bool {
        if !self.is_new || !self.waits {
            return false;
        }
        self.is_new = false;
        self.nobody_else()
    }

    fn close(&mut self, plan: &mut Plan) -> Option<PlanCache> {
        if !plan.is_followed() {
            // A start that is planned for the end of a running job needs no timer, because that end is an event.
            let times = [next_change(&self.view), self.next_by_price(), self.aim.look_again(self, plan)];
            let soonest = self.view.now() + Span::from_ms(1);
            plan.wake_at = times.into_iter().flatten().min().map(|at| at.max(soonest));
        }
        None
    }

    fn later(&mut self) -> Vec<Later> {
        std::mem::take(&mut self.later)
    }
}

/// Plans nodes that are falling asleep or waking; they take no jobs before they are ready.
fn hold_switching(view: &View<'_>, future: &mut Future<'_>) {
    if view.index().sleeping == 0 {
        return;
    }
    for node in view.nodes() {
        let Some(rest) = node.spec.rest() else { continue };
        let span = match node.sleep {
            Sleep::Awake | Sleep::Asleep => continue,
            Sleep::GoingDown => rest.down.span + rest.up.span,
            Sleep::Waking => rest.up.span,
        };
        let until = view.now() + span.max(Span::from_ms(1));
        future.take(node.id, (view.now(), until), &NodeNeed { of: Units::All, memory: 0 });
    }
}

fn told(wait: Wait, tells: bool) -> Verdict {
    if tells { Verdict::Wait(wait) } else { Verdict::Untold }
}

/// Returns the future draw and duration of each suspended job, in the order of their suspension.
fn suspended(view: &View<'_>) -> Vec<(Power, Span)> {
    let now = view.now();
    let jobs = view.index().suspended.iter().filter_map(|id| Some((*id, view.job(*id)?)));
    let mut jobs: Vec<_> = jobs.filter_map(|(id, job)| Some((job.limited_since()?, id, job))).collect();
    jobs.sort_unstable_by_key(|(since, id, _)| (*since, *id));
    let rest = |job: &Job| job.expected_end(now).map_or(Span::ZERO, |end| end - now);
    jobs.into_iter().map(|(_, _, job)| (draw_if_on(view.state(), job), rest(job))).collect()
}

/// Returns the next time at which limits, prices or nodes that are closed for a time change by themselves. It does not matter without
/// waiting jobs.
pub(in crate::policy) fn next_change(view: &View<'_>) -> Option<Time> {
    view.queue().next()?;
    let reopens = view.index().reopens.iter().map(|(until, _)| *until).find(|until| *until > view.now());
    let limits = view.limits().next_change(view.now());
    let prices = view.prices().and_then(|prices| prices.next_change(view.now()));
    [reopens, limits, prices].into_iter().flatten().min()
}

impl<'a> PlanBuilder<'a> {
    fn decide(&self, job: &'a Job, tells: bool) -> Decision {
        let ways = self.ways(&job.request);
        if ways.is_empty() {
            let holds = self.parts.order == OrderRule::Strict && self.view.groups_deny(&job.request);
            return Decision::Wait { wait: Wait::NoNode, holds };
        }
        if self.parts.order == OrderRule::Strict
            && let Some(holder) = self.holder
        {
            return Decision::Wait { wait: Wait::Behind { job: holder, until: None }, holds: false };
        }
        let asked = AskedJob { job, ways: &ways, tells };
        match (self.parts.admission, self.parts.placement) {
            (AdmissionRule::Equations, _) => self.by_algorithm_3_3(&ways),
            (_, PlacementRule::ByPrice) => self.aim.decide(self, asked),
            (_, PlacementRule::LeastEnergy) => self.least_energy(asked),
            _ => self.first_fit(asked),
        }
    }

    fn wakes_too_early(&self, choice: &Choice) -> bool {
        let more = self.started + choice.estimate.power + choice.waking;
        !self.parts.ignores_upper_limit() && relief::wakes_too_early(&self.view, &choice.placement, more)
    }

    fn wait_for_power(&self, choice: &Choice) -> Decision {
        let left =
            (self.view.band().high() - self.view.draw() - self.view.unconfirmed() - self.started).at_least_zero();
        let wait = Wait::Band { needs: choice.estimate.power + choice.waking, left, until: None };
        Decision::Wait { wait, holds: self.parts.order == OrderRule::Strict }
    }

    pub(in crate::policy) fn respect(&self) -> Respect {
        match self.parts.admission {
            AdmissionRule::Band => Respect::ResourcesAndBand,
            _ => Respect::Resources,
        }
    }

    /// Returns every candidate for the job on nodes that take jobs.
    pub(in crate::policy) fn ways(&self, request: &'a Request) -> Rc<Ways> {
        self.ways.of(&self.view, &self.pools, request, self.parts.caps == CapRule::Moved)
    }

    /// Returns true if no later job can start now, because no resources or no power are left, and none requests an
    /// immediate refusal.
    fn nobody_else(&self) -> bool {
        let behind = self.jobs.get(self.asked..).unwrap_or_default();
        if !self.is_followed || behind.iter().any(|(_, job)| job.request.immediate) {
            return false;
        }
        if self.parts.order == OrderRule::Strict && self.holder.is_some() {
            return true;
        }
        let (room, respect) = (Room::of(&self.pools, &self.planned), self.respect());
        let may_begin = |request: &'a Request| {
            self.ways(request).iter().any(|offer| offer.may_begin(&self.planned, &room, respect))
        };
        !behind.iter().any(|(_, job)| may_begin(&job.request))
    }

    /// Returns the candidates on which the job fits now, in order of nodes and units; with `whole`, only on units
    /// without jobs.
    pub(in crate::policy) fn fit_now<'o>(
        &self,
        future: &Future<'_>,
        offers: &'o [Offer],
        respect: Respect,
        whole: bool,
    ) -> Vec<Found<'o>> {
        let now = self.view.now();
        let fits =
            |offer: &'o Offer| offer.find(future, &self.pools, Ask { whole, latest: now, ..offer.ask(now, respect) });
        let mut found: Vec<Found<'o>> = offers.iter().filter_map(fits).filter(|found| found.at == now).collect();
        found.sort_unstable_by_key(|found| found.first);
        found
    }

    /// Returns the first time from `from` on at which one candidate delays no running or planned job.
    pub(in crate::policy) fn earliest<'o>(&self, offer: &'o Offer, from: Time) -> Option<Found<'o>> {
        self.earliest_for(offer, offer.ask(from, self.respect()))
    }

    /// Does the same for a prepared question.
    pub(in crate::policy) fn earliest_for<'o>(&self, offer: &'o Offer, ask: Ask) -> Option<Found<'o>> {
        offer.find(&self.planned, &self.pools, ask)
    }

    /// Does the same for each candidate, in order of nodes and units.
    pub(in crate::policy) fn starts<'o>(&self, offers: &'o [Offer], from: Time) -> Vec<Found<'o>> {
        let mut found: Vec<Found<'o>> = offers.iter().filter_map(|offer| self.earliest(offer, from)).collect();
        found.sort_unstable_by_key(|found| found.first);
        found
    }

    /// Returns the placement of the job.
    pub(in crate::policy) fn choice(&self, found: &Found<'_>) -> Option<Choice> {
        found.choice(&self.planned, &self.pools)
    }

    /// Returns the verdict for a job whose best start, `best`, is later than now.
    pub(in crate::policy) fn later(&self, asked: AskedJob<'_>, best: Option<&Found<'_>>) -> Decision {
        let wait = self.obstacle(asked, best.map(|found| found.at));
        match best.and_then(|found| Some((found.at, self.choice(found)?))) {
            Some((at, choice)) => Decision::Later { choice, at, wait },
            None => Decision::Wait { wait, holds: self.parts.order == OrderRule::Strict },
        }
    }

    /// Returns the obstacle to a start by any candidate; `until` is the expected start of the job.
    pub(in crate::policy) fn obstacle(&self, asked: AskedJob<'_>, until: Option<Time>) -> Wait {
        let ways = asked.ways;
        if !asked.tells {
            return Wait::Resources { until };
        }
        let against = match self.has_started {
            false => *ways.against.get_or_init(|| self.against(ways)),
            true => self.against(ways),
        };
        match (against, self.reserved.first()) {
            (Against::Band { needs, left }, _) => Wait::Band { needs, left, until },
            (Against::Room, _) => Wait::Resources { until },
            (Against::Others, Some(first)) => Wait::Behind { job: first.job, until: Some(first.at) },
            // Suspended jobs are planned before all waiting ones.
            (Against::Others, None) => match self.view.index().suspended.first() {
                Some(job) => Wait::Behind { job: *job, until: None },
                None => Wait::Resources { until },
            },
        }
    }

    fn against(&self, offers: &[Offer]) -> Against {
        let free = self.fit_now(&self.actual, offers, Respect::Resources, false);
        let Some(least) = free.iter().map(|found| found.offer).min_by_key(|offer| offer.estimate.power) else {
            return Against::Room;
        };
        let now = self.view.now();
        let powered = |offer: &Offer| {
            let ask = Ask { latest: now, ..offer.ask(now, Respect::ResourcesAndBand) };
            offer.find(&self.actual, &self.pools, ask).is_some()
        };
        if self.parts.admission == AdmissionRule::Band && !free.iter().any(|found| powered(found.offer)) {
            let left = self.actual.headroom_for(least.estimate.duration).at_least_zero();
            return Against::Band { needs: least.estimate.power, left };
        }
        Against::Others
    }

    /// Returns the next start that is planned for its price; it may not coincide with an event.
    fn next_by_price(&self) -> Option<Time> {
        self.view.prices()?;
        let waits_for_it = |request: &Request| request.deadline.is_some() || request.start_by.is_some();
        let planned = self.reserved.iter().filter(|of| of.at > self.view.now());
        planned.filter(|of| self.view.job(of.job).is_some_and(|job| waits_for_it(&job.request))).map(|of| of.at).min()
    }

    fn start(&mut self, id: JobId, choice: Choice, explores: bool) -> Start {
        let now = self.view.now();
        self.actual.plan(&choice, now);
        self.planned.plan(&choice, now);
        self.started += choice.estimate.power;
        let others = self.pools.take(&self.view, &choice.placement);
        self.ways.forget(others);
        self.has_started = true;
        self.has_explored |= explores;
        let (placement, estimate) = (choice.placement, choice.estimate);
        Start { job: id, placement, estimate, waits_for_relief: false, explores }
    }
}
