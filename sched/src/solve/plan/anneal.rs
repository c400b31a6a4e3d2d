//! Annealing over lists: a job is moved to another place, or two are swapped; a worse list is kept with a probability
//! that shrinks.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Decoder, Effort, PlanProblem};

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

/// Returns the best list that was found from `order`. Each round of annealing has twice the length of the last one, so
/// that the cost never rises with the effort.
pub(super) fn improved(problem: &PlanProblem, order: Vec<u32>, effort: Effort) -> Vec<u32> {
    let (mut decoder, mut dice) = (Decoder::new(problem), Dice(Xoshiro256PlusPlus::seed_from_u64(effort.seed)));
    let Some(cost) = decoder.cost(&order, i128::MAX) else { return order };
    let scale = cost as f64 / order.len() as f64;
    let mut best = (cost, order);
    let (mut left, mut length) = (effort.evaluations, FIRST_ROUND);
    while left > 0 {
        let (mut cost, mut now) = best.clone();
        for turn in 0..length.min(left) {
            let progress = f64::from(turn) / f64::from(length);
            let temperature = scale * TEMPERATURES.0 * libm::pow(TEMPERATURES.1 / TEMPERATURES.0, progress);
            // Drawn first, so that a schedule can be left as soon as it is too expensive.
            let bound = cost + (-temperature * libm::log(dice.share())) as i128;
            let (from, to) = places(&mut dice, now.len());
            let swaps = dice.coin();
            change(&mut now, (from, to), swaps);
            match decoder.cost(&now, bound) {
                Some(found) => cost = found,
                None => change(&mut now, if swaps { (from, to) } else { (to, from) }, swaps),
            }
            if cost < best.0 {
                best = (cost, now.clone());
            }
        }
        left -= length.min(left);
        length = length.saturating_mul(2);
    }
    best.1
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
