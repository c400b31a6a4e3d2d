//! Plans of a few jobs on one node of 16 cores.

use super::*;
use crate::y2018::resources::{NodeList, Resources};

/// Makes a job with one unit of (cores, requested time in seconds, watts) that arrived at 0 s.
fn job((cores, requested_s, unit_w): (i64, i64, i64)) -> Job {
    let unit = Resources([cores, 0, 0, 0]);
    Job { arrival_s: 0, requested_s, run_s: requested_s, units: 1, unit, total: unit, unit_w }
}

/// A plan at `now_s`. The first job runs until 100 s; the others wait.
struct Case {
    discipline: Discipline,
    cap_w: i64,
    now_s: i64,
}

impl Case {
    fn with<T>(&self, jobs: &[(i64, i64, i64)], then: impl FnOnce(Planner<'_>) -> T) -> T {
        let jobs: Vec<Job> = jobs.iter().copied().map(job).collect();
        let nodes = NodeList::new(vec![Resources([16, 0, 0, 0])]);
        let mut free = nodes.idle();
        free.take(&[0], jobs[0].unit);
        let running = vec![Believed { job: 0, end_s: 100, watts: jobs[0].watts(), places: vec![0] }];
        let Self { discipline, cap_w, now_s } = *self;
        then(Planner { jobs: &jobs, discipline, cap_w, now_s, free, running })
    }

    fn starts(&self, jobs: &[(i64, i64, i64)]) -> Vec<usize> {
        let waiting: Vec<usize> = (1..jobs.len()).collect();
        self.with(jobs, |planner| planner.plan(&waiting).into_iter().map(|start| start.job).collect())
    }
}

const BF: Case = Case { discipline: Discipline::Bf, cap_w: 1_000, now_s: 0 };

#[test]
fn ls_skips_jobs_that_exceed_the_cap() {
    let ls = Case { discipline: Discipline::Ls, cap_w: 101, now_s: 0 };
    // In order of their requests: job 2 draws 60 W, job 1 would exceed the cap, job 3 takes the other 40 W.
    assert_eq!(ls.starts(&[(1, 9, 1), (1, 100, 60), (1, 50, 60), (1, 200, 40)]), [2, 3]);
    // Job 1 does not find 16 cores.
    assert_eq!(ls.starts(&[(1, 9, 1), (16, 50, 1), (15, 60, 1)]), [2]);
}

#[test]
fn ls_sorts_equal_requests_twice() {
    let ls = Case { discipline: Discipline::Ls, cap_w: 1_000, now_s: 0 };
    // The first sort of 17 equal jobs 1 to 17 gives 9 17 16 15 14 13 12 11 10 1 8 7 6 5 4 3 2 (the test of the sort). The
    // second one takes places 8 16 15 ... of that.
    let expected = [10, 2, 3, 4, 5, 6, 7, 8, 1, 9, 11, 12, 13, 14, 15, 16, 17];
    assert_eq!(ls.starts(&[(0, 10, 1); 18]), expected);
}

#[test]
fn bf_starts_later_jobs_that_end_before_the_reservation() {
    // Job 1 waits for the 10 cores of job 0 until 100 s. A request of 100 s ends then, and not before.
    assert_eq!(BF.starts(&[(10, 100, 1), (16, 50, 1), (6, 100, 1), (6, 99, 1)]), [3]);
    // Job 1 starts and is taken to end at 40 s, which makes room for job 2. So job 3 may take 39 s, not 40 s.
    let jobs = |requested_s| [(4, 100, 1), (8, 40, 1), (12, 50, 1), (4, requested_s, 1)];
    assert_eq!((BF.starts(&jobs(39)), BF.starts(&jobs(40))), (vec![1, 3], vec![1]));
}

#[test]
fn bf_starts_nothing_behind_a_job_that_never_fits() {
    assert!(BF.starts(&[(10, 100, 1), (1, 50, 1_001), (1, 10, 1)]).is_empty());
}

#[test]
fn the_power_of_the_head_is_reserved() {
    let bf = Case { cap_w: 100, ..BF };
    // Job 1 needs the power of job 0, which ends at 100 s.
    assert_eq!(bf.starts(&[(1, 100, 60), (1, 50, 80), (1, 100, 10), (1, 99, 10)]), [3]);
}

/// Returns the pace of a job of (requested time, watts) next to a job of `running_w`, under a cap of 100 W.
fn pace(factor: f64, now_s: i64, running_w: i64, (requested_s, watts): (i64, i64)) -> Option<(i64, i64)> {
    let dvfs = Case { discipline: Discipline::Dvfs(factor), cap_w: 100, now_s };
    dvfs.with(&[(1, 100, running_w), (1, requested_s, watts)], |planner| {
        planner.pace(1, running_w).map(|pace| (pace.watts, pace.duration_s))
    })
}

#[test]
fn dvfs_reduces_a_job_to_the_power_that_is_left() {
    // Half of the power: (1 / 0.5) F times the duration, at least once.
    assert_eq!(pace(1.0, 0, 50, (1_000, 100)), Some((50, 2_000)));
    assert_eq!(pace(0.75, 0, 50, (1_000, 100)), Some((50, 1_500)));
    assert_eq!(pace(0.25, 0, 50, (1_000, 100)), Some((50, 1_000)));
    assert_eq!(pace(0.0, 0, 50, (1_000, 100)), Some((50, 1_000)));
    // A job that fits keeps its power, and nothing is left at the cap.
    assert_eq!(pace(1.0, 0, 50, (1_000, 50)), Some((50, 1_000)));
    assert_eq!(pace(1.0, 0, 100, (1_000, 50)), None);
}

#[test]
fn dvfs_truncates_power_and_duration() {
    // 100 x (29 / 100) is 28.999999999999996 in double precision. 1,000 / 0.29 = 3,448.27.
    assert_eq!(pace(1.0, 0, 71, (1_000, 100)), Some((28, 3_448)));
}

#[test]
fn dvfs_keeps_the_power_of_a_job_that_would_be_slowed_too_much() {
    // The slowdown is (7,999 + 2,000) / 1,000 < 10 at 7,999 s. It is 10 at 8,000 s, and the full power does not fit.
    assert_eq!(pace(1.0, 7_999, 50, (1_000, 100)), Some((50, 2_000)));
    assert_eq!(pace(1.0, 8_000, 50, (1_000, 100)), None);
    // A short job counts as 60 s: (560 + 20) / 60 < 10, (580 + 20) / 60 = 10.
    assert_eq!(pace(1.0, 560, 50, (10, 100)), Some((50, 20)));
    assert_eq!(pace(1.0, 580, 50, (10, 100)), None);
}
