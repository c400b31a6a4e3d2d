//! Random numbers from a seed, for workloads and nodes of the laboratory.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random numbers from a seed.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Makes the numbers of one purpose; another purpose has others from the same seed.
    pub fn new(seed: u64, purpose: u32) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..purpose).for_each(|_| generator.jump());
        Self(generator)
    }

    /// Draws uniformly from [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Draws from a normal distribution with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Draws the index of one of `count` items.
    pub fn index(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// Puts items in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}
