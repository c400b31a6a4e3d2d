//! Small hand-made workloads, and refused inputs.

mod rows;

use limo_trace::{CompactSpan, Job, Workload};

use super::*;

/// A job's number, start, end and processors.
type Row = (i64, Option<i64>, Option<i64>, Vec<(u32, u32)>);

/// Keeps the rows of a run.
#[derive(Default)]
struct Kept {
    jobs: Vec<Row>,
    samples: Vec<Sample>,
}

impl Sink for Kept {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        let ms = |time: Option<Time>| time.map(Time::unix_ms);
        self.jobs.push((job.number, ms(job.start), ms(job.end), job.allocated.to_vec()));
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.samples.push(*sample);
        Ok(())
    }

    fn finish(&mut self, _: &Summary) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Makes jobs of (submit, run, processors) in seconds. Each requests twice its run.
fn workload(jobs: &[(i64, i64, u32)]) -> Workload {
    let job = |(number, &(submit, run, processors)): (i64, &(i64, i64, u32))| Job {
        number,
        submit: Span::from_secs(submit),
        wait: None,
        run: Span::from_secs(run),
        walltime: Some(CompactSpan::of(Span::from_secs(2 * run))),
        processors,
        user: 1,
        application: 1,
        queue: -1,
        treatment: limo_trace::Treatment::default(),
        chunks: None,
        moldable: None,
        removed: None,
        bytes: None,
    };
    Workload { jobs: (1..).zip(jobs).map(job).collect(), ..Workload::default() }
}

fn check(
    config: &Config,
    jobs: &[(i64, i64, u32)],
    expected: &[(i64, i64, i64, (u32, u32))],
) -> (Kept, SimulationResult) {
    let mut kept = Kept::default();
    let outcome = simulate(&workload(jobs), config, &mut kept).expect("a simulation");
    let expected: Vec<_> =
        expected.iter().map(|&(number, start, end, at)| (number, Some(start), Some(end), vec![at])).collect();
    assert_eq!(kept.jobs, expected);
    (kept, outcome)
}

#[test]
fn short_jobs_overtake_without_delaying_the_head() {
    let config = Config::published(4, Algorithm::Easy, false, 100);
    // Job 2 needs all processors. The request of job 3 ends with the 20 s of job 1, but that of job 4 does not.
    let jobs = [(0, 10, 3), (1, 10, 4), (2, 8, 1), (2, 10, 1)];
    let (kept, outcome) = check(
        &config,
        &jobs,
        &[(1, 0, 10_000, (0, 2)), (3, 2_000, 10_000, (3, 3)), (2, 10_000, 20_000, (0, 3)), (4, 20_000, 30_000, (0, 0))],
    );
    let last = kept.samples.last().expect("a sample");
    assert_eq!((last.at.unix_ms(), last.draw, last.queued), (30_000, Power::from_mw(380_000), 0));
    // The slowdowns are 1, 19/10, 1 (a floor of 10 s) and 28/10. No change reaches the end of the week.
    assert!(outcome.row.to_string().starts_with("1.675000,2.800,30.00,"), "{}", outcome.row);
    assert_eq!(outcome.row.job_run, 4);
    assert!(outcome.summary.budgets.is_empty());
}

#[test]
fn nodes_go_off_in_the_window_and_are_switched_on_for_a_job() {
    const FROM: i64 = BUDGET_FROM_MS / 1_000;
    let jobs = [(0, 10, 2), (FROM + 100, 10, 1), (FROM + 1_000, 10, 2)];
    let start = BUDGET_FROM_MS + 1_000_000 + 151_520;
    let expected = [
        (1, 0, 10_000, (0, 1)),
        (2, BUDGET_FROM_MS + 100_000, BUDGET_FROM_MS + 110_000, (0, 0)),
        (3, start, start + 10_000, (0, 1)),
    ];
    let (_, outcome) = check(&Config::published(2, Algorithm::Easy, true, 100), &jobs, &expected);
    let switches = outcome.summary.switches;
    // Node 1 goes off when job 2 starts, and node 0 when job 2 ends. Both go off again after job 3.
    assert_eq!((switches.on, switches.off), (2, 4));
}

#[test]
fn under_a_cap_at_the_idle_draw_nothing_starts_before_the_window_ends() {
    const FROM: i64 = BUDGET_FROM_MS / 1_000;
    let jobs = [(0, 10, 1), (FROM, 10, 1)];
    let expected = [(1, 0, 10_000, (0, 0)), (2, BUDGET_UNTIL_MS, BUDGET_UNTIL_MS + 10_000, (0, 0))];
    let (kept, outcome) = check(&Config::published(2, Algorithm::PowerCap, false, 49), &jobs, &expected);
    let limits = kept.samples.iter().filter_map(|sample| sample.limit);
    assert!(limits.clone().count() > 0 && limits.clone().all(|limit| limit == Power::from_mw(200_000)));
    // The budget covers three days of two idle nodes.
    assert_eq!(outcome.summary.budgets[0].spent, Power::from_mw(190_000) * Span::from_secs(3 * 86_400));
}

/// Tests ten nodes; five of them may be busy under the cap. Saved energy lets eight be busy until 100 s. The head
/// needs the same energy again.
fn start_of_head(sign_error: bool) -> (intervals::Interval, i64) {
    let window = counter::Window { from: 0, until: 1_000_000, cap_mw: 1_515_600 };
    let variant = Variant { algorithm: Algorithm::EnergyBud, shutdown: false, sign_error };
    let request = Request { processors: 8, ms: 100_000 };
    let mut scheduler = Scheduler::new(10, variant, window, vec![request; 2]);
    scheduler.counter.saved = 3 * 103_120 * 100_000;
    scheduler.submit(0, 0);
    scheduler.submit(0, 1);
    assert_eq!((scheduler.running.list().len(), scheduler.queued()), (1, 1));
    scheduler.reserve(0, request)
}

#[test]
fn the_sign_error_counts_what_is_spent_as_saved() {
    let at = intervals::Interval::new(0, 7);
    assert_eq!(start_of_head(true), (at, 100_000));
    // Without the fault, all saved energy is used at 100 s. Idling saves 515.6 W, so this takes 60 s, rounded up
    // because of the microsecond.
    assert_eq!(start_of_head(false), (at, 161_000));
}

#[test]
fn marks_turn_hints_even_where_nobody_fits() {
    let variant = Variant { algorithm: Algorithm::Easy, shutdown: false, sign_error: true };
    let requests = [1, 1, 2, 4, 3].map(|processors| Request { processors, ms: 10_000 });
    let mut scheduler =
        Scheduler::new(4, variant, Config::published(4, Algorithm::Easy, false, 100).window(), requests.to_vec());
    (0..5).for_each(|job| scheduler.submit(0, job));
    scheduler.complete(5_000, 0);
    // The interval grows to the right, which by itself would change its hint to the high end.
    scheduler.complete(6_000, 1);
    let [free] = scheduler.free.list() else { panic!("one interval") };
    assert_eq!((free.at, free.low), (intervals::Interval::new(0, 1), true));
}

#[test]
fn refusals() {
    let check = |jobs: &[(i64, i64, u32)], percent: u32, expected: &str| {
        let config = Config::published(4, Algorithm::EnergyBud, false, percent);
        let refused = simulate(&workload(jobs), &config, &mut Kept::default()).expect_err("refused");
        assert_eq!(refused.to_string(), expected);
    };
    check(&[(0, 10, 1)], 0, "the budget is 0 %: that is out of range (1 to 100)");
    check(
        &[(0, 10, 4), (0, 10, 5)],
        50,
        "job 2 asks for 5 processors, the platform has 4: what was published has no rule for that; name a larger platform with --nodes",
    );
    check(
        &[(0, 0, 4)],
        50,
        "job 1 runs for less than 1 s or has a requested time below twice its run: read the workload with the rules of 2017",
    );
}
