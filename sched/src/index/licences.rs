//! Jobs that hold licences, and jobs that wait for them. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, Request};

use crate::state::State;

/// Place of a job in a line: the smaller one is first.
pub(crate) type Turn = (i32, JobId);

/// Returns the place of a job in a line: by priority, then by number.
pub(crate) fn turn(id: JobId, request: &Request) -> Turn {
    (-request.priority, id)
}

/// Returns the number of licences of a kind that a request needs.
pub(crate) fn licences_of(request: &Request, name: &str) -> u64 {
    request.licences.iter().find(|own| own.name == name).map_or(0, |own| own.count.get().into())
}

/// The jobs of one kind of licence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LicenceLine {
    /// Number of licences that jobs hold.
    pub held: u64,
    /// Active and queued jobs.
    pub holders: BTreeSet<Turn>,
    /// Blocked jobs, in the order in which they will enter the queue.
    pub waiting: BTreeSet<Turn>,
}

/// Lines by the name of the licence; none is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LicenceLines(BTreeMap<String, LicenceLine>);

impl LicenceLines {
    pub fn of(state: &State) -> Self {
        let mut lines = Self::default();
        for id in state.queue.iter().chain(state.active.iter()) {
            if let Some(job) = state.jobs.get(id) {
                lines.hold(id, &job.request);
            }
        }
        for id in state.over_licence.iter() {
            if let Some(job) = state.jobs.get(id) {
                lines.wait(id, &job.request);
            }
        }
        lines
    }

    pub fn get(&self, name: &str) -> Option<&LicenceLine> {
        self.0.get(name)
    }

    /// Returns true if the job holds its licences.
    pub fn holds(&self, id: JobId, request: &Request) -> bool {
        let first = request.licences.first().and_then(|first| self.0.get(&first.name));
        first.is_some_and(|line| line.holders.contains(&turn(id, request)))
    }

    pub fn hold(&mut self, id: JobId, request: &Request) {
        for own in &request.licences {
            let line = self.0.entry(own.name.clone()).or_default();
            if line.holders.insert(turn(id, request)) {
                line.held += u64::from(own.count.get());
            }
        }
    }

    pub fn release(&mut self, id: JobId, request: &Request) {
        for own in &request.licences {
            if let Some(line) = self.0.get_mut(&own.name)
                && line.holders.remove(&turn(id, request))
            {
                line.held -= u64::from(own.count.get());
            }
        }
        self.tidy(request);
    }

    pub fn wait(&mut self, id: JobId, request: &Request) {
        for own in &request.licences {
            self.0.entry(own.name.clone()).or_default().waiting.insert(turn(id, request));
        }
    }

    pub fn leave(&mut self, id: JobId, request: &Request) {
        for own in &request.licences {
            if let Some(line) = self.0.get_mut(&own.name) {
                line.waiting.remove(&turn(id, request));
            }
        }
        self.tidy(request);
    }

    fn tidy(&mut self, request: &Request) {
        for own in &request.licences {
            if self.0.get(&own.name).is_some_and(|line| line.holders.is_empty() && line.waiting.is_empty()) {
                self.0.remove(&own.name);
            }
        }
    }
}
