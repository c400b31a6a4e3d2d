//! Small simulations on one node of 16 cores, worked out by hand.

use super::*;
use job::Job;
use measures::Measures;
use resources::Resources;

/// Makes an instance of jobs of (arrival, requested time, run in seconds, cores), with one unit of 40 W each.
fn instance(jobs: &[(i64, i64, i64, i64)]) -> Instance {
    let job = |&(arrival_s, requested_s, run_s, cores): &(i64, i64, i64, i64)| {
        let unit = Resources([cores, 0, 0, 0]);
        Job { arrival_s, requested_s, run_s, units: 1, unit, total: unit, unit_w: 40 }
    };
    Instance { name: "hand".to_owned(), jobs: jobs.iter().map(job).collect() }
}

fn outcome(policy: Policy, cap_w: i64, jobs: &[(i64, i64, i64, i64)]) -> SimulationEnd {
    let nodes = NodeList::new(vec![Resources([16, 0, 0, 0])]);
    simulate(&instance(jobs), &nodes, Parameters { policy, factor: 1.0, cap_w })
}

fn schedule(policy: Policy, cap_w: i64, jobs: &[(i64, i64, i64, i64)]) -> JobSchedule {
    match outcome(policy, cap_w, jobs) {
        SimulationEnd::Done(schedule) => schedule,
        other => panic!("{other:?}"),
    }
}

fn starts(policy: Policy, cap_w: i64, jobs: &[(i64, i64, i64, i64)]) -> Vec<i64> {
    schedule(policy, cap_w, jobs).records.iter().map(|record| record.start_s).collect()
}

#[test]
fn removals_permute_the_queue() {
    // Job 0 starts, and job 3 takes its place in the list: 3 1 2. Then job 2 takes the place of job 3: 2 1.
    assert_eq!(starts(Policy::Bf, NO_CAP_W, &[(0, 20, 10, 16); 4]), [0, 30, 20, 10]);
    assert_eq!(starts(Policy::Ls, NO_CAP_W, &[(0, 20, 10, 16); 4]), [0, 30, 20, 10]);
}

#[test]
fn arrivals_that_cannot_fit_change_no_list() {
    // Job 1 has room, but not the power. Jobs 2 to 4 have no room when they arrive, so nothing is planned and job 0 stays in
    // the list of modified jobs. At 10 s the list is 1 2 3 4, after the start of job 1 it is 4 2 3, then 3 2.
    let jobs = [(0, 20, 10, 15), (0, 20, 10, 1), (1, 20, 10, 16), (2, 20, 10, 16), (3, 20, 10, 16)];
    assert_eq!(starts(Policy::Bf, 60, &jobs), [0, 10, 40, 30, 20]);
    // Without job 1 the totals of all waiting jobs are too large: 1 2 3, then 3 2.
    let jobs = [(0, 20, 10, 16), (1, 20, 10, 16), (2, 20, 10, 16), (3, 20, 10, 16)];
    assert_eq!(starts(Policy::Bf, NO_CAP_W, &jobs), [0, 10, 30, 20]);
}

#[test]
fn the_planner_knows_the_end_of_a_job_that_it_started_before() {
    // Job 0 requests 100 s, but runs for 10 s. At 1 s its end is known: job 1 waits until 10 s, and job 2, which would end at
    // 1 + 9 s, does not start before.
    let jobs = |requested_s| [(0, 100, 10, 8), (1, 20, 20, 16), (1, requested_s, 5, 8)];
    assert_eq!(starts(Policy::Bf, NO_CAP_W, &jobs(9)), [0, 10, 30]);
    assert_eq!(starts(Policy::Bf, NO_CAP_W, &jobs(8)), [0, 10, 1]);
}

#[test]
fn the_peak_is_measured_before_the_starts_of_a_second_and_not_after_the_last_one() {
    assert_eq!(schedule(Policy::Ls, NO_CAP_W, &[(0, 90, 90, 8), (10, 90, 90, 8), (14, 9, 9, 0)]).peak_w, 40);
    assert_eq!(schedule(Policy::Ls, NO_CAP_W, &[(0, 90, 90, 8), (10, 90, 90, 8), (16, 9, 9, 0)]).peak_w, 80);
}

#[test]
fn a_time_that_lost_its_event_gets_a_plan() {
    // Job 0 runs for 21 s. At 4 s job 1 waits for its cores, and job 2 would take 17 s, until 21 s: too long. At 5 s job 0 gets
    // 10 of its 40 W, and its remaining 16 s become 64 s. At 21 s nothing happens any more, but a plan is made: job 2 ends at
    // 38 s, before 69 s.
    let jobs = [(0, 21, 21, 8), (1, 100, 10, 16), (4, 17, 17, 8)];
    let schedule = schedule(Policy::DynShare, 10, &jobs);
    assert_eq!(schedule.records[2].start_s, 21);
    assert!(schedule.records[0].is_slowed);
}

#[test]
fn jobs_that_can_never_start() {
    let jobs = [(0, 20, 10, 16), (0, 20, 10, 16)];
    assert_eq!(outcome(Policy::Ls, 39, &jobs), SimulationEnd::Infeasible { job: 0 });
    assert_eq!(outcome(Policy::Bf, NO_CAP_W, &[(0, 9, 9, 1), (0, 9, 9, 17)]), SimulationEnd::Infeasible { job: 1 });
    // DynShare admits by its own caps.
    assert_eq!(outcome(Policy::DynShare3, 13, &jobs), SimulationEnd::Infeasible { job: 0 });
    assert!(matches!(outcome(Policy::DynShare3, 14, &jobs), SimulationEnd::Done(_)));
    assert!(matches!(outcome(Policy::DynShare, 1, &jobs), SimulationEnd::Done(_)));
    // DVFS starts such a job with the power that is left, and the dispatcher lets it run at its own.
    let dvfs = schedule(Policy::Dvfs, 39, &[(0, 20, 10, 16), (0, 20, 10, 1)]);
    assert_eq!((dvfs.records[0].start_s, dvfs.records[0].end_s, dvfs.peak_w), (0, 10, 40));
}

#[test]
fn a_plan_without_a_start_for_a_job_ends_the_program() {
    // Both jobs get 39 of their 40 W. Job 0 is believed to end at 600 / 0.975 = 615 s, after which job 1 would have a slowdown
    // of (615 + 61) / 60 > 10 and so gets no less than 40 W, ever. In fact job 0 ends at 10 s.
    assert_eq!(outcome(Policy::Dvfs, 39, &[(0, 600, 10, 16), (0, 60, 60, 16)]), SimulationEnd::Stuck);
    // 500 / 0.975 = 512 s: (512 + 61) / 60 < 10.
    assert_eq!(starts(Policy::Dvfs, 39, &[(0, 500, 10, 16), (0, 60, 60, 16)]), [0, 10]);
}

#[test]
fn figures_of_a_schedule() {
    let instance = instance(&[(0, 200, 100, 1), (10, 200, 30, 1)]);
    let record = |start_s, end_s, is_slowed| JobRecord { start_s, end_s, is_slowed, places: vec![0] };
    let schedule = JobSchedule { records: vec![record(0, 100, false), record(100, 130, true)], peak_w: 80 };
    let measures = Measures::new(&instance, &schedule);
    // Slowdowns: 1, and (90 + 30) / 60 = 2.
    assert_eq!(measures.cells(), ["90", "1.500000000", "80", "130", "50"]);
}
