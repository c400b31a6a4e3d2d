//! Conditions of blocked jobs: times, other jobs, earlier jobs of their name. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use limo_model::{JobId, Request, Time};

use crate::facts::{begin_of, wants_to_be_alone};
use crate::state::{Array, Clock, Job, Phase, State, array_of};
use crate::structure::{JobMap, JobSet};

#[derive(Debug, Clone, Default)]
pub(crate) struct Blocked {
    /// Begin times of blocked jobs, until a round has handled them.
    pub(super) begins: BTreeSet<(Time, JobId)>,
    /// Pairs of a job and one of its dependants.
    pub(super) dependents: BTreeSet<(JobId, JobId)>,
    /// Unfinished jobs, without tasks of arrays, by user and by name. It is `None` until a singleton is submitted,
    /// which never happens in most clusters.
    pub(super) names: Option<BTreeMap<String, BTreeMap<String, BTreeSet<JobId>>>>,
    /// Blocked jobs whose reason may have changed.
    pub untold: JobSet,
}

impl Blocked {
    pub fn of(state: &State) -> Self {
        let mut blocked = Self::default();
        for (id, job) in state.blocked.iter().filter_map(|id| state.jobs.get(id).map(|job| (id, &**job))) {
            blocked.add(id, job, &state.clock);
            // The job gets a new reason if its place in the order, or the remaining quota, changes.
            if state.is_in_line(id) && job.phase != Phase::Waiting(None) {
                blocked.untold.remove(id);
            }
            if wants_to_be_alone(&job.request) {
                blocked.know_names(&state.jobs, &state.arrays);
            }
        }
        blocked
    }

    pub fn add(&mut self, id: JobId, job: &Job, clock: &Clock) {
        self.begins.extend(begin_of(&job.request, clock).map(|at| (at, id)));
        self.dependents.extend(job.after.iter().map(|on| (on.job, id)));
        self.untold.insert(id);
    }

    pub fn remove(&mut self, id: JobId, job: &Job, clock: &Clock) {
        if let Some(at) = begin_of(&job.request, clock) {
            self.begins.remove(&(at, id));
        }
        for on in &job.after {
            self.dependents.remove(&(on.job, id));
        }
        self.untold.remove(id);
    }

    pub fn first_begin(&self) -> Option<Time> {
        self.begins.first().map(|(at, _)| *at)
    }

    /// Takes the first job whose begin has come.
    pub fn next_to_begin(&mut self, now: Time) -> Option<JobId> {
        let first = self.begins.first().copied().filter(|(at, _)| *at <= now)?;
        self.begins.remove(&first);
        Some(first.1)
    }

    /// Returns the dependants of `job`.
    pub fn dependents_of(&self, job: JobId) -> Vec<JobId> {
        let all = (job, JobId(0))..=(job, JobId(u64::MAX));
        self.dependents.range(all).map(|(_, dependent)| *dependent).collect()
    }

    /// Returns the jobs of a range that have dependants.
    pub fn awaited(&self, jobs: RangeInclusive<JobId>) -> BTreeSet<JobId> {
        let all = (*jobs.start(), JobId(0))..=(*jobs.end(), JobId(u64::MAX));
        // An empty range of numbers has no pairs.
        if jobs.is_empty() { BTreeSet::new() } else { self.dependents.range(all).map(|(job, _)| *job).collect() }
    }

    pub fn no_longer_depends(&mut self, dependent: JobId, on: JobId) {
        self.dependents.remove(&(on, dependent));
    }

    /// Collects the names of all jobs, unless that was done before. An array has one name for all its tasks.
    pub fn know_names(&mut self, jobs: &JobMap<Box<Job>>, arrays: &BTreeMap<JobId, Array>) {
        if self.names.is_none() {
            self.names = Some(BTreeMap::new());
            let own = jobs.iter().filter(|(id, _)| array_of(arrays, *id).is_none());
            own.for_each(|(id, job)| self.known(id, &job.request));
        }
    }

    /// Adds a new job.
    pub fn known(&mut self, id: JobId, request: &Request) {
        let Some(names) = &mut self.names else { return };
        let of_user = match names.get_mut(&request.user) {
            Some(of_user) => of_user,
            None => names.entry(request.user.clone()).or_default(),
        };
        match of_user.get_mut(&request.name) {
            Some(jobs) => jobs.insert(id),
            None => of_user.entry(request.name.clone()).or_default().insert(id),
        };
    }

    /// Returns the last job of the same user and name before this one.
    pub fn before(&self, id: JobId, request: &Request) -> Option<JobId> {
        let jobs = self.names.as_ref()?.get(&request.user)?.get(&request.name)?;
        jobs.range(..id).next_back().copied()
    }

    /// Removes a finished job. Returns the next one of the same user and name, which may have waited for it.
    pub fn gone(&mut self, id: JobId, request: &Request) -> Option<JobId> {
        let names = self.names.as_mut()?;
        let of_user = names.get_mut(&request.user)?;
        let jobs = of_user.get_mut(&request.name)?;
        jobs.remove(&id);
        let next = jobs.range(id..).next().copied();
        if jobs.is_empty() {
            of_user.remove(&request.name);
        }
        if of_user.is_empty() {
            names.remove(&request.user);
        }
        next
    }
}
