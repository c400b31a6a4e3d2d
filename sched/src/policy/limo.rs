//! `limo`: the concept of limo-2018, section 3.1.3 and Figure 3.4, with forecast and deadlines.
//!
//! Idea: while energy is dear (low mode) a job goes where it needs least energy, and only as many run as hold the lower
//! limit; while it is cheap (high mode) it goes where it ends soonest, up to the upper limit. A job that may wait (it has
//! a deadline or a latest start) is planned for the cheapest hour in its reach. The upper limit is strict: a job starts
//! only where the draw with it stays below the limit, less a reserve, for all of its expected duration, as far as the
//! limits are known; so a limit that falls finds no job above it. The lower limit is held by best effort, `lead` ahead
//! of an expected end.
//! Sparing: section 3.1.3 asks "to stay at the lower power limit, to avoid running out of executable jobs" if there are
//! just a few. Where the energy of the queue is less than what holding the lower limit needs until the end of what is
//! known, the bottom of the band is aimed for in the high mode too; while energy has a negative price each job then goes
//! where it needs most of it.
//! Constraints: a later job passes an earlier one only where that does not delay the earlier one's planned start. A job
//! without deadline waits for the mode at most `max_delay`; after that, and from a job's latest start on, it is pressed:
//! only room can hold it back. `--immediate` looks at room only.
//! Ignores: what the end of the known prices may bring; jobs further back than `depth`.
//! Cost: jobs looked at x units x running and planned jobs.
//! Options: `price_rule`, `price_hysteresis`, `reserve_permille`, `lead`, `max_delay`, `depth` ([`crate::Options`]).

use limo_model::{Energy, JobId, Money, Price, Request, Span, Time};

use super::compose::{Admission, Caps, Composition, Desk, Order, Placement, Verdict};
use crate::account::cost_of;
use crate::options::Mode;
use crate::round::Wait;
use crate::state::Job;
use crate::view::{Choice, View};

pub(super) static LIMO: Composition = Composition {
    order: Order::Conservative,
    admission: Admission::Band,
    placement: Placement::ByPrice,
    caps: Caps::FromProfile,
};

/// Holding the lower limit takes more than the energy between idle draw and limit, since a draw that is a sum of jobs
/// lies above the limit most of the time: by half of a typical job, which is about a quarter of the need for bands like
/// those of limo-2018, Table 4.6.
const SPARING_PERMILLE: i64 = 1_250;

/// A deadline is kept with a tenth of the expected duration to spare: profiles have a spread.
const DEADLINE_SLACK: i64 = 10;

/// What this round aims for.
pub(super) struct Aim {
    /// The bottom of the band, where there is one.
    bottom: bool,
    /// Because the queue is too short, not because energy is dear.
    sparing: bool,
}

impl Aim {
    pub(super) fn of(view: &View<'_>, composition: &Composition) -> Self {
        if composition.placement != Placement::ByPrice {
            return Self { bottom: false, sparing: false };
        }
        let has_low = !view.band().low().is_zero();
        let sparing = view.mode() == Mode::High && is_sparing(view, composition);
        Self { bottom: has_low && (sparing || view.mode() == Mode::Low), sparing }
    }

    pub(super) fn decide(
        &self,
        desk: &Desk<'_>,
        composition: &Composition,
        (_, job): (JobId, &Job),
        choices: &[Choice],
    ) -> Verdict {
        let now = desk.view.now();
        let pressed = job.request.immediate || is_pressed(&desk.view, job, choices);
        if !pressed && let Some(holder) = desk.holder {
            return Verdict::Wait { wait: Wait::Behind { job: holder, until: None }, holds: false };
        }
        let flexible = job.request.deadline.is_some() || job.request.start_by.is_some();
        if !pressed && flexible && desk.view.prices().is_some() {
            return cheapest(desk, composition, &job.request, choices);
        }
        if !pressed && self.bottom && desk.holds_lower_limit() {
            let (draw, low) = (desk.actual.draw_at(now), desk.view.band().low());
            let wait = match self.sparing {
                true => Wait::Sparing { draw, low },
                false => Wait::LowMode { draw, low, price: desk.view.price() },
            };
            return Verdict::Wait { wait, holds: true };
        }
        let starts: Vec<(Time, &Choice)> = choices
            .iter()
            .filter_map(|choice| {
                desk.planned.earliest(&desk.view, choice, now, composition.respect()).map(|at| (at, choice))
            })
            .collect();
        self.choose(desk, composition, &starts, pressed)
    }

    /// By price: least energy or shortest time (Figure 3.4); below the lower limit only what can start now.
    fn choose(&self, desk: &Desk<'_>, composition: &Composition, starts: &[(Time, &Choice)], pressed: bool) -> Verdict {
        let now = desk.view.now();
        let startable = || starts.iter().filter(|(at, _)| *at == now).map(|(_, choice)| *choice);
        let frugal = self.bottom || desk.view.mode() == Mode::Low;
        let start_now = if frugal && !pressed {
            startable().min_by_key(|choice| (self.expense(desk, choice), choice.estimate.duration))
        } else {
            startable().min_by_key(|choice| (choice.estimate.duration, choice.estimate.energy))
        };
        let soonest_end = starts.iter().min_by_key(|(at, choice)| (*at + choice.estimate.duration, *at));
        match (start_now, soonest_end) {
            (Some(choice), Some((at, other))) => {
                let worth_waiting = !frugal
                    && *at > now
                    && *at + other.estimate.duration < now + choice.estimate.duration
                    && desk.holds_lower_limit();
                match worth_waiting {
                    true => Verdict::Later { choice: **other, at: *at, wait: Wait::Sooner { until: *at } },
                    false => Verdict::Start(*choice),
                }
            }
            _ => {
                let first = starts.iter().min_by_key(|(at, choice)| (*at, choice.estimate.energy));
                desk.later(composition, first.map(|(at, choice)| (*at, *choice)))
            }
        }
    }

    /// What a choice is ranked by where energy counts: the energy; while sparing at a negative price the energy that
    /// somebody pays us to take, so the most comes first.
    fn expense(&self, desk: &Desk<'_>, choice: &Choice) -> Energy {
        let paid_for = self.sparing && desk.view.price().is_some_and(|price| price < Price::ZERO);
        if paid_for { -choice.estimate.energy } else { choice.estimate.energy }
    }

    /// While the bottom is aimed for: when the draw is expected to fall below it, less the lead.
    pub(super) fn look_again(&self, desk: &Desk<'_>) -> Option<Time> {
        desk.holder.filter(|_| self.bottom)?;
        let below = desk.actual.first_below(desk.view.band().low())?;
        Some(below - desk.view.options().lead)
    }
}

impl Desk<'_> {
    /// Whether the draw is expected to be at or above the lower limit now and, `lead` ahead, still.
    fn holds_lower_limit(&self) -> bool {
        let now = self.view.now();
        let low = self.view.band().low();
        [now, now + self.view.options().lead].into_iter().all(|at| self.actual.draw_at(at) >= low)
    }
}

/// The last moment at which `choice` may start.
fn latest_start(request: &Request, choice: &Choice) -> Option<Time> {
    let duration = choice.estimate.duration;
    let to_end = request.deadline.map(|deadline| deadline - duration - duration.scaled(1, DEADLINE_SLACK));
    [to_end, request.start_by].into_iter().flatten().min()
}

/// Whether the price must not hold the job back any more.
fn is_pressed(view: &View<'_>, job: &Job, choices: &[Choice]) -> bool {
    let latest = choices.iter().filter_map(|choice| latest_start(&job.request, choice)).max();
    view.now() - job.submitted >= view.options().max_delay || latest.is_some_and(|latest| latest <= view.now())
}

/// For a job that may wait: the start in its reach that costs least; of equal ones the earliest, then the one with least
/// energy. Candidates are the earliest possible start and every later change of the price.
fn cheapest(desk: &Desk<'_>, composition: &Composition, request: &Request, choices: &[Choice]) -> Verdict {
    let (now, prices) = (desk.view.now(), desk.view.prices());
    let mut best: Option<(Money, Time, Energy, &Choice)> = None;
    for choice in choices {
        let latest = latest_start(request, choice).unwrap_or(now);
        let steps = prices.into_iter().flat_map(|prices| prices.steps()).map(|(at, _)| *at);
        for from in std::iter::once(now).chain(steps.filter(|at| now < *at && *at <= latest)) {
            let Some(at) = desk.planned.earliest(&desk.view, choice, from, composition.respect()) else { continue };
            if at > latest && at > now {
                continue;
            }
            let cost = cost_of(choice.estimate.energy, at, choice.estimate.duration, prices);
            let rank = (cost, at, choice.estimate.energy);
            if best.is_none_or(|(cost, at, energy, _)| rank < (cost, at, energy)) {
                best = Some((cost, at, choice.estimate.energy, choice));
            }
        }
    }
    match (best, prices) {
        (Some((_, at, _, choice)), _) if at == now => Verdict::Start(*choice),
        (Some((_, at, _, choice)), Some(prices)) => {
            // It waits for the price where it could start now; else for room.
            let possible = desk.planned.earliest(&desk.view, choice, now, composition.respect()) == Some(now);
            let wait = match possible {
                true => Wait::Price { now: *prices.at(now), then: *prices.at(at), at },
                false => desk.obstacle(composition, choice, Some(at)),
            };
            Verdict::Later { choice: *choice, at, wait }
        }
        _ => {
            let start = |choice| desk.planned.earliest(&desk.view, choice, now, composition.respect());
            let starts = choices.iter().filter_map(|choice| start(choice).map(|at| (at, choice)));
            desk.later(composition, starts.min_by_key(|(at, _)| *at))
        }
    }
}

/// Whether the jobs at hand, each where it needs least energy, would not last to hold the lower limit while limits and
/// prices are known. With a queue longer than a round looks, or nothing known, there is nothing to spare.
fn is_sparing(view: &View<'_>, composition: &Composition) -> bool {
    let horizon = [view.limits().until(), view.prices().and_then(limo_model::Curve::until)].into_iter().flatten().min();
    let Some(horizon) = horizon.filter(|until| *until > view.now()) else { return false };
    if view.queue_length() > view.options().depth as usize {
        return false;
    }
    let (now, idle) = (view.now(), view.idle());
    let need: Energy = view
        .limits()
        .pieces(now, horizon)
        .map(|(start, end, band)| (band.low() - idle).at_least_zero() * (end - start))
        .sum();
    let least = |job: &Job| {
        let choices = view.choices(&job.request, composition.caps == Caps::FromProfile, |_| true);
        choices.iter().map(|choice| choice.estimate.energy).min().unwrap_or(Energy::ZERO)
    };
    let waiting: Energy = view.queue().map(|(_, job)| least(job)).sum();
    let remaining = |job: &Job| {
        let (Some(assignment), Some(end)) = (job.assignment(), job.expected_end(now)) else { return Energy::ZERO };
        assignment.estimate.power * (end - now).max(Span::ZERO)
    };
    let running: Energy = view.active().map(|(_, job)| remaining(job)).sum();
    waiting + running < need.scaled(SPARING_PERMILLE, 1_000)
}
