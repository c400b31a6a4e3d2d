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
    starts.iter().all(|now| fits_at(capacity, jobs, starts, *now))
}

/// Returns true if no resource is used beyond its capacity at a time.
fn fits_at(capacity: &[i64], jobs: &[PlanJob], starts: &[i64], now: i64) -> bool {
    (0..capacity.len()).all(|resource| {
        let runs = jobs.iter().zip(starts).filter(|(job, start)| (**start..**start + job.span.ms()).contains(&now));
        runs.map(|(job, _)| job.needs[resource]).sum::<i64>() <= capacity[resource]
    })
}

fn cost(jobs: &[PlanJob], starts: &[i64]) -> i128 {
    jobs.iter().zip(starts).map(|(job, start)| i128::from(job.weight) * i128::from(*start)).sum()
}

/// Returns the least cost of all feasible starts below `horizon`, by trying every one.
fn least(jobs: &[PlanJob], horizon: i64, is_feasible: impl Fn(&[i64]) -> bool) -> Option<i128> {
    let mut starts = vec![0; jobs.len()];
    let mut best: Option<i128> = None;
    loop {
        if is_feasible(&starts) {
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

/// A job that is held does not start before one of the others ends, and those that start now are known without the rest.
#[test]
fn a_held_job_waits_for_the_next_end() {
    let jobs = [job(1, 10, &[1]), job(1, 4, &[1]), job(1, 6, &[2])];
    let mut problem = PlanProblem::new(&[3], &jobs).expect("in range");
    assert_eq!(problem.first_starts(&[0, 1, 2]), [0, 1]);
    assert_eq!(problem.first_starts(&[2, 0, 1]), [2, 0]);
    problem.hold(0);
    // The wide one fits beside the others.
    let starts = problem.schedule(&[1, 0, 2]).starts;
    assert_eq!(starts.iter().map(|start| start.ms()).collect::<Vec<_>>(), [4, 0, 0]);
    assert_eq!(problem.first_starts(&[1, 0, 2]), [1, 2]);
}

/// A search in many parts finds what it would find in few: the cost never rises.
#[test]
fn a_search_in_parts_never_gets_worse() {
    let jobs: Vec<PlanJob> =
        (0..30_u32).map(|at| job(1 + at % 3, 1 + i64::from(at * 7 % 19), &[1 + i64::from(at * 5 % 4)])).collect();
    let problem = PlanProblem::new(&[5], &jobs).expect("in range");
    let rule = problem.by_rule().cost;
    let mut search = Annealing::of(problem.listed(ListRule::Given));
    let mut last = problem.schedule(&search.best).cost;
    for seed in 0..200 {
        let cost = search.spend(&mut Decoder::new(&problem), last, Effort { evaluations: 20, seed });
        assert_eq!(cost, problem.schedule(&search.best).cost);
        assert!(cost <= last, "{cost} after {last}");
        last = cost;
    }
    assert!(last < rule, "{last} after 4,000 lists, {rule} by rule");
    // Rounds of 1,000 and 2,000 lists, and the first quarter of one of 4,000.
    assert_eq!((search.turn, search.length), (1_000, 4_000));
}

#[test]
fn problems_out_of_range_are_named() {
    let error = |capacity: &[i64], job: PlanJob| PlanProblem::new(capacity, &[job]).expect_err("refused").to_string();
    assert_eq!(error(&[4, 4], job(1, 1, &[4, 5])), "job 0 needs 5 of resource 1: it has 4");
    assert_eq!(error(&[4], job(1, 1, &[4, 4])), "job 0 names 2 resources: there are 1");
    assert_eq!(error(&[4], job(1, -1, &[4])), "job 0 lasts -1 ms: from 0 to 1099511627776 ms are possible");
    assert_eq!(error(&[4; 9], job(1, 1, &[4; 9])), "there are 9 resources: at most 8");
}

fn jobs(count: std::ops::Range<usize>, spans: std::ops::RangeInclusive<i64>) -> impl Strategy<Value = Vec<PlanJob>> {
    let one = (0..5u32, spans, 0..4i64, 0..4i64);
    vec(one.prop_map(|(weight, ms, one, other)| job(weight, ms, &[one, other])), count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_small_schedule_is_optimal(jobs in jobs(1..5, 0..=3), one in 3..6i64, other in 3..6i64) {
        let capacity = [one, other];
        let (found, starts) = solved(&capacity, &jobs, 0, 1);
        prop_assert!(is_feasible(&capacity, &jobs, &starts));
        prop_assert_eq!(found, cost(&jobs, &starts));
        let horizon = jobs.iter().map(|job| job.span.ms()).sum::<i64>() + 1;
        let least = least(&jobs, horizon.max(2), |starts| is_feasible(&capacity, &jobs, starts));
        prop_assert_eq!(Some(found), least);
    }

    /// Resources that running jobs give back, and a limit that falls.
    #[test]
    fn a_small_schedule_beside_others_is_optimal(
        jobs in jobs(1..4, 1..=3),
        now in 0..6i64,
        given in (1..4i64, 0..4i64),
        taken in (1..6i64, 0..4i64),
    ) {
        // Never less than nothing is free, and all jobs fit in the end, one after another.
        let taken = (taken.0, taken.1.min(now));
        let last = now + given.1 - taken.1;
        let rest = (3 - last).max(0);
        let free = |at: i64| {
            let step = |(from, amount): (i64, i64)| if at >= from { amount } else { 0 };
            let amount = now + step((given.0, given.1 + rest)) - step(taken);
            [amount, amount]
        };
        let both = |amount: i64| amounts(&[amount, amount]);
        let changes = [(given.0, both(given.1 + rest)), (taken.0, both(-taken.1))];
        let entry = |job: &PlanJob| Entry {
            weight: job.weight.into(),
            ms: job.span.ms(),
            needs: amounts(&job.needs),
            is_held: false,
        };
        let entries: Vec<Entry> = jobs.iter().map(entry).collect();
        let problem = PlanProblem::beside(Supply::with_changes(both(now), changes), entries);
        let found = problem.solve(Effort { evaluations: 0, seed: 1 });
        let horizon = given.0.max(taken.0) + jobs.iter().map(|job| job.span.ms()).sum::<i64>() + 1;
        let fits = |starts: &[i64]| (0..2 * horizon).all(|at| fits_at(&free(at), &jobs, starts, at));
        let starts: Vec<i64> = found.starts.iter().map(|start| start.ms()).collect();
        prop_assert!(fits(&starts), "{:?}", starts);
        prop_assert_eq!(Some(found.cost), least(&jobs, horizon + 1, fits));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_search_is_feasible_and_never_worse_with_more_effort(jobs in jobs(11..30, 0..=20), seed in 0..9u64) {
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
