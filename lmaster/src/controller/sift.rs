//! Filtering of many jobs in slices. A filter may have thousands of names and apply to very many jobs.

use std::collections::HashSet;

use limo_model::JobId;
use limo_proto::{JobFilter, JobReport, JobState};
use limo_sched::Job;

use super::numbers::Numbers;
use super::select::Selecting;
use super::{Controller, PeerId};

/// Most jobs per slice. The next value is for jobs that need a report. Both take a few milliseconds without service
/// for other requests.
const LOOKS: usize = 10_000;
const REPORTS: usize = 1_000;

/// A filter with fast look-up of names.
pub(super) struct Sieve<'a> {
    users: HashSet<&'a str>,
    names: HashSet<&'a str>,
    nodes: HashSet<&'a str>,
    queues: HashSet<&'a str>,
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
        let [users, names, nodes, queues] =
            [&filter.users, &filter.names, &filter.nodes, &filter.queues].map(|list| set(list));
        Self { users, names, nodes, queues, states }
    }

    /// Returns true if a job may pass by its request alone, because a report costs more.
    pub(super) fn may_pass(&self, job: &Job) -> bool {
        let among = |set: &HashSet<&str>, value: &str| set.is_empty() || set.contains(value);
        among(&self.users, &job.request.user)
            && among(&self.names, &job.request.name)
            && (self.queues.is_empty()
                || job.request.queue.as_ref().is_some_and(|of| self.queues.contains(of.as_str())))
    }

    fn needs_report(&self) -> bool {
        !self.states.is_empty() || !self.nodes.is_empty()
    }

    /// Returns true if a job passes. Requires [`Sieve::may_pass`].
    pub(super) fn passes(&self, report: &JobReport) -> bool {
        (self.states.is_empty() || self.states.contains(&report.state))
            && (self.nodes.is_empty() || report.nodes.iter().any(|node| self.nodes.contains(node.as_str())))
    }
}

/// A selection that is being filtered.
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
    /// Filters one slice. Returns the selection unless that was the last.
    pub(super) fn sift(&mut self, peer: PeerId, mut sifting: Box<Sifting>) -> Option<Box<Sifting>> {
        let Sifting { selecting, left, passed } = sifting.as_mut();
        let sieve = Sieve::new(&selecting.selection.filter);
        let count = if sieve.needs_report() { REPORTS } else { LOOKS };
        let passes = |id: &JobId| {
            let job = self.tx.core.job(*id).filter(|job| sieve.may_pass(job));
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
