//! Arrays and their tasks. Only a few tasks are jobs at a time.

use std::collections::BTreeMap;

use limo_model::{JobId, Tasks};
use limo_proto::{ArrayReport, JobReport, JobState, Task};
use limo_sched::{Array, Ended, Phase};

use super::select::Purpose;
use super::{Controller, Live};
use crate::report;

impl Live {
    /// Returns the data of a job as an array, if it is one.
    pub fn task(&self, job: JobId) -> Option<Task> {
        let array = self.launch.array.as_ref()?;
        let place = u32::try_from(job.0.checked_sub(Array::job_at(self.job, 0).0)?).ok()?;
        let (number, count) = (array.tasks.number(place)?, array.tasks.count());
        let (lowest, highest) = array.tasks.bounds();
        let entry = array.entries.get(place as usize).cloned();
        Some(Task { array: self.job, number, count, lowest, highest, entry })
    }
}

impl Controller {
    /// Returns the accepted job, or its array if it is a task. Its end is not on disk.
    pub(super) fn live_of(&self, job: JobId) -> Option<&Live> {
        self.submissions.of(job)
    }

    /// Returns true if the core has this job, or will make this task a job.
    pub(super) fn is_known(&self, job: JobId) -> bool {
        self.tx.core.job(job).is_some() || self.tx.core.state().is_coming(job)
    }

    /// Returns the jobs of these tasks of an array with the tasks `all`. With `live`, only unfinished ones; a single
    /// task must be unfinished.
    pub(super) fn tasks_named(
        &self,
        (own, all): (JobId, &Tasks),
        named: &Tasks,
        purpose: Purpose,
    ) -> Result<Vec<JobId>, String> {
        let mut jobs = Vec::new();
        for number in (0..named.count()).filter_map(|index| named.number(index)) {
            let place = all.place(number).ok_or_else(|| format!("array {own} has no task {number}: it has {all}"))?;
            let job = Array::job_at(own, place);
            match purpose {
                Purpose::Tell { live: true } if self.tx.core.state().is_coming(job) => {
                    return Err(format!(
                        "task {number} of array {own} has not become a job yet: name the array, {own}"
                    ));
                }
                Purpose::Tell { live: false } => jobs.push(job),
                _ if self.is_known(job) => jobs.push(job),
                _ if named.count() == 1 => return Err(format!("task {number} of array {own} is over")),
                _ => {}
            }
        }
        Ok(jobs)
    }

    /// Returns the tasks of an unfinished array.
    pub(super) fn tasks_of(&self, own: JobId) -> Option<&Tasks> {
        self.tx.core.array(own).map(|array| &array.tasks)
    }

    /// Returns true if lists omit the job: a waiting task is part of its array's report.
    pub(super) fn is_folded(&self, id: JobId, job: &limo_sched::Job) -> bool {
        matches!(job.phase, Phase::Waiting(_)) && self.tx.core.array_of(id).is_some()
    }

    /// Reports an unfinished job or array.
    pub(super) fn job_report(&self, id: JobId, job: &limo_sched::Job) -> JobReport {
        let report = report::current(id, job, self.live_of(id), (&self.tx.core, self.tx.now));
        match self.tx.core.array(id) {
            Some(array) => self.array_report(report, array),
            None => report,
        }
    }

    fn array_report(&self, report: JobReport, array: &Array) -> JobReport {
        // Tasks before and after a waiting task may be on nodes.
        let live = (0..array.made).rev().filter_map(|place| {
            let job = self.tx.core.job(Array::job_at(report.job, place))?;
            Some((place, matches!(job.phase, Phase::Waiting(_))))
        });
        let live: BTreeMap<u32, bool> = live.take(array.live() as usize).collect();
        let first = live.iter().find(|(_, waits)| **waits).map_or(array.made, |(place, _)| *place);
        let elsewhere = (first..array.made).filter(|place| live.get(place) != Some(&true));
        let waiting = match array.cancelled_by {
            Some(_) => None,
            None => {
                let not_waiting = elsewhere.chain(array.dropped.iter().copied()).collect();
                array.tasks.without(&not_waiting).and_then(|tasks| tasks.from(first))
            }
        };
        let active = live.values().filter(|waits| !**waits).count() as u32;
        let state = match (&waiting, &array.cancelled_by) {
            (_, Some(_)) => JobState::Stopping,
            (Some(_), None) => JobState::Waiting,
            (None, None) => JobState::Running,
        };
        let Ended { started, account, counts, usage, .. } = &array.ended;
        JobReport {
            state,
            wait: report.wait.filter(|_| state == JobState::Waiting),
            started: started.map(|at| self.tx.core.clock().shown(at)),
            energy: started.map(|_| account.energy),
            cost: started.and(account.cost),
            start_now_cost: started.and(account.start_now_cost),
            usage: report::known(*usage),
            array: Some(ArrayReport {
                tasks: array.tasks.clone(),
                waiting: waiting.map(limo_model::Tasks::shortened),
                active,
                ended: *counts,
            }),
            ..report
        }
    }
}
