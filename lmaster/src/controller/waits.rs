//! Clients that wait until jobs are over. The open waits of a user are bounded: numbers are stored as ranges, and
//! each end of a job concerns only the waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use limo_model::JobId;
use limo_proto::WaitQuery;

use super::numbers::Numbers;
use super::queries::Serve;
use super::{Controller, PeerId};

/// The open waits of all users.
#[derive(Debug, Default)]
pub(super) struct Waits {
    open: BTreeMap<u64, Waiter>,
    /// Unfinished jobs, with the waits for them.
    by_job: BTreeSet<(JobId, u64)>,
    /// Number of job numbers in each user's open waits.
    held: BTreeMap<u32, u64>,
}

#[derive(Debug)]
struct Waiter {
    peer: PeerId,
    uid: u32,
    jobs: Numbers,
    /// Number of unfinished jobs of the wait.
    left: usize,
}

impl Waits {
    /// Returns the number of open waits.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    fn held(&self, uid: u32) -> u64 {
        self.held.get(&uid).copied().unwrap_or(0)
    }

    /// Opens a wait. `left` are its unfinished jobs.
    fn open(&mut self, number: u64, (peer, uid): (PeerId, u32), jobs: Numbers, left: &[JobId]) {
        self.by_job.extend(left.iter().map(|job| (*job, number)));
        *self.held.entry(uid).or_default() += jobs.len();
        self.open.insert(number, Waiter { peer, uid, jobs, left: left.len() });
    }

    fn close(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.open.remove(&number)?;
        if waiter.left > 0 {
            for job in waiter.jobs.iter() {
                self.by_job.remove(&(job, number));
            }
        }
        if let Some(held) = self.held.get_mut(&waiter.uid) {
            *held -= waiter.jobs.len();
            if *held == 0 {
                self.held.remove(&waiter.uid);
            }
        }
        Some(waiter)
    }

    /// Handles finished jobs. Returns the waits that end with them.
    fn over(&mut self, jobs: RangeInclusive<JobId>) -> Vec<(PeerId, Numbers)> {
        let named: Vec<(JobId, u64)> =
            self.by_job.range((*jobs.start(), 0)..=(*jobs.end(), u64::MAX)).copied().collect();
        let mut done = BTreeSet::new();
        for entry in named {
            self.by_job.remove(&entry);
            if let Some(waiter) = self.open.get_mut(&entry.1) {
                waiter.left -= 1;
                if waiter.left == 0 {
                    done.insert(entry.1);
                }
            }
        }
        done.into_iter().filter_map(|number| self.close(number)).map(|waiter| (waiter.peer, waiter.jobs)).collect()
    }

    pub(super) fn gone(&mut self, peer: PeerId) {
        self.close_where(|waiter| waiter.peer == peer);
    }

    fn close_where(&mut self, is_meant: impl Fn(&Waiter) -> bool) {
        let meant: Vec<u64> =
            self.open.iter().filter(|(_, waiter)| is_meant(waiter)).map(|(number, _)| *number).collect();
        for number in meant {
            self.close(number);
        }
    }

    /// Closes the waits for jobs that no longer exist. Returns their clients.
    fn lost(&mut self, is_there: impl Fn(JobId) -> bool) -> Vec<PeerId> {
        let lost: BTreeSet<u64> =
            self.by_job.iter().filter(|(job, _)| !is_there(*job)).map(|(_, number)| *number).collect();
        lost.into_iter().filter_map(|number| self.close(number)).map(|waiter| waiter.peer).collect()
    }
}

impl Serve for WaitQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.wait(peer, self.0);
    }
}

impl Controller {
    fn wait(&mut self, peer: PeerId, jobs: Vec<JobId>) {
        let Some(caller) = self.caller(peer) else { return };
        let (uid, limits) = (caller.uid, self.tx.settings.limits.of(caller.operator));
        let jobs: Numbers = jobs.into_iter().collect();
        let unknown = jobs.first().filter(|job| job.0 == 0);
        if let Some(unknown) = unknown.or_else(|| jobs.last().filter(|job| *job >= self.tx.core.next_job())) {
            return self.refuse(peer, format!("there is no job {unknown}"), None);
        }
        if jobs.len() > u64::from(limits.wait_numbers) {
            let reason = format!("the wait names {} jobs: the limit is {}", jobs.len(), limits.wait_numbers);
            return self.refuse(peer, reason, Some("wait for them in several requests"));
        }
        // An accepted job is live until its end is on disk.
        let is_live = |job: &JobId| self.submissions.contains(*job) || self.is_known(*job);
        let left: Vec<JobId> = jobs.iter().filter(is_live).collect();
        if left.is_empty() {
            return self.waited(peer, jobs);
        }
        let held = self.sessions.waits().held(uid);
        if held + jobs.len() > u64::from(limits.open_waits) {
            let reason = format!(
                "the open waits of one user may name {} jobs: {held} are named, and this wait names {}",
                limits.open_waits,
                jobs.len()
            );
            return self.refuse(peer, reason, Some("let another wait end first"));
        }
        let number = self.questions.ticket().0;
        self.sessions.waits().open(number, (peer, uid), jobs, &left);
    }

    /// Handles a finished job whose end is on disk; an array also ends its tasks that never became jobs.
    pub(super) fn waited_for(&mut self, job: JobId, tasks: u32) {
        for (peer, jobs) in self.sessions.waits().over(job..=JobId(job.0 + u64::from(tasks))) {
            self.waited(peer, jobs);
        }
    }

    /// Closes waits after a failed commit, because a job that was never accepted does not end.
    pub(super) fn waiters_of_lost_jobs(&mut self) {
        let (live, core) = (&self.submissions, &self.tx.core);
        let is_there = |job: JobId| live.contains(job) || core.job(job).is_some() || core.array_of(job).is_some();
        for peer in self.sessions.waits().lost(is_there) {
            self.refuse(peer, "one of the jobs to wait for was never accepted", None);
        }
    }
}
