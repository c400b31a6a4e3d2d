//! The recipe of the twenty workloads of limo-2018, Table 4.3: sizes and due times of matrices. Contents are in
//! [`super::matrix`].
//!
//! The thesis gives names, means and counts. The rest follows from its figures: the dimension of a matrix is 16·d with
//! d uniform in [max(1, g/32), g/8] for the goal g of the name, and `d` in Equation (4.1) is that number of blocks. In
//! each group, count · mean job size · (1 + i/100) is the same within the size of one matrix, so a workload ends when
//! its time is up, and not after a number of matrices. The spacing of matrices is not given: here the next one is due
//! when a target with the group's throughput has done the one before and has then been idle for i percent of that
//! time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use thiserror::Error;

/// Matrix dimensions are multiples of this.
pub const BLOCK: usize = 16;

/// Goal duration of each workload.
pub const GOAL: Duration = Duration::from_secs(60);

/// Goal dimension of each group, and the number of matrices of its workload without idle time.
const GROUPS: [(u32, u32); 5] = [(16, 2_220_000), (64, 221_000), (256, 15_100), (1024, 943), (4096, 21)];

/// Idle times, in percent of the computing time.
const IDLES: [u32; 4] = [0, 10, 50, 200];

/// One of the twenty workloads, such as `m256_i50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    goal: u32,
    idle: u32,
    count: u32,
}

/// The name is none of the twenty.
#[derive(Debug, Error)]
#[error("{0:?} is not one of the twenty workloads: use m16, m64, m256, m1024 or m4096, then _i0, _i10, _i50 or _i200")]
pub struct UnknownRecipe(String);

impl FromStr for Recipe {
    type Err = UnknownRecipe;

    fn from_str(name: &str) -> Result<Self, UnknownRecipe> {
        Self::all().find(|recipe| recipe.to_string() == name).ok_or_else(|| UnknownRecipe(name.to_owned()))
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}_i{}", self.goal, self.idle)
    }
}

impl Recipe {
    /// Returns the twenty workloads in the order of Table 4.3.
    pub fn all() -> impl Iterator<Item = Self> {
        GROUPS.into_iter().flat_map(|(goal, count)| IDLES.into_iter().map(move |idle| Self { goal, idle, count }))
    }

    /// Returns the workload's matrices; equal seeds give equal matrices.
    pub fn jobs(self, seed: u64) -> Jobs {
        let (least, most) = self.blocks();
        let mean = (least..=most).map(operations).sum::<f64>() / f64::from(most - least + 1);
        // Without idle time, the group's number of matrices of the mean size fills the goal duration.
        let per_second = f64::from(self.count) * mean / GOAL.as_secs_f64();
        let operation_s = (1.0 + f64::from(self.idle) / 100.0) / per_second;
        let generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        Jobs { generator, least, most, operation_s, due_s: 0.0, before_us: 0 }
    }

    /// Range of the number of blocks in a row.
    fn blocks(self) -> (u32, u32) {
        ((self.goal / 32).max(1), self.goal / 8)
    }
}

/// Returns the estimated number of operations for a matrix of `blocks` by `blocks` blocks: limo-2018, Equation (4.1).
/// In the mean of a workload, one is between 1/2.7 (m16) and 1/6.2 (m4096) of a floating-point operation of [`flop`].
pub fn operations(blocks: u32) -> f64 {
    let d = f64::from(blocks);
    16896.0 * d * d * d - 21120.0 * d * d + 6824.0 * d
}

/// Returns the usual number of floating-point operations of an LU decomposition, 2/3 n³, for `dimension` n.
pub fn flop(dimension: usize) -> f64 {
    2.0 / 3.0 * (dimension as f64).powi(3)
}

/// A matrix to decompose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Time after the due time of the job before, in whole microseconds.
    pub delay: Duration,
    /// Number of blocks of 16 in a row.
    pub blocks: u32,
}

impl Job {
    /// Number of rows, which is that of columns.
    pub fn dimension(&self) -> usize {
        self.blocks as usize * BLOCK
    }
}

/// The matrices of a workload, in order.
#[derive(Debug, Clone)]
pub struct Jobs {
    generator: Xoshiro256PlusPlus,
    least: u32,
    most: u32,
    /// Time for an operation with the idle time after it, in seconds.
    operation_s: f64,
    /// Due time of the next matrix, in seconds.
    due_s: f64,
    /// Due time of the matrix before, in microseconds.
    before_us: u64,
}

impl Iterator for Jobs {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        if self.due_s >= GOAL.as_secs_f64() {
            return None;
        }
        let count = self.most - self.least + 1;
        let scaled = (u128::from(self.generator.next_u64()) * u128::from(count)) >> 64;
        // `scaled` is less than `count`.
        let blocks = self.least + scaled as u32;
        let due_us = (self.due_s * 1e6) as u64;
        let delay = Duration::from_micros(due_us - self.before_us);
        self.before_us = due_us;
        self.due_s += operations(blocks) * self.operation_s;
        Some(Job { delay, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 20;

    /// Number and sum of operations of a workload's matrices, over 20 seeds.
    fn pooled(name: &str) -> (f64, f64) {
        let recipe: Recipe = name.parse().unwrap();
        let jobs = (0..SEEDS).flat_map(|seed| recipe.jobs(seed));
        jobs.fold((0.0, 0.0), |(count, sum), job| (count + 1.0, sum + operations(job.blocks)))
    }

    #[track_caller]
    fn check(what: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found} instead of {expected}");
    }

    #[test]
    fn operations_are_those_of_equation_4_1() {
        assert_eq!(operations(1), 2_600.0);
        assert_eq!(operations(2), 64_336.0);
        assert_eq!(flop(3), 18.0);
    }

    /// Means and counts of Table 4.3. The means are those of the uniform distribution, of which the table has samples.
    #[test]
    fn the_twenty_workloads_have_the_sizes_and_counts_of_table_4_3() {
        let groups = [
            ("m16", 33_468.0, 0.01, 2_220_000.0, 0.01),
            ("m64", 2.547e6, 0.01, 221_000.0, 0.01),
            ("m256", 178.5e6, 0.01, 15_100.0, 0.01),
            ("m1024", 11.68e9, 0.03, 943.0, 0.03),
            ("m4096", 752e9, 0.08, 21.0, 0.08),
        ];
        for (group, operations, tolerance, matrices, spread) in groups {
            let workloads = [("i0", 1.0), ("i10", 1.0 / 1.1), ("i50", 1.0 / 1.5), ("i200", 1.0 / 3.0)];
            let (mut count, mut sum) = (0.0, 0.0);
            for (idle, part) in workloads {
                let name = format!("{group}_{idle}");
                let (of_one, operations) = pooled(&name);
                (count, sum) = (count + of_one, sum + operations);
                // The last matrix may end after the goal, so there is up to one more in the mean.
                let expected = SEEDS as f64 * matrices * part;
                let is_near = (of_one - expected).abs() <= spread * expected + SEEDS as f64;
                assert!(is_near, "{name}: {of_one} matrices instead of {expected}");
            }
            check(group, sum / count, operations, tolerance);
        }
    }

    #[test]
    fn the_last_matrix_is_due_within_the_goal() {
        for recipe in Recipe::all() {
            let due: Duration = recipe.jobs(3).map(|job| job.delay).sum();
            assert!(due < GOAL && due > GOAL.mul_f64(0.5), "{recipe}: {due:?}");
        }
    }

    /// By hand: matrices of 2600 and 64,336 operations, a throughput of 2,220,000 · 33,468 / 60 s = 1.238316 GOp/s, so
    /// they are 2.0996 us and 51.954 us apart, three times as much with 200 % of idle time.
    #[test]
    fn matrices_are_spaced_by_their_operations_and_the_idle_time() {
        let delays = |name: &str| {
            let jobs: Vec<Job> = name.parse::<Recipe>().unwrap().jobs(5).take(1000).collect();
            jobs.windows(2).map(|pair| (pair[0].blocks, pair[1].delay.as_micros())).collect::<Vec<_>>()
        };
        let near = |found: u128, blocks: u32, small: u128, large: u128| {
            let expected = if blocks == 1 { small } else { large };
            found == expected || found == expected + 1
        };
        assert!(delays("m16_i0").iter().all(|(blocks, delay)| near(*delay, *blocks, 2, 51)));
        assert!(delays("m16_i200").iter().all(|(blocks, delay)| near(*delay, *blocks, 6, 155)));
        assert!(delays("m16_i0").iter().any(|(blocks, _)| *blocks == 1));
    }

    #[test]
    fn seeds_choose_the_matrices() {
        let recipe: Recipe = "m1024_i200".parse().unwrap();
        assert!(recipe.jobs(1).eq(recipe.jobs(1)));
        assert!(!recipe.jobs(1).eq(recipe.jobs(2)));
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["m16", "m16_i1", "m32_i0", "M16_i0", "m16_i0 "] {
            let error = name.parse::<Recipe>().expect_err("no recipe").to_string();
            assert!(error.starts_with(&format!("{name:?} is not one of the twenty workloads")), "{error}");
        }
    }
}
