//! A workload in memory: what a simulation needs of each job, small enough for millions of them.

use limo_model::{Span, Time};

/// One job of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its number in the file: column 1 of the Standard Workload Format.
    pub number: i64,
    /// From the start of the workload; not negative.
    pub submit: Span,
    /// What the file says that it waited (column 3), where it says so.
    pub wait: Option<Span>,
    /// Its real running time; not negative.
    pub run: Span,
    /// What its user asked for: the job is ended after this time. Positive.
    pub walltime: Option<Span>,
    /// At least 1.
    pub processors: u32,
    /// Column 12; negative where unknown.
    pub user: i32,
    /// Column 14, or the place in [`Workload::applications`] where that has any; negative where unknown.
    pub application: i32,
    /// What a policy may do with it.
    pub treatment: Treatment,
}

/// What may be done to a job, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Treatment {
    /// It may stand still for a while.
    pub may_suspend: bool,
    /// It may be ended and run again from its beginning.
    pub may_requeue: bool,
    /// It only serves to hold the lower limit of the draw.
    pub filler: bool,
    /// It takes every core of whichever unit it is put on; its processors only count in figures.
    pub whole_unit: bool,
}

/// What jobs run, where the workload says so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Application {
    /// By which profiles and platforms know it.
    pub name: String,
    /// Types of accelerators for which it brings a command.
    pub variants: Vec<String>,
}

/// Jobs in order of submission, ties in the stated order of the reader, and what the file says of their machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    /// Sorted by [`Job::submit`].
    pub jobs: Vec<Job>,
    /// What the jobs run, where the format has names for it.
    pub applications: Vec<Application>,
    /// When the workload starts, where the file says so (`UnixStartTime`).
    pub start: Option<Time>,
    /// Processors of the machine, where the file says so (`MaxProcs`).
    pub processors: Option<u32>,
    /// What was left out or mended while reading, one line each, with counts.
    pub notes: Vec<String>,
}

impl Workload {
    /// What a job of this workload runs, where that is known by name.
    pub fn application(&self, job: &Job) -> Option<&Application> {
        self.applications.get(usize::try_from(job.application).ok()?)
    }

    /// Lets so many of the jobs be treated in a way, in hundredths of a percent of all, spread evenly over them. The jobs
    /// of a smaller share are not always among those of a larger one; equal shares are the same jobs.
    pub fn treat(&mut self, hundredths: u64, way: impl Fn(&mut Treatment)) {
        let mut sum = 0;
        for job in &mut self.jobs {
            sum += hundredths.min(10_000);
            if sum >= 10_000 {
                sum -= 10_000;
                way(&mut job.treatment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_evenly() {
        let check = |hundredths: u64, expected: &str| {
            let job = Job {
                number: 1,
                submit: Span::ZERO,
                wait: None,
                run: Span::ZERO,
                walltime: None,
                processors: 1,
                user: -1,
                application: -1,
                treatment: Treatment::default(),
            };
            let mut workload = Workload { jobs: vec![job; 8], ..Workload::default() };
            workload.treat(hundredths, |treatment| treatment.may_suspend = true);
            let shown: String =
                workload.jobs.iter().map(|job| if job.treatment.may_suspend { 's' } else { '-' }).collect();
            assert_eq!(shown, expected, "{hundredths}");
        };
        check(0, "--------");
        check(2_500, "---s---s");
        check(3_333, "---s--s-");
        check(5_000, "-s-s-s-s");
        check(10_000, "ssssssss");
        check(20_000, "ssssssss");
    }
}
