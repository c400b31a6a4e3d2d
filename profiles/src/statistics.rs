//! Computes the profile of a key from its runs: medians over a window of the newest runs. Pure.
//!
//! Medians, because not every run is a good one: a job may hang on a lost file server for a night, or run beside a
//! runaway process. A mean follows it: one run of 100 minutes among nine of 10 minutes gives an estimate of 19
//! minutes. The scheduler then reserves power that is not drawn. A median does not move until half of the window is
//! wrong. For the same reason the spread is the median absolute deviation; times 1.4826 it is the standard deviation
//! of normally distributed durations (Rousseeuw and Croux 1993). Duration, power and energy are independent: energy
//! is a measurement, not the product of the others.
//!
//! A window, because hardware, libraries and inputs change, and a profile must follow. Within [`WINDOW`] runs a change
//! takes effect after half of them.

use limo_model::{Energy, EstimateSource, Power, Profile, Span};

/// Number of newest runs in a profile. The median of 32 runs has a standard error of 0.22 times the spread of the
/// runs (1.25 / sqrt(32)). A change of the application takes effect after 16 runs.
pub const WINDOW: usize = 32;

/// Measurement of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    /// Time from the start of the command to its end.
    pub duration: Span,
    /// Mean draw above idle.
    pub power: Power,
    /// Energy above idle.
    pub energy: Energy,
}

/// Least confidence at which an energy counts as the run's own.
pub const SURE: u16 = 800;

/// Returns the runs whose energy is known to be their own. If there are fewer than [`ENOUGH`] of them, returns all.
pub fn surest(window: &[(Measurement, u16)]) -> Vec<Measurement> {
    let sure: Vec<Measurement> =
        window.iter().filter(|(_, confidence)| *confidence >= SURE).map(|(run, _)| *run).collect();
    if sure.len() >= ENOUGH { sure } else { window.iter().map(|(run, _)| *run).collect() }
}

/// Least number of runs at which the median is safe from one wrong run.
const ENOUGH: usize = 3;

/// Computes the profile of a key with these runs in its window, out of `total` learned ones; `None` without runs. The
/// order of the runs does not matter.
pub fn profile(window: &[Measurement], total: u32) -> Option<Profile> {
    let of = |quantity: fn(&Measurement) -> i64| median(&mut window.iter().map(quantity).collect::<Vec<_>>());
    let duration = of(|run| run.duration.ms())?;
    let deviations = window.iter().map(|run| saturated_distance(run.duration.ms(), duration));
    let deviation = median(&mut deviations.collect::<Vec<_>>())?;
    Some(Profile {
        duration: Span::from_ms(duration),
        power: Power::from_mw(of(|run| run.power.mw())?),
        energy: Energy::from_mj(of(|run| run.energy.mj())?),
        spread_permille: spread_permille(deviation, duration),
        runs: total,
        source: EstimateSource::Learned,
    })
}

/// Returns the middle value; for an even number the mean of the two middle ones, rounded half away from zero.
fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    let upper = i128::from(*values.get(values.len() / 2)?);
    if values.len() % 2 == 1 {
        return i64::try_from(upper).ok();
    }
    let sum = upper + i128::from(values[values.len() / 2 - 1]);
    // The mean of two i64 values fits an i64.
    i64::try_from((sum + sum.signum()) / 2).ok()
}

fn saturated_distance(a: i64, b: i64) -> i64 {
    i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX)
}

/// Returns `1.4826 * deviation / median` in thousandths, rounded to the nearest; 0 for a median of zero, which means
/// that at least half of the runs took no time. Saturates.
fn spread_permille(deviation: i64, median: i64) -> u32 {
    if median <= 0 {
        return 0;
    }
    let (numerator, denominator) = (i128::from(deviation) * 14_826, i128::from(median) * 10);
    u32::try_from((numerator + denominator / 2) / denominator).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn run((ms, mw, mj): (i64, i64, i64)) -> Measurement {
        Measurement { duration: Span::from_ms(ms), power: Power::from_mw(mw), energy: Energy::from_mj(mj) }
    }

    fn check(runs: &[(i64, i64, i64)], expected: (i64, i64, i64, u32)) {
        let runs = runs.iter().copied().map(run).collect::<Vec<_>>();
        let total = 7 + runs.len() as u32;
        let found = profile(&runs, total).expect("there are runs");
        let numbers = (found.duration.ms(), found.power.mw(), found.energy.mj(), found.spread_permille);
        assert_eq!(numbers, expected, "{runs:?}");
        assert_eq!((found.runs, found.source), (total, EstimateSource::Learned));
    }

    #[test]
    fn known_answers() {
        check(&[(1_000, 50, 9)], (1_000, 50, 9, 0));
        // 11 and 14 -> 12.5 s. Deviations 1.5 and 1.5 s: 1.4826 * 1.5 / 12.5 = 0.177912.
        check(&[(11_000, 1, 1), (14_000, 2, 2)], (12_500, 2, 2, 178));
        // 10 11 12 14 100 -> 12 s. Deviations 0 1 2 2 88 -> 2 s: 1.4826 * 2 / 12 = 0.2471. Each quantity is
        // independent.
        let runs = [(100_000, 10, 500), (10_000, 30, 200), (14_000, 20, 400), (11_000, 50, 100), (12_000, 40, 300)];
        check(&runs, (12_000, 30, 300, 247));
        // 2 4 4 5 7 9 -> 4.5 s. Deviations 0.5 0.5 0.5 2.5 2.5 4.5 -> 1.5 s: 1.4826 * 1.5 / 4.5 = 0.4942.
        let runs = [2, 4, 4, 5, 7, 9].map(|secs| (secs * 1_000, 3, 3));
        check(&runs, (4_500, 3, 3, 494));
        // The runs are too short to be measured.
        check(&[(0, 0, 0), (0, 0, 0), (5, 0, 0)], (0, 0, 0, 0));
    }

    #[test]
    fn no_runs_no_profile() {
        assert_eq!(profile(&[], 0), None);
    }

    #[test]
    fn the_mean_in_the_head_comment_is_right() {
        let minutes = [[10; 9].as_slice(), &[100]].concat();
        assert_eq!(minutes.iter().sum::<i64>() / 10, 19);
        check(&minutes.iter().map(|m| (m * 60_000, 0, 0)).collect::<Vec<_>>(), (600_000, 0, 0, 0));
    }

    fn any_run() -> impl Strategy<Value = Measurement> {
        (0..i64::MAX, 0..i64::MAX, 0..i64::MAX).prop_map(run)
    }

    proptest! {
        #[test]
        fn one_outlier_among_five_or_more_equal_runs_moves_nothing(
            typical in any_run(), outlier in any_run(), count in 5..WINDOW, place in any::<prop::sample::Index>()
        ) {
            let mut runs = vec![typical; count];
            let without = profile(&runs, 40);
            runs.insert(place.index(count + 1), outlier);
            prop_assert_eq!(profile(&runs, 40), without);
        }

        #[test]
        fn order_does_not_matter(
            (runs, shuffled) in vec(any_run(), 1..=WINDOW).prop_flat_map(|runs| (Just(runs.clone()), Just(runs).prop_shuffle()))
        ) {
            prop_assert_eq!(profile(&runs, 1), profile(&shuffled, 1));
        }

        #[test]
        fn a_profile_lies_between_its_runs(runs in vec(any_run(), 1..=WINDOW)) {
            let found = profile(&runs, 1).expect("there are runs");
            let within = |value: i64, of: fn(&Measurement) -> i64| {
                let all = || runs.iter().map(of);
                all().min() <= Some(value) && Some(value) <= all().max()
            };
            prop_assert!(within(found.duration.ms(), |run| run.duration.ms()));
            prop_assert!(within(found.power.mw(), |run| run.power.mw()));
            prop_assert!(within(found.energy.mj(), |run| run.energy.mj()));
        }
    }
}
