//! Selects parts of a workload: a window of time, some users or the first jobs. Also scales its load. Each filter
//! adds a note, and changes only the times of jobs.

use limo_model::Span;

use crate::compact::CompactSpan;
use crate::workload::{Job, Workload};

/// Part of a workload's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Start, relative to the start of the workload.
    pub from: Span,
    /// First moment after the window.
    pub until: Span,
    /// True if the window's start becomes the start of the workload.
    pub rebased: bool,
    /// Treatment of jobs from before the window.
    pub carried: Carried,
}

/// Treatment of jobs that were submitted before a window and had not ended at its start; needs the waits of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carried {
    /// Omits them.
    #[default]
    No,
    /// Treats them as in the weeks of energy-budget-2017. Jobs that ran at the window's start are submitted there
    /// with the rest of their run and request; jobs that waited follow 0.1 s later.
    Running,
}

/// Time after a window's start at which waiting jobs are submitted: 0.1 s as in energy-budget-2017's weeks, which
/// puts them behind the running jobs.
const WAITED: Span = Span::from_ms(100);

impl Workload {
    /// Keeps the jobs that were submitted in `[from, until)`.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        let total = self.jobs.len();
        let mut jobs = match window.carried {
            Carried::No => Vec::new(),
            Carried::Running => carried(&self.jobs, window.from),
        };
        jobs.extend(self.jobs.iter().filter(|job| window.from <= job.submit && job.submit < window.until));
        // Jobs that ran come before those that are submitted at the same time.
        jobs.sort_by_key(|job| job.submit);
        self.jobs = jobs;
        if window.rebased {
            self.jobs.iter_mut().for_each(|job| job.submit = job.submit - window.from);
            self.start = self.start.map(|start| start + window.from);
        }
        let (from, until) = (window.from, window.until);
        self.notes.push(format!("{} of {total} jobs are in the window from {from} to {until}", self.jobs.len()));
        self
    }

    /// Keeps the jobs of some users.
    #[must_use]
    pub fn of_users(mut self, users: &[i32]) -> Self {
        let total = self.jobs.len();
        self.jobs.retain(|job| users.contains(&job.user));
        self.notes.push(format!("{} of {total} jobs belong to the selected users", self.jobs.len()));
        self
    }

    /// Keeps the first `count` jobs.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        let total = self.jobs.len();
        if count < total {
            self.jobs.truncate(count);
            self.notes.push(format!("the first {count} of {total} jobs"));
        }
        self
    }

    /// Scales the load by `numerator / denominator`. The time between the first submission and each other one is
    /// divided by that factor, and rounded to the millisecond once. Runs stay the same. A factor that is not positive
    /// changes nothing.
    #[must_use]
    pub fn at_load(mut self, numerator: i64, denominator: i64) -> Self {
        let Some(first) = self.jobs.first().map(|job| job.submit).filter(|_| numerator > 0 && denominator > 0) else {
            return self;
        };
        self.jobs.iter_mut().for_each(|job| job.submit = first + (job.submit - first).scaled(denominator, numerator));
        self.notes.push(format!(
            "the load is {numerator}/{denominator} of the file's: times between submissions are divided by that"
        ));
        self
    }
}

/// Returns the jobs that ran or waited at `from`, with submissions at `from`.
fn carried(jobs: &[Job], from: Span) -> Vec<Job> {
    let before = jobs.iter().take_while(|job| job.submit < from);
    before.filter_map(|job| carry(*job, from)).collect()
}

fn carry(job: Job, from: Span) -> Option<Job> {
    let start = job.submit + job.wait?.span();
    if start >= from {
        return Some(Job { submit: from + WAITED, wait: Some(CompactSpan::of(start - from)), ..job });
    }
    let left = start + job.run - from;
    if left <= Span::ZERO {
        return None;
    }
    let elapsed = from - start;
    // A job that ran past its request was not ended then, so it must request at least the rest of its run.
    let walltime = job.walltime.map(|walltime| CompactSpan::of((walltime.span() - elapsed).max(left)));
    Some(Job { submit: from, wait: Some(CompactSpan::of(Span::ZERO)), run: left, walltime, ..job })
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Time;

    fn secs(secs: i64) -> Span {
        Span::from_secs(secs)
    }

    /// Makes jobs submitted at 0, 10, 20, ..., 90 s. Each waits 15 s and runs for 10 s; users 0, 1, 2 take turns.
    fn workload() -> Workload {
        let job = |index: i32| Job {
            number: i64::from(index),
            submit: secs(i64::from(index) * 10),
            wait: Some(CompactSpan::of(secs(15))),
            run: secs(10),
            walltime: Some(CompactSpan::of(secs(12))),
            processors: 1,
            user: index % 3,
            application: -1,
            queue: -1,
            treatment: crate::workload::Treatment::default(),
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        };
        Workload { jobs: (0..10).map(job).collect(), start: Some(Time::from_unix_ms(1_000)), ..Workload::default() }
    }

    fn shown(workload: &Workload) -> Vec<(i64, i64)> {
        workload.jobs.iter().map(|job| (job.number, job.submit.ms())).collect()
    }

    #[test]
    fn a_window() {
        let window = Window { from: secs(20), until: secs(40), rebased: false, carried: Carried::No };
        let plain = workload().window(window);
        assert_eq!(shown(&plain), [(2, 20_000), (3, 30_000)]);
        assert_eq!(plain.notes, ["2 of 10 jobs are in the window from 20s to 40s"]);
        let rebased = workload().window(Window { rebased: true, ..window });
        assert_eq!(shown(&rebased), [(2, 0), (3, 10_000)]);
        assert_eq!(rebased.start, Some(Time::from_unix_ms(21_000)));
    }

    #[test]
    fn jobs_that_ran_or_waited() {
        // At 20 s, job 0 has run since 15 s, with 5 s left of its run and 7 s of its request; job 1 waits until 25 s.
        let window = Window { from: secs(20), until: secs(30), rebased: true, carried: Carried::Running };
        let carried = workload().window(window);
        assert_eq!(shown(&carried), [(0, 0), (2, 0), (1, 100)]);
        let running = carried.jobs.iter().find(|job| job.number == 0).expect("it runs");
        assert_eq!((running.run, running.walltime), (secs(5), Some(CompactSpan::of(secs(7)))));
        let waiting = carried.jobs.iter().find(|job| job.number == 1).expect("it waits");
        assert_eq!((waiting.run, waiting.wait), (secs(10), Some(CompactSpan::of(secs(5)))));
    }

    #[test]
    fn users_and_first_jobs() {
        assert_eq!(shown(&workload().of_users(&[2])), [(2, 20_000), (5, 50_000), (8, 80_000)]);
        assert_eq!(shown(&workload().first(2)), [(0, 0), (1, 10_000)]);
        assert_eq!(workload().first(99), workload());
    }

    #[test]
    fn load() {
        // At one and a half times the load, gaps are 6.667 s, each rounded from the start and not from the one
        // before.
        let scaled = workload().first(4).at_load(3, 2);
        assert_eq!(shown(&scaled), [(0, 0), (1, 6_667), (2, 13_333), (3, 20_000)]);
        assert_eq!(workload().at_load(0, 1), workload());
    }
}
