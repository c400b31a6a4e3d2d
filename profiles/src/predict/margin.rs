//! Margins: how much more than the expected draw holds with a given confidence.
//!
//! Power-capping-2018, section 5.2.4, plans with 99 or 95 % of the cap. A margin from the spread of the predictions is
//! narrow for jobs that are well known and wide for others.

use limo_model::Power;
use thiserror::Error;

/// Lowest and highest confidence, in thousandths.
const LOWEST: u16 = 500;
const HIGHEST: u16 = 999;

/// Probability that a draw stays below an expected one with its margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Confidence(u16);

/// A confidence that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a confidence of {permille} thousandths is not possible: write {LOWEST} to {HIGHEST}, such as 990 for 99 %")]
pub struct ConfidenceError {
    permille: u16,
}

impl Confidence {
    /// Makes a confidence of thousandths, 500 to 999.
    ///
    /// # Errors
    /// If the number is out of this range.
    pub fn new(permille: u16) -> Result<Self, ConfidenceError> {
        if (LOWEST..=HIGHEST).contains(&permille) { Ok(Self(permille)) } else { Err(ConfidenceError { permille }) }
    }

    /// Returns how many standard deviations above the mean a normal variable stays with this probability.
    pub fn deviations(self) -> f64 {
        let wanted = f64::from(self.0) / 1e3;
        // The distribution grows, and is 0.5 at 0 and more than 0.999 at 4.
        let (mut low, mut high) = (0.0, 4.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            let below = 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2);
            if below < wanted { low = middle } else { high = middle }
        }
        low
    }
}

/// Sum of the expected draws of jobs with its variance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum {
    /// Sum of the means, in milliwatts.
    mean_mw: f64,
    /// Sum of the squared standard deviations.
    variance: f64,
}

impl Sum {
    /// Adds a job with this mean and standard deviation.
    pub fn add(&mut self, mean: Power, deviation: Power) {
        self.mean_mw += mean.mw() as f64;
        let deviation = deviation.mw() as f64;
        self.variance += deviation * deviation;
    }

    /// Returns the expected draw of all jobs.
    pub fn mean(&self) -> Power {
        Power::from_mw(libm::round(self.mean_mw) as i64)
    }

    /// Returns the draw that all jobs together stay below with this confidence: the sum of the means, and the deviations of
    /// a normal variable times the root of the sum of the variances. This is less than the sum of the margins of the
    /// jobs, as long as their errors are independent.
    pub fn with_margin(&self, confidence: Confidence) -> Power {
        let margin = confidence.deviations() * libm::sqrt(self.variance);
        Power::from_mw(libm::ceil(self.mean_mw + margin) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution() {
        // From a table of the standard normal distribution.
        for (permille, deviations) in
            [(500, 0.0), (841, 0.9986), (900, 1.281_6), (950, 1.644_9), (990, 2.326_3), (999, 3.090_2)]
        {
            let found = Confidence::new(permille).expect("in the range").deviations();
            assert!((found - deviations).abs() < 1e-4, "{permille}: {found}");
        }
        let message = Confidence::new(1_000).expect_err("nothing is certain").to_string();
        assert_eq!(message, "a confidence of 1000 thousandths is not possible: write 500 to 999, such as 990 for 99 %");
    }

    #[test]
    fn variances_add_up() {
        let mut sum = Sum::default();
        // Roots of squares: 3, 4 and 12 W make 13 W. 13 W * 2.326348 = 30.2425 W.
        for (mean, deviation) in [(100, 3), (50, 4), (20, 12)] {
            sum.add(Power::from_watts(mean), Power::from_watts(deviation));
        }
        assert_eq!(sum.mean(), Power::from_watts(170));
        let high = sum.with_margin(Confidence::new(990).expect("in the range"));
        assert_eq!(high.mw(), 200_243);
    }
}
