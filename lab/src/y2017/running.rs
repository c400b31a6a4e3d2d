//! The running jobs in order of their estimated ends, and of insertion for equal ends.

use super::intervals::Interval;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningJob {
    /// Estimated end, in ms.
    pub end: i64,
    pub at: Interval,
    pub job: u32,
}

/// The running jobs; see the module.
#[derive(Debug)]
pub struct Running {
    list: Vec<RunningJob>,
    /// Estimated ends of running jobs, by job.
    ends: Vec<i64>,
}

impl Running {
    pub fn new(jobs: usize) -> Self {
        Self { list: Vec::new(), ends: vec![0; jobs] }
    }

    pub fn list(&self) -> &[RunningJob] {
        &self.list
    }

    pub fn add(&mut self, run: RunningJob) {
        self.ends[run.job as usize] = run.end;
        let index = self.list.partition_point(|other| other.end <= run.end);
        self.list.insert(index, run);
    }

    /// Removes a job; returns `None` if it does not run.
    pub fn remove(&mut self, job: usize) -> Option<RunningJob> {
        let end = self.ends[job];
        let first = self.list.partition_point(|other| other.end < end);
        let index = first + self.list[first..].iter().position(|run| run.job as usize == job)?;
        Some(self.list.remove(index))
    }

    /// Changes a job's estimated end, as if it were inserted now.
    pub fn postpone(&mut self, job: usize, end: impl Fn(i64) -> i64) {
        if let Some(run) = self.remove(job) {
            self.add(RunningJob { end: end(run.end), ..run });
        }
    }
}
