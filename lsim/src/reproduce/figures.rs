//! From single simulations to the paper's figures: means over the weeks, and Table II.
//!
//! Section V-D normalises with the method of Morey: from each value the mean of its week is taken and the mean of all
//! weeks added. That leaves the means over weeks as they are, which is what figures 2 to 5 show, but not the ratios of
//! Table II, which are made of normalised values week by week.

use std::collections::BTreeMap;

use super::{BUDGETS, Condition, Outcome, Way};
use limo_sched::Preset;

/// Means over the weeks of one condition.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Means {
    pub utilisation: f64,
    pub avebsld: f64,
    pub started: f64,
    pub energy: f64,
}

/// What is measured, in the order of Table II.
const MEASURES: [fn(&Outcome) -> f64; 4] =
    [|outcome| outcome.avebsld, |outcome| outcome.utilisation, |outcome| outcome.started, |outcome| outcome.energy];

/// The rows of Table II: its measures with the paper's percentages for powercap, reducePC and energyBud.
pub const TABLE_II: [(&str, [f64; 3]); 4] = [
    ("AVEbsld", [0.16, 0.88, -8.61]),
    ("Utilization", [-0.05, 4.95, 5.74]),
    ("Number of jobs started", [-0.05, 1.4, 1.47]),
    ("Energy consumed", [-4.74, -1.78, -1.42]),
];

pub fn means(outcomes: &[Outcome]) -> BTreeMap<Condition, Means> {
    let mut sums: BTreeMap<Condition, (Means, f64)> = BTreeMap::new();
    for outcome in outcomes {
        let (sum, count) = sums.entry(outcome.condition).or_default();
        sum.utilisation += outcome.utilisation;
        sum.avebsld += outcome.avebsld;
        sum.started += outcome.started;
        sum.energy += outcome.energy;
        *count += 1.0;
    }
    let mean = |(sum, count): (Means, f64)| Means {
        utilisation: sum.utilisation / count,
        avebsld: sum.avebsld / count,
        started: sum.started / count,
        energy: sum.energy / count,
    };
    sums.into_iter().map(|(condition, sum)| (condition, mean(sum))).collect()
}

/// Table II: for each measure and policy the mean percent change by shutdown, over all weeks and budgets.
pub fn table_ii(outcomes: &[Outcome]) -> [[f64; 3]; 4] {
    MEASURES.map(|measure| {
        let normal = normalised(outcomes, measure);
        [Preset::Powercap, Preset::Reducepc, Preset::Energybud].map(|preset| change(outcomes, &normal, preset))
    })
}

/// Each value less the mean of its week, plus the mean of all.
fn normalised(outcomes: &[Outcome], measure: fn(&Outcome) -> f64) -> BTreeMap<(usize, Condition), f64> {
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    };
    let all = mean(&mut outcomes.iter().map(measure));
    let weeks = outcomes.iter().map(|outcome| outcome.week).max().map_or(0, |last| last + 1);
    let of_week = |week: usize| mean(&mut outcomes.iter().filter(|outcome| outcome.week == week).map(measure));
    let by_week: Vec<f64> = (0..weeks).map(of_week).collect();
    let value = |outcome: &Outcome| measure(outcome) - by_week[outcome.week] + all;
    outcomes.iter().map(|outcome| ((outcome.week, outcome.condition), value(outcome))).collect()
}

fn change(outcomes: &[Outcome], normal: &BTreeMap<(usize, Condition), f64>, preset: Preset) -> f64 {
    let weeks: std::collections::BTreeSet<usize> = outcomes.iter().map(|outcome| outcome.week).collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for week in weeks {
        for budget in BUDGETS {
            let of = |shutdown| normal.get(&(week, Condition { way: Way { preset, shutdown }, budget }));
            if let (Some(idle), Some(shut)) = (of(false), of(true)) {
                sum += (shut - idle) / idle;
                count += 1.0;
            }
        }
    }
    if count > 0.0 { 100.0 * sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::EASY;
    use limo_model::Span;

    fn outcome(week: usize, way: Way, budget: u32, utilisation: f64) -> Outcome {
        let condition = Condition { way, budget };
        let (avebsld, started, energy) = (1.0, 1.0, 1.0);
        let (spent, violations, span) = (None, 0, Span::ZERO);
        Outcome { week, condition, utilisation, avebsld, started, energy, spent, violations, span }
    }

    #[test]
    fn means_are_over_the_weeks() {
        let outcomes = [outcome(0, EASY, 100, 0.5), outcome(1, EASY, 100, 0.9)];
        let means = means(&outcomes);
        assert_eq!(means.len(), 1);
        assert!((means[&Condition { way: EASY, budget: 100 }].utilisation - 0.7).abs() < 1e-12);
    }

    /// Week 0 has values 0.4 and 0.6 (mean 0.5), week 1 has 0.8 and 0.8 (mean 0.8); the mean of all is 0.65. Normalised:
    /// 0.55 and 0.75, 0.65 and 0.65. Changes: 0.2 / 0.55 = 36.36 % and 0: 18.18 % on average.
    #[test]
    fn table_ii_is_made_of_normalised_values() {
        let way = |shutdown| Way { preset: Preset::Energybud, shutdown };
        let outcomes = [
            outcome(0, way(false), 90, 0.4),
            outcome(0, way(true), 90, 0.6),
            outcome(1, way(false), 90, 0.8),
            outcome(1, way(true), 90, 0.8),
        ];
        let [_, utilisation, _, _] = table_ii(&outcomes);
        assert!((utilisation[2] - 18.1818).abs() < 1e-3, "{utilisation:?}");
        assert_eq!(utilisation[0], 0.0, "nothing was run with powercap");
    }
}
