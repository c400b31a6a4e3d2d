//! Mixes guesses by their recent errors, and keeps quantiles and sums right by following them.

/// Ways to guess, in the order of all arrays.
pub(super) const EXPERTS: usize = 4;
/// Names of the ways to guess.
pub(super) const NAMES: [&str; EXPERTS] = ["tree of the user", "forest", "nearest equal shapes", "moving means"];

/// Rows after which the errors over all users, and of one user, are forgotten.
const WINDOW: u32 = 500;
const OWN_WINDOW: u32 = 30;
/// Rows that the errors over all users weigh against those of one user.
const PRIOR: f64 = 15.0;
/// Error that does not matter. It keeps a way that was right by chance from taking all weight.
const SLACK: f64 = 0.01;

/// Recent mean distances of the guesses of each way from the measured value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Errors {
    pub counts: [u32; EXPERTS],
    pub means: [f32; EXPERTS],
}

impl Errors {
    fn add(&mut self, guesses: &Guesses, measured: f64, window: u32) {
        for (index, guess) in guesses.iter().enumerate() {
            if let Some((watts, _)) = guess {
                let count = self.counts[index].min(window - 1) + 1;
                self.counts[index] = count;
                self.means[index] += ((watts - measured).abs() as f32 - self.means[index]) / count as f32;
            }
        }
    }

    pub fn add_for_all(&mut self, guesses: &Guesses, measured: f64) {
        self.add(guesses, measured, WINDOW);
    }

    pub fn add_for_user(&mut self, guesses: &Guesses, measured: f64) {
        self.add(guesses, measured, OWN_WINDOW);
    }
}

/// Guesses of each way: logarithms of draw and duration.
pub(super) type Guesses = [Option<(f64, f64)>; EXPERTS];

/// Returns the weighted mean of the guesses, and the way that has most weight; `None` if no way has a guess. A way's
/// weight falls with the fifth power of its error.
pub(super) fn mixed(guesses: &Guesses, own: &Errors, all: &Errors) -> Option<((f64, f64), usize)> {
    let mut sums = [0.0; 3];
    let mut most = (0.0, 0);
    for (index, guess) in guesses.iter().enumerate() {
        let Some((watts, duration)) = guess else { continue };
        // A way without errors so far is as good as an error of a half.
        let wider = if all.counts[index] > 0 { f64::from(all.means[index]) } else { 0.5 };
        let count = f64::from(own.counts[index]);
        let error = (count * f64::from(own.means[index]) + PRIOR * wider) / (count + PRIOR);
        let weight = libm::pow(SLACK + error, -5.0);
        sums[0] += weight;
        sums[1] += weight * watts;
        sums[2] += weight * duration;
        if weight > most.0 {
            most = (weight, index);
        }
    }
    (sums[0] > 0.0).then(|| ((sums[1] / sums[0], sums[2] / sums[0]), most.1))
}

/// Follows a quantile: each row below it lowers it a little, and each row above raises it by more, so that in the long
/// run the wanted part is below, whatever the distribution (Gibbs and Candes 2021).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantile(pub f32);

/// The part of the measured values that is below the quantile.
const BELOW: f64 = 0.9;
const STEP: f64 = 0.06;
/// Bounds of the quantile, in deviations.
const BOUNDS: (f64, f64) = (-5.0, 20.0);

impl Quantile {
    /// The quantile of a normal variable.
    pub const NORMAL: Self = Self(1.28);

    pub fn follow(&mut self, value: f64) {
        let step = if value > f64::from(self.0) { STEP * BELOW } else { -STEP * (1.0 - BELOW) };
        self.0 = (f64::from(self.0) + step).clamp(BOUNDS.0, BOUNDS.1) as f32;
    }
}

/// Recent mean distance of the logarithms of measured and expected draws, over all jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Distance {
    pub mean: f32,
    /// Number of rows, at most [`DISTANCES`].
    pub rows: u32,
}

/// Rows after which a distance is forgotten.
const DISTANCES: u32 = 300;

impl Distance {
    /// The distance before the first row, which counts as ten rows.
    pub const FIRST: Self = Self { mean: 0.3, rows: 10 };

    pub fn follow(&mut self, distance: f64) {
        self.rows = self.rows.min(DISTANCES - 1) + 1;
        self.mean += (distance as f32 - self.mean) / self.rows as f32;
    }
}

/// Sums of recent measured and predicted draws.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Totals {
    pub measured: f32,
    pub predicted: f32,
}

/// Bounds of the factor between measured and predicted sums.
const FACTORS: (f64, f64) = (0.5, 2.0);
/// Part of the sums that a row forgets.
const FORGOTTEN: f32 = 1.0 / 500.0;

impl Totals {
    pub fn follow(&mut self, measured: f64, predicted: f64) {
        self.measured += measured as f32 - self.measured * FORGOTTEN;
        self.predicted += predicted as f32 - self.predicted * FORGOTTEN;
    }

    /// Returns the factor that makes the predicted sum the measured one.
    pub fn factor(&self) -> f64 {
        if self.predicted <= 0.0 {
            return 1.0;
        }
        (f64::from(self.measured) / f64::from(self.predicted)).clamp(FACTORS.0, FACTORS.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_way_gets_the_weight() {
        let guesses: Guesses = [Some((1.0, 0.0)), None, Some((2.0, 0.0)), None];
        let mut all = Errors::default();
        (0..50).for_each(|_| all.add_for_all(&guesses, 2.0));
        let ((watts, _), most) = mixed(&guesses, &Errors::default(), &all).expect("two guesses");
        assert!(watts > 1.99 && most == 2, "{watts} by {most}");
        // The first way is right for this user.
        let mut own = Errors::default();
        (0..200).for_each(|_| own.add_for_user(&guesses, 1.0));
        let ((watts, _), most) = mixed(&guesses, &own, &all).expect("two guesses");
        assert!(watts < 1.5 && most == 0, "{watts} by {most}");
        assert_eq!(mixed(&[None; EXPERTS], &own, &all), None);
    }

    #[test]
    fn the_quantile_covers_its_part() {
        // Values evenly from 0 to 1, in an order that jumps: 61 and 100 have no common divisor.
        let mut quantile = Quantile(0.0);
        let mut below = 0;
        for i in 0..20_000 {
            let value = f64::from(i * 61 % 100) / 100.0;
            below += u32::from(value <= f64::from(quantile.0));
            quantile.follow(value);
        }
        assert!((17_900..=18_100).contains(&below), "{below}");
    }

    #[test]
    fn totals_give_the_factor() {
        let mut totals = Totals::default();
        assert!((totals.factor() - 1.0).abs() < 1e-9);
        (0..100).for_each(|_| totals.follow(30.0, 20.0));
        assert!((totals.factor() - 1.5).abs() < 1e-3);
        (0..10_000).for_each(|_| totals.follow(100.0, 1.0));
        assert!((totals.factor() - 2.0).abs() < 1e-9);
    }
}
