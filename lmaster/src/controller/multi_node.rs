//! Jobs of several tasks, and over several nodes: the distribution of tasks, and the common start and end.
//!
//! Each node of a job gets its own `DoExec`. Once all have acknowledged theirs, the first node gets `Go`. When it has
//! begun (it has opened its files and truncated shared ones), the others get `Go`. The job is started when all of its
//! nodes have begun or ended. The end of each node's part is recorded ([`Event::PartEnded`]) before that node gets
//! `EndedAck`. The last part ends the job. If a part is lost, cannot start, or fails with the option `-K`, the others
//! are stopped.
//!
//! Before `Go` the whole job can be taken back: `Go` is sent when the intent of every node is on record. So if a node
//! of the same incarnation has no record, no part of the job has begun. Acknowledgements and begun parts are not on
//! disk: nodes report them again when they register.

use std::collections::BTreeSet;
use std::ops::Range;

use limo_model::{Attempt, JobId, NodeId, Outcome, Part, Usage, nodes};
use limo_proto::{Hold, MasterToNode, Share};
use limo_sched::{Assignment, Event, PartEnd, Phase, joined};

use super::assign::{UNWANTED, Verdict};
use super::{Controller, Live, PeerId};

/// Returns the nodes of a job, each once, in the order of its tasks.
pub(super) fn nodes_of(assignment: &Assignment) -> Vec<NodeId> {
    nodes(&assignment.placement).collect()
}

/// Returns the number of the job's nodes.
pub(super) fn nodes_in(assignment: &Assignment) -> u32 {
    match &assignment.placement[..] {
        [part] => part.count,
        _ => u32::try_from(nodes(&assignment.placement).count()).unwrap_or(u32::MAX),
    }
}

/// Returns the node with this index among those of a job.
pub(super) fn node_at(assignment: &Assignment, place: u32) -> Option<NodeId> {
    match &assignment.placement[..] {
        [part] => part.nodes().nth(place as usize),
        _ => nodes(&assignment.placement).nth(place as usize),
    }
}

/// Returns the index of a node among those of a job.
pub(super) fn place_of(assignment: &Assignment, node: NodeId) -> Option<u32> {
    match &assignment.placement[..] {
        [part] => part.is_on(node).then(|| node.0 - part.unit.node.0),
        _ => nodes(&assignment.placement).position(|own| own == node).and_then(|place| u32::try_from(place).ok()),
    }
}

/// Returns true if a job is over several nodes.
fn is_multi_node(assignment: &Assignment) -> bool {
    match &assignment.placement[..] {
        [part] => part.count > 1,
        placement => nodes(placement).nth(1).is_some(),
    }
}

/// Returns the nodes of an assignment that have not ended their part.
pub(super) fn open_nodes_of(assignment: &Assignment) -> Vec<NodeId> {
    let mut nodes = nodes_of(assignment);
    nodes.retain(|node| !has_ended(assignment, *node));
    nodes
}

/// Returns the tasks of each node of a job of several tasks.
fn tasks_of(live: &Live, assignment: &Assignment) -> Option<Vec<Range<u32>>> {
    live.request.on(&assignment.placement).tasks_by_node(&assignment.placement)
}

/// Returns the share of one node in a placement.
pub(super) fn placed_on(assignment: &Assignment, node: NodeId) -> Vec<Part> {
    let here = assignment.placement.iter().filter(|part| part.is_on(node));
    here.map(|part| Part { unit: limo_model::UnitId { node, ..part.unit }, count: 1, ..*part }).collect()
}

impl Controller {
    /// Returns the work of the node at `index` in a job of several tasks.
    pub(super) fn share(&self, job: JobId, live: &Live, (nodes, index): (&[NodeId], usize)) -> Option<Share> {
        let assignment = self.tx.core.job(job)?.assignment()?;
        let tasks = tasks_of(live, assignment)?;
        let name = |node: &NodeId| self.tx.core.node(*node).map(|node| node.spec().name.clone());
        Some(Share {
            nodes: nodes.iter().filter_map(name).collect(),
            index: u32::try_from(index).ok()?,
            tasks: tasks.into_iter().map(|tasks| tasks.end - tasks.start).collect(),
            grace: self.grace_of(job),
        })
    }

    pub(super) fn is_multi_node(&self, job: JobId) -> bool {
        self.tx.core.job(job).and_then(|job| job.assignment()).is_some_and(is_multi_node)
    }

    /// Returns the nodes of a job that have not ended their part.
    pub(super) fn open_nodes(&self, job: JobId) -> Vec<NodeId> {
        let Some(assignment) = self.tx.core.job(job).and_then(|job| job.assignment()) else { return Vec::new() };
        open_nodes_of(assignment)
    }

    /// Returns the open connections of those nodes.
    pub(super) fn open_links(&self, job: JobId) -> Vec<PeerId> {
        self.open_nodes(job).into_iter().filter_map(|node| self.link(node)).collect()
    }

    /// Returns the nodes that read stdin of a running job.
    pub(super) fn readers(&self, job: JobId) -> Vec<NodeId> {
        let Some(Phase::Running(assignment, _) | Phase::Suspended(assignment, ..)) =
            self.tx.core.job(job).map(|job| &job.phase)
        else {
            return Vec::new();
        };
        let mut nodes = nodes_of(assignment);
        let live = self.live_of(job);
        if live.is_some_and(|live| live.launch.hold != Hold::Nothing) {
            nodes.truncate(1);
        }
        let reader = live.and_then(|live| tasks_of(live, assignment).zip(live.launch.parallel?.reader));
        if let Some((tasks, task)) = reader {
            let own = tasks.into_iter().zip(nodes).filter(|(tasks, _)| tasks.contains(&task));
            nodes = own.map(|(_, node)| node).collect();
        }
        nodes.retain(|node| !has_ended(assignment, *node));
        nodes
    }

    /// Releases the nodes that may start now.
    pub(super) fn release_parts(&mut self, job: JobId, attempt: Attempt) {
        let Some(assignment) = self.assignment(job, attempt).filter(|own| is_multi_node(own) && own.stop.is_none())
        else {
            return;
        };
        if self.is_doomed(job) || self.is_held_back(job) {
            return;
        }
        let nodes = nodes_of(assignment);
        let ended: BTreeSet<NodeId> = assignment.ended.iter().map(|part| part.node).collect();
        let Some(going) = self.assignments.ready((job, attempt), &nodes, &ended) else { return };
        self.assignments.release(job, attempt);
        let order = self.go(job, attempt);
        for node in going {
            if let Some(peer) = self.link(node) {
                self.assignments.part_told(job, attempt, node);
                self.tell_node(peer, order.clone());
            }
        }
    }

    /// Records that a node's part of a multi-node job runs.
    pub(super) fn part_started(&mut self, job: JobId, attempt: Attempt, node: NodeId) {
        self.assignments.release(job, attempt);
        self.assignments.part_begun(job, attempt, node);
        self.starts_when_all_have(job, attempt);
        self.release_parts(job, attempt);
    }

    /// Returns true if all nodes that still have a part of a job have begun it.
    pub(super) fn have_all_begun(&mut self, job: JobId, attempt: Attempt) -> bool {
        let open = self.open_nodes(job);
        self.assignments.have_all_begun(job, attempt, &open)
    }

    /// Returns true if a job runs on this node but has not begun on all of its nodes.
    pub(super) fn has_begun_early(&self, node: NodeId) -> bool {
        let jobs = self.tx.core.jobs_on(node).into_iter();
        jobs.filter(|job| self.is_starting(*job)).any(|job| {
            let attempt = self.tx.core.job(job).and_then(|job| job.assignment()).map(|own| own.attempt);
            attempt.is_some_and(|attempt| self.assignments.has_part_begun(job, attempt, node))
        })
    }

    /// Records that a job runs as soon as the last of its nodes has begun.
    fn starts_when_all_have(&mut self, job: JobId, attempt: Attempt) {
        if self.have_all_begun(job, attempt) && self.is_starting(job) {
            self.tx.must(Event::Started { job, attempt });
            self.after_start(job);
        }
    }

    /// Records the end of a node's part of a multi-node job, unless it is already recorded.
    pub(super) fn part_ended(&mut self, (job, attempt): (JobId, Attempt), node: NodeId, how: (Outcome, Usage)) {
        let open = self.open_nodes(job);
        if !open.contains(&node) {
            return;
        }
        if let Outcome::NotPrepared { reason } = &how.0
            && self.is_starting(job)
            && !self.assignments.may_be_released(job, attempt)
        {
            // No part has begun, so that the other nodes only forget theirs.
            return self.take_back(job, attempt, reason);
        }
        self.assignments.release(job, attempt);
        let (outcome, usage) = (self.end_of_part(job, attempt, node, how.0), how.1);
        if open.len() > 1 {
            let knew = self.slowest(job).is_some();
            self.tx.must(Event::PartEnded { job, attempt, node, outcome, usage });
            self.starts_when_all_have(job, attempt);
            self.release_parts(job, attempt);
            if knew {
                self.stdin_of_slowest(job);
            } else {
                // This was the last node with unknown progress.
                self.connect_stdin(job);
            }
            if self.is_doomed(job) {
                self.after(super::commit::After::Halt(job, attempt));
            }
            return;
        }
        // If a job has ended on all its nodes, it counts as begun if any node has begun.
        let begun = self.assignments.has_any_begun(job, attempt);
        let unread = self.is_starting(job);
        if begun && unread {
            self.tx.must(Event::Started { job, attempt });
        }
        let Some(assignment) = self.assignment(job, attempt) else { return };
        let nodes = nodes_of(assignment);
        let mut parts = assignment.ended.clone();
        parts.push(PartEnd { node, outcome, usage });
        parts.sort_by_key(|part| part.node);
        let (outcome, usage) = joined(&parts);
        self.routes.over(job, nodes);
        self.assignments.forget_parts(job);
        let is_unprepared = matches!(outcome, Outcome::NotPrepared { .. });
        self.attempt_over((job, attempt), (outcome, usage));
        if unread && !is_unprepared {
            // Output was not requested before all nodes had begun.
            self.connect_ends(job);
        }
    }

    /// Returns true if the end of a part requires the others to stop.
    pub(super) fn is_doomed(&self, job: JobId) -> bool {
        let Some(assignment) = self.tx.core.job(job).and_then(|job| job.assignment()) else { return false };
        let live = self.live_of(job);
        if live.is_some_and(|live| self.held_for_nothing(live, assignment)) {
            return true;
        }
        let parallel = live.and_then(|live| live.launch.parallel);
        let all_or_none = parallel.is_some_and(|parallel| parallel.kill_on_bad_exit);
        assignment.ended.iter().any(|part| match &part.outcome {
            Outcome::Lost { .. }
            | Outcome::NodeFailed { .. }
            | Outcome::NotStarted { .. }
            | Outcome::NotPrepared { .. } => true,
            outcome => all_or_none && outcome.exit_code() != 0,
        })
    }

    /// Applies a verdict about a multi-node job; returns the message for the node. Parts that may start now are
    /// released after the node's registration is confirmed.
    pub(super) fn follow_part(
        &mut self,
        (job, attempt): (JobId, Attempt),
        node: NodeId,
        verdict: Verdict,
    ) -> Option<MasterToNode> {
        match verdict {
            Verdict::Forget if self.assignments.may_be_released(job, attempt) => {
                // Others may have begun, so this part must end with them although it has not begun.
                return Some(self.stop_order(job, attempt));
            }
            Verdict::Forget => self.take_back(job, attempt, UNWANTED),
            // No node has begun. A node without a record was not released, because `Go` follows the intents of all
            // nodes.
            Verdict::TakeBack(reason) => self.take_back(job, attempt, reason),
            Verdict::Release => self.assignments.part_held(job, attempt, node),
            Verdict::Started => self.part_started(job, attempt, node),
            Verdict::GoesOn => {}
            Verdict::Ended(outcome, usage) => self.part_ended((job, attempt), node, (outcome, usage)),
            Verdict::Lost(reason) => {
                tracing::error!(%job, %attempt, reason, "a node's part of a job is lost");
                let outcome = Outcome::Lost { reason: reason.to_owned() };
                self.part_ended((job, attempt), node, (outcome, Usage::default()));
            }
        }
        self.repeated_stop(job, attempt).filter(|_| self.open_nodes(job).contains(&node))
    }
}

fn has_ended(assignment: &Assignment, node: NodeId) -> bool {
    assignment.ended.iter().any(|part| part.node == node)
}
