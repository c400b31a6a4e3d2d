//! The owner of the machine, who comes before jobs.
//!
//! By the standing order of the master, the node suspends all jobs as soon as the owner comes, and evicts a job that was
//! suspended for too long. It does both without asking, so that the owner never waits for a connection. A job continues by an
//! order of the master, which may have other reasons to keep it suspended; without a connection the node decides.
//!
//! The order and the suspended jobs outlive the daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Attempt as Number, JobId, Span};
use limo_proto::NodeToMaster;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::Node;
use super::lease::ms;
use crate::attempt::State;
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::records::Record;

/// Time for the order of a connected master to evict a job, before the node does it by itself.
const PATIENCE_MS: u64 = 1000;

/// State of the owner that outlives the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Time after which a suspended job is evicted; `None` if an owner suspends no jobs.
    pub evict_after: Option<Span>,
    /// True if the owner was there.
    pub is_there: bool,
    /// Attempts that the node has suspended for the owner, each with the time of that by `CLOCK_BOOTTIME`, in milliseconds.
    pub suspended: BTreeMap<JobId, (Number, u64)>,
}

/// State of the owner.
pub(super) struct Owners {
    /// True if the node can tell whether the owner is there.
    pub(super) has_source: bool,
    record: OwnerRecord,
    /// State that the master knows from this connection.
    told: Option<bool>,
}

impl Owners {
    pub(super) fn new(has_source: bool) -> Self {
        Self { has_source, record: OwnerRecord::default(), told: None }
    }

    /// Returns true while no job may run.
    fn in_force(&self) -> bool {
        self.has_source && self.record.is_there && self.record.evict_after.is_some()
    }
}

impl Node {
    /// Continues with the record of an earlier daemon.
    pub(super) fn recover_owner(&mut self, record: OwnerRecord) {
        self.owners.record = OwnerRecord { is_there: record.is_there && self.owners.has_source, ..record };
    }

    /// Returns the state of the owner for the registration.
    pub(super) fn introduce_owner(&mut self) -> Option<bool> {
        self.owners.told = self.owners.has_source.then_some(self.owners.record.is_there);
        self.owners.told
    }

    /// Tells the master about an owner who came or left while the node registered.
    pub(super) fn tell_owner(&mut self) {
        let is_there = self.owners.record.is_there;
        if self.owners.has_source && self.is_registered() && self.owners.told.replace(is_there) != Some(is_there) {
            self.send(NodeToMaster::Owner { is_there });
        }
    }

    /// Handles the standing order of the master.
    pub(super) fn owners_ordered(&mut self, evict_after: Option<Span>) {
        if self.owners.record.evict_after == evict_after {
            return;
        }
        let shown = evict_after.map(tracing::field::display);
        info!(evict_after = shown, "the master has changed the rules for the owner of the machine");
        self.owners.record.evict_after = evict_after;
        self.owner_matters();
    }

    /// Handles an owner who came or left.
    pub(super) fn owner_seen(&mut self, is_there: bool) {
        if self.owners.record.is_there == is_there {
            return;
        }
        info!(is_there, "the owner of the machine has come or left");
        self.owners.record.is_there = is_there;
        // First the message: to the master, a reading without the suspended jobs would mean that they draw nothing.
        self.tell_owner();
        self.owner_matters();
    }

    /// Suspends the jobs if the owner is there, or else lets them go on.
    fn owner_matters(&mut self) {
        if self.owners.in_force() {
            let known = self.attempts.known.iter();
            let running = known.filter(|(_, attempt)| matches!(attempt.state, State::Running(_)));
            let running: Vec<_> = running.map(|(&job, attempt)| (job, attempt.number)).collect();
            running.into_iter().for_each(|(job, number)| self.suspend_for_owner(job, number));
        } else {
            let suspended = std::mem::take(&mut self.owners.record.suspended);
            if !self.is_registered() {
                suspended.into_iter().for_each(|(job, (number, _))| self.resume_job(job, number));
            }
        }
        self.keep_owner();
    }

    /// Suspends a job that has just started if the owner is there.
    pub(super) fn started_beside_owner(&mut self, job: JobId, number: Number) {
        if self.owners.in_force() && !faults::has(Fault::OwnerOverlooked) {
            self.suspend_for_owner(job, number);
            self.keep_owner();
        }
    }

    fn suspend_for_owner(&mut self, job: JobId, number: Number) {
        if self.halt(job, number) {
            self.owners.record.suspended.insert(job, (number, self.now.boot.0));
        }
    }

    /// Returns true if the owner keeps the job suspended, although the master lets it go on.
    pub(super) fn waits_for_owner(&mut self, job: JobId, number: Number) -> bool {
        if !self.owners.in_force() {
            return false;
        }
        let Some(attempt) = self.attempts.find(job, number) else { return false };
        let is_suspended = matches!(attempt.state, State::Suspended(_));
        if is_suspended && !self.owners.record.suspended.contains_key(&job) {
            self.owners.record.suspended.insert(job, (number, self.now.boot.0));
            self.keep_owner();
        }
        is_suspended
    }

    /// Returns the suspended attempts, of jobs that may run again, with the times at which the node evicts them, by `CLOCK_BOOTTIME`.
    fn evictions(&self) -> impl Iterator<Item = (JobId, Number, u64)> {
        let patience = if self.is_registered() { PATIENCE_MS } else { 0 };
        let after = self.owners.record.evict_after.filter(|_| self.owners.in_force()).map(ms);
        let suspended = after.into_iter().flat_map(move |after| {
            let due = move |since: u64| since.saturating_add(after).saturating_add(patience);
            self.owners.record.suspended.iter().map(move |(&job, &(number, since))| (job, number, due(since)))
        });
        let is_here = |job: &JobId, number: Number| {
            let attempt = self.attempts.known.get(job).filter(|attempt| attempt.number == number);
            attempt.is_some_and(|attempt| matches!(attempt.state, State::Suspended(_)) && self.leases.contains_key(job))
        };
        suspended.filter(move |(job, number, _)| is_here(job, *number))
    }

    /// Returns when the next job is evicted.
    pub(super) fn eviction_due(&self) -> Option<Duration> {
        let due = self.evictions().map(|(.., due)| due).min()?;
        Some(self.now.since + Duration::from_millis(due.saturating_sub(self.now.boot.0)))
    }

    /// Evicts the jobs that their owner has suspended for too long.
    pub(super) fn evict_overdue(&mut self) {
        let now = self.now.boot.0;
        let overdue: Vec<_> = self.evictions().filter(|(.., due)| *due <= now).collect();
        for (job, number, _) in overdue {
            self.owners.record.suspended.remove(&job);
            let Some(attempt) = self.attempts.find(job, number) else { continue };
            attempt.is_evicted = true;
            let grace = attempt.kill_grace;
            warn!(%job, attempt = %number, "job evicted: the owner of the machine needs it");
            self.record(Record::Evicted { job, attempt: number });
            self.evict(job, number, grace);
            self.keep_owner();
        }
    }

    /// Tells the master about evicted attempts.
    pub(super) fn tell_evicted(&mut self) {
        let known = self.attempts.known.iter();
        let evicted = known.filter(|(job, attempt)| attempt.is_evicted && !self.is_foreign(**job));
        let evicted: Vec<_> = evicted.map(|(&job, attempt)| (job, attempt.number)).collect();
        for (job, attempt) in evicted {
            self.send(NodeToMaster::Evicted { job, attempt });
        }
    }

    /// Writes the record without the attempts that have ended.
    fn keep_owner(&mut self) {
        let known = &self.attempts.known;
        let is_here = |job: &JobId, number: Number| known.get(job).is_some_and(|attempt| attempt.number == number);
        self.owners.record.suspended.retain(|job, (number, _)| is_here(job, *number));
        self.effect(Effect::KeepOwner(self.owners.record.clone()));
    }
}
