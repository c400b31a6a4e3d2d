//! Power and energy: the test if the cluster may draw the power of one more job.
//!
//! `easy` has no test. With the admission `relaxed` the estimated draw stays below a multiple of the upper limit, and
//! caps keep the draw below the limit itself (power-capping-2018, section 5.2.2). `powercap` (energy-budget-2017,
//! section V-C) keeps the estimated draw below the upper limit. While a budget's period runs, it also keeps the draw
//! below the release rate. `energybud` (section IV) keeps the released minus the drawn energy from becoming negative
//! while any job is expected to run. Once the first job has waited for `hold_after`, its reservation is included.
//! `reducepc` (section IV-D) applies the same rule to jobs in queue order. Later jobs may only use the power that the
//! rate leaves. It is reduced by the energy that the first job will need above the rate, spread until its start. The
//! estimated draw is the idle draw of all nodes, including sleeping ones, plus the estimates of all active jobs.

use limo_model::{AdmissionRule, Budget, Energy, Power, Span, Time, Wait};

use crate::future::{Ceiling, Ledger, Obstacle, PowerRoom};
use crate::index::HeadReservation;
use crate::options::Horizon;
use crate::view::View;

pub(in crate::policy) struct Gate<'a> {
    view: View<'a>,
    kind: PowerLimit,
    ledger: Option<Box<Ledger>>,
    now: Time,
    /// The estimated draw.
    draw: Power,
    /// With `reducepc`, and with a reservation: the highest draw that later jobs may cause.
    reduced: Option<Power>,
    /// Energy of the first job above the rate.
    reserved: Energy,
    reserves: bool,
    /// With one constant limit: the planned time of the first job, and the power left to others then.
    beside: Option<(Time, Power)>,
}

enum PowerLimit {
    Free,
    /// One limit for all known time.
    Cap(Power),
    /// Changing limits, or budgets.
    Ledger,
}

impl<'a> Gate<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let draw = view.estimated_draw();
        let admission = view.parts().admission;
        let kind = match admission {
            // The band is tested with the draw at later times.
            AdmissionRule::Resources | AdmissionRule::Band => PowerLimit::Free,
            _ => kind(view),
        };
        let reserves = !matches!(admission, AdmissionRule::LedgerReduced);
        Self {
            view: *view,
            kind,
            ledger: None,
            now: view.now(),
            draw,
            reduced: None,
            reserved: Energy::ZERO,
            reserves,
            beside: None,
        }
    }

    /// Returns true if a job that adds `power` may start now; `end` is its latest end, if it has a time limit.
    pub fn admits(&mut self, power: Power, end: Option<Time>) -> bool {
        self.below_reduced(power)
            && self.leaves_room(power, end)
            && match &mut self.kind {
                PowerLimit::Free => true,
                PowerLimit::Cap(limit) => power <= Power::ZERO || self.draw + power <= *limit,
                PowerLimit::Ledger => self.ledger().admits(power, end).is_ok(),
            }
    }

    /// Returns the power that is left for a job that ends then, of the power that it needs.
    pub fn left(&mut self, power: Power, end: Option<Time>) -> Power {
        let beside = self.beside.filter(|(at, _)| end.is_none_or(|end| end > *at)).map_or(power, |(_, left)| left);
        let left = match &mut self.kind {
            PowerLimit::Free => power,
            PowerLimit::Cap(limit) => *limit - self.draw,
            PowerLimit::Ledger => match self.ledger().admits(power, end) {
                Ok(()) => power,
                Err(Obstacle::Power { left, .. }) => left,
                Err(Obstacle::Energy { .. }) => Power::ZERO,
            },
        };
        left.min(beside).min(power).at_least_zero()
    }

    /// Returns true if limits change or there are budgets.
    pub fn is_ledger(&self) -> bool {
        matches!(self.kind, PowerLimit::Ledger)
    }

    /// Returns the ledger, which is made on first use.
    fn ledger(&mut self) -> &mut Ledger {
        let (view, draw) = (&self.view, self.draw);
        self.ledger.get_or_insert_with(|| Box::new(ledger_of(view, draw)))
    }

    /// Returns false only if each job with at least this power and an end not before this one would be rejected.
    pub fn admits_at_least(&mut self, power: Power, end: Time) -> bool {
        self.admits(power, Some(end))
    }

    fn below_reduced(&self, power: Power) -> bool {
        self.reduced.is_none_or(|reduced| power <= Power::ZERO || self.draw + power <= reduced)
    }

    /// Returns true if a job that would not end by then leaves enough power for the first one.
    fn leaves_room(&self, power: Power, end: Option<Time>) -> bool {
        let beside = self.beside.filter(|(at, _)| end.is_none_or(|end| end > *at));
        beside.is_none_or(|(_, left)| power <= left.at_least_zero())
    }

    /// Returns true if energy is reserved for a first job that may run since then.
    fn holds(&self, since: Time) -> bool {
        let (options, settings) = (self.view.options(), self.view.settings());
        self.view.parts().admission != AdmissionRule::Ledger
            || settings.budgets.from_then_on(self.now).is_empty()
            || self.now >= since + options.hold_after
    }

    /// Reserves the energy of the first job, which may run since `waits_since`.
    pub fn reserve(&mut self, view: &View<'_>, reservation: &HeadReservation, waits_since: Time) {
        let (power, at) = (reservation.power, reservation.at);
        if let PowerLimit::Cap(limit) = self.kind {
            let then = self.draw - reservation.freed + power;
            self.beside = Some((at, limit - then)).filter(|(at, _)| *at < Time::MAX);
        }
        let PowerLimit::Ledger = self.kind else { return };
        if at == Time::MAX || at <= self.now || !self.holds(waits_since) {
            return;
        }
        let excess = excess_uj(view, self.draw - reservation.freed, reservation);
        self.reserved = Energy::from_mj(i64::try_from(excess / 1_000).unwrap_or(i64::MAX));
        if self.reserves {
            self.ledger().commit(power, at, reservation.span.map(|span| at + span));
        } else if let Some(rate) = view.rate_at(self.now) {
            let lowered = excess / i128::from((at - self.now).ms());
            self.reduced = Some(rate - Power::from_mw(i64::try_from(lowered).unwrap_or(i64::MAX)));
        }
    }

    /// Returns the energy that is reserved for the first job, above the rate.
    pub fn reserved(&self) -> Energy {
        self.reserved
    }

    /// Returns the time until which rejections hold if the only events are submissions.
    pub fn until(&self, view: &View<'_>) -> Time {
        match self.kind {
            PowerLimit::Free => Time::MAX,
            PowerLimit::Cap(_) => next_change(view).unwrap_or(Time::MAX),
            // Energy is released continuously.
            PowerLimit::Ledger => self.now + Span::from_ms(1),
        }
    }

    /// Returns the next time at which limits, prices, suspicions or the energy of a budget change, if no event happens.
    pub fn look_again(&self, view: &View<'_>) -> Option<Time> {
        let change = crate::policy::order::next_change(view);
        let PowerLimit::Ledger = self.kind else { return change };
        [change, next_change(view), next_stage(view)].into_iter().flatten().min()
    }

    /// Returns the time of the next attempt if no event happens.
    pub fn wake(&self, view: &View<'_>, reservation: &HeadReservation) -> Option<Time> {
        let is_free = view.parts().admission == AdmissionRule::Resources;
        let change = if is_free { None } else { next_change(view) };
        let PowerLimit::Ledger = self.kind else { return change };
        let planned = reservation.expected().filter(|at| *at > self.now);
        [change, planned, next_stage(view)].into_iter().flatten().min()
    }

    /// Returns the obstacle to a job with the additional draw `power`, apart from nodes.
    pub fn obstacle(&mut self, power: Power, end: Option<Time>, until: Option<Time>) -> Option<Wait> {
        if let Some(reduced) = self.reduced.filter(|_| !self.below_reduced(power)) {
            return Some(Wait::Band { needs: power, left: (reduced - self.draw).at_least_zero(), until });
        }
        match &mut self.kind {
            PowerLimit::Free => None,
            PowerLimit::Cap(limit) => {
                let left = (*limit - self.draw).at_least_zero();
                (power > left).then_some(Wait::Band { needs: power, left, until })
            }
            PowerLimit::Ledger => match self.ledger().admits(power, end) {
                Ok(()) => None,
                Err(Obstacle::Power { needs, left }) => Some(Wait::Band { needs, left, until }),
                Err(Obstacle::Energy { needs, left }) => Some(Wait::Budget { needs, left, until }),
            },
        }
    }
}

impl PowerRoom for Gate<'_> {
    fn earliest(&mut self, power: Power, span: Option<Span>, not_before: Time) -> Option<Time> {
        match &mut self.kind {
            PowerLimit::Free | PowerLimit::Cap(_) => Some(not_before),
            PowerLimit::Ledger => self.ledger().earliest(power, span, not_before),
        }
    }

    fn leaves(&self, power: Power, freed: Power) -> bool {
        match &self.kind {
            PowerLimit::Cap(limit) => self.draw - freed + power <= *limit,
            PowerLimit::Free | PowerLimit::Ledger => true,
        }
    }
}

/// Returns the next time at which limits or budgets change by themselves.
fn next_change(view: &View<'_>) -> Option<Time> {
    let limits = view.limits().next_change(view.now());
    let budgets = view.settings().budgets.next_change(view.now());
    [limits, budgets].into_iter().flatten().min()
}

/// Returns the next monitoring stage of the current period.
fn next_stage(view: &View<'_>) -> Option<Time> {
    let budget = view.settings().budgets.at(view.now())?;
    let every = view.options().monitor_every.max(Span::from_ms(1));
    let stages = (view.now() - budget.from).ms() / every.ms() + 1;
    Some((budget.from + every.scaled(stages, 1)).min(budget.until))
}

/// Returns the energy of the first job above the budget's release rate, in µJ.
fn excess_uj(view: &View<'_>, draw: Power, reservation: &HeadReservation) -> i128 {
    let at = reservation.at;
    let Some(budget) = view.settings().budgets.at(at).filter(|_| view.parts().keeps_budget()) else { return 0 };
    let end = reservation.span.map_or(budget.until, |span| (at + span).min(budget.until));
    let rate = view.rate_at(at).unwrap_or_default();
    let above = (draw + reservation.power - rate).at_least_zero();
    i128::from(above.mw()) * i128::from((end - at).ms().max(0))
}

fn kind(view: &View<'_>) -> PowerLimit {
    let high = view.settings().ceiling(view.band());
    let periods = periods(view);
    if !periods.is_empty() || view.limits().next_change(view.now()).is_some() {
        return PowerLimit::Ledger;
    }
    if high.is_unlimited() { PowerLimit::Free } else { PowerLimit::Cap(high) }
}

/// Returns the periods of budgets that the admission keeps.
fn periods<'a>(view: &View<'a>) -> &'a [Budget] {
    match view.parts().keeps_budget() {
        true => view.settings().budgets.from_then_on(view.now()),
        false => &[],
    }
}

fn ledger_of(view: &View<'_>, draw: Power) -> Ledger {
    let (now, high, periods) = (view.now(), view.settings().ceiling(view.band()), periods(view));
    // A job without a walltime that ends it has no known end.
    let mut endless = false;
    let sure = view.index().ends.iter().filter(|(_, release)| {
        endless |= !release.is_sure;
        release.is_sure
    });
    let is_rate = view.parts().admission == AdmissionRule::Rate;
    let mut limits = vec![Ceiling { steps: vec![(now, high)], until: Time::MAX }];
    limits[0].steps.extend(view.limits().bands(now).map(|(at, band)| (at, view.settings().ceiling(band))));
    if is_rate {
        limits.extend(periods.iter().map(|budget| Ceiling { steps: view.release_of(budget), until: budget.until }));
    }
    let falls = sure.map(|((end, _), release)| (*end, release.power));
    let mut ledger = Ledger::new(now, draw, falls, &limits);
    if endless {
        ledger.endless();
    }
    if view.options().horizon == Horizon::Job {
        ledger.short();
    }
    for budget in periods.iter().filter(|_| !is_rate) {
        ledger.budget((budget.from, budget.until), view.available(budget), view.release_of(budget));
    }
    ledger
}
