//! Progress of attempts between assignment and start, beside the state: requests to nodes and their answers. Not on
//! disk, because nodes report again when they register.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, JobId, NodeId, Span, Time};

use super::PeerId;
use super::faults::{self, Fault};

/// A `DoExec` without its `JobAck`, or several of them for a multi-node job.
#[derive(Debug, Clone)]
pub(super) struct Awaited {
    pub(super) attempt: Attempt,
    pub(super) peers: BTreeMap<NodeId, PeerId>,
    pub(super) until: Time,
    /// Nodes that acknowledge without a deadline, because their prologs run.
    pub(super) preparing: BTreeSet<NodeId>,
}

impl Awaited {
    /// Returns the nodes that must acknowledge in time.
    pub(super) fn due(&self) -> impl Iterator<Item = (NodeId, PeerId)> {
        let due = self.peers.iter().filter(|(node, _)| !self.preparing.contains(node));
        due.map(|(node, peer)| (*node, *peer))
    }
}

/// Reports of the nodes of one attempt of a job. The end of a node's part is in the core's state.
#[derive(Debug, Default)]
struct Gathered {
    attempt: Option<Attempt>,
    /// Nodes that acknowledged, and were not released since their last message.
    held: BTreeSet<NodeId>,
    /// Released nodes.
    told: BTreeSet<NodeId>,
    begun: BTreeSet<NodeId>,
    /// The last order about its processes that a node confirmed, true if they are stopped, and the nodes that did.
    paused: (bool, BTreeSet<NodeId>),
    /// Number of those orders that a node has not answered on its present connection.
    unanswered: BTreeMap<NodeId, u32>,
}

/// Attempts that were assigned.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    /// Attempt of each job for which this process or an earlier one may have sent `Go`. Kept until the end of the job
    /// is on disk.
    released: BTreeMap<JobId, Attempt>,
    /// Assignments that were sent but not acknowledged.
    awaited: BTreeMap<JobId, Awaited>,
    /// Jobs that have reached their time limits, with the time at which the master stops them if their nodes have
    /// not.
    late: BTreeMap<JobId, (Attempt, Time)>,
    /// Starts whose last confirmation is being written to the disk.
    confirming: BTreeSet<JobId>,
    /// Progress of the start of each multi-node job, and of suspensions.
    gathered: BTreeMap<JobId, Gathered>,
}

impl Assignments {
    /// Adds attempts that an earlier process may have released.
    pub(super) fn take_up(&mut self, released: impl Iterator<Item = (JobId, Attempt)>) {
        self.released = released.collect();
    }

    /// Records that `Go` was sent or is about to be.
    pub(super) fn release(&mut self, job: JobId, attempt: Attempt) {
        self.released.insert(job, attempt);
    }

    pub(super) fn may_be_released(&self, job: JobId, attempt: Attempt) -> bool {
        self.released.get(&job) == Some(&attempt)
    }

    pub(super) fn released(&self) -> impl Iterator<Item = (JobId, Attempt)> {
        self.released.iter().map(|(job, attempt)| (*job, *attempt))
    }

    /// Forgets a release that was not sent.
    pub(super) fn not_released(&mut self, is_unsent: impl Fn(JobId) -> bool) {
        self.released.retain(|job, _| !is_unsent(*job));
    }

    /// Records that an assignment was sent, on one connection for each node.
    pub(super) fn sent(&mut self, job: JobId, awaited: Awaited) {
        self.awaited.insert(job, awaited);
    }

    /// Returns true if this attempt awaits an acknowledgement of the node on this connection.
    pub(super) fn is_asked(&self, (peer, node): (PeerId, NodeId), job: JobId, attempt: Attempt) -> bool {
        let asked = self.awaited.get(&job).filter(|asked| asked.attempt == attempt);
        asked.is_some_and(|asked| asked.peers.get(&node) == Some(&peer))
    }

    pub(super) fn is_awaited(&self, job: JobId) -> bool {
        self.awaited.contains_key(&job)
    }

    /// Waits for the acknowledgement of this node without a deadline.
    pub(super) fn prepares(&mut self, from: (PeerId, NodeId), job: JobId, attempt: Attempt) {
        if self.is_asked(from, job, attempt)
            && let Some(asked) = self.awaited.get_mut(&job)
        {
            asked.preparing.insert(from.1);
        }
    }

    /// Expects no further acknowledgement from this node.
    pub(super) fn not_awaited(&mut self, job: JobId, node: NodeId) {
        if let Some(asked) = self.awaited.get_mut(&job) {
            asked.peers.remove(&node);
            if asked.peers.is_empty() {
                self.awaited.remove(&job);
            }
        }
    }

    /// Expects no further acknowledgement for this job.
    pub(super) fn none_awaited(&mut self, job: JobId) {
        self.awaited.remove(&job);
    }

    /// Returns the time at which the next acknowledgement is late.
    pub(super) fn next_missed(&self) -> Option<Time> {
        let due = self.awaited.values().filter(|awaited| awaited.due().next().is_some());
        due.map(|awaited| awaited.until).min()
    }

    /// Returns attempts that were not acknowledged in time.
    pub(super) fn missed(&self, now: Time) -> Vec<(JobId, Awaited)> {
        let missed = self.awaited.iter().filter(|(_, asked)| asked.until <= now && asked.due().next().is_some());
        missed.map(|(job, asked)| (*job, asked.clone())).collect()
    }

    /// Plans to stop the job at `at` if its node has not ended it.
    pub(super) fn stop_at(&mut self, job: JobId, attempt: Attempt, at: Time) {
        self.late.insert(job, (attempt, at));
    }

    /// Returns the time of the next planned stop.
    pub(super) fn next_late(&self) -> Option<Time> {
        self.late.values().map(|(_, at)| *at).min()
    }

    pub(super) fn take_late(&mut self, now: Time) -> Vec<(JobId, Attempt)> {
        self.late.extract_if(.., |_, (_, at)| *at <= now).map(|(job, (attempt, _))| (job, attempt)).collect()
    }

    /// Removes a planned stop of a job; returns its attempt.
    pub(super) fn take_late_of(&mut self, job: JobId) -> Option<Attempt> {
        self.late.remove(&job).map(|(attempt, _)| attempt)
    }

    /// Gives nodes this time in addition to acknowledge assignments and to end jobs.
    pub(super) fn extend(&mut self, by: Span) {
        self.awaited.values_mut().for_each(|awaited| awaited.until = awaited.until + by);
        self.late.values_mut().for_each(|(_, at)| *at = *at + by);
    }

    fn gathered(&mut self, job: JobId, attempt: Attempt) -> &mut Gathered {
        let gathered = self.gathered.entry(job).or_default();
        if gathered.attempt != Some(attempt) {
            *gathered = Gathered { attempt: Some(attempt), ..Gathered::default() };
        }
        gathered
    }

    /// Records that a node of a multi-node job holds its part.
    pub(super) fn part_held(&mut self, job: JobId, attempt: Attempt, node: NodeId) {
        let gathered = self.gathered(job, attempt);
        gathered.told.remove(&node);
        gathered.held.insert(node);
    }

    /// Returns true if a node holds its part, and was not released since.
    pub(super) fn is_part_held(&self, job: JobId, attempt: Attempt, node: NodeId) -> bool {
        let gathered = self.gathered.get(&job).filter(|gathered| gathered.attempt == Some(attempt));
        gathered.is_some_and(|gathered| gathered.held.contains(&node))
    }

    /// Records that a node's connection broke, so that its last order may be lost.
    pub(super) fn part_away(&mut self, job: JobId, node: NodeId) {
        if let Some(gathered) = self.gathered.get_mut(&job) {
            gathered.held.remove(&node);
        }
    }

    /// Records that a node's part of a job runs.
    pub(super) fn part_begun(&mut self, job: JobId, attempt: Attempt, node: NodeId) {
        let gathered = self.gathered(job, attempt);
        gathered.held.remove(&node);
        gathered.begun.insert(node);
    }

    /// Returns true if this node has begun its part.
    pub(super) fn has_part_begun(&self, job: JobId, attempt: Attempt, node: NodeId) -> bool {
        let gathered = self.gathered.get(&job).filter(|gathered| gathered.attempt == Some(attempt));
        gathered.is_some_and(|gathered| gathered.begun.contains(&node))
    }

    /// Returns true if any node has begun its part.
    pub(super) fn has_any_begun(&self, job: JobId, attempt: Attempt) -> bool {
        let gathered = self.gathered.get(&job).filter(|gathered| gathered.attempt == Some(attempt));
        gathered.is_some_and(|gathered| !gathered.begun.is_empty())
    }

    /// Returns true if all of these nodes have begun their parts. An empty list gives false.
    pub(super) fn have_all_begun(&mut self, job: JobId, attempt: Attempt, nodes: &[NodeId]) -> bool {
        let gathered = self.gathered(job, attempt);
        !gathered.begun.is_empty() && nodes.iter().all(|node| gathered.begun.contains(node))
    }

    /// Records that the last confirmations of these starts are being written.
    pub(super) fn confirm(&mut self, jobs: impl Iterator<Item = JobId>) {
        self.confirming.extend(jobs);
    }

    /// Records that the last confirmation of a start is on disk.
    pub(super) fn confirmed(&mut self, job: JobId) {
        self.confirming.remove(&job);
    }

    /// Returns true if the last confirmation of a start is being written.
    pub(super) fn is_confirming(&self, job: JobId) -> bool {
        self.confirming.contains(&job)
    }

    /// Counts an order to stop or continue the processes of an attempt on a node.
    pub(super) fn asked_to_pause(&mut self, (job, attempt): (JobId, Attempt), node: NodeId) {
        *self.gathered(job, attempt).unanswered.entry(node).or_default() += 1;
    }

    /// Forgets the unanswered orders of this kind, because the node has a new connection.
    pub(super) fn asks_anew(&mut self, job: JobId, node: NodeId) {
        if let Some(gathered) = self.gathered.get_mut(&job) {
            gathered.unanswered.remove(&node);
        }
    }

    /// Records that the processes of an attempt on a node are stopped, or continue. Returns true if this holds for all of
    /// these nodes, and is their answer to the last order.
    pub(super) fn have_all_paused(
        &mut self,
        (job, attempt): (JobId, Attempt),
        node: NodeId,
        paused: bool,
        nodes: &[NodeId],
    ) -> bool {
        let gathered = self.gathered(job, attempt);
        if let Some(unanswered) = gathered.unanswered.get_mut(&node) {
            *unanswered = unanswered.saturating_sub(1);
            if *unanswered > 0 && !faults::has(Fault::AnswersConfused) {
                return false;
            }
        }
        if nodes == [node] {
            return true;
        }
        let (last, confirmed) = &mut gathered.paused;
        if *last != paused {
            confirmed.clear();
        }
        *last = paused;
        confirmed.insert(node);
        nodes.iter().all(|node| confirmed.contains(node))
    }

    /// Returns the nodes to release now: the first one when all have acknowledged, the others when it has begun. `None`
    /// if not all have acknowledged. `ended` have ended their parts.
    pub(super) fn ready(
        &mut self,
        (job, attempt): (JobId, Attempt),
        nodes: &[NodeId],
        ended: &BTreeSet<NodeId>,
    ) -> Option<Vec<NodeId>> {
        let gathered = self.gathered(job, attempt);
        let has_begun = |node: &NodeId| gathered.begun.contains(node) || ended.contains(node);
        let is_in = |node: &NodeId| gathered.held.contains(node) || gathered.told.contains(node) || has_begun(node);
        if !nodes.iter().all(is_in) {
            return None;
        }
        Some(match nodes.first() {
            Some(first) if !has_begun(first) => gathered.held.iter().filter(|node| *node == first).copied().collect(),
            _ => gathered.held.iter().copied().collect(),
        })
    }

    /// Records that a node was released.
    pub(super) fn part_told(&mut self, job: JobId, attempt: Attempt, node: NodeId) {
        let gathered = self.gathered(job, attempt);
        gathered.held.remove(&node);
        gathered.told.insert(node);
    }

    /// Forgets the reports of the nodes of a job.
    pub(super) fn forget_parts(&mut self, job: JobId) {
        self.gathered.remove(&job);
    }

    /// Removes a withdrawn attempt.
    pub(super) fn withdrawn(&mut self, job: JobId) {
        self.awaited.remove(&job);
        self.gathered.remove(&job);
    }

    /// Removes a job whose end is on disk.
    pub(super) fn over(&mut self, job: JobId) {
        self.released.remove(&job);
        self.gathered.remove(&job);
    }

    /// Goes back to the state on disk. Reports of connected nodes are kept.
    pub(super) fn roll_back(&mut self) {
        self.awaited.clear();
        self.confirming.clear();
        self.late.clear();
    }

    /// Forgets all reports, because all nodes register again.
    pub(super) fn forget_all_parts(&mut self) {
        self.gathered.clear();
    }

    /// Returns the number of all entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.released.len() + self.awaited.len() + self.late.len() + self.confirming.len() + self.gathered.len()
    }

    #[cfg(test)]
    pub(super) fn awaited(&self) -> &BTreeMap<JobId, Awaited> {
        &self.awaited
    }

    #[cfg(test)]
    pub(super) fn is_released(&self, job: JobId) -> bool {
        self.released.contains_key(&job)
    }
}
