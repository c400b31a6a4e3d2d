//! Repeatable noise: splitmix64, so that equal seeds give equal runs on every machine. Not for secrets.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::percent::Percent;

/// A sequence of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Noise(SplitMix64);

impl Noise {
    /// Starts with any seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next number of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
    /// 2014).
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a factor in millionths, evenly spread over 1 - `spread` to 1 + `spread`, both included.
    pub(crate) fn factor(&mut self, spread: Percent) -> i64 {
        let spread = u64::from(spread.millionths());
        // The sum is at most 1.5 million, which fits; the modulo is biased by less than 1e-13.
        (1_000_000 - spread + self.next_u64() % (2 * spread + 1)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // The first numbers of the reference implementation for seed 1234567.
        let mut noise = Noise::new(1_234_567);
        assert_eq!([noise.next_u64(), noise.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn factors_stay_within_the_spread_and_reach_both_sides() {
        let spread: Percent = "2%".parse().expect("a percentage");
        let mut noise = Noise::new(1);
        let factors: Vec<i64> = (0..10_000).map(|_| noise.factor(spread)).collect();
        assert!(factors.iter().all(|factor| (980_000..=1_020_000).contains(factor)));
        assert!(factors.iter().any(|factor| *factor < 981_000) && factors.iter().any(|factor| *factor > 1_019_000));
        assert_eq!(Noise::new(1).factor(Percent::default()), 1_000_000);
    }
}
