//! Jobs of the pool, in batches.

use super::numbers as n;
use super::{Purpose, lognormal, picked};
use crate::generate::Dice;
use crate::pool::job::{Outcome, PoolJob};

/// Jobs that are submitted at one instant.
struct Batch {
    /// In seconds since the start of the year.
    submit: i64,
    jobs: u32,
    user: usize,
}

/// Passes the jobs to `take`, in order of submission.
///
/// # Errors
/// Those of `take`.
pub(super) fn jobs<E>(seed: u64, total: u32, mut take: impl FnMut(&PoolJob) -> Result<(), E>) -> Result<(), E> {
    let batches = batches(seed, total);
    let mut dice = Dice::of_purpose(seed, Purpose::Jobs as usize);
    for (batch, number) in batches.iter().zip(1..) {
        for process in 0..i64::from(batch.jobs) {
            take(&job(batch, number, process, &mut dice))?;
        }
    }
    Ok(())
}

fn batches(seed: u64, total: u32) -> Vec<Batch> {
    let mut dice = Dice::of_purpose(seed, Purpose::Batches as usize);
    let days = days(&mut dice);
    let sizes = zipf(n::BATCH_MAX, n::BATCH_EXPONENT);
    let users = zipf(n::USERS, n::USER_EXPONENT);
    let mut batches = Vec::new();
    let mut missing = total;
    while missing > 0 {
        // At most `BATCH_MAX`.
        let jobs = (picked(&sizes, &mut dice) as u32 + 1).min(missing);
        missing -= jobs;
        let day = picked(&days, &mut dice) as i64;
        let submit = day * 86_400 + dice.between(0.0, 86_400.0) as i64;
        batches.push(Batch { submit, jobs, user: picked(&users, &mut dice) });
    }
    batches.sort_by_key(|batch| batch.submit);
    batches
}

/// Returns sums of the weights of days: lognormal, each with a part of the day before it.
fn days(dice: &mut Dice) -> Vec<f64> {
    let fresh = (1.0 - n::DAY_RHO * n::DAY_RHO).sqrt();
    let (mut last, mut sum) = (dice.normal(), 0.0);
    let day = |_| {
        sum += libm::exp(n::DAY_SIGMA * last);
        last = n::DAY_RHO * last + fresh * dice.normal();
        sum
    };
    (0..n::DAYS).map(day).collect()
}

/// Returns sums of the weights of the ranks 1 to `ranks`.
fn zipf(ranks: usize, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let rank = |rank: usize| {
        sum += libm::pow(rank as f64, -exponent);
        sum
    };
    (1..=ranks).map(rank).collect()
}

fn job(batch: &Batch, number: i64, process: i64, dice: &mut Dice) -> PoolJob {
    let submit = n::START + batch.submit;
    let is_bad = dice.unit() < n::BAD;
    let outcome = if is_bad {
        Outcome::Removed { at: submit + seconds(lognormal(dice, n::REMOVAL_MEDIAN_S, n::REMOVAL_SIGMA)) }
    } else {
        Outcome::Completed { duration: seconds(lognormal(dice, n::JOB_MEDIAN_S, n::JOB_SIGMA).min(n::JOB_MAX_S)) }
    };
    let mut bytes = |median| Some(lognormal(dice, median, n::BYTES_SIGMA).min(n::BYTES_MAX) as i64);
    PoolJob {
        submit,
        batch: number,
        process,
        global: Vec::new(),
        changed: submit,
        outcome,
        user: format!("h{:02}", batch.user + 1).into_bytes(),
        bytes_in: bytes(n::BYTES_IN_MEDIAN),
        bytes_out: bytes(n::BYTES_OUT_MEDIAN),
    }
}

/// Rounds to whole seconds, at least one.
fn seconds(exact: f64) -> i64 {
    exact.round().max(1.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_the_total_and_their_bounds() {
        let batches = batches(1, 100_000);
        assert_eq!(batches.iter().map(|batch| batch.jobs).sum::<u32>(), 100_000);
        assert!(batches.iter().all(|batch| (1..=5_000).contains(&batch.jobs)));
        assert!(batches.is_sorted_by_key(|batch| batch.submit));
        // The most frequent size of a Zipf distribution is 1: 1 / zeta(1.6) = 44 % of the batches.
        let single = batches.iter().filter(|batch| batch.jobs == 1).count() as f64 / batches.len() as f64;
        assert!((single - 0.44).abs() < 0.04, "{single}");
        assert!((0..60).all(|user| batches.iter().any(|batch| batch.user == user)));
    }

    #[test]
    fn bodies_have_the_distributions_of_the_recipe() {
        let (mut durations, mut removals) = (Vec::new(), Vec::new());
        let taken = jobs::<()>(1, 100_000, |job| {
            match job.outcome {
                Outcome::Completed { duration } => durations.push(duration),
                Outcome::Removed { at } => removals.push(at - job.submit),
            }
            Ok(())
        });
        assert_eq!(taken, Ok(()));
        let share = removals.len() as f64 / 1e5;
        assert!((share - 0.05).abs() < 0.005, "{share}");
        let median = |list: &mut Vec<i64>| {
            list.sort_unstable();
            list[list.len() / 2] as f64
        };
        // Five deviations of the median of a lognormal distribution: 5 x 1.25 sigma / sqrt(n).
        assert!((median(&mut durations) / 1_200.0 - 1.0).abs() < 0.035);
        assert!((median(&mut removals) / 43_200.0 - 1.0).abs() < 0.095);
        assert_eq!(durations.last(), Some(&(7 * 86_400)));
    }
}
