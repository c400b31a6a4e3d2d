//! The record of an array: the number of tasks that became jobs, and their ends.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use limo_model::{JobId, TaskCounts, Tasks, Time, Usage};
use serde::{Deserialize, Serialize};

use super::State;
use crate::round::Account;

/// Tasks of one submission with the same request. A task becomes a job shortly before its turn, so that an array costs
/// as much as its running tasks.
///
/// The array itself is also a job, but it is never in the queue. It has the request and the dependencies of its
/// tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    pub tasks: Tasks,
    /// Number of tasks that have become jobs: the first ones.
    pub made: u32,
    /// Number of these tasks that wait.
    pub(crate) waiting: u32,
    /// The user who cancelled the tasks that are not jobs yet.
    pub cancelled_by: Option<String>,
    pub ended: Ended,
    /// Places of tasks that were cancelled before they became jobs. They never become jobs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dropped: BTreeSet<u32>,
}

/// Ends of the tasks of an array.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ended {
    pub counts: TaskCounts,
    /// The highest exit code of tasks that ran.
    pub code: u8,
    pub started: Option<Time>,
    pub account: Account,
    pub usage: Usage,
}

impl Array {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self { tasks, made: 0, waiting: 0, cancelled_by: None, ended: Ended::default(), dropped: BTreeSet::new() }
    }

    /// Returns the number of tasks that are jobs and not over.
    pub fn live(&self) -> u32 {
        self.made + self.dropped_count() - self.ended.counts.all()
    }

    /// The number is at most that of the tasks, which fits in 32 bits.
    fn dropped_count(&self) -> u32 {
        self.dropped.len() as u32
    }

    /// Returns the number of tasks that will become jobs.
    pub fn left(&self) -> u32 {
        if self.cancelled_by.is_some() { 0 } else { self.tasks.count() - self.made - self.dropped_count() }
    }

    /// Returns true if the task at `place` will become a job.
    pub fn is_coming(&self, place: u32) -> bool {
        self.left() > 0 && place >= self.made && !self.dropped.contains(&place)
    }

    /// Makes the next task a job; returns its place.
    pub(crate) fn make_next(&mut self) -> u32 {
        while self.dropped.remove(&self.made) {
            self.made += 1;
        }
        self.made += 1;
        self.made - 1
    }

    /// Returns true if none of its tasks will run in the future.
    pub(crate) fn is_over(&self) -> bool {
        self.left() == 0 && self.live() == 0
    }

    /// Returns the job number of the task at `place`.
    pub fn job_at(own: JobId, place: u32) -> JobId {
        JobId(own.0 + 1 + u64::from(place))
    }

    /// Returns the job numbers of the tasks from `place` on.
    pub(crate) fn numbers(&self, own: JobId, place: u32) -> RangeInclusive<JobId> {
        Self::job_at(own, place)..=Self::job_at(own, self.tasks.count() - 1)
    }

    /// Returns the place of the task with this job number, in the array `own`.
    pub fn place_of(&self, own: JobId, job: JobId) -> Option<u32> {
        let place = u32::try_from(job.0.checked_sub(own.0 + 1)?).ok()?;
        (place < self.tasks.count()).then_some(place)
    }
}

/// Returns the array of a task.
pub(crate) fn array_of(arrays: &BTreeMap<JobId, Array>, job: JobId) -> Option<(JobId, &Array)> {
    let (own, array) = arrays.range(..job).next_back()?;
    array.place_of(*own, job).map(|_| (*own, array))
}

impl State {
    /// Returns true if a task will become a job.
    pub fn is_coming(&self, job: JobId) -> bool {
        let coming = |(own, array): (JobId, &Array)| Some(array.is_coming(array.place_of(own, job)?));
        self.array_of(job).and_then(coming).unwrap_or(false)
    }

    /// Returns the array of a task, and its number.
    pub(crate) fn array_of(&self, job: JobId) -> Option<(JobId, &Array)> {
        array_of(&self.arrays, job)
    }

    pub(crate) fn array_of_mut(&mut self, job: JobId) -> Option<(JobId, &mut Array)> {
        let (own, array) = self.arrays.range_mut(..job).next_back()?;
        array.place_of(*own, job).map(|_| (*own, array))
    }
}
