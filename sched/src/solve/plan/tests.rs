//! Small plans, compared with all possible ones, and the promises of the search.

use limo_model::Span;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn job(weight: u32, ms: i64, needs: &[i64]) -> PlanJob {
    PlanJob { weight, span: Span::from_ms(ms), needs: needs.to_vec() }
}

/// Returns true if no resource is used beyond its capacity. Use rises only at starts.
fn is_feasible(capacity: &[i64], jobs: &[PlanJob], starts: &[i64]) -> bool {
    starts.iter().all(|now| {
        (0..capacity.len()).all(|resource| {
            let runs = jobs.iter().zip(starts).filter(|(job, start)| (**start..**start + job.span.ms()).contains(now));
            runs.map(|(job, _)| job.needs[resource]).sum::<i64>() <= capacity[resource]
        })
    })
}

fn cost(jobs: &[PlanJob], starts: &[i64]) -> i128 {
    jobs.iter().zip(starts).map(|(job, start)| i128::from(job.weight) * i128::from(*start)).sum()
}

/// Returns the least cost of all feasible starts below `horizon`, by trying every one.
fn least(capacity: &[i64], jobs: &[PlanJob], horizon: i64) -> Option<i128> {
    let mut starts = vec![0; jobs.len()];
    let mut best: Option<i128> = None;
    loop {
        if is_feasible(capacity, jobs, &starts) {
            best = best.into_iter().chain([cost(jobs, &starts)]).min();
        }
        let place = starts.iter().position(|start| start + 1 < horizon)?;
        starts[..place].fill(0);
        starts[place] += 1;
        if starts.iter().all(|start| start + 1 == horizon) {
            return best;
        }
    }
}

fn solved(capacity: &[i64], jobs: &[PlanJob], evaluations: u32, seed: u64) -> (i128, Vec<i64>) {
    let schedule = PlanProblem::new(capacity, jobs).expect("in range").solve(Effort { evaluations, seed });
    (schedule.cost, schedule.starts.iter().map(|start| start.ms()).collect())
}

#[test]
fn a_heavy_short_job_goes_before_a_wide_one() {
    // By hand: the wide job first costs 3 * 10 = 30 (the short one waits 10), the short one first 1 * 2 = 2.
    let jobs = [job(1, 10, &[2, 5]), job(3, 2, &[1, 1])];
    assert_eq!(solved(&[2, 6], &jobs, 0, 1), (2, vec![2, 0]));
    // With room for both, none waits.
    assert_eq!(solved(&[3, 6], &jobs, 0, 1), (0, vec![0, 0]));
    // The draw alone keeps them apart.
    assert_eq!(solved(&[3, 5], &jobs, 0, 1), (2, vec![2, 0]));
}

#[test]
fn problems_out_of_range_are_named() {
    let error = |capacity: &[i64], job: PlanJob| PlanProblem::new(capacity, &[job]).expect_err("refused").to_string();
    assert_eq!(error(&[4, 4], job(1, 1, &[4, 5])), "job 0 needs 5 of resource 1: it has 4");
    assert_eq!(error(&[4], job(1, 1, &[4, 4])), "job 0 names 2 resources: there are 1");
    assert_eq!(error(&[4], job(1, -1, &[4])), "job 0 lasts -1 ms: from 0 to 1099511627776 ms are possible");
    assert_eq!(error(&[4; 9], job(1, 1, &[4; 9])), "there are 9 resources: at most 8");
}

fn jobs(count: std::ops::Range<usize>, longest: i64) -> impl Strategy<Value = Vec<PlanJob>> {
    let one = (0..5u32, 0..=longest, 0..4i64, 0..4i64);
    vec(one.prop_map(|(weight, ms, one, other)| job(weight, ms, &[one, other])), count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_small_schedule_is_optimal(jobs in jobs(1..5, 3), one in 3..6i64, other in 3..6i64) {
        let capacity = [one, other];
        let (found, starts) = solved(&capacity, &jobs, 0, 1);
        prop_assert!(is_feasible(&capacity, &jobs, &starts));
        prop_assert_eq!(found, cost(&jobs, &starts));
        let horizon = jobs.iter().map(|job| job.span.ms()).sum::<i64>() + 1;
        prop_assert_eq!(Some(found), least(&capacity, &jobs, horizon.max(2)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_search_is_feasible_and_never_worse_with_more_effort(jobs in jobs(11..30, 20), seed in 0..9u64) {
        let capacity = [5, 4];
        let rule = PlanProblem::new(&capacity, &jobs).expect("in range").by_rule().cost;
        let mut last = rule;
        for evaluations in [0, 10, 500, 1_500, 4_000] {
            let (found, starts) = solved(&capacity, &jobs, evaluations, seed);
            prop_assert!(is_feasible(&capacity, &jobs, &starts));
            prop_assert_eq!(found, cost(&jobs, &starts));
            prop_assert!(found <= last, "{found} after {last}");
            prop_assert_eq!(&solved(&capacity, &jobs, evaluations, seed).1, &starts);
            last = found;
        }
    }
}
