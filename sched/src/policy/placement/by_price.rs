//! `limo`: the concept of limo-2018, section 3.1.3 and Figure 3.4, with forecast and deadlines.
//!
//! Idea: while energy is expensive (low mode), a job goes to the unit on which it needs the least energy. Only enough
//! jobs run to hold the lower limit. While energy is cheap (high mode), a job goes to the unit on which it ends
//! soonest, up to the upper limit. Below the band, units that bring the draw into it are preferred over both. If
//! there is no such unit, one is capped so that the job fits. A job that may wait (it has a deadline or a latest
//! start) is planned for the cheapest possible hour. The upper limit is strict. A job starts only if the draw stays
//! below the limit minus a reserve for all of its expected duration, as far as the limits are known. So no job
//! exceeds a falling limit. The lower limit is held by best effort, `lead` ahead of an expected end. Below it, if no
//! other job can start, a job that may be suspended starts even if the upper limit will fall during its run. Without
//! a lower limit the bottom of the band is zero: while energy is expensive, jobs wait. Sparing: if only a few jobs
//! are executable, section 3.1.3 asks "to stay at the lower power limit, to avoid running out of executable jobs".
//! The available jobs may have less energy than the lower limit needs for `sparing` from now on. The bottom of the
//! band is then the target in the high mode as well. Each job then goes to the unit on which it holds the lower limit
//! with the most energy, because draw beyond the limit is wasted. A candidate that does not reach the band is used
//! only if other units can do the rest. Fillers (limo-2018, section 3.3.3: ad-hoc jobs that hold the lower limit)
//! start after all others, and only below it. Constraints: a later job passes an earlier one only without a delay of
//! the earlier one's planned start. A job without a deadline waits for the mode for the time from `weigh`, limited to
//! `max_delay`. After that, and from a job's latest start on, it is pressed: it waits for free resources only.
//! `--immediate` considers free resources only. Ignores: prices after the known ones; jobs beyond `depth`. Cost:
//! considered jobs x (kinds of units x nodes + running and planned jobs). `weigh` computes the cost of a start.
//! Options: `waiting_weight`, `band_weight`, `sparing`, `price_rule`, `price_hysteresis`, `reserve_permille`, `lead`,
//! `max_delay`, `depth` ([`crate::Options`]).

use limo_model::{CapRule, Energy, Mode, ModeSetting, Money, Parts, PlacementRule, Power, Request, Span, Time, Wait};

use super::offers::{AllWays, Ask, Found, Offer, Pools};
use super::weigh::{patience, weigh};
use crate::options::Preempt;
use crate::plan::Plan;
use crate::policy::order::{AskedJob, Decision, PlanBuilder};
use crate::state::{Clock, Job};
use crate::view::View;

/// Factor for the energy needed to hold the lower limit, in thousandths. The draw is a sum of jobs, so it is above
/// the limit most of the time, by half of a typical job. For bands as in limo-2018, Table 4.6, this is about a
/// quarter of the need.
const SPARING_PERMILLE: i64 = 1_250;

/// Part of the expected duration, one tenth, that must be left before a deadline, because profiles have a spread.
const DEADLINE_SLACK: i64 = 10;

/// Returns true if the target is the bottom of the band.
pub(in crate::policy) fn aims_low(view: &View<'_>) -> bool {
    Aim::of(view, view.parts()).bottom
}

/// The target of this round.
pub(in crate::policy) struct Aim {
    /// True if the target is the bottom of the band.
    bottom: bool,
    /// True if the reason is a short queue, and not expensive energy.
    sparing: bool,
    /// Time for which a job waits for the mode.
    patience: Span,
}

impl Aim {
    pub(in crate::policy) fn of(view: &View<'_>, parts: Parts) -> Self {
        if parts.placement != PlacementRule::ByPrice {
            return Self { bottom: false, sparing: false, patience: Span::ZERO };
        }
        let has_low = !view.band().low().is_zero();
        let sparing = has_low && is_sparing(view, parts);
        let low_mode = view.mode() == Mode::Low && (has_low || is_dear(view));
        Self { bottom: sparing || low_mode, sparing, patience: patience(view) }
    }

    pub(in crate::policy) fn decide(&self, builder: &PlanBuilder<'_>, asked: AskedJob<'_>) -> Decision {
        let AskedJob { job, ways, .. } = asked;
        let now = builder.view.now();
        if job.request.filler {
            return self.fill(builder, asked);
        }
        let pressed = job.request.immediate || self.pressed_at(job, builder.view.clock(), ways) <= now;
        if !pressed && let Some(holder) = builder.holder {
            return Decision::Wait { wait: Wait::Behind { job: holder, until: None }, holds: false };
        }
        let flexible = job.request.deadline.is_some() || job.request.start_by.is_some();
        if !pressed && flexible && builder.view.price().is_some() {
            return cheapest(builder, asked);
        }
        if !pressed && self.bottom && builder.holds_lower_limit() {
            return self.hold(builder);
        }
        let mut starts = builder.starts(ways, now);
        let fitted = self.fitted(builder, asked, &starts);
        starts.extend(fitted.iter().filter_map(|offer| builder.earliest(offer, now)));
        let ahead = || builder.actual.draw_at(now) >= builder.view.band().low();
        let lands = |found: &Found<'_>| found.at == now && builder.lands(found.offer);
        if !pressed && self.bottom && ahead() && !starts.iter().any(lands) {
            return self.hold(builder);
        }
        let verdict = self.choose(builder, &starts, pressed);
        verdict.or_else(|| until_the_fall(builder, asked)).unwrap_or_else(|| {
            let first = starts.iter().min_by_key(|found| (found.at, found.offer.estimate.energy));
            builder.later(asked, first)
        })
    }

    /// Handles a filler: it starts if the draw is below the lower limit, on the unit with the highest draw, so that
    /// few fillers suffice.
    fn fill(&self, builder: &PlanBuilder<'_>, asked: AskedJob<'_>) -> Decision {
        let ways = asked.ways;
        let now = builder.view.now();
        if builder.holds_lower_limit() {
            let (draw, low) = (builder.actual.draw_at(now), builder.view.band().low());
            return Decision::Wait { wait: Wait::Filler { draw, low }, holds: false };
        }
        let starts = builder.starts(ways, now);
        let fits = starts.iter().filter(|found| found.at == now);
        let most = fits.max_by_key(|found| (found.offer.estimate.power, std::cmp::Reverse(found.first)));
        match most.and_then(|found| builder.choice(found)) {
            Some(choice) => Decision::Start(choice),
            None => Decision::Wait { wait: builder.obstacle(asked, None), holds: false },
        }
    }

    /// Returns candidates for a draw below the lower limit if no job can reach the limit now. They are on units that
    /// can be capped, at the cap at which the job fits.
    fn fitted(
        &self,
        builder: &PlanBuilder<'_>,
        AskedJob { job, ways, .. }: AskedJob<'_>,
        starts: &[Found<'_>],
    ) -> Vec<Offer> {
        let (view, now, low) = (&builder.view, builder.view.now(), builder.view.band().low());
        let reaches = |found: &Found<'_>| found.at == now && builder.lands(found.offer);
        if builder.parts.caps != CapRule::Moved || builder.holds_lower_limit() || starts.iter().any(reaches) {
            return Vec::new();
        }
        let gap = low - builder.trough() + low.scaled(i64::from(view.options().reserve_permille), 1_000);
        let fit = |offer: &Offer| {
            let slower = offer.fitted(view, &job.request, gap)?;
            let room = builder.planned.headroom_for(slower.estimate.duration);
            (slower.estimate.power <= room).then_some(slower)
        };
        ways.iter().filter_map(fit).collect()
    }

    /// Decides for a job while the bottom of the band is the target. The draw has reached it, or is below it only for
    /// a moment that no start would change.
    fn hold(&self, builder: &PlanBuilder<'_>) -> Decision {
        let (draw, low) = (builder.actual.draw_at(builder.view.now()), builder.view.band().low());
        let wait = match builder.view.mode() {
            Mode::High => Wait::Sparing { draw, low, ahead: builder.view.options().sparing },
            Mode::Low => Wait::LowMode { draw, low, price: builder.view.price() },
        };
        Decision::Wait { wait, holds: true }
    }

    /// Chooses by price: the least energy or the shortest time (Figure 3.4). If the draw is below the band, a
    /// candidate that brings it into the band comes first. Otherwise small jobs that do not reach the band would take
    /// its power. Returns `None` if no candidate can start now. If one can and the draw is not below the lower limit,
    /// waiting for a faster unit may still be better.
    fn choose(&self, builder: &PlanBuilder<'_>, starts: &[Found<'_>], pressed: bool) -> Option<Decision> {
        let now = builder.view.now();
        let startable = || starts.iter().filter(|found| found.at == now);
        let estimate = |found: &Found<'_>| found.offer.estimate;
        let frugal = self.bottom || builder.view.mode() == Mode::Low;
        let start_now = if self.sparing && !pressed {
            spare(builder, &startable().collect::<Vec<_>>())
        } else if frugal && !pressed {
            startable()
                .min_by_key(|found| (!builder.lands(found.offer), estimate(found).energy, estimate(found).duration))
        } else {
            startable()
                .min_by_key(|found| (!builder.lands(found.offer), estimate(found).duration, estimate(found).energy))
        };
        let end = |found: &Found<'_>| found.at + estimate(found).duration;
        let soonest_end = starts.iter().min_by_key(|found| (end(found), found.at));
        let (start, other) = (start_now?, soonest_end?);
        let worth_waiting = !frugal && other.at > now && end(other) < end(start) && builder.holds_lower_limit();
        Some(match worth_waiting {
            true => {
                Decision::Later { choice: builder.choice(other)?, at: other.at, wait: Wait::Sooner { until: other.at } }
            }
            false => Decision::Start(builder.choice(start)?),
        })
    }

    /// Returns the time from which the job no longer waits for the price. This is its latest start on the unit with
    /// the latest one. Without a latest start it is the end of its patience, and at the latest the end of
    /// `max_delay`.
    fn pressed_at(&self, job: &Job, clock: &Clock, offers: &[Offer]) -> Time {
        let latest = offers.iter().filter_map(|offer| latest_start(&job.request, clock, offer)).max();
        let start_by = job.request.start_by.map(|at| clock.cluster(at));
        [latest, start_by, Some(job.eligible() + self.patience)].into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// Returns the time at which a waiting job becomes pressed, or no longer waits because the draw holds the lower
    /// limit.
    pub(in crate::policy) fn look_again<'a>(&self, builder: &PlanBuilder<'a>, plan: &Plan) -> Option<Time> {
        if builder.parts.placement != PlacementRule::ByPrice {
            return None;
        }
        let view = &builder.view;
        let pressed_at = |job: &'a Job| {
            // The place matters only for a deadline.
            let ways = job.request.deadline.map(|_| builder.ways(&job.request));
            self.pressed_at(job, view.clock(), ways.as_deref().map_or(&[], |ways| ways))
        };
        let pressed = view.queue().map(|(_, job)| pressed_at(job)).filter(|at| *at > view.now()).min();
        // The job waits for a faster unit only while the lower limit is held.
        let holds = (self.bottom && builder.holder.is_some())
            || plan.waits.iter().any(|(_, wait)| matches!(wait, Wait::Sooner { .. }));
        let below = if holds { builder.actual.first_below(view.band().low()) } else { None };
        let ahead = |below: Time| Some(below - view.options().lead).filter(|at| *at > view.now()).unwrap_or(below);
        [pressed, below.map(ahead)].into_iter().flatten().min()
    }
}

impl PlanBuilder<'_> {
    /// Returns the lower of the draw now and the one expected `lead` ahead.
    fn trough(&self) -> Power {
        let now = self.view.now();
        self.actual.draw_at(now).min(self.actual.draw_at(now + self.view.options().lead))
    }

    fn holds_lower_limit(&self) -> bool {
        self.trough() >= self.view.band().low()
    }

    /// Returns true if the draw with `choice` is not below the band.
    fn lands(&self, offer: &Offer) -> bool {
        self.trough() + offer.estimate.power >= self.view.band().low()
    }

    /// Returns true if the draw reaches the lower limit, which is `gap` above it, with `offer` and some others. These
    /// have the given draws, the largest first.
    fn reaches(&self, gap: Power, offer: &Offer, others: impl Iterator<Item = Power>) -> bool {
        let mut others: Vec<Power> = others.collect();
        others.sort_unstable_by_key(|power| std::cmp::Reverse(*power));
        let (mut gap, mut room) = (gap - offer.estimate.power, self.planned.headroom_for(Span::ZERO));
        room -= offer.estimate.power;
        for power in others {
            if gap > Power::ZERO && power <= room {
                (gap, room) = (gap - power, room - power);
            }
        }
        gap <= Power::ZERO
    }
}

/// Returns a start below the lower limit of a job that fits until the upper limit falls and can be suspended then.
/// The time must exceed `lead`; otherwise the start would have no effect. A suspended job continues before waiting
/// jobs start, so no job may wait before it.
fn until_the_fall(builder: &PlanBuilder<'_>, AskedJob { job, ways, .. }: AskedJob<'_>) -> Option<Decision> {
    let (now, view) = (builder.view.now(), &builder.view);
    let gives_way = job.request.may_suspend && view.options().preempt >= Preempt::Suspend;
    if !gives_way || !builder.reserved.is_empty() || builder.actual.draw_at(now) >= view.band().low() {
        return None;
    }
    let high = view.band().high();
    let fall = view.limits().bands(now).find(|(_, band)| band.high() < high).map(|(at, _)| at)?;
    if fall - now <= view.options().lead {
        return None;
    }
    let brief = |offer: &Offer| offer.estimate.duration.min(fall - now).max(Span::from_ms(1));
    let start = |offer| builder.earliest_for(offer, Ask { span: brief(offer), ..offer.ask(now, builder.respect()) });
    let mut starts: Vec<Found<'_>> = ways.iter().filter_map(start).filter(|found| found.at == now).collect();
    starts.sort_unstable_by_key(|found| found.first);
    let least = starts.iter().min_by_key(|found| (!builder.lands(found.offer), found.offer.estimate.power));
    least.and_then(|found| builder.choice(found)).map(Decision::Start)
}

/// Returns the last moment at which the job may start by this candidate.
fn latest_start(request: &Request, clock: &Clock, offer: &Offer) -> Option<Time> {
    let duration = offer.estimate.duration;
    let to_end = request.deadline.map(|at| clock.cluster(at) - duration - duration.scaled(1, DEADLINE_SLACK));
    [to_end, request.start_by.map(|at| clock.cluster(at))].into_iter().flatten().min()
}

/// Returns the possible start with the least weighed cost, for a job that may wait. Among equal ones it is the
/// earliest, then the one with the least energy. Possible starts are the earliest one and every later one for which
/// the price changes at the start or at the end. A start at a time without a known price comes last.
fn cheapest(builder: &PlanBuilder<'_>, asked: AskedJob<'_>) -> Decision {
    let AskedJob { job, ways, .. } = asked;
    let (now, prices) = (builder.view.now(), builder.view.prices());
    let mut best: Option<((bool, Money, Time, Energy), Found<'_>)> = None;
    for offer in ways.iter() {
        let latest = latest_start(&job.request, builder.view.clock(), offer).unwrap_or(now);
        let steps = prices.into_iter().flat_map(|prices| prices.steps()).map(|(at, _)| *at);
        let candidates = steps.flat_map(|at| [at - offer.estimate.duration, at]);
        for from in std::iter::once(now).chain(candidates.filter(|at| now < *at && *at <= latest)) {
            let found = builder.earliest(offer, from).filter(|found| found.at <= latest);
            let Some(found) = found else { continue };
            let draw = builder.planned.draw_at(found.at);
            let weighed = weigh(&builder.view, job.eligible(), &offer.estimate, (found.at, draw));
            let rank = (weighed.energy.is_none(), weighed.total(), found.at, offer.estimate.energy);
            if best.as_ref().is_none_or(|(least, other)| (rank, found.first) < (*least, other.first)) {
                best = Some((rank, found));
            }
        }
    }
    let starts = builder.starts(ways, now);
    let soonest = starts.iter().min_by_key(|found| found.at);
    let Some(found) = best.map(|(_, found)| found) else { return builder.later(asked, soonest) };
    let Some(choice) = builder.choice(&found) else { return builder.later(asked, soonest) };
    let at = found.at;
    let mean = |from| prices.and_then(|prices| Some(prices.mean(from, choice.estimate.duration)?.0));
    let wait = match (mean(now).zip(mean(at)), soonest) {
        _ if at == now => return Decision::Start(choice),
        // If the job could start now, it waits for the price; otherwise for resources.
        (Some((price, then)), Some(possible)) if possible.at == now => Wait::Price { now: price, then, at },
        _ => builder.obstacle(asked, Some(at)),
    };
    Decision::Later { choice, at, wait }
}

/// Returns the startable candidate that holds the lower limit with the most energy.
fn spare<'f, 'o>(builder: &PlanBuilder<'_>, startable: &[&'f Found<'o>]) -> Option<&'f Found<'o>> {
    let gap = (builder.view.band().low() - builder.trough()).at_least_zero();
    let holds = |found: &Found<'_>| found.offer.estimate.power.min(gap) * found.offer.estimate.duration;
    let reaches = |found: &Found<'_>| {
        let others = startable.iter().filter(|other| other.first != found.first);
        builder.reaches(gap, found.offer, others.map(|other| other.offer.estimate.power))
    };
    let rank = |found: &Found<'_>| (!reaches(found), std::cmp::Reverse(holds(found)), found.offer.estimate.energy);
    startable.iter().copied().min_by_key(|found| rank(found))
}

/// Returns true in the low mode, if the reason is a high price.
fn is_dear(view: &View<'_>) -> bool {
    view.settings().mode_setting == ModeSetting::Auto && view.prices().is_some()
}

/// Returns true if the waiting jobs, each at its least energy, cannot hold the lower limit for the time in the
/// options. A queue beyond the depth of a round needs no sparing.
fn is_sparing<'a>(view: &View<'a>, parts: Parts) -> bool {
    let (now, ahead) = (view.now(), view.options().sparing);
    let horizon = view.limits().until().map_or(now + ahead, |until| until.min(now + ahead));
    if horizon <= now || view.queue_length() > view.options().depth as usize {
        return false;
    }
    let idle = view.idle();
    let need: Energy = view
        .limits()
        .pieces(now, horizon)
        .map(|(start, end, band)| (band.low() - idle).at_least_zero() * (end - start))
        .sum();
    let remaining = |job: &Job| {
        let (Some(assignment), Some(end)) = (job.assignment(), job.expected_end(now)) else { return Energy::ZERO };
        assignment.draw * (end - now).max(Span::ZERO)
    };
    let mut left = need.scaled(SPARING_PERMILLE, 1_000) - view.active().map(|(_, job)| remaining(job)).sum::<Energy>();
    if left <= Energy::ZERO {
        return false;
    }
    let (pools, ways) = (Pools::of(view, |_| true), AllWays::default());
    let least = |job: &'a Job| {
        let ways = ways.of(view, &pools, &job.request, parts.caps == CapRule::Moved);
        ways.iter().map(|offer| offer.estimate.energy).min().unwrap_or(Energy::ZERO)
    };
    for (_, job) in view.queue() {
        left -= least(job);
        if left <= Energy::ZERO {
            return false;
        }
    }
    true
}
