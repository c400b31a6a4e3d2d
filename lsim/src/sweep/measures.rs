//! Figures of one simulation, in the order of the columns of `results.csv`. Figures of the simulating machine are left
//! out, so that equal configurations have equal rows.

use limo_model::Energy;

use crate::output::{Metrics, pool};
use crate::record::{BudgetPeriod, Summary};

/// Column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Name with its unit; counts and ratios have none.
    pub name: &'static str,
    pub places: u32,
}

const fn of(name: &'static str, places: u32) -> Measure {
    Measure { name, places }
}

pub const MEASURES: [Measure; 34] = [
    of("jobs", 0),
    of("jobs_started", 0),
    of("jobs_completed", 0),
    of("jobs_killed", 0),
    of("jobs_refused", 0),
    of("jobs_unfinished", 0),
    of("utilisation", 6),
    of("avebsld", 6),
    of("max_bsld", 6),
    of("mean_wait_s", 6),
    of("max_wait_s", 3),
    of("mean_turnaround_s", 6),
    of("makespan_s", 3),
    of("simulated_s", 3),
    of("energy_j", 3),
    of("energy_in_window_j", 3),
    of("draw_at_end_w", 3),
    of("energy_idle_j", 3),
    of("energy_computing_j", 3),
    of("energy_off_j", 3),
    of("energy_switching_on_j", 3),
    of("energy_switching_off_j", 3),
    of("cost", 6),
    of("cost_in_window", 6),
    of("outside_limits_share", 6),
    of("switches_on", 0),
    of("switches_off", 0),
    of("budget_j", 3),
    of("spent_j", 3),
    of("periods_overspent", 0),
    of("violations", 0),
    of("mean_overhead_s", 3),
    of("evictions", 0),
    of("wasted_energy_j", 3),
];

/// Value of each of [`MEASURES`], in units of its last place; `None` if it does not exist.
pub type Values = Vec<Option<i128>>;

/// Returns the index in [`MEASURES`] of the measure with that name.
pub fn index(name: &str) -> Option<usize> {
    MEASURES.iter().position(|measure| measure.name == name)
}

/// Returns the values; `start` is the start of the simulation, in ms.
pub fn values(metrics: &Metrics, summary: &Summary, start: limo_model::Time) -> Values {
    let (counts, by) = (&metrics.counts, &summary.energy_by_state);
    let count = |count: u64| Some(i128::from(count));
    let joules = |energy: Energy| Some(i128::from(energy.mj()));
    let budgets = &summary.budgets;
    let total = |energy: fn(&BudgetPeriod) -> Energy| {
        let sum = || budgets.iter().map(|period| i128::from(energy(period).mj())).sum();
        (!budgets.is_empty()).then(sum)
    };
    let pool = summary.pool.as_ref().map(pool::totals);
    let overspent = budgets.iter().filter(|period| period.spent > period.energy).count();
    vec![
        count(metrics.jobs()),
        count(counts.started),
        count(counts.completed),
        count(counts.killed),
        count(counts.refused),
        count(counts.unfinished),
        Some(metrics.utilisation_millionths()),
        Some(metrics.avebsld_millionths()),
        Some(metrics.max_bsld_millionths()),
        Some(metrics.mean_wait_us()),
        Some(i128::from(metrics.max_wait().ms())),
        Some(metrics.mean_turnaround_us()),
        Some(i128::from(metrics.makespan().ms())),
        Some(i128::from((summary.end - start).ms())),
        joules(metrics.energy()),
        metrics.energy_in_window().and_then(joules),
        Some(i128::from(metrics.draw_at_end().mw())),
        joules(by.idle),
        joules(by.computing),
        joules(by.off),
        joules(by.switching_on),
        joules(by.switching_off),
        metrics.cost().map(|cost| i128::from(cost.micro())),
        metrics.cost_in_window().map(|cost| i128::from(cost.micro())),
        Some(metrics.outside_limits_millionths()),
        count(summary.switches.on),
        count(summary.switches.off),
        total(|period| period.energy),
        total(|period| period.spent),
        (!budgets.is_empty()).then_some(overspent as i128),
        count(summary.violations),
        pool.and_then(|(overhead, ..)| overhead.map(i128::from)),
        pool.and_then(|(_, evictions, _)| count(evictions)),
        pool.map(|(.., wasted)| wasted),
    ]
}
