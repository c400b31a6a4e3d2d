//! Converts single simulations to the paper's figures: means over the weeks, and Table II.
//!
//! Section V-D normalises with the method of Morey: from each value it subtracts the mean of its week, and adds the
//! mean of all weeks. The means over the weeks, which figures 2 to 5 show, stay the same. The ratios of Table II
//! change, because they are computed from normalised values for each week.

use std::collections::BTreeMap;

use super::{Condition, Outcome, Way};
use limo_model::Preset;

/// Means over the weeks for one condition.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Means {
    pub utilisation: f64,
    pub avebsld: f64,
    pub started: f64,
    pub energy: f64,
    /// Mean wait, in hours.
    pub mean_wait: f64,
    pub longest_wait: f64,
}

/// The measured quantities, in the order of Table II.
const MEASURES: [fn(&Outcome) -> f64; 4] =
    [|outcome| outcome.avebsld, |outcome| outcome.utilisation, |outcome| outcome.started, |outcome| outcome.energy];

/// The rows of Table II: its measures with the paper's percentages for powercap, reducePC and energyBud.
pub const TABLE_II: [(&str, [f64; 3]); 4] = [
    ("AVEbsld", [0.16, 0.88, -8.61]),
    ("Utilization", [-0.05, 4.95, 5.74]),
    ("Number of jobs started", [-0.05, 1.4, 1.47]),
    ("Energy consumed", [-4.74, -1.78, -1.42]),
];

/// The mean percent change by shutdown, for each measure and policy (powercap, reducePC, energyBud).
pub type TableII = [[f64; 3]; 4];

/// Kind of average in Table II.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Averaged {
    /// Section V-F: changes of normalised values, averaged over all weeks and budgets.
    Normalised,
    /// Changes of the values themselves, averaged over all weeks and budgets.
    Plain,
    /// Change of the means over all weeks and budgets.
    OfMeans,
}

pub fn means(outcomes: &[Outcome]) -> BTreeMap<Condition, Means> {
    let mut sums: BTreeMap<Condition, (Means, f64)> = BTreeMap::new();
    for outcome in outcomes {
        let (sum, count) = sums.entry(outcome.condition).or_default();
        sum.utilisation += outcome.utilisation;
        sum.avebsld += outcome.avebsld;
        sum.started += outcome.started;
        sum.energy += outcome.energy;
        sum.mean_wait += outcome.mean_wait;
        sum.longest_wait += outcome.longest_wait;
        *count += 1.0;
    }
    let mean = |(sum, count): (Means, f64)| Means {
        utilisation: sum.utilisation / count,
        avebsld: sum.avebsld / count,
        started: sum.started / count,
        energy: sum.energy / count,
        mean_wait: sum.mean_wait / count,
        longest_wait: sum.longest_wait / count,
    };
    sums.into_iter().map(|(condition, sum)| (condition, mean(sum))).collect()
}

pub fn table_ii(outcomes: &[Outcome], averaged: Averaged) -> TableII {
    let presets = [Preset::Powercap, Preset::Reducepc, Preset::Energybud];
    MEASURES.map(|measure| {
        let plain = || outcomes.iter().map(|outcome| ((outcome.week, outcome.condition), measure(outcome))).collect();
        match averaged {
            Averaged::Normalised => {
                let values = normalised(outcomes, measure);
                presets.map(|preset| change(&values, preset))
            }
            Averaged::Plain => {
                let values = plain();
                presets.map(|preset| change(&values, preset))
            }
            Averaged::OfMeans => presets.map(|preset| {
                let sum = |shutdown| -> f64 {
                    let way = Way { preset, shutdown };
                    outcomes.iter().filter(|outcome| outcome.condition.way == way).map(measure).sum()
                };
                let (idle, shut) = (sum(false), sum(true));
                if idle == 0.0 { 0.0 } else { 100.0 * (shut - idle) / idle }
            }),
        }
    })
}

/// Returns the number of normalised values of AVEbsld without shutdown that are not positive, and the number of all
/// such values. The percent change of a negative value has the wrong sign.
pub fn negative_slowdowns(outcomes: &[Outcome]) -> (usize, usize) {
    let normal = normalised(outcomes, |outcome| outcome.avebsld);
    let idle = || normal.iter().filter(|((_, of), _)| of.way.preset != Preset::Easy && !of.way.shutdown);
    (idle().filter(|(_, value)| **value <= 0.0).count(), idle().count())
}

type Values = BTreeMap<(usize, Condition), f64>;

/// Returns each value minus the mean of its week, plus the mean of all weeks.
fn normalised(outcomes: &[Outcome], measure: fn(&Outcome) -> f64) -> Values {
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

/// Returns the mean percent change over all weeks and budgets.
fn change(values: &Values, preset: Preset) -> f64 {
    let idle = values.iter().filter(|((_, of), _)| of.way == Way { preset, shutdown: false });
    let changes = idle.filter_map(|((week, of), idle)| {
        let shut = values.get(&(*week, Condition { way: Way { preset, shutdown: true }, ..*of }))?;
        Some((shut - idle) / idle)
    });
    let (sum, count) = changes.fold((0.0, 0.0), |(sum, count), change| (sum + change, count + 1.0));
    if count > 0.0 { 100.0 * sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::EASY;

    fn outcome(week: usize, way: Way, budget: u32, utilisation: f64) -> Outcome {
        let condition = Condition { way, budget };
        let (avebsld, started, energy) = (1.0, 1.0, 1.0);
        Outcome {
            week,
            condition,
            utilisation,
            avebsld,
            started,
            energy,
            spent: None,
            violations: 0,
            mean_wait: 0.0,
            longest_wait: 0.0,
        }
    }

    #[test]
    fn means_are_over_the_weeks() {
        let outcomes = [outcome(0, EASY, 100, 0.5), outcome(1, EASY, 100, 0.9)];
        let means = means(&outcomes);
        assert_eq!(means.len(), 1);
        assert!((means[&Condition { way: EASY, budget: 100 }].utilisation - 0.7).abs() < 1e-12);
    }

    /// Week 0 has values 0.4 and 0.6 (mean 0.5), week 1 has 0.8 and 0.8 (mean 0.8); the mean of all is 0.65.
    /// Normalised values: 0.55 and 0.75, 0.65 and 0.65. Changes: 0.2 / 0.55 = 36.36 % and 0, which is 18.18 % on
    /// average.
    #[test]
    fn table_ii_is_made_of_normalised_values() {
        let way = |shutdown| Way { preset: Preset::Energybud, shutdown };
        let outcomes = [
            outcome(0, way(false), 90, 0.4),
            outcome(0, way(true), 90, 0.6),
            outcome(1, way(false), 90, 0.8),
            outcome(1, way(true), 90, 0.8),
        ];
        for (averaged, expected) in [
            (Averaged::Normalised, 18.1818),
            // The changes are 0.2 / 0.4 = 50 % and 0, 25 % on average; in total 0.2 of 1.2.
            (Averaged::Plain, 25.0),
            (Averaged::OfMeans, 16.6667),
        ] {
            let [_, utilisation, _, _] = table_ii(&outcomes, averaged);
            assert!((utilisation[2] - expected).abs() < 1e-3, "{averaged:?} {utilisation:?}");
            assert_eq!(utilisation[0], 0.0, "nothing was run with powercap");
        }
    }

    /// Week 0 has slowdowns of 1 and 9 (mean 5), week 1 of 101 and 199 (mean 150); the mean of all is 77.5. The
    /// normalised idle values are 73.5 and 28.5. If the mean of week 1 is 180 (41 and 319, all 92.5), the second
    /// value is -46.5.
    #[test]
    fn normalised_slowdowns_can_be_negative() {
        let way = |shutdown| Way { preset: Preset::Energybud, shutdown };
        let of = |week, shutdown, avebsld| Outcome { avebsld, ..outcome(week, way(shutdown), 90, 1.0) };
        let week = |idle, shut| [of(0, false, 1.0), of(0, true, 9.0), of(1, false, idle), of(1, true, shut)];
        assert_eq!(negative_slowdowns(&week(101.0, 199.0)), (0, 2));
        assert_eq!(negative_slowdowns(&week(41.0, 319.0)), (1, 2));
    }
}
