//! Accepted jobs until their ends are on disk, by number and by the key of their submission.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use limo_model::{JobId, Request};
use limo_proto::{Launch, SubmissionKey};

use super::{Fault, Launches, Live, faults};
use crate::limits::Limits;

/// All accepted jobs, with their shared data.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    live: BTreeMap<JobId, Live>,
    keys: HashMap<SubmissionKey, JobId>,
    launches: Launches,
    ended: EndedKeys,
}

/// Keys of the last jobs whose ends are on disk. A job that was submitted on two connections may end before the slower one
/// is served.
#[derive(Debug, Default)]
struct EndedKeys {
    keys: HashSet<SubmissionKey>,
    /// The same, in order.
    order: VecDeque<SubmissionKey>,
}

/// Most of these keys: more jobs than end while the submit hook is asked about one.
const ENDED: usize = 10_000;

impl EndedKeys {
    fn add(&mut self, key: SubmissionKey) {
        if self.order.len() == ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        self.keys.insert(key);
        self.order.push_back(key);
    }
}

impl Submissions {
    /// Replaces the jobs by those on disk.
    pub(super) fn take_up(&mut self, mut live: BTreeMap<JobId, Live>) {
        let mut launches = Launches::default();
        live.values_mut().for_each(|live| launches.share(live));
        let keys = live.iter().map(|(id, live)| (live.key, *id)).collect();
        *self = Self { live, keys, launches, ended: std::mem::take(&mut self.ended) };
    }

    pub(super) fn all(&self) -> &BTreeMap<JobId, Live> {
        &self.live
    }

    pub(super) fn get(&self, job: JobId) -> Option<&Live> {
        self.live.get(&job)
    }

    pub(super) fn contains(&self, job: JobId) -> bool {
        self.live.contains_key(&job)
    }

    /// Returns the submission of a job, or of the array that it is a task of.
    pub(super) fn of(&self, job: JobId) -> Option<&Live> {
        let (own, live) = self.live.range(..=job).next_back()?;
        (*own == job || live.task(job).is_some()).then_some(live)
    }

    /// Returns the job that was submitted with a key.
    pub(super) fn by_key(&self, key: &SubmissionKey) -> Option<JobId> {
        self.keys.get(key).copied().filter(|_| !faults::has(Fault::SubmissionForgotten))
    }

    /// Returns true if a job with this key has ended lately.
    pub(super) fn was_ended(&self, key: &SubmissionKey) -> bool {
        self.ended.keys.contains(key) && !faults::has(Fault::SubmissionForgotten)
    }

    /// Returns the jobs in a range of numbers.
    pub(super) fn numbers(&self, range: RangeInclusive<JobId>) -> impl Iterator<Item = JobId> {
        self.live.range(range).map(|(id, _)| *id)
    }

    /// Checks that a user may have another job. Shares the launch with equal ones.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub(super) fn check(&self, uid: u32, request: &Request, launch: &mut Launch, limits: Limits) -> Result<(), String> {
        self.launches.check(uid, request, launch, limits)
    }

    pub(super) fn insert(&mut self, mut live: Live) {
        self.launches.share(&mut live);
        self.keys.insert(live.key, live.job);
        self.live.insert(live.job, live);
    }

    /// Removes a job whose end is on disk: returns the number of its tasks, and true if much memory was freed.
    pub(super) fn remove(&mut self, job: JobId) -> (u32, bool) {
        let Some(live) = self.live.remove(&job) else { return (0, false) };
        let tasks = live.launch.array.as_ref().map_or(0, |array| array.tasks.count());
        self.keys.remove(&live.key);
        self.ended.add(live.key);
        (tasks, self.launches.release(live))
    }

    /// Returns the number of all entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live.len().max(self.keys.len()).max(usize::from(!self.launches.is_empty()))
    }
}
