//! Confidence: a probability, and the quantile of the normal distribution that it means.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Lowest and highest confidence, in thousandths.
const LOWEST: u16 = 500;
const HIGHEST: u16 = 999;

/// Probability that a value stays below an expected one with its margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Confidence(u16);

/// A confidence that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a confidence of {permille} thousandths is not possible: write {LOWEST} to {HIGHEST}, such as 990 for 99 %")]
pub struct ConfidenceError {
    permille: u32,
}

/// Coefficients of Acklam's rational approximation of the quantiles, whose relative error is below 1.15e-9.
const MIDDLE: [f64; 6] = [
    -3.969_683_028_665_376e1,
    2.209_460_984_245_205e2,
    -2.759_285_104_469_687e2,
    1.383_577_518_672_69e2,
    -3.066_479_806_614_716e1,
    2.506_628_277_459_239,
];
const MIDDLE_DIVISOR: [f64; 6] = [
    -5.447_609_879_822_406e1,
    1.615_858_368_580_409e2,
    -1.556_989_798_598_866e2,
    6.680_131_188_771_972e1,
    -1.328_068_155_288_572e1,
    1.0,
];
const TAIL: [f64; 6] = [
    -7.784_894_002_430_293e-3,
    -3.223_964_580_411_365e-1,
    -2.400_758_277_161_838,
    -2.549_732_539_343_734,
    4.374_664_141_464_968,
    2.938_163_982_698_783,
];
const TAIL_DIVISOR: [f64; 5] =
    [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
/// Probability from which on the coefficients of the tail hold.
const FROM: f64 = 0.975_75;

impl Confidence {
    /// The confidence of 90 %.
    pub const NINETY: Self = Self(900);

    /// Makes a confidence of thousandths, 500 to 999.
    ///
    /// # Errors
    /// If the number is out of this range.
    pub fn new(permille: u32) -> Result<Self, ConfidenceError> {
        let known = u16::try_from(permille).ok().filter(|permille| (LOWEST..=HIGHEST).contains(permille));
        known.map(Self).ok_or(ConfidenceError { permille })
    }

    /// Returns the thousandths.
    pub fn permille(self) -> u16 {
        self.0
    }

    /// Returns true for [`Confidence::NINETY`], the default of options.
    pub fn is_ninety(&self) -> bool {
        *self == Self::NINETY
    }

    /// Returns how many standard deviations above the mean a normal variable stays with this probability.
    pub fn deviations(self) -> f64 {
        let polynomial = |of: &[f64], x: f64| of.iter().fold(0.0, |sum, coefficient| sum * x + coefficient);
        let wanted = f64::from(self.0) / 1e3;
        if wanted > FROM {
            let x = libm::sqrt(-2.0 * libm::log(1.0 - wanted));
            return -polynomial(&TAIL, x) / polynomial(&TAIL_DIVISOR, x);
        }
        let x = wanted - 0.5;
        x * polynomial(&MIDDLE, x * x) / polynomial(&MIDDLE_DIVISOR, x * x)
    }
}

impl TryFrom<u16> for Confidence {
    type Error = ConfidenceError;

    fn try_from(permille: u16) -> Result<Self, ConfidenceError> {
        Self::new(permille.into())
    }
}

impl From<Confidence> for u16 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}

impl std::fmt::Display for Confidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{} %", self.0 / 10),
            tenth => write!(f, "{}.{tenth} %", self.0 / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution() {
        // From a table of the standard normal distribution.
        for (permille, deviations) in [
            (500, 0.0),
            (841, 0.9986),
            (970, 1.880_8),
            (980, 2.053_7),
            (900, 1.281_6),
            (950, 1.644_9),
            (990, 2.326_3),
            (999, 3.090_2),
        ] {
            let found = Confidence::new(permille).expect("in the range").deviations();
            assert!((found - deviations).abs() < 1e-4, "{permille}: {found}");
        }
        let message = Confidence::new(1_000).expect_err("nothing is certain").to_string();
        assert_eq!(message, "a confidence of 1000 thousandths is not possible: write 500 to 999, such as 990 for 99 %");
    }

    #[test]
    fn texts_are_percentages() {
        let shown = |permille| Confidence::new(permille).expect("in the range").to_string();
        assert_eq!((shown(900), shown(995)), ("90 %".to_owned(), "99.5 %".to_owned()));
    }
}
