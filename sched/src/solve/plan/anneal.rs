//! Annealing over lists: a job is moved to another place, or two are swapped; a worse list is kept with a probability
//! that shrinks.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Decoder, Effort};

/// First and last temperature, in parts of the first cost for each job.
const TEMPERATURES: (f64, f64) = (0.5, 0.001);

/// Number of evaluations of the first round.
const FIRST_ROUND: u32 = 1_000;

/// Random numbers, equal on every machine.
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Returns a number from 0 to `sides` - 1.
    fn below(&mut self, sides: usize) -> usize {
        ((u128::from(self.0.next_u64()) * sides as u128) >> 64) as usize
    }

    /// Returns a number above 0 and at most 1.
    fn share(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A search for a better list. Each round of annealing has twice the length of the last one, so that the cost never rises
/// with the effort. Between two calls of [`Self::spend`] the problem may change a little, for example by the time that
/// has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annealing {
    /// The best list so far, and the present one.
    pub best: Vec<u32>,
    pub now: Vec<u32>,
    /// Evaluations of the present round, so far and in all.
    pub turn: u32,
    pub length: u32,
    /// Evaluations since the best list was found.
    pub stale: u32,
}

impl Annealing {
    /// Begins with a list.
    pub fn of(list: Vec<u32>) -> Self {
        Self { best: list.clone(), now: list, turn: 0, length: FIRST_ROUND, stale: 0 }
    }

    /// Tries some more lists. `best` is the cost of the best list; returns that of the best one afterwards.
    pub fn spend(&mut self, decoder: &mut Decoder<'_>, mut best: i128, effort: Effort) -> i128 {
        let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(effort.seed));
        let count = self.now.len();
        let is_best = self.now == self.best;
        let cost = if is_best { Some(best) } else { decoder.cost(&self.now, i128::MAX) };
        let Some(mut cost) = cost.filter(|_| count >= 2) else { return best };
        if cost < best {
            (best, self.best) = (cost, self.now.clone());
        }
        let scale = best as f64 / count as f64;
        for _ in 0..effort.evaluations {
            if self.turn == self.length {
                (cost, self.now) = (best, self.best.clone());
                (self.turn, self.length) = (0, self.length.saturating_mul(2));
            }
            let progress = f64::from(self.turn) / f64::from(self.length);
            let temperature = scale * TEMPERATURES.0 * libm::pow(TEMPERATURES.1 / TEMPERATURES.0, progress);
            // Drawn first, so that a schedule can be left as soon as it is too expensive.
            let bound = cost + (-temperature * libm::log(dice.share())) as i128;
            let (from, to) = places(&mut dice, count);
            let swaps = dice.coin();
            change(&mut self.now, (from, to), swaps);
            match decoder.cost(&self.now, bound) {
                Some(found) => cost = found,
                None => change(&mut self.now, if swaps { (from, to) } else { (to, from) }, swaps),
            }
            (self.turn, self.stale) = (self.turn + 1, self.stale.saturating_add(1));
            if cost < best {
                (best, self.best, self.stale) = (cost, self.now.clone(), 0);
            }
        }
        best
    }
}

/// Returns two different places. Their distance is small as often as large: its logarithm is uniform.
fn places(dice: &mut Dice, count: usize) -> (usize, usize) {
    let from = dice.below(count);
    let distance = libm::pow(count as f64, dice.share()) as usize;
    let to = if dice.coin() { from.saturating_sub(distance) } else { (from + distance).min(count - 1) };
    (from, if to == from { (from + 1) % count } else { to })
}

/// Swaps two jobs, or moves one.
fn change(order: &mut [u32], (from, to): (usize, usize), swaps: bool) {
    if swaps {
        order.swap(from, to);
    } else if from < to {
        order[from..=to].rotate_left(1);
    } else {
        order[to..=from].rotate_right(1);
    }
}
