//! Small assignments, compared with all possible ones.

use limo_model::Energy;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use super::*;

fn weights(nodes: &[u32], rows: &[Vec<Option<i64>>]) -> Weights {
    let rows: Vec<Vec<Option<Energy>>> =
        rows.iter().map(|row| row.iter().map(|weight| weight.map(Energy::from_mj)).collect()).collect();
    Weights::new(nodes.to_vec(), &rows).expect("in range")
}

/// Returns the least sum of the weights of all of these jobs, by trying everything.
fn least(weights: &[Vec<Option<i64>>], jobs: &[JobRow], free: &mut [u32]) -> Option<i64> {
    fn nodes(
        weights: &[Vec<Option<i64>>],
        (row, left, from): (usize, usize, usize),
        rest: &[JobRow],
        free: &mut [u32],
    ) -> Option<i64> {
        if left == 0 {
            return least(weights, rest, free);
        }
        let mut best: Option<i64> = None;
        for column in from..free.len() {
            let Some(weight) = weights[row][column].filter(|_| free[column] > 0) else { continue };
            free[column] -= 1;
            let rest = nodes(weights, (row, left - 1, column), rest, free);
            free[column] += 1;
            let sum = rest.map(|rest| rest + weight);
            best = best.into_iter().chain(sum).min();
        }
        best
    }
    let Some((first, rest)) = jobs.split_first() else { return Some(0) };
    nodes(weights, (first.row, first.nodes, 0), rest, free)
}

#[test]
fn a_job_moves_if_that_saves_more_than_it_costs() {
    // By hand: the first job alone would take column 0 for 1; with both, 2 + 3 is less than 1 + 9.
    let weights = weights(&[1, 1], &[vec![Some(1), Some(2)], vec![Some(3), Some(9)]]);
    let jobs = [JobRow { row: 0, nodes: 1 }, JobRow { row: 1, nodes: 1 }];
    let places = weights.assign(&jobs);
    assert_eq!(places, [Some(vec![1]), Some(vec![0])]);
    assert_eq!(weights.sum(&jobs, &places), Energy::from_mj(5));
    assert_eq!(weights.assign(&jobs[..1]), [Some(vec![0])]);
}

#[test]
fn a_wide_job_without_enough_nodes_leaves_them_to_those_behind_it() {
    let weights = weights(&[1, 1, 1], &[vec![Some(5), Some(6), None], vec![Some(1), Some(2), Some(3)]]);
    let (one, three, two) = (JobRow { row: 1, nodes: 1 }, JobRow { row: 0, nodes: 3 }, JobRow { row: 0, nodes: 2 });
    assert_eq!(weights.assign(&[one, three, one]), [Some(vec![0]), None, Some(vec![1])]);
    assert_eq!(weights.assign(&[one, two, one]), [Some(vec![2]), Some(vec![0, 1]), None]);
}

#[test]
fn weights_out_of_range_are_named() {
    let row = |weight: i64| vec![Some(Energy::from_mj(weight))];
    let error = Weights::new(vec![1], &[row(1), row((1 << 44) + 1)]).expect_err("too much").to_string();
    assert_eq!(
        error,
        "row 1, column 0: 17592186044417 mJ is out of range: at most 17592186044416 mJ on either side of zero"
    );
    let error = Weights::new(vec![1, 1], &[row(1)]).expect_err("too short").to_string();
    assert_eq!(error, "row 0 has 1 weights: there are 2 nodes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Few weights, so that many are equal.
    #[test]
    fn no_assignment_has_a_smaller_sum(
        nodes in vec(0..3u32, 1..6),
        cells in vec(vec(weighted(0.8, -3..12i64), 6), 3),
        jobs in vec((0..3usize, 0..3usize), 0..5),
    ) {
        let rows: Vec<Vec<Option<i64>>> = cells.iter().map(|row| row[..nodes.len()].to_vec()).collect();
        let jobs: Vec<JobRow> = jobs.iter().map(|(row, nodes)| JobRow { row: *row, nodes: *nodes }).collect();
        let weights = weights(&nodes, &rows);
        let places = weights.assign(&jobs);
        let mut accepted = Vec::new();
        for (job, place) in jobs.iter().zip(&places) {
            accepted.push(*job);
            let fits = least(&rows, &accepted, &mut nodes.clone()).is_some();
            prop_assert_eq!(place.is_some(), fits);
            if !fits {
                accepted.pop();
            }
        }
        let best = least(&rows, &accepted, &mut nodes.clone()).expect("they fit");
        prop_assert_eq!(weights.sum(&jobs, &places), Energy::from_mj(best));
        let mut used = vec![0; nodes.len()];
        for (job, columns) in jobs.iter().zip(&places).filter_map(|(job, columns)| Some((job, columns.as_ref()?))) {
            prop_assert_eq!(columns.len(), job.nodes);
            columns.iter().for_each(|column| used[*column] += 1);
            prop_assert!(columns.iter().all(|column| rows[job.row][*column].is_some()));
        }
        prop_assert!(used.iter().zip(&nodes).all(|(used, nodes)| used <= nodes));
    }
}
