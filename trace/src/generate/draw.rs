//! Numbers from a seed: uniform, exponential, normal, gamma. Equal seeds give equal bits on every machine.
//!
//! Uses only `+ - * /` and square roots, which IEEE 754 rounds exactly, and `libm`, which is the same code everywhere.
//! The generator is xoshiro256++ (Blackman and Vigna 2021), seeded through SplitMix64.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Purpose of a stream of numbers. Each purpose has its own stream, so that another distribution of one does not
/// change the others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Sizes,
    Runtimes,
    Arrivals,
    Walltimes,
    Users,
}

/// Random numbers from a seed.
#[derive(Debug, Clone)]
pub struct Dice {
    generator: Xoshiro256PlusPlus,
    /// Second normal number of the polar method, which makes two at once.
    spare: Option<f64>,
}

impl Dice {
    pub(super) fn new(seed: u64, stream: Stream) -> Self {
        Self::of_purpose(seed, stream as usize)
    }

    /// Makes the numbers of one purpose; another purpose has others from the same seed.
    pub fn of_purpose(seed: u64, purpose: usize) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        // A jump skips 2^128 numbers, so streams never overlap.
        for _ in 0..purpose {
            generator.jump();
        }
        Self { generator, spare: None }
    }

    /// Draws uniformly from [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Draws uniformly from [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws uniformly from the whole numbers `min` to `max`, both included; `min <= max`. The probability of a value
    /// is off by less than (max - min) / 2^64, too little for any sample to show.
    pub(crate) fn integer(&mut self, min: u32, max: u32) -> u32 {
        let count = u64::from(max) - u64::from(min) + 1;
        let scaled = (u128::from(self.generator.next_u64()) * u128::from(count)) >> 64;
        // `scaled` is less than `count`, so `min + scaled` is at most `max`.
        min + scaled as u32
    }

    /// Draws with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Draws with mean 0 and deviation 1. Marsaglia's polar method (Marsaglia and Bray 1964).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * libm::log(square) / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// Draws with mean `shape * scale` and variance `shape * scale^2`; both positive. Marsaglia and Tsang, "A simple
    /// method for generating gamma variables", ACM TOMS 26(3), 2000; shapes below 1 by their section 6.
    pub(super) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.unit(), 1.0 / shape);
            return boost * self.gamma(shape + 1.0, scale);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            let u = 1.0 - self.unit();
            // The first test is cheap and nearly always accepts.
            if u < 1.0 - 0.0331 * x * x * x * x || libm::log(u) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
                return d * v * scale;
            }
        }
    }
}

/// Returns the share of a gamma distribution (`shape` > 0, scale 1) below `x`, which is the regularised incomplete
/// gamma function. Its power series converges for every x; x is limited to 700, beyond which e^-x is zero.
pub(super) fn gamma_share_below(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut term = 1.0;
    let mut sum = 1.0;
    let mut step = shape;
    // Terms fall once `step` exceeds x, and by half from 2x on.
    while term > sum * 1e-16 || step < x {
        step += 1.0;
        term *= x / step;
        sum += term;
    }
    (sum * libm::exp(shape * libm::log(x) - x - libm::lgamma(shape + 1.0))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    /// Checks mean and variance of draws, each within five deviations of its estimator; `kurtosis` is the fourth
    /// central moment over the squared variance.
    fn check(draw: impl Fn(&mut Dice) -> f64, mean: f64, variance: f64, kurtosis: f64) {
        let mut dice = Dice::new(7, Stream::Sizes);
        let values: Vec<f64> = (0..DRAWS).map(|_| draw(&mut dice)).collect();
        let n = f64::from(DRAWS);
        let found_mean = values.iter().sum::<f64>() / n;
        let found_variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        assert!((found_mean - mean).abs() < 5.0 * (variance / n).sqrt(), "mean {found_mean}, not {mean}");
        let spread = variance * ((kurtosis - 1.0) / n).sqrt();
        assert!((found_variance - variance).abs() < 5.0 * spread, "variance {found_variance}, not {variance}");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        check(Dice::unit, 0.5, 1.0 / 12.0, 1.8);
        check(|dice| dice.between(-2.0, 4.0), 1.0, 3.0, 1.8);
        check(|dice| f64::from(dice.integer(1, 6)), 3.5, 35.0 / 12.0, 1.8);
        check(Dice::exponential, 1.0, 1.0, 9.0);
        check(Dice::normal, 0.0, 1.0, 3.0);
        // A gamma distribution has the kurtosis 3 + 6 / shape.
        check(|dice| dice.gamma(4.2, 0.94), 3.948, 3.71112, 4.5);
        check(|dice| dice.gamma(312.0, 0.03), 9.36, 0.2808, 3.1);
        check(|dice| dice.gamma(0.5, 2.0), 1.0, 2.0, 15.0);
    }

    #[test]
    fn whole_numbers_reach_both_ends_and_no_further() {
        let mut dice = Dice::new(1, Stream::Users);
        let drawn: Vec<u32> = (0..1_000).map(|_| dice.integer(3, 5)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&5)));
        assert!((0..100).all(|_| dice.integer(9, 9) == 9));
        assert!((0..100).any(|_| dice.integer(0, u32::MAX) > u32::MAX / 2));
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let first = |stream| Dice::new(1, stream).unit().to_bits();
        assert_ne!(first(Stream::Sizes), first(Stream::Runtimes));
        assert_ne!(first(Stream::Walltimes), first(Stream::Users));
    }

    #[test]
    fn gamma_shares() {
        let check = |shape: f64, x: f64, expected: f64| {
            let found = gamma_share_below(shape, x);
            assert!((found - expected).abs() < 1e-9, "shape {shape}, x {x}: {found}, not {expected}");
        };
        check(3.0, 0.0, 0.0);
        // The closed forms are 1 - e^-x for 1, 1 - (1 + x) e^-x for 2, and the error function of sqrt(x) for 1/2.
        check(1.0, 1.0, 0.632_120_558_8);
        check(1.0, 690.0, 1.0);
        check(2.0, 3.0, 0.800_851_726_5);
        check(0.5, 1.0, 0.842_700_792_9);
        // The shares are by numerical integration of the density.
        check(8.1737, 10.5 / 3.9631, 0.004_811_823_145);
        check(8.1737, 50.0 / 3.9631, 0.926_482_554_054);
    }
}
