//! Submissions of the load's jobs.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use limo_model::{Dependency, Request};
use limo_sched::Refused;
use limo_trace::Job;

use super::happen::Due;
use super::{Load, Present, Simulation, SimulationError};
use crate::record::{Fate, Sink};

/// Number of requests after which all are forgotten.
const MANY: usize = 4_096;

/// Requests of jobs that ask for the same: a request takes most of the memory of a waiting job, and of the time of a
/// submission.
#[derive(Default)]
pub struct KnownRequests {
    last: Option<(Job, Arc<Request>)>,
    known: HashMap<Job, Arc<Request>>,
}

impl KnownRequests {
    fn get(&mut self, asked: &Job) -> Option<Arc<Request>> {
        if let Some((_, request)) = self.last.as_ref().filter(|(last, _)| last == asked) {
            return Some(Arc::clone(request));
        }
        let request = self.known.get(asked)?;
        self.last = Some((*asked, Arc::clone(request)));
        Some(Arc::clone(request))
    }

    fn insert(&mut self, asked: Job, request: &Arc<Request>) {
        if self.known.len() >= MANY {
            self.known.clear();
        }
        self.known.insert(asked, Arc::clone(request));
    }
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    /// Submits the jobs that are due; returns true if there were any.
    pub fn submit_all(&mut self) -> Result<bool, SimulationError> {
        let before = self.next;
        while self.load.submitted(self.next).is_some_and(|at| at <= self.now) {
            self.next += 1;
            self.submit(self.next - 1)?;
        }
        Ok(self.next > before)
    }

    pub fn submit(&mut self, index: usize) -> Result<(), SimulationError> {
        let id = self.core.next_job();
        let submitted = self.request_of(index).and_then(|request| self.core.submit(self.now, id, request));
        match submitted {
            Ok(()) => {
                self.jobs.insert(id, Present { index, run: None });
                self.due.extend(self.load.removed(index).map(|at| Reverse((at.max(self.now), Due::Remove(id)))));
            }
            // The job is larger than the platform, or its queue does not accept it.
            Err(_) if self.load.counts(index) => self.sink.job(&self.load.row(index, Fate::Refused))?,
            Err(_) => {}
        }
        Ok(())
    }

    /// Returns the request of a job, with what the core fills in.
    fn request_of(&mut self, index: usize) -> Result<Arc<Request>, Refused> {
        let asked = if self.predictions.is_none() { self.load.asked(index) } else { None };
        if let Some(known) = asked.as_ref().and_then(|asked| self.requests.get(asked)) {
            return Ok(known);
        }
        let mut request = self.load.request(index);
        if self.core.settings().queues.is_empty() {
            // The trace has queues, but the cluster has none.
            request.queue = None;
        }
        if let Some(conditions) = &mut request.conditions {
            // Dependencies on jobs that are over in the simulation are dropped.
            let here = |on: Dependency| {
                let job = usize::try_from(on.job.0).ok().and_then(|place| self.job_of(place))?;
                Some(Dependency { job, ..on })
            };
            conditions.dependencies = conditions.dependencies.drain(..).filter_map(here).collect();
        }
        if self.predictions.is_some() {
            request.predicted = self.predicted(index, &request);
        }
        let user = request.user.clone();
        self.core.resolve(&mut request, &user, &BTreeSet::new())?;
        let request = Arc::new(request);
        if let Some(asked) = asked {
            self.requests.insert(asked, &request);
        }
        Ok(request)
    }
}
