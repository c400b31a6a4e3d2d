//! Read-only operation while nothing can be written: the state is the one on disk, queries are answered, and stdio is
//! relayed. Input that must be recorded is dropped. Nodes keep it, and repeat it when they register again as soon as
//! space is available.

use limo_model::{Attempt, JobId, NodeId};
use limo_proto::{AttemptState, ClientToMaster, Frame, MasterToNode, NewSlave, NodeToMaster, Registration};
use limo_sched::{Core, Event, Phase};

use super::node_peer::{NodeLink, NodePeer};
use super::{Controller, Effect, PeerId};

/// Reason given to nodes that must register again.
const REGISTER_AGAIN: &str = "the journal could not be written; register again";

impl Controller {
    /// Makes the state that was read from disk read-only.
    pub(super) fn become_read_only(&mut self, reason: &str) {
        if !self.tx.commits.is_read_only() {
            tracing::error!(
                reason,
                "read-only: queries are answered and jobs continue; nodes keep the ends of jobs until the disk has space"
            );
        }
        self.tx.commits.become_read_only(reason, self.tx.now);
        self.close_unregistered();
        let away =
            |node: &&limo_sched::Node| node.is_connected() && node.is_awake() && self.nodes.of(node.id()).is_none();
        for node in self.tx.core.nodes().iter().filter(away).map(limo_sched::Node::id).collect::<Vec<_>>() {
            self.show_away(node);
        }
    }

    /// Shows a node as disconnected. For display only: the core is read back from disk before it decides again.
    fn show_away(&mut self, node: NodeId) {
        if let Err(refused) = self.tx.core.apply(self.tx.now, &Event::NodeAway { node }) {
            tracing::error!(%refused, "a node cannot be shown as unreachable");
        }
    }

    /// Returns attempts that are starting in `on_disk`, the next state, and may run. Remembers those that run in the
    /// present state, because their nodes stay connected and do not report them again.
    pub(super) fn unwritten_starts(&mut self, on_disk: &Core) -> Vec<(JobId, Attempt)> {
        let is_starting = |(job, attempt): &(JobId, Attempt)| {
            let phase = on_disk.job(*job).map(|job| &job.phase);
            matches!(phase, Some(Phase::Starting(assignment)) if assignment.attempt == *attempt)
        };
        let starts: Vec<(JobId, Attempt)> = self.assignments.released().filter(is_starting).collect();
        for (job, attempt) in &starts {
            if self.assignment(*job, *attempt).is_some() && !self.is_starting(*job) {
                for node in self.open_nodes(*job) {
                    self.assignments.part_begun(*job, *attempt, node);
                }
            }
        }
        starts
    }

    /// Remembers a started attempt until its node registers again.
    fn unrecorded_start(&mut self, node: NodeId, job: JobId, attempt: Attempt) {
        if self.is_on(node, job, attempt) {
            self.assignments.part_begun(job, attempt, node);
            if self.tx.commits.is_read_only() {
                self.show_started(job, attempt);
            }
        }
    }

    /// Shows a job as running if all its nodes have begun, and opens its streams. For display only, like
    /// [`Self::show_away`].
    pub(super) fn show_started(&mut self, job: JobId, attempt: Attempt) {
        if !self.is_starting(job) || !self.have_all_begun(job, attempt) {
            return;
        }
        match self.tx.core.apply(self.tx.now, &Event::Started { job, attempt }) {
            Ok(()) => self.after_start(job),
            Err(refused) => tracing::error!(%refused, "a job cannot be shown as running"),
        }
    }

    /// Closes the connections of nodes whose registrations are not on disk.
    fn close_unregistered(&mut self) {
        for peer in self.nodes.take_unregistered() {
            self.tx.effects.push(Effect::Close(peer, REGISTER_AGAIN.into()));
        }
    }

    /// Makes nodes report again after the state became writable.
    pub(super) fn close_nodes(&mut self) {
        self.assignments.forget_all_parts();
        for peer in self.nodes.take_all() {
            self.tx.effects.push(Effect::Close(peer, REGISTER_AGAIN.into()));
        }
    }

    /// Handles a node's disconnection while nothing is recorded.
    pub(super) fn unrecorded_gone(&mut self, node: NodeId) {
        if self.tx.commits.is_read_only() {
            self.show_away(node);
        }
        self.tx.forget_reading(node);
        self.probes_broke(node);
    }

    /// Handles messages of a node while nothing is recorded. The node later repeats dropped messages.
    pub(super) fn unrecorded_frame(&mut self, peer: PeerId, frame: Frame<NodeToMaster>) {
        match (self.nodes.get_mut(peer), frame) {
            (Some(NodePeer::Registered(node)), Frame::Data(data)) => {
                let node = *node;
                self.output(peer, node, data);
            }
            (Some(NodePeer::Registered(node)), Frame::Message(message)) => {
                let node = *node;
                match message {
                    NodeToMaster::StreamAck { stream, offset } => self.stdin_taken(node, stream, offset),
                    NodeToMaster::Started { job, attempt } => self.unrecorded_start(node, job, attempt),
                    NodeToMaster::Measured { ticket, used } => self.measured(node, ticket, used.as_ref()),
                    NodeToMaster::Probed { ticket, report } => self.probed(node, (ticket, report.into_string())),
                    _ => {}
                }
            }
            (Some(NodePeer::Nameless), Frame::Message(NodeToMaster::NewSlave(slave))) => self.introduced(peer, *slave),
            (Some(NodePeer::Registering(_)), Frame::Message(message)) => self.registering(peer, message),
            _ => {}
        }
    }

    /// Registers a node while nothing can be written. A known node of the same incarnation is served, so that its jobs
    /// have stdio and leases; it gets no orders. Any other node waits until space is available.
    pub(super) fn registered_unrecorded(&mut self, peer: PeerId, registration: Registration) {
        let Registration { slave: NewSlave { spec, instance, boot, containment, owner, .. }, attempts } = registration;
        let is_known =
            self.nodes.incarnation(&spec.name).is_some_and(|known| known.instance == instance && known.boot == boot);
        let node = self.tx.core.node_named(&spec.name).map(limo_sched::Node::id).filter(|_| is_known);
        let Some(node) = node.filter(|_| self.tx.commits.is_read_only()) else { return };
        if let Some(before) = self.nodes.of(node).map(|link| link.peer) {
            self.close_node(before, "the node has connected again".into());
        }
        self.nodes.register(node, NodeLink { peer, instance, containment, owner, welcome: true });
        self.tell_node(peer, MasterToNode::Registered);
        let own: Vec<_> = attempts.into_iter().filter(|report| self.is_on(node, report.job, report.attempt)).collect();
        for report in own.iter().filter(|report| matches!(report.state, AttemptState::Ended { .. })) {
            if let Some(route) = self.routes.get_mut(report.job) {
                route.stdin_is_over = true;
            }
        }
        self.resume_streams(peer, node, &own);
        for report in own.iter().filter(|report| report.state == AttemptState::Running) {
            self.unrecorded_start(node, report.job, report.attempt);
        }
    }
}

/// Returns true if a request can be served without recording anything, or is refused by itself.
pub(super) fn changes_nothing(message: &ClientToMaster) -> bool {
    match message {
        ClientToMaster::Ask(_)
        | ClientToMaster::Attach { .. }
        | ClientToMaster::TakeUp { .. }
        | ClientToMaster::StreamAck { .. }
        | ClientToMaster::Resize { .. }
        | ClientToMaster::OnBehalf { .. }
        // A known job can be confirmed; a new one is refused.
        | ClientToMaster::SendExec(_) => true,
        ClientToMaster::Signal { .. } | ClientToMaster::ChangeConf(_) => false,
    }
}
