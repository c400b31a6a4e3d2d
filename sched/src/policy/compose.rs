//! Order x admission x placement x caps: the parts of which the presets are made, and the one loop that runs them.
//!
//! The loop goes through the queue once. Each job is started, or gets a reason to wait; with [`Order::Conservative`] it
//! also gets a planned start, which no later job may delay. Decides nothing about the price: that is [`super::limo`].

use std::collections::BTreeMap;

use limo_model::{JobId, Power, Request, Span, Time, UnitId};

use super::{Policy, limo, prototype};
use crate::apply::draw_if_on;
use crate::estimate::{Known, under_cap};
use crate::plan::{Plan, Start};
use crate::round::Wait;
use crate::state::{Job, Phase};
use crate::timeline::{Reserved, Respect, Timeline};
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
pub(super) enum Caps {
    None,
    /// Also at each cap of which there is a profile.
    FromProfile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Composition {
    pub order: Order,
    pub admission: Admission,
    pub placement: Placement,
    pub caps: Caps,
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

/// A plan in the making.
pub(super) struct Desk<'a> {
    pub view: View<'a>,
    /// Running jobs and the starts of this plan.
    pub actual: Timeline<'a>,
    /// The same and what is planned for later.
    pub planned: Timeline<'a>,
    pub reserved: Vec<Reserved>,
    /// The first job that holds back those behind it.
    pub holder: Option<JobId>,
    /// What the jobs that this plan starts add to the draw, and the caps of their units.
    started: Power,
    caps: BTreeMap<UnitId, Option<Power>>,
    plan: Plan,
}

impl Policy for Composition {
    fn plan(&self, view: &View<'_>) -> Plan {
        let actual = Timeline::new(view);
        let mut planned = actual.clone();
        for (draw, rest) in suspended(view) {
            planned.plan_resume(draw, rest);
        }
        let mut desk = Desk {
            view: *view,
            actual,
            planned,
            reserved: Vec::new(),
            holder: None,
            started: Power::ZERO,
            caps: BTreeMap::new(),
            plan: Plan::default(),
        };
        let aim = limo::Aim::of(view, self);
        // Fillers come after all others: they take what is left over.
        let (fillers, jobs): (Vec<_>, Vec<_>) = view.queue().partition(|(_, job)| job.request.filler);
        for (id, job) in jobs.into_iter().chain(fillers) {
            let verdict = self.decide(&desk, &aim, (id, job));
            desk.record(self, (id, job), verdict);
        }
        // A start planned for the end of a running job needs no waking: that end is an event.
        let times = [next_change(view), aim.look_again(&desk, self)];
        let soonest = view.now() + Span::from_ms(1);
        desk.plan.wake_at = times.into_iter().flatten().min().map(|at| at.max(soonest));
        desk.plan
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
    let limits = view.limits().next_step(view.now());
    let prices = view.prices().and_then(|prices| prices.next_step(view.now()));
    [suspects, limits, prices].into_iter().flatten().min()
}

impl Composition {
    fn decide(&self, desk: &Desk<'_>, aim: &limo::Aim, (id, job): (JobId, &Job)) -> Verdict {
        let mut choices = self.choices(&desk.view, &job.request);
        desk.share_caps(&job.request, &mut choices);
        if choices.is_empty() {
            return Verdict::Wait { wait: Wait::NoNode, holds: false };
        }
        if self.order == Order::Strict
            && let Some(holder) = desk.holder
        {
            return Verdict::Wait { wait: Wait::Behind { job: holder, until: None }, holds: false };
        }
        match (self.admission, self.placement) {
            (Admission::Prototype, _) => desk.by_algorithm_3_3(&choices),
            (_, Placement::ByPrice) => aim.decide(desk, self, (id, job), &choices),
            (_, Placement::FirstFit) => desk.first_fit(self, &choices),
        }
    }

    /// Every way to run the job on nodes that take jobs.
    pub(super) fn choices(&self, view: &View<'_>, request: &Request) -> Vec<Choice> {
        let available = |node: &crate::state::Node| node.is_available(view.now());
        view.choices(request, self.caps == Caps::FromProfile, available)
    }

    pub(super) fn respect(&self) -> Respect {
        match self.admission {
            Admission::Resources | Admission::Prototype => Respect::Resources,
            Admission::Band => Respect::ResourcesAndBand,
        }
    }
}

impl Desk<'_> {
    /// A unit has one cap: on one on which this plan starts a job there is no choice of caps any more.
    fn share_caps(&self, request: &Request, choices: &mut Vec<Choice>) {
        if self.caps.is_empty() {
            return;
        }
        for choice in choices.iter_mut() {
            if let Some(cap) = self.caps.get(&choice.unit()).filter(|cap| **cap != choice.part.cap)
                && let Some((_, unit)) = self.view.unit(choice.unit())
            {
                choice.part.cap = *cap;
                choice.estimate = under_cap(Known::of(self.view.state()), request, unit, (*cap, 1_000));
            }
        }
        choices.dedup();
    }

    /// The draw as limo-2018's prototype knows it, with what this plan has started.
    fn prototype_draw(&self) -> Power {
        self.view.estimated_draw() + self.started
    }

    fn by_algorithm_3_3(&self, choices: &[Choice]) -> Verdict {
        let (mode, band, draw) = (self.view.mode(), self.view.band(), self.prototype_draw());
        if !prototype::may_dispatch(mode, draw, band) {
            let wait = Wait::LowMode { draw, low: band.low(), price: self.view.price() };
            return Verdict::Wait { wait, holds: true };
        }
        let idle: Vec<&Choice> = choices.iter().filter(|choice| self.is_idle(choice)).collect();
        let admitted = idle.iter().find(|choice| prototype::admits(mode, draw, choice.estimate.power, band));
        if let Some(choice) = admitted {
            return Verdict::Start(**choice);
        }
        let least = idle.iter().map(|choice| choice.estimate.power).min();
        let wait = least.map_or(Wait::Resources { until: None }, |needs| Wait::Band {
            needs,
            left: (band.high() - draw).at_least_zero(),
            until: None,
        });
        Verdict::Wait { wait, holds: true }
    }

    /// Whether no job is on the unit, in the state or in this plan.
    fn is_idle(&self, choice: &Choice) -> bool {
        let now = self.view.now();
        let whole = self.view.unit(choice.unit()).map(|(_, unit)| unit.cores);
        let part = limo_model::Part { cores: whole.unwrap_or(u32::MAX), ..choice.part };
        let whole = Choice { part, ..*choice };
        self.actual.earliest(&self.view, &whole, now, Respect::Resources) == Some(now)
    }

    fn first_fit(&self, composition: &Composition, choices: &[Choice]) -> Verdict {
        let now = self.view.now();
        let mut best: Option<(Time, &Choice)> = None;
        for choice in choices {
            let Some(at) = self.earliest(composition, choice, now) else { continue };
            if at == now {
                return Verdict::Start(*choice);
            }
            if best.is_none_or(|(earliest, _)| at < earliest) {
                best = Some((at, choice));
            }
        }
        self.later(composition, choices, best)
    }

    /// The first time from `from` on at which `choice` delays nothing that is running or planned.
    pub(super) fn earliest(&self, composition: &Composition, choice: &Choice, from: Time) -> Option<Time> {
        self.planned.earliest(&self.view, choice, from, composition.respect())
    }

    /// The verdict for a job whose best start is `best`, which is not now.
    pub(super) fn later(
        &self,
        composition: &Composition,
        choices: &[Choice],
        best: Option<(Time, &Choice)>,
    ) -> Verdict {
        let wait = self.obstacle(composition, choices, best.map(|(at, _)| at));
        match best {
            Some((at, choice)) => Verdict::Later { choice: *choice, at, wait },
            None => Verdict::Wait { wait, holds: composition.order == Order::Strict },
        }
    }

    /// What stands against starting on any of `choices` now; `until` is when the job is expected to start.
    pub(super) fn obstacle(&self, composition: &Composition, choices: &[Choice], until: Option<Time>) -> Wait {
        let now = self.view.now();
        let fits = |choice: &&Choice, respect| self.actual.earliest(&self.view, choice, now, respect) == Some(now);
        let free = || choices.iter().filter(|choice| fits(choice, Respect::Resources));
        let Some(least) = free().min_by_key(|choice| choice.estimate.power) else {
            return Wait::Resources { until };
        };
        if composition.admission == Admission::Band && !free().any(|choice| fits(&choice, Respect::ResourcesAndBand)) {
            let left = self.actual.headroom_for(least).at_least_zero();
            return Wait::Band { needs: least.estimate.power, left, until };
        }
        match self.reserved.first() {
            Some(first) => Wait::Behind { job: first.job, until: Some(first.at) },
            None => Wait::Resources { until },
        }
    }

    fn record(&mut self, composition: &Composition, (id, job): (JobId, &Job), verdict: Verdict) {
        let wait = match verdict {
            Verdict::Start(choice) => return self.start(id, &choice),
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
        self.plan.waits.push((id, wait));
    }

    fn start(&mut self, id: JobId, choice: &Choice) {
        let now = self.view.now();
        self.actual.plan(choice, now);
        self.planned.plan(choice, now);
        self.started += choice.estimate.power;
        self.caps.insert(choice.unit(), choice.part.cap);
        self.plan.starts.push(Start { job: id, placement: choice.placement(), estimate: choice.estimate });
    }
}
