//! The record of steps: commands in the allocations of running jobs. No policy, index or book knows them, because the
//! resources and the draw of a step are those of its job.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, StopReason, Usage};
use serde::{Deserialize, Serialize};

use super::Job;

/// Steps that are not over, with the work that they leave to the next round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Steps {
    /// The records of steps, by their own job numbers.
    #[serde(with = "super::pairs")]
    jobs: BTreeMap<JobId, Box<Job>>,
    /// The steps of each job that has any.
    #[serde(with = "super::pairs")]
    of: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs whose waiting steps the next round looks at.
    pub(crate) due: BTreeSet<JobId>,
    /// Steps that the next round stops.
    pub(crate) to_stop: BTreeSet<JobId>,
}

impl Steps {
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.due.is_empty()
    }

    pub(crate) fn get(&self, step: JobId) -> Option<&Job> {
        self.jobs.get(&step).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, step: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(&step).map(Box::as_mut)
    }

    /// Returns the steps of a job, in order of submission.
    pub(crate) fn of(&self, job: JobId) -> impl Iterator<Item = (JobId, &Job)> {
        let steps = self.of.get(&job).into_iter().flatten();
        steps.filter_map(|step| Some((*step, self.get(*step)?)))
    }

    /// Returns the number of steps of a job.
    pub(crate) fn count(&self, job: JobId) -> usize {
        self.of.get(&job).map_or(0, BTreeSet::len)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(id, job)| (*id, job.as_ref()))
    }

    /// Adds a step of a job.
    pub(crate) fn insert(&mut self, of: JobId, step: JobId, record: Job) {
        self.jobs.insert(step, Box::new(record));
        self.of.entry(of).or_default().insert(step);
        self.due.insert(of);
    }

    /// Removes a step. Others of its job may start.
    pub(crate) fn remove(&mut self, step: JobId) -> Option<Box<Job>> {
        let record = self.jobs.remove(&step)?;
        self.to_stop.remove(&step);
        if let Some(of) = record.request.step.map(|step| step.of) {
            if let Some(steps) = self.of.get_mut(&of) {
                steps.remove(&step);
                if steps.is_empty() {
                    self.of.remove(&of);
                }
            }
            self.due.insert(of);
        }
        Some(record)
    }

    /// Lets the next round stop a step. Returns false if it is not assigned.
    pub(crate) fn stop(&mut self, step: JobId, why: StopReason) -> bool {
        let Some(assignment) = self.get_mut(step).and_then(Job::assignment_mut) else { return false };
        if assignment.stop.is_none() {
            assignment.stop = Some((why, false));
            self.to_stop.insert(step);
        }
        true
    }
}

/// Sums over the steps of a job's present attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct StepSums {
    /// Number of steps so far, over all attempts.
    pub(crate) submitted: u32,
    /// Number of steps of this attempt that have run.
    pub(crate) ran: u32,
    pub(crate) usage: Usage,
}

impl Job {
    /// Returns the number of its steps so far.
    pub fn step_count(&self) -> u32 {
        self.steps.as_ref().map_or(0, |steps| steps.submitted)
    }
}

impl StepSums {
    /// Adds the usage of a step. The energy is known if that of each step is.
    pub(crate) fn add(&mut self, usage: &Usage) {
        let is_unknown = usage.energy.is_none() || self.ran > 0 && self.usage.energy.is_none();
        self.usage.add(usage);
        if is_unknown {
            (self.usage.energy, self.usage.confidence) = (None, 0);
        }
        self.ran += 1;
    }

    /// Returns the usage of the job with that of its steps. The job's own time is the time of its run.
    pub(crate) fn with_own(&self, own: Usage) -> Usage {
        if self.ran == 0 {
            return own;
        }
        let mut all = own;
        all.add(&self.usage);
        all.elapsed = own.elapsed;
        if own.energy.is_none() || self.usage.energy.is_none() {
            (all.energy, all.confidence) = (None, 0);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Energy, Span};

    use super::*;

    fn usage(seconds: i64, energy: Option<i64>) -> Usage {
        let elapsed = Span::from_secs(seconds);
        let confidence = energy.map_or(0, |_| 900);
        Usage { elapsed, user_cpu: elapsed, energy: energy.map(Energy::from_mj), confidence, ..Usage::default() }
    }

    #[test]
    fn the_usage_of_a_job_has_that_of_its_steps() {
        let mut sums = StepSums::default();
        assert_eq!(sums.with_own(usage(9, Some(5))), usage(9, Some(5)));
        sums.add(&usage(2, Some(30)));
        sums.add(&usage(3, Some(40)));
        let all = sums.with_own(usage(9, Some(5)));
        assert_eq!((all.elapsed, all.user_cpu), (Span::from_secs(9), Span::from_secs(14)));
        assert_eq!((all.energy, all.confidence), (Some(Energy::from_mj(75)), 900));
        assert_eq!(sums.with_own(usage(9, None)).energy, None, "a part of it is unknown");
        sums.add(&usage(1, None));
        sums.add(&usage(1, Some(1)));
        assert_eq!(sums.with_own(usage(9, Some(5))).energy, None, "one step is unknown");
    }
}
