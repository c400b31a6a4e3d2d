//! Orders about running jobs: caps and suspension. They are sent once they are durable. They are repeated when a node
//! registers, because messages before its connection broke may be lost. Starts wait for their confirmations.

use limo_model::{Attempt, JobId, NodeId, Span};
use limo_proto::{FAILED_CAPS, List, MasterToNode, Text};
use limo_sched::{Assignment, Event, Phase};

use super::{Controller, Fault, PeerId, faults};

impl Controller {
    /// Sends a node's newest caps, which are durable.
    pub(super) fn hold_caps(&mut self, node: NodeId) {
        if let (Some(peer), Some(order)) = (self.link(node), self.caps_of(node)) {
            self.tell_node(peer, order);
            self.extend_all(node);
            if faults::has(Fault::CapsBelievedEarly) {
                let generation = self.tx.core.node(node).map_or(0, |node| node.caps().0);
                self.tx.must(Event::Capped { node, generation, failed: Vec::new() });
            }
        }
    }

    /// Returns the caps of a node, if it ever had any.
    pub(super) fn caps_of(&self, node: NodeId) -> Option<MasterToNode> {
        let (generation, caps) = self.tx.core.node(node)?.caps();
        (generation > 0).then_some(MasterToNode::Caps { generation, caps })
    }

    pub(super) fn pause(&mut self, job: JobId, attempt: Attempt, paused: bool) {
        for node in self.assignment(job, attempt).map(|_| self.open_nodes(job)).unwrap_or_default() {
            if let Some(peer) = self.link(node) {
                self.assignments.asked_to_pause((job, attempt), node);
                self.tell_node(peer, order(job, attempt, paused));
            }
        }
        self.extend(job);
    }

    /// Returns the time from TERM to KILL of a job.
    pub(super) fn grace_of(&self, job: JobId) -> Span {
        let own = self.live_of(job).and_then(|live| live.request.kill_grace);
        own.unwrap_or(self.tx.settings.kill_grace)
    }

    /// Returns the orders about suspension and time limits that are repeated to a registering node.
    pub(super) fn steering(&mut self, node: NodeId) -> Vec<MasterToNode> {
        // A node suspends jobs for its owner by itself. A master that was killed at that time may not have heard of it.
        let has_owner = self.owner_rules(node).is_some();
        let mut pauses = Vec::new();
        for (job, attempt) in self.attempts_on(node) {
            self.assignments.asks_anew(job, node);
            let paused = match self.tx.core.job(job).map(|job| &job.phase) {
                _ if !self.open_nodes(job).contains(&node) => continue,
                Some(Phase::Suspended(..)) => true,
                Some(Phase::Running(_, running)) if !running.steady || has_owner => false,
                _ => continue,
            };
            self.assignments.asked_to_pause((job, attempt), node);
            pauses.push(order(job, attempt, paused));
        }
        let jobs = self.tx.core.jobs_on(node).into_iter().filter(|job| self.open_nodes(*job).contains(&node));
        // An extension follows the limit that it extends.
        let limits = jobs.flat_map(|job| self.changed_limit(job).into_iter().chain(self.extension(job)));
        pauses.into_iter().chain(limits).collect()
    }

    /// Handles a node's report on its caps.
    pub(super) fn caps_held(&mut self, node: NodeId, generation: u64, failed: List<(u16, Text<256>), FAILED_CAPS>) {
        let Some(known) = self.tx.core.node(node) else { return };
        if known.caps().0 != generation {
            return;
        }
        for (unit, reason) in failed.iter() {
            let unit = known.spec().units.get(usize::from(*unit)).map_or("?", |unit| &unit.name);
            tracing::warn!(node = known.spec().name, unit, %reason, "the cap of a unit cannot be set: it stays uncapped");
        }
        let failed = failed.into_iter().map(|(unit, _)| unit).collect();
        self.tx.must(Event::Capped { node, generation, failed });
    }

    /// Returns true if an assigned job must not run before other nodes, or its own, confirm an order.
    pub(super) fn is_awaiting(&self, job: JobId) -> bool {
        self.tx.core.is_awaiting(job)
    }

    /// Returns true if an assigned job must not run before its confirmations have come and are on disk.
    pub(super) fn is_held_back(&self, job: JobId) -> bool {
        self.is_awaiting(job) || self.assignments.is_confirming(job)
    }

    /// Releases an attempt whose last confirmation is on disk, on the nodes that hold it.
    pub(super) fn confirmed(&mut self, job: JobId, attempt: Attempt) {
        self.assignments.confirmed(job);
        let Some(Assignment { stop: None, .. }) = self.assignment(job, attempt).filter(|_| self.is_starting(job))
        else {
            return;
        };
        if self.is_multi_node(job) {
            return self.release_parts(job, attempt);
        }
        for node in self.open_nodes(job) {
            if let Some(peer) = self.link(node).filter(|_| self.assignments.is_part_held(job, attempt, node)) {
                self.send_go(peer, job, attempt);
            }
        }
    }

    /// Handles a node's report that a job is suspended or continues.
    pub(super) fn paused(&mut self, peer: PeerId, node: NodeId, (job, attempt): (JobId, Attempt), paused: bool) {
        if self.is_on(node, job, attempt) {
            let open = self.open_nodes(job);
            if self.assignments.have_all_paused((job, attempt), node, paused, &open) {
                self.tx.must(Event::Paused { job, attempt, paused });
            }
        } else if self.assignment(job, attempt).is_some() {
            self.close_node(peer, format!("job {job} is not on this node, which cannot report its suspension"));
        }
    }
}

fn order(job: JobId, attempt: Attempt, paused: bool) -> MasterToNode {
    if paused { MasterToNode::Suspend { job, attempt } } else { MasterToNode::Resume { job, attempt } }
}
