//! Margins: how much more than the expected draw holds with a given confidence.
//!
//! Power-capping-2018, section 5.2.4, plans with 99 or 95 % of the cap. A margin from the spread of the predictions is
//! narrow for jobs that are well known and wide for others.

use limo_model::{Confidence, Power};

/// Sum of the expected draws of jobs with its variance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum {
    /// Sum of the means, in milliwatts.
    mean_mw: f64,
    /// Sums of the standard deviations and of their squares.
    deviations: f64,
    squares: f64,
}

/// Correlation of the errors of two jobs: those of one application drift together.
const CORRELATION: f64 = 0.02;

impl Sum {
    /// Adds a job with this mean and standard deviation.
    pub fn add(&mut self, mean: Power, deviation: Power) {
        self.mean_mw += mean.mw() as f64;
        let deviation = deviation.mw() as f64;
        self.deviations += deviation;
        self.squares += deviation * deviation;
    }

    /// Returns the expected draw of all jobs.
    pub fn mean(&self) -> Power {
        Power::from_mw(libm::round(self.mean_mw) as i64)
    }

    /// Returns the draw that all jobs together stay below with this confidence: the sum of the means, and the deviations of
    /// a normal variable times the root of the variance of the sum, whose errors are correlated by 2 %. This is less than
    /// the sum of the margins of the jobs.
    pub fn with_margin(&self, confidence: Confidence) -> Power {
        let common = self.deviations * self.deviations - self.squares;
        let margin = confidence.deviations() * libm::sqrt(self.squares + CORRELATION * common);
        Power::from_mw(libm::ceil(self.mean_mw + margin) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_add_up() {
        let mut sum = Sum::default();
        // The squares of 3, 4 and 12 W have a sum of 169, and those of their sum 361: 2 % of the difference make 172.84.
        // Its root is 13.1469 W, and 13.1469 W * 2.326348 = 30.5842 W.
        for (mean, deviation) in [(100, 3), (50, 4), (20, 12)] {
            sum.add(Power::from_watts(mean), Power::from_watts(deviation));
        }
        assert_eq!(sum.mean(), Power::from_watts(170));
        let high = sum.with_margin(Confidence::new(990).expect("in the range"));
        assert_eq!(high.mw(), 200_585);
    }
}
