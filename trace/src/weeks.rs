//! Selects weeks of a workload by utilisation, as for the inputs of energy-budget-2017 (section V-C: disjoint weeks,
//! high utilisation). The paper does not say at which times its weeks may start; here it is at full days from the first
//! submission.

use limo_model::Span;

use crate::compact::CompactSpan;
use crate::workload::Workload;

/// Seven days.
pub const WEEK: Span = Span::from_secs(7 * 86_400);
/// Interval between possible starts of weeks, counted from the first submission.
const DAY: Span = Span::from_secs(86_400);
const DAYS: usize = 7;

/// Week of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Week {
    /// Start, relative to the start of the workload.
    pub from: Span,
    /// End, a week after the start.
    pub until: Span,
    /// Processor time of the jobs in the week, in ms.
    pub busy_ms: i128,
    /// Processor time of the machine in the week, in ms.
    pub capacity_ms: i128,
}

impl Week {
    /// Returns the utilisation, for output.
    pub fn utilisation(&self) -> f64 {
        self.busy_ms as f64 / self.capacity_ms as f64
    }
}

impl Workload {
    /// Returns up to `count` disjoint weeks between the first and the last submission: the one with the highest
    /// utilisation, then the best one without an overlap, and so on. The earliest of equal ones counts. A job
    /// occupies its processors for its run, which begins after its wait if the file has one.
    pub fn busiest_weeks(&self, count: usize, processors: u32) -> Vec<Week> {
        let (Some(first), Some(last)) = (self.jobs.first(), self.jobs.last()) else { return Vec::new() };
        let capacity_ms = i128::from(WEEK.ms()) * i128::from(processors.max(1));
        let days = 0..=(last.submit - first.submit).ms() / DAY.ms();
        let days: Vec<Span> = days.map(|day| first.submit + Span::from_ms(day * DAY.ms())).collect();
        let worked = self.work_until(&days);
        let mut weeks: Vec<Week> = days
            .iter()
            .zip(worked.iter().zip(worked.iter().skip(DAYS)))
            .map(|(from, (before, after))| Week {
                from: *from,
                until: *from + WEEK,
                busy_ms: after - before,
                capacity_ms,
            })
            .collect();
        weeks.sort_by(|a, b| b.busy_ms.cmp(&a.busy_ms).then(a.from.cmp(&b.from)));
        let mut chosen: Vec<Week> = Vec::new();
        for week in weeks {
            if chosen.len() == count {
                break;
            }
            if chosen.iter().all(|other| week.until <= other.from || other.until <= week.from) {
                chosen.push(week);
            }
        }
        chosen
    }

    /// Returns the processor time of jobs until each of the ascending moments, in ms.
    fn work_until(&self, moments: &[Span]) -> Vec<i128> {
        let mut changes: Vec<(Span, i64)> = Vec::with_capacity(2 * self.jobs.len());
        for job in &self.jobs {
            let start = job.submit + job.wait.map_or(Span::ZERO, CompactSpan::span);
            let processors = i64::from(job.processors);
            changes.extend([(start, processors), (start + job.run, -processors)]);
        }
        changes.sort_unstable();
        let (mut work, mut busy, mut at) = (0_i128, 0_i64, Span::ZERO);
        let mut changes = changes.into_iter().peekable();
        let mut worked = Vec::with_capacity(moments.len());
        for moment in moments {
            while let Some((time, change)) = changes.next_if(|(time, _)| time <= moment) {
                work += i128::from(busy) * i128::from((time - at).ms());
                (busy, at) = (busy + change, time);
            }
            work += i128::from(busy) * i128::from((*moment - at).ms());
            at = *moment;
            worked.push(work);
        }
        worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Job;

    const SECS: i64 = 86_400;

    fn job(start_day: i64, days: i64, processors: u32) -> Job {
        Job {
            number: start_day,
            submit: Span::from_secs(start_day * SECS),
            wait: None,
            run: Span::from_secs(days * SECS),
            walltime: None,
            processors,
            user: -1,
            application: -1,
            queue: -1,
            treatment: crate::workload::Treatment::default(),
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        }
    }

    fn check(jobs: Vec<Job>, count: usize, expected: &[(i64, i128)]) {
        let weeks = Workload { jobs, ..Workload::default() }.busiest_weeks(count, 10);
        let day = i128::from(SECS * 1_000);
        assert!(weeks.iter().all(|week| week.capacity_ms == 70 * day && week.until - week.from == WEEK));
        let shown: Vec<_> = weeks.iter().map(|week| (week.from.ms() / 1_000 / SECS, week.busy_ms / day)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_best_week_then_the_best_that_is_apart() {
        // Ten processors on days 5 to 12, one on days 0 to 30. Day 5 is best (7 x 11); then the earliest of those with 7 + 10
        // (day 12 still has one day of the large job).
        check(vec![job(0, 30, 1), job(5, 8, 10), job(30, 1, 1)], 3, &[(5, 77), (12, 17), (19, 7)]);
        // A wait moves the work.
        let late = Job { wait: Some(CompactSpan::of(Span::from_secs(SECS))), ..job(5, 8, 10) };
        check(vec![job(0, 30, 1), late, job(30, 1, 1)], 1, &[(6, 77)]);
    }

    #[test]
    fn shares_of_jobs_count() {
        check(vec![job(0, 100, 3), job(14, 1, 1)], 9, &[(0, 21), (7, 21)]);
    }

    #[test]
    fn less_than_a_week_has_none() {
        check(vec![job(0, 100, 3), job(6, 1, 1)], 9, &[]);
        check(vec![job(0, 100, 3), job(7, 1, 1)], 9, &[(0, 21)]);
        check(Vec::new(), 9, &[]);
    }

    #[test]
    fn utilisation() {
        let week = Week { from: Span::ZERO, until: WEEK, busy_ms: 3, capacity_ms: 4 };
        assert!((week.utilisation() - 0.75).abs() < 1e-12);
    }
}
