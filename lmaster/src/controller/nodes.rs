//! Registrations, reports and disconnections of nodes.

use limo_journal::NodeRow;
use limo_model::{Attempt, JobId, JournalId, NodeId, Outcome, Usage};
use limo_proto::{AttemptReport, AttemptState, Frame, MasterToNode, NewSlave, NodeToMaster, Registration, Sample};
use limo_sched::Event;

use super::assign::Verdict;
use super::commit::After;
use super::liveness::Liveness;
use super::node_peer::{NodeLink, NodePeer, Welcome};
use super::sleep::Sleepers;
use super::{Controller, Effect, Fault, NodeIncarnation, PeerId, faults};

/// Most messages of a node during its registration; only the ends of its jobs are expected.
const EARLY_LIMIT: usize = 10_000;

/// Most attempts that a node may report when it registers: more than any node can run without a master.
const ATTEMPTS_LIMIT: usize = 100_000;

/// Longest instance and boot id, in bytes: both are random numbers.
const INCARNATION_LIMIT: usize = 128;

impl Controller {
    pub(super) fn node_connected(&mut self, peer: PeerId) {
        if !self.tx.commits.is_broken() {
            self.nodes.set(peer, NodePeer::Nameless);
        } else {
            self.tx.effects.push(Effect::Close(peer, "the journal cannot be written at present".into()));
        }
    }

    pub(super) fn tell_node(&mut self, peer: PeerId, message: MasterToNode) {
        self.nodes.tell(&mut self.tx, peer, message);
    }

    pub(super) fn close_node(&mut self, peer: PeerId, reason: String) {
        if self.nodes.contains(peer) {
            self.node_gone(peer);
            self.tx.effects.push(Effect::Close(peer, reason));
        }
    }

    fn refuse_node(&mut self, peer: PeerId, reason: String) {
        self.audit_node(peer, &reason);
        self.tell_node(peer, MasterToNode::Refused { reason: reason.as_str().into() });
        self.close_node(peer, reason);
    }

    /// Handles a closed connection. Unreleased attempts are withdrawn; others continue.
    pub(super) fn node_gone(&mut self, peer: PeerId) {
        let Some(node) = self.nodes.remove(peer) else { return };
        if !self.tx.commits.is_open() {
            return self.unrecorded_gone(node);
        }
        for (job, attempt) in self.attempts_on(node) {
            if self.is_starting(job) && !self.assignments.may_be_released(job, attempt) {
                self.take_back(job, attempt, "the connection to its node broke");
            } else {
                self.assignments.part_away(job, node);
            }
        }
        if !self.sleepers.broke(&mut self.tx, node) {
            self.tx.must(Event::NodeAway { node });
            self.liveness.is_unreachable(&self.tx, node);
            Liveness::report_unreachable(&self.tx, node);
        }
        self.tx.forget_reading(node);
        self.probes_broke(node);
    }

    pub(super) fn node_frame(&mut self, peer: PeerId, frame: Frame<NodeToMaster>) {
        if !self.tx.commits.is_open() {
            return self.unrecorded_frame(peer, frame);
        }
        match (self.nodes.get_mut(peer), frame) {
            (None, _) => {}
            (Some(NodePeer::Nameless), Frame::Message(NodeToMaster::NewSlave(slave))) => self.introduced(peer, *slave),
            (Some(NodePeer::Nameless), _) => self.close_node(peer, "a node must first register".into()),
            (Some(NodePeer::Registering(_)), Frame::Message(message)) => self.registering(peer, message),
            // The node sends the output again once it is registered.
            (Some(NodePeer::Registering(_)), Frame::Data(_)) => {}
            (Some(NodePeer::Settling(early)), Frame::Message(message)) if early.len() < EARLY_LIMIT => {
                early.push(Frame::Message(message));
            }
            (Some(NodePeer::Settling(_)), Frame::Message(_)) => {
                self.close_node(peer, format!("more than {EARLY_LIMIT} messages before the registration"));
            }
            // The node sends its output again after its registration.
            (Some(NodePeer::Settling(_)), Frame::Data(_)) => {}
            (Some(NodePeer::Registered(node)), Frame::Message(message)) => {
                let node = *node;
                self.report(peer, node, message);
            }
            (Some(NodePeer::Registered(node)), Frame::Data(data)) => {
                let node = *node;
                self.output(peer, node, data);
            }
        }
    }

    fn report(&mut self, peer: PeerId, node: NodeId, message: NodeToMaster) {
        match message {
            NodeToMaster::NewSlave(_) | NodeToMaster::Attempts(_) | NodeToMaster::RegisterEnd { .. } => {
                self.close_node(peer, "a node can register only once in a connection".into());
            }
            NodeToMaster::JobAck { job, attempt } => self.job_ack((peer, node), job, attempt),
            NodeToMaster::Preparing { job, attempt } => self.assignments.prepares((peer, node), job, attempt),
            NodeToMaster::JobRefused { job, attempt, reason } => self.job_refused((peer, node), job, attempt, &reason),
            NodeToMaster::Started { job, attempt } => self.job_started(peer, node, job, attempt),
            NodeToMaster::Ended { job, attempt, outcome, usage } => {
                self.job_ended(peer, node, (job, attempt), (outcome, usage));
            }
            NodeToMaster::Reading(Sample { draw, low, .. }) if draw.min(low) < limo_model::Power::ZERO => {
                self.close_node(peer, format!("a reading of {} is not a draw", draw.min(low)));
            }
            NodeToMaster::Reading(sample) => self.shown(node, &sample),
            NodeToMaster::StreamAck { stream, offset } => self.stdin_taken(node, stream, offset),
            NodeToMaster::Capped { generation, failed } => self.caps_held(node, generation, failed),
            NodeToMaster::Paused { job, attempt, paused } => self.paused(peer, node, (job, attempt), paused),
            NodeToMaster::Probed { ticket, report } => self.probed(node, (ticket, report.into_string())),
            NodeToMaster::Measured { ticket, used } => self.measured(node, ticket, used.as_ref()),
            NodeToMaster::FallingAsleep => self.falls_asleep(peer, node),
            NodeToMaster::Unfit { reason } => self.is_unfit(node, reason.into_string()),
            NodeToMaster::Owner { is_there } => self.owner_reported(node, is_there),
            NodeToMaster::Evicted { job, attempt } => self.evicted(node, job, attempt),
            NodeToMaster::Checkpointed { job, attempt, kept } => self.checkpointed(node, (job, attempt), kept),
            NodeToMaster::RebootFailed { reason } => self.reboots.failed(&mut self.tx, node, reason.into_string()),
            NodeToMaster::SleepFailed { reason } => self.sleepers.sleep_failed(&mut self.tx, node, &reason),
        }
    }

    fn job_started(&mut self, peer: PeerId, node: NodeId, job: JobId, attempt: Attempt) {
        if !self.is_on(node, job, attempt) {
            tracing::warn!(%job, %attempt, "a node started what it should not have");
            let grace = self.tx.settings.kill_grace;
            self.tell_node(peer, MasterToNode::Stop { job, attempt, grace });
        } else if self.is_multi_node(job) {
            self.part_started(job, attempt, node);
        } else if self.is_starting(job) {
            self.assignments.release(job, attempt);
            self.tx.must(Event::Started { job, attempt });
            self.after_start(job);
        }
    }

    fn job_ended(&mut self, peer: PeerId, node: NodeId, which: (JobId, Attempt), how: (Outcome, Usage)) {
        let ((job, attempt), (outcome, usage)) = (which, how);
        if self.is_on(node, job, attempt) && self.is_multi_node(job) {
            self.assignments.not_awaited(job, node);
            self.part_ended((job, attempt), node, (outcome, usage));
        } else if self.is_on(node, job, attempt) {
            self.assignments.none_awaited(job);
            self.routes.over(job, vec![node]);
            self.attempt_over((job, attempt), (outcome, usage));
        } else if self.assignment(job, attempt).is_some() {
            return self.close_node(peer, format!("job {job} is not on this node, which cannot report its end"));
        }
        Liveness::confirmed_over(&mut self.tx, node, (job, attempt));
        if !faults::has(Fault::EndNotAcknowledged) {
            // The end is repeated, or the attempt is over: in both cases it is recorded, or about to be.
            self.after(After::EndRecorded(peer, node, job, attempt));
        }
    }

    /// Handles the name of a node; the reports of its jobs follow.
    pub(super) fn introduced(&mut self, peer: PeerId, slave: NewSlave) {
        if let Err(error) = slave.spec.check() {
            return self.refuse_node(peer, error.to_string());
        }
        if slave.instance.len() > INCARNATION_LIMIT || slave.boot.len() > INCARNATION_LIMIT {
            return self
                .refuse_node(peer, format!("the instance or the boot id is longer than {INCARNATION_LIMIT} bytes"));
        }
        if let Some(reason) = self.nodes.misnamed(peer, &slave.spec.name) {
            return self.refuse_node(peer, reason);
        }
        if slave.journal != self.tx.journal {
            let reason =
                format!("the node answers to the journal {}: this master's is {}", slave.journal, self.tx.journal);
            return self.refuse_node(peer, reason);
        }
        let registration = Registration { slave, attempts: Vec::new() };
        self.nodes.set(peer, NodePeer::Registering(Box::new(registration)));
    }

    /// Handles a further part of a registration. It is judged when complete.
    pub(super) fn registering(&mut self, peer: PeerId, message: NodeToMaster) {
        let Some(NodePeer::Registering(registration)) = self.nodes.get_mut(peer) else { return };
        match message {
            NodeToMaster::Attempts(more) if registration.attempts.len() + more.len() > ATTEMPTS_LIMIT => {
                self.refuse_node(peer, format!("the node reports more than {ATTEMPTS_LIMIT} jobs"));
            }
            NodeToMaster::Attempts(more) => registration.attempts.extend(more),
            NodeToMaster::RegisterEnd { count } if count as usize != registration.attempts.len() => {
                let reported = registration.attempts.len();
                self.refuse_node(peer, format!("the node has {count} jobs and reported {reported}"));
            }
            NodeToMaster::RegisterEnd { .. } => {
                registration.attempts.sort_by_key(|report| (report.job, report.attempt));
                if let Some(NodePeer::Registering(registration)) = self.nodes.set(peer, NodePeer::Nameless) {
                    self.register(peer, *registration);
                }
            }
            _ => self.close_node(peer, "a node must finish its registration first".into()),
        }
    }

    /// Registers a node. The attempts are in ascending order.
    fn register(&mut self, peer: PeerId, mut registration: Registration) {
        if !self.tx.commits.is_open() {
            return self.registered_unrecorded(peer, registration);
        }
        if let Err(reason) = self.set_apart(&mut registration) {
            return self.refuse_node(peer, reason);
        }
        let Registration { slave, attempts } = &registration;
        let name = &slave.spec.name;
        let known = self.nodes.incarnation(name);
        let same_boot = |boot: &str| boot == slave.boot || faults::has(Fault::RestartOverlooked);
        let same_incarnation = known.is_some_and(|known| known.instance == slave.instance && same_boot(&known.boot));
        let node = self.tx.core.node_named(name).map(|node| node.id());
        match node.and_then(|node| self.nodes.of(node)) {
            Some(link) if link.instance != slave.instance => {
                return self.refuse_node(peer, format!("the node name `{name}` is in use by another node"));
            }
            // The same daemon has reconnected before its old connection was known to be broken.
            Some(link) => self.close_node(link.peer, "the node has connected again".into()),
            None => {}
        }
        if let Err(reason) = self.may_return(&registration, node) {
            return self.refuse_node(peer, reason);
        }
        if same_incarnation {
            return self.registered(peer, registration);
        }
        // This is another incarnation. Attempts that only the core has on the node are judged by the old one. The
        // result must be on disk before the new one is remembered. Otherwise they would be judged again, as part of
        // the new one.
        if let Some(node) = node {
            for (job, attempt, verdict) in self.verdicts(node, false, attempts) {
                if super::assign::reported(attempts, (job, attempt)).is_none() {
                    self.follow((job, attempt), node, verdict);
                }
            }
        }
        self.nodes.set(peer, NodePeer::Settling(Vec::new()));
        self.after(After::Settled(peer, Box::new(registration)));
    }

    /// Begins the new incarnation of a node whose old one is settled on disk.
    pub(super) fn settled(&mut self, peer: PeerId, registration: Registration) {
        let Some(NodePeer::Settling(early)) = self.nodes.get_mut(peer) else { return };
        let early = std::mem::take(early);
        let NewSlave { spec, instance, boot, .. } = &registration.slave;
        let (name, instance, boot) = (spec.name.clone(), instance.clone(), boot.clone());
        // This is in the batch of its registration: no assignment is sent before that is on disk.
        self.tx.commits.batch().incarnation(NodeRow {
            name: name.clone(),
            instance: instance.clone(),
            boot: boot.clone(),
        });
        self.nodes.set_incarnation(name, NodeIncarnation { instance, boot });
        self.register(peer, registration);
        for frame in early {
            self.node_frame(peer, frame);
        }
    }

    fn registered(&mut self, peer: PeerId, registration: Registration) {
        let Registration { slave: NewSlave { spec, instance, containment, unfit, owner, .. }, attempts } = registration;
        let name = spec.name.clone();
        let node = self.tx.core.node_named(&name).map(|node| node.id());
        let verdicts = node.map(|node| self.verdicts(node, true, &attempts)).unwrap_or_default();
        // They are withdrawn before the node is up again, so that one round handles both.
        let (withdrawn, others): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(|(_, _, verdict)| matches!(verdict, Verdict::TakeBack(_) | Verdict::Forget));
        let mut orders = Vec::new();
        for (job, attempt, verdict) in withdrawn {
            orders.extend(node.and_then(|node| self.follow((job, attempt), node, verdict)));
        }
        let spec = self.tx.metering.with_meter(Sleepers::with_waking(&self.tx, spec));
        let unasked = node.is_some_and(|node| Sleepers::was_to_sleep(&self.tx, node));
        if let Err(refused) = self.tx.record(Event::NodeUp { spec }) {
            return self.refuse_node(peer, refused.to_string());
        }
        let Some(node) = self.tx.core.node_named(&name).map(|node| node.id()) else { return };
        self.nodes.register(node, NodeLink { peer, instance, containment, owner, welcome: false });
        self.sleepers.is_awake(&mut self.tx, node, unasked);
        unfit.into_iter().for_each(|reason| self.is_unfit(node, reason.into_string()));
        self.checkpoints_introduced(node, &attempts);
        self.owner_introduced(node, &attempts);
        let boot = self.nodes.incarnation(&name).map(|known| known.boot.as_str());
        self.reboots.registered(&mut self.tx, node, boot);
        for (job, attempt, verdict) in others {
            let multi_node = self.is_multi_node(job);
            let started = verdict == Verdict::Started && !multi_node;
            if let (Verdict::Ended(..), false) = (&verdict, multi_node) {
                self.routes.over(job, vec![node]);
            }
            orders.extend(self.follow((job, attempt), node, verdict));
            if started {
                self.after_start(job);
            }
        }
        self.liveness.is_reachable(&mut self.tx, node, &attempts);
        orders.extend(self.old_attempts(node, &attempts));
        orders.extend(self.owner_order(node));
        orders.extend(self.steering(node));
        // Jobs that go on, or begin now, do so under their caps.
        orders.splice(0..0, self.caps_of(node));
        self.after(After::Welcome(Box::new(Welcome { peer, node, orders, attempts })));
    }

    /// Confirms a registration that is on disk.
    pub(super) fn welcome(&mut self, welcome: Welcome) {
        let Welcome { peer, node, orders, attempts } = welcome;
        if !self.nodes.welcome(peer, node) {
            return;
        }
        self.tell_node(peer, MasterToNode::Registered);
        for order in orders {
            self.tell_node(peer, order);
        }
        self.resume_streams(peer, node, &attempts);
        self.start_woken(node);
        for (job, attempt) in self.attempts_on(node) {
            if self.is_starting(job) {
                self.release_parts(job, attempt);
            }
        }
    }

    /// Checks that a node with this name may replace the known one.
    fn may_return(&self, registration: &Registration, node: Option<NodeId>) -> Result<(), String> {
        let Registration { slave, attempts } = registration;
        let name = &slave.spec.name;
        // Records of versions without incarnations do not distinguish masters.
        let nameless = |report: &&AttemptReport| report.journal == JournalId::default();
        let foreign = |report: &&AttemptReport| report.job >= self.tx.core.next_job();
        if let Some(report) = attempts.iter().filter(nameless).find(foreign) {
            let job = report.job;
            return Err(format!("node `{name}` has job {job} of another master, which this one never gave it"));
        }
        let Some(believed) = node.map(|node| self.attempts_on(node)).filter(|jobs| !jobs.is_empty()) else {
            return Ok(());
        };
        let changed = |old: &limo_sched::Node| old.spec().units != slave.spec.units;
        if self.tx.core.node_named(name).is_some_and(changed) {
            return Err(limo_sched::Refused::UnitsChanged { name: name.clone() }.to_string());
        }
        if self.nodes.incarnation(name).is_none_or(|known| known.instance == slave.instance) {
            return Ok(());
        }
        // An operator who abandons the jobs cancels them.
        let kept =
            believed.iter().find(|(job, attempt)| self.assignment(*job, *attempt).is_some_and(|a| a.stop.is_none()));
        kept.map_or(Ok(()), |(job, _)| {
            Err(format!(
                "the node name `{name}` belongs to another installation, on which job {job} is believed to run: start \
                 that one, or give the job up with `lq cancel {job}`"
            ))
        })
    }

    /// Returns the messages to a node about attempts that are over or were withdrawn.
    fn old_attempts(&self, node: NodeId, reports: &[AttemptReport]) -> Vec<MasterToNode> {
        let order = |report: &AttemptReport| {
            let (job, attempt, grace) = (report.job, report.attempt, self.tx.settings.kill_grace);
            match report.state {
                AttemptState::Held => MasterToNode::Drop { job, attempt },
                AttemptState::Ended { .. } => MasterToNode::EndedAck { job, attempt },
                AttemptState::Running => {
                    tracing::error!(%job, %attempt, "a node runs an attempt that is over: it is ended");
                    MasterToNode::Stop { job, attempt, grace }
                }
            }
        };
        let is_over = |report: &&AttemptReport| {
            !self.is_on(node, report.job, report.attempt) || !self.open_nodes(report.job).contains(&node)
        };
        reports.iter().filter(is_over).map(order).collect()
    }
}
