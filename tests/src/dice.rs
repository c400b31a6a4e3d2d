//! Repeatable randomness: equal seeds give equal throws.

use std::time::Duration;

use limo_power::Noise;

#[derive(Debug, Clone)]
pub struct Dice(Noise);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Noise::new(seed))
    }

    /// Uses the seed in the variable `variable`, or a fresh one. Prints it, so that a failure can be repeated.
    pub fn from_env(variable: &str) -> Self {
        let given = std::env::var(variable).ok();
        let seed = given.map_or_else(fresh, |text| text.parse().expect("a seed is a number"));
        println!("{variable}={seed}");
        Self::new(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number from 0 to `sides` - 1.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.next_u64() % sides
    }

    /// Returns a time of at most `most`.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(most.as_micros()).expect("hours at most") + 1))
    }
}

fn fresh() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the kernel has randomness");
    u64::from_le_bytes(bytes)
}
