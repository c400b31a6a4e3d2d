//! Which of many jobs pass a filter, slice by slice: a filter may have thousands of names and be asked for very many jobs.

use std::collections::HashSet;

use limo_model::JobId;
use limo_proto::{JobFilter, JobReport, JobState};
use limo_sched::Job;

use super::numbers::Numbers;
use super::select::Selecting;
use super::{Controller, PeerId};

/// Jobs that are looked at in a slice, and those for which that takes a report: a few milliseconds in which nobody else is
/// served.
const LOOKS: usize = 10_000;
const REPORTS: usize = 1_000;

/// A filter in which names are found at once.
pub(super) struct Sieve<'a> {
    users: HashSet<&'a str>,
    names: HashSet<&'a str>,
    nodes: HashSet<&'a str>,
    states: Vec<JobState>,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(filter: &'a JobFilter) -> Self {
        let set = |list: &'a [String]| list.iter().map(String::as_str).collect();
        let mut states = Vec::new();
        for state in &filter.states {
            if !states.contains(state) {
                states.push(*state);
            }
        }
        Self { users: set(&filter.users), names: set(&filter.names), nodes: set(&filter.nodes), states }
    }

    /// Returns true if a job passes as far as its request tells; a report costs more.
    pub(super) fn may_pass(&self, job: &Job) -> bool {
        let among = |set: &HashSet<&str>, value: &str| set.is_empty() || set.contains(value);
        among(&self.users, &job.request.user) && among(&self.names, &job.request.name)
    }

    fn needs_report(&self) -> bool {
        !self.states.is_empty() || !self.nodes.is_empty()
    }

    /// Returns true if a job passes for which [`Sieve::may_pass`] holds.
    pub(super) fn passes(&self, report: &JobReport) -> bool {
        (self.states.is_empty() || self.states.contains(&report.state))
            && (self.nodes.is_empty() || report.nodes.iter().any(|node| self.nodes.contains(node.as_str())))
    }
}

/// A selection whose jobs are going through its filter.
#[derive(Debug)]
pub(super) struct Sifting {
    selecting: Selecting,
    left: Numbers,
    passed: Vec<JobId>,
}

impl Sifting {
    pub(super) fn new(selecting: Selecting, jobs: Numbers) -> Self {
        Self { selecting, left: jobs, passed: Vec::new() }
    }
}

impl Controller {
    /// One slice. Gives the selection back if that was not the last.
    pub(super) fn sift(&mut self, peer: PeerId, mut sifting: Box<Sifting>) -> Option<Box<Sifting>> {
        let Sifting { selecting, left, passed } = sifting.as_mut();
        let sieve = Sieve::new(&selecting.selection.filter);
        let count = if sieve.needs_report() { REPORTS } else { LOOKS };
        let passes = |id: &JobId| {
            let job = self.core.job(*id).filter(|job| sieve.may_pass(job));
            job.is_some_and(|job| !sieve.needs_report() || sieve.passes(&self.job_report(*id, job)))
        };
        passed.extend(left.take(count).into_iter().filter(passes));
        if !left.is_empty() {
            return Some(sifting);
        }
        let Sifting { selecting, passed, .. } = *sifting;
        self.chosen(peer, &selecting, passed.into_iter().collect());
        None
    }
}
