//! Effects of a plan on limits and budgets, added up from the books and its starts. Shares only the recorded state with
//! the gate of the policies, and ignores waiting jobs.

use limo_model::{AdmissionRule, Budget, Energy, Power, Time};

use super::Case;
use crate::options::Horizon;
use crate::plan::{Plan, Violation};

/// The estimated draw from now on, including the plan's starts. It never rises.
struct PlanLoad {
    now: Time,
    draw: Power,
    /// Latest ends of jobs with their draws; ascending.
    falls: Vec<(Time, Power)>,
    /// Latest end of the plan's starts.
    end: Time,
    horizon: Horizon,
}

/// Checks that policies that plan with the estimated draw start nothing that takes it above a limit, or a budget into
/// debt.
pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let more = plan.starts.iter().map(|start| start.estimate.power).sum::<Power>();
    if !case.parts.counts_estimates() || more <= Power::ZERO {
        return;
    }
    let (now, settings, spending) = (case.now, &case.state.settings, &case.state.spending);
    let (draw, high) = (case.books.draw() + more, settings.ceiling(settings.limits.band(now)));
    if draw > high {
        found.push(Violation::UpperLimit { draw, high });
    }
    let budgets = if case.parts.keeps_budget() { settings.budgets.from_then_on(now) } else { &[] };
    if budgets.is_empty() && settings.limits.next_change(now).is_none() {
        return;
    }
    let load = PlanLoad::of(case, plan, draw);
    let steps: Vec<(Time, Power)> = settings.limits.bands(now).map(|(at, band)| (at, settings.ceiling(band))).collect();
    if let Some((draw, high)) = load.above(&steps, Time::MAX) {
        found.push(Violation::UpperLimit { draw, high });
    }
    for budget in budgets.iter().take_while(|budget| budget.from < load.end) {
        let release = spending.release_of(budget, case.books.idle, settings.prices.as_ref());
        found.extend(if case.parts.admission == AdmissionRule::Rate {
            load.above(&release, budget.until).map(|(draw, rate)| Violation::ReleaseRate { draw, rate })
        } else {
            load.debt(budget, &release, spending.available(budget))
        });
    }
}

impl PlanLoad {
    fn of(case: Case<'_>, plan: &Plan, draw: Power) -> Self {
        let now = case.now;
        let running = case.books.sure.iter().flatten();
        let mut falls: Vec<(Time, Power)> = running.map(|((end, _), power)| (*end, *power)).collect();
        let mut last = now;
        for start in &plan.starts {
            let limit = case.job(start.job).and_then(|job| job.request.time_limit);
            let end = limit.map(|_| now + start.estimate.duration);
            falls.extend(end.map(|end| (end, start.estimate.power)));
            last = last.max(end.unwrap_or(Time::MAX));
        }
        // An overdue job continues for a moment, and each job runs for at least one millisecond.
        let soon = now + limo_model::Span::from_ms(1);
        falls.iter_mut().for_each(|(end, _)| *end = soon.max(*end));
        // The list is nearly in order, which makes this sort and the next one fast.
        falls.sort_by_key(|(end, _)| *end);
        Self { now, draw, falls, end: last.max(soon), horizon: case.state.settings.options.horizon }
    }

    fn draw_at(&self, at: Time) -> Power {
        self.draw - self.falls.iter().take_while(|(end, _)| *end <= at).map(|(_, power)| *power).sum::<Power>()
    }

    /// Returns the first of `steps` that the draw exceeds before `until` and while a start runs. The draw never
    /// rises, so each step is checked at its begin.
    fn above(&self, steps: &[(Time, Power)], until: Time) -> Option<(Power, Power)> {
        let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([until]);
        let held = steps.iter().zip(ends).filter(|(_, end)| *end > self.now);
        let held = held.map(|((at, limit), _)| ((*at).max(self.now), *limit)).filter(|(at, _)| *at < self.end);
        held.map(|(at, limit)| (self.draw_at(at), limit)).find(|(draw, limit)| draw > limit)
    }

    /// Returns the first debt of a period up to the last known end.
    fn debt(&self, budget: &Budget, release: &[(Time, Power)], available: i128) -> Option<Violation> {
        let from = budget.from.max(self.now);
        let others = self.falls.last().filter(|_| self.horizon == Horizon::Cluster);
        let last = others.map_or(self.end, |(end, _)| self.end.max(*end)).min(budget.until);
        let times = self.falls.iter().chain(release).map(|(at, _)| *at).chain([last]);
        let mut times: Vec<Time> = times.filter(|at| *at > from && *at <= last).collect();
        times.sort();
        let (mut at, mut balance, mut draw) = (from, available, self.draw_at(from));
        let mut falls = self.falls.iter().skip_while(|(end, _)| *end <= from).peekable();
        let mut rates = release.iter().peekable();
        let mut rate = Power::ZERO;
        for next in [from].into_iter().chain(times) {
            balance += i128::from((rate - draw).mw()) * i128::from((next - at).ms());
            if balance < 0 {
                let missing = Energy::from_mj(i64::try_from((999 - balance) / 1_000).unwrap_or(i64::MAX));
                return Some(Violation::Overspent { missing, at: next });
            }
            at = next;
            while let Some((_, power)) = falls.next_if(|(end, _)| *end <= at) {
                draw -= *power;
            }
            while let Some((_, power)) = rates.next_if(|(start, _)| *start <= at) {
                rate = *power;
            }
        }
        None
    }
}
