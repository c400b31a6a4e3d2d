//! Order x admission x placement x caps: the parts of which the presets are made, and the one loop that runs them.
//!
//! The loop goes through the queue once, or until nobody else can start where another plan follows. Each job is started, or gets a reason to wait; with [`Order::Conservative`] it
//! also gets a planned start, which no later job may delay. Decides nothing about the price: that is [`super::limo`].

use std::rc::Rc;

use limo_model::{JobId, Power, Request, Span, Time, Wait};

use super::offers::{Against, AllWays, Ask, Found, Offer, Pools, Room, Ways};
use super::{Policy, limo, prototype, steer};
use crate::facts::draw_if_on;
use crate::future::{Future, Respect};
use crate::index::PlanCache;
use crate::plan::{Plan, Start};
use crate::state::{Job, Phase};
use crate::view::{Choice, View};

/// Which job is next, and who may pass whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By submission; nobody passes a job that waits.
    Strict,
    /// By submission; a later job may start where that does not delay the planned start of an earlier one
    /// (conservative backfilling, over cores, memory and power).
    Conservative,
}

/// What must hold for a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Cores and memory.
    Resources,
    /// Equations 3.3 and 3.4 of limo-2018, one job on a unit.
    Prototype,
    /// Cores, memory, and the upper limit for all of the job's expected duration, as far as the limits are known.
    Band,
}

/// Which of the possible units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// The first in order of nodes and units.
    FirstFit,
    /// By price, mode and deadline.
    ByPrice,
}

/// At which caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapChoice {
    None,
    /// Also at each cap of which there is a profile.
    FromProfile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Composition {
    pub order: Order,
    pub admission: Admission,
    pub placement: Placement,
    pub caps: CapChoice,
}

/// What was decided about one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Start(Choice),
    /// Planned for later.
    Later {
        choice: Choice,
        at: Time,
        wait: Wait,
    },
    /// Waits without a planned start; with `holds`, nobody who is not pressed passes it.
    Wait {
        wait: Wait,
        holds: bool,
    },
}

/// A waiting job for which a later start is planned.
pub(super) struct Reserved {
    pub job: JobId,
    pub at: Time,
}

/// A plan in the making.
pub(super) struct Desk<'a> {
    pub view: View<'a>,
    /// Running jobs and the starts of this plan.
    pub actual: Future<'a>,
    /// The same and what is planned for later.
    pub planned: Future<'a>,
    pub reserved: Vec<Reserved>,
    /// The first job that holds back those behind it.
    pub holder: Option<JobId>,
    /// Nodes that take jobs, with what this plan has put on them.
    pools: Pools<'a>,
    /// The ways of the jobs that were looked at, on these nodes.
    ways: AllWays<'a>,
    /// What the jobs that this plan starts add to the draw.
    started: Power,
    /// Whether anybody hears why the job at hand waits.
    tells: bool,
    plan: Plan,
}

impl Policy for Composition {
    fn plan(&self, view: &View<'_>) -> (Plan, Option<PlanCache>) {
        let actual = match self.admission {
            Admission::Band => Future::new(view),
            Admission::Resources | Admission::Prototype => Future::without_draw(view),
        };
        let mut planned = actual.clone();
        let margin = steer::margin(view);
        if self.admission == Admission::Band {
            suspended(view).into_iter().for_each(|(draw, rest)| planned.plan_resume(draw, rest, margin));
        }
        let mut desk = Desk {
            view: *view,
            actual,
            planned,
            reserved: Vec::new(),
            holder: None,
            pools: Pools::of(view, |node| node.is_available(view.now())),
            ways: AllWays::default(),
            started: Power::ZERO,
            tells: true,
            plan: Plan::default(),
        };
        let aim = limo::Aim::of(view, self);
        // Fillers come after all others: they take what is left over.
        let (fillers, jobs): (Vec<_>, Vec<_>) = view.queue().partition(|(_, job)| job.request.filler);
        let jobs = [jobs, fillers].concat();
        // Whether something was started or refused since it was asked whether anybody else can start.
        let mut is_new = false;
        for (index, (id, job)) in jobs.iter().enumerate() {
            desk.tells = job.request.immediate || !desk.plan.is_followed();
            let verdict = self.decide(&desk, &aim, (*id, job));
            let waits = !matches!(verdict, Verdict::Start(_));
            desk.record(self, (*id, job), verdict);
            is_new |= !waits || job.request.immediate;
            if is_new && waits {
                is_new = false;
                if desk.nobody_else(self, &jobs[index + 1..]) {
                    desk.plan.is_unfinished = true;
                    break;
                }
            }
        }
        if desk.plan.is_followed() {
            return (desk.plan, None);
        }
        // A start planned for the end of a running job needs no waking: that end is an event.
        let times = [next_change(view), desk.next_by_price(), aim.look_again(&desk, self)];
        let soonest = view.now() + Span::from_ms(1);
        desk.plan.wake_at = times.into_iter().flatten().min().map(|at| at.max(soonest));
        (desk.plan, None)
    }
}

/// What each suspended job will draw and how long, in the order in which they were suspended.
fn suspended(view: &View<'_>) -> Vec<(Power, Span)> {
    let now = view.now();
    let since = |job: &Job| match &job.phase {
        Phase::Suspended(_, _, since) => Some(*since),
        _ => None,
    };
    let jobs = view.index().suspended.iter().filter_map(|id| Some((*id, view.job(*id)?)));
    let mut jobs: Vec<_> = jobs.filter_map(|(id, job)| Some((since(job)?, id, job))).collect();
    jobs.sort_unstable_by_key(|(since, id, _)| (*since, *id));
    let rest = |job: &Job| job.expected_end(now).map_or(Span::ZERO, |end| end - now);
    jobs.into_iter().map(|(_, _, job)| (draw_if_on(view.state(), job), rest(job))).collect()
}

/// When limits, prices or suspicions change by themselves. Without waiting jobs nothing could come of it.
fn next_change(view: &View<'_>) -> Option<Time> {
    view.queue().next()?;
    let suspects = view.nodes().iter().filter_map(|node| node.suspect_until).filter(|until| *until > view.now()).min();
    let limits = view.limits().next_change(view.now());
    let prices = view.prices().and_then(|prices| prices.next_change(view.now()));
    [suspects, limits, prices].into_iter().flatten().min()
}

impl Composition {
    fn decide<'a>(&self, desk: &Desk<'a>, aim: &limo::Aim, (id, job): (JobId, &'a Job)) -> Verdict {
        let ways = desk.ways(self, &job.request);
        if ways.is_empty() {
            return Verdict::Wait { wait: Wait::NoNode, holds: false };
        }
        if self.order == Order::Strict
            && let Some(holder) = desk.holder
        {
            return Verdict::Wait { wait: Wait::Behind { job: holder, until: None }, holds: false };
        }
        match (self.admission, self.placement) {
            (Admission::Prototype, _) => desk.by_algorithm_3_3(&ways),
            (_, Placement::ByPrice) => aim.decide(desk, self, (id, job), &ways),
            (_, Placement::FirstFit) => desk.first_fit(self, &ways),
        }
    }

    pub(super) fn respect(&self) -> Respect {
        match self.admission {
            Admission::Resources | Admission::Prototype => Respect::Resources,
            Admission::Band => Respect::ResourcesAndBand,
        }
    }
}

impl<'a> Desk<'a> {
    /// Every way to run the job on nodes that take jobs.
    pub(super) fn ways(&self, composition: &Composition, request: &'a Request) -> Rc<Ways> {
        self.ways.of(&self.view, &self.pools, request, composition.caps == CapChoice::FromProfile)
    }

    /// Whether this plan is over once it has started or refused somebody: none of those behind can start now, since there
    /// is nothing free or no power, and none wants to be refused.
    fn nobody_else(&self, composition: &Composition, behind: &[(JobId, &'a Job)]) -> bool {
        if !self.plan.is_followed() || behind.iter().any(|(_, job)| job.request.immediate) {
            return false;
        }
        if composition.order == Order::Strict && self.holder.is_some() {
            return true;
        }
        let (room, respect) = (Room::of(&self.pools, &self.planned), composition.respect());
        let may_begin = |request: &'a Request| {
            self.ways(composition, request).iter().any(|offer| offer.may_begin(&self.planned, &room, respect))
        };
        !behind.iter().any(|(_, job)| may_begin(&job.request))
    }

    /// The draw as limo-2018's prototype knows it, with what this plan has started.
    fn prototype_draw(&self) -> Power {
        self.view.estimated_draw() + self.started
    }

    fn by_algorithm_3_3(&self, offers: &[Offer]) -> Verdict {
        let (mode, band, draw) = (self.view.mode(), self.view.band(), self.prototype_draw());
        if !prototype::may_dispatch(mode, draw, band) {
            let wait = Wait::LowMode { draw, low: band.low(), price: self.view.price() };
            return Verdict::Wait { wait, holds: true };
        }
        let idle = self.fit_now(&self.actual, offers, Respect::Resources, true);
        let admitted = idle.iter().find(|found| prototype::admits(mode, draw, found.offer.estimate.power, band));
        if let Some(choice) = admitted.and_then(|found| self.choice(found)) {
            return Verdict::Start(choice);
        }
        let least = idle.iter().map(|found| found.offer.estimate.power).min();
        let wait = least.map_or(Wait::Resources { until: None }, |needs| Wait::Band {
            needs,
            left: (band.high() - draw).at_least_zero(),
            until: None,
        });
        Verdict::Wait { wait, holds: true }
    }

    /// The ways on which the job fits now, in order of nodes and units; `whole`: on units that no job is on.
    fn fit_now<'o>(&self, future: &Future<'_>, offers: &'o [Offer], respect: Respect, whole: bool) -> Vec<Found<'o>> {
        let now = self.view.now();
        let fits =
            |offer: &'o Offer| offer.find(future, &self.pools, Ask { whole, latest: now, ..offer.ask(now, respect) });
        let mut found: Vec<Found<'o>> = offers.iter().filter_map(fits).filter(|found| found.at == now).collect();
        found.sort_unstable_by_key(|found| found.first);
        found
    }

    fn first_fit(&self, composition: &Composition, ways: &Ways) -> Verdict {
        let now = self.view.now();
        let starts = self.starts(composition, ways, now);
        let first = starts.iter().min_by_key(|found| found.at);
        if let Some(choice) = first.filter(|found| found.at == now).and_then(|found| self.choice(found)) {
            return Verdict::Start(choice);
        }
        self.later(composition, ways, first)
    }

    /// The first time from `from` on at which the job delays nothing that is running or planned, on one way.
    pub(super) fn earliest<'o>(&self, composition: &Composition, offer: &'o Offer, from: Time) -> Option<Found<'o>> {
        self.earliest_for(offer, offer.ask(from, composition.respect()))
    }

    /// The same for what is asked.
    pub(super) fn earliest_for<'o>(&self, offer: &'o Offer, ask: Ask) -> Option<Found<'o>> {
        offer.find(&self.planned, &self.pools, ask)
    }

    /// The same on each way, in order of nodes and units.
    pub(super) fn starts<'o>(&self, composition: &Composition, offers: &'o [Offer], from: Time) -> Vec<Found<'o>> {
        let mut found: Vec<Found<'o>> =
            offers.iter().filter_map(|offer| self.earliest(composition, offer, from)).collect();
        found.sort_unstable_by_key(|found| found.first);
        found
    }

    /// Where the job then is.
    pub(super) fn choice(&self, found: &Found<'_>) -> Option<Choice> {
        found.choice(&self.planned, &self.pools)
    }

    /// The verdict for a job whose best start is `best`, which is not now.
    pub(super) fn later(&self, composition: &Composition, ways: &Ways, best: Option<&Found<'_>>) -> Verdict {
        let wait = self.obstacle(composition, ways, best.map(|found| found.at));
        match best.and_then(|found| Some((found.at, self.choice(found)?))) {
            Some((at, choice)) => Verdict::Later { choice, at, wait },
            None => Verdict::Wait { wait, holds: composition.order == Order::Strict },
        }
    }

    /// What stands against starting on any way now; `until` is when the job is expected to start.
    pub(super) fn obstacle(&self, composition: &Composition, ways: &Ways, until: Option<Time>) -> Wait {
        if !self.tells {
            return Wait::Resources { until };
        }
        let against = match self.plan.starts.is_empty() {
            true => *ways.against.get_or_init(|| self.against(composition, ways)),
            false => self.against(composition, ways),
        };
        match (against, self.reserved.first()) {
            (Against::Band { needs, left }, _) => Wait::Band { needs, left, until },
            (Against::Room, _) => Wait::Resources { until },
            (Against::Others, Some(first)) => Wait::Behind { job: first.job, until: Some(first.at) },
            // Suspended jobs are planned before all that wait.
            (Against::Others, None) => match self.view.index().suspended.first() {
                Some(job) => Wait::Behind { job: *job, until: None },
                None => Wait::Resources { until },
            },
        }
    }

    fn against(&self, composition: &Composition, offers: &[Offer]) -> Against {
        let free = self.fit_now(&self.actual, offers, Respect::Resources, false);
        let Some(least) = free.iter().map(|found| found.offer).min_by_key(|offer| offer.estimate.power) else {
            return Against::Room;
        };
        let now = self.view.now();
        let powered = |offer: &Offer| {
            let ask = Ask { latest: now, ..offer.ask(now, Respect::ResourcesAndBand) };
            offer.find(&self.actual, &self.pools, ask).is_some()
        };
        if composition.admission == Admission::Band && !free.iter().any(|found| powered(found.offer)) {
            let left = self.actual.headroom_for(least.estimate.duration).at_least_zero();
            return Against::Band { needs: least.estimate.power, left };
        }
        Against::Others
    }

    fn record(&mut self, composition: &Composition, (id, job): (JobId, &Job), verdict: Verdict) {
        let wait = match verdict {
            Verdict::Start(choice) => return self.start(id, choice),
            Verdict::Wait { wait, .. } | Verdict::Later { wait, .. } if job.request.immediate => {
                self.plan.refusals.push((id, wait));
                return;
            }
            Verdict::Later { choice, at, wait } => {
                match composition.order {
                    Order::Strict => self.holder = self.holder.or(Some(id)),
                    Order::Conservative => {
                        self.planned.plan(&choice, at);
                        self.reserved.push(Reserved { job: id, at });
                    }
                }
                wait
            }
            Verdict::Wait { wait, holds } => {
                if holds {
                    self.holder = self.holder.or(Some(id));
                }
                wait
            }
        };
        match self.tells {
            true => self.plan.waits.push((id, wait)),
            false => self.plan.is_unfinished = true,
        }
    }

    /// The next start that is planned for its price: it may be at no event.
    fn next_by_price(&self) -> Option<Time> {
        self.view.prices()?;
        let waits_for_it = |request: &Request| request.deadline.is_some() || request.start_by.is_some();
        let planned = self.reserved.iter().filter(|of| of.at > self.view.now());
        planned.filter(|of| self.view.job(of.job).is_some_and(|job| waits_for_it(&job.request))).map(|of| of.at).min()
    }

    /// Whether a job was told to wait for such a reason.
    pub fn has_wait(&self, is: impl Fn(&Wait) -> bool) -> bool {
        self.plan.waits.iter().any(|(_, wait)| is(wait))
    }

    fn start(&mut self, id: JobId, choice: Choice) {
        let now = self.view.now();
        self.actual.plan(&choice, now);
        self.planned.plan(&choice, now);
        self.started += choice.estimate.power;
        let others = self.pools.take(&self.view, &choice.placement);
        self.ways.forget(others);
        self.plan.starts.push(Start { job: id, placement: choice.placement, estimate: choice.estimate });
    }
}
