//! Turns a durable assignment into a process, at most once.
//!
//! The assignment is committed, `DoExec` is sent, the node records its intent and answers `JobAck`, `Go` is sent, and
//! only then does the command run. An attempt may be taken back until `Go` is sent for it. After that only its node
//! knows its fate. [`judge`] treats its report as follows:
//!
//! | state in the core | report of the node | result |
//! |---|---|---|
//! | starting | held | `Go` (again): the assignment is durable, and held is not running; taken back if it is being cancelled |
//! | starting | running, ended | the report is recorded |
//! | starting | nothing, and no `Go` was sent | taken back |
//! | starting | nothing, `Go` may have been sent, same incarnation | taken back: the intent is on record before `JobAck`, `Go` follows `JobAck`, and the record stays until `EndedAck`, so an attempt without a record was not started |
//! | starting | nothing, `Go` may have been sent, another or an unknown incarnation | lost: the record may have gone with the state directory or the power |
//! | running | running, ended | the report is recorded |
//! | running | held, nothing | lost |
//!
//! An incarnation of a node is a state directory and a boot of the kernel. A job that may have been started runs again
//! only if it may be requeued, as another attempt, once this one is certainly over.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, JobId, NodeId, Outcome, Power, StopReason, Usage, nodes};
use limo_proto::{AttemptReport, AttemptState, DoExec, MasterToNode};
use limo_sched::{Assignment, Event, Phase};

use super::assignments::Awaited;
use super::commit::After;
use super::multi_node::{nodes_of, place_of, placed_on};
use super::{Controller, Fault, PeerId, faults};

/// Reason given when the job is being cancelled.
pub(super) const UNWANTED: &str = "the job was cancelled";

/// The consequence of a node's report of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Release,
    /// The attempt is held, and the job is being cancelled. It is also withdrawn, unless other nodes may have begun
    /// their parts of it.
    Forget,
    /// The attempt is withdrawn; a node that holds it must forget it.
    TakeBack(&'static str),
    Started,
    GoesOn,
    Ended(Outcome, Usage),
    Lost(&'static str),
}

/// The master's knowledge of an attempt when its node registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Belief {
    pub(super) running: bool,
    /// True if `Go` may have been sent.
    pub(super) released: bool,
    /// True if the job is being cancelled.
    pub(super) stop: bool,
    /// True if the node certainly has the same incarnation as at the assignment of the attempt.
    pub(super) same_incarnation: bool,
}

pub(super) fn judge(belief: Belief, reported: Option<&AttemptState>) -> Verdict {
    let Belief { running, released, stop, same_incarnation } = belief;
    match reported {
        Some(AttemptState::Ended { outcome, usage }) => Verdict::Ended(outcome.clone(), *usage),
        Some(AttemptState::Running) if running => Verdict::GoesOn,
        Some(AttemptState::Running) => Verdict::Started,
        Some(AttemptState::Held) if running => Verdict::Lost("its node holds it as not started, after it ran"),
        Some(AttemptState::Held) if stop => Verdict::Forget,
        Some(AttemptState::Held) => Verdict::Release,
        None if running => Verdict::Lost("its node no longer knows it"),
        None if !released => Verdict::TakeBack("its node did not acknowledge it"),
        None if same_incarnation => Verdict::TakeBack("its node has no record of it"),
        None => Verdict::Lost("its node does not know it, and has been restarted since it was assigned"),
    }
}

/// Returns the report of an attempt. Uses binary search, because a node may send tens of thousands in ascending
/// order.
pub(super) fn reported(reports: &[AttemptReport], key: (JobId, Attempt)) -> Option<&AttemptReport> {
    let place = reports.binary_search_by_key(&key, |report| (report.job, report.attempt));
    place.ok().and_then(|place| reports.get(place))
}

impl Controller {
    /// Returns the assignment of a job if it is in this attempt.
    pub(super) fn assignment(&self, job: JobId, attempt: Attempt) -> Option<&Assignment> {
        self.tx.assignment(job, attempt)
    }

    /// Returns the connection of a node whose registration was confirmed.
    pub(super) fn link(&self, node: NodeId) -> Option<PeerId> {
        self.nodes.welcomed(node)
    }

    /// Returns true if a job is in this attempt, on this node.
    pub(super) fn is_on(&self, node: NodeId, job: JobId, attempt: Attempt) -> bool {
        self.assignment(job, attempt).is_some_and(|assignment| place_of(assignment, node).is_some())
    }

    pub(super) fn is_starting(&self, job: JobId) -> bool {
        self.tx.core.job(job).is_some_and(|job| matches!(job.phase, Phase::Starting(_)))
    }

    /// Sends a durable assignment to its nodes.
    pub(super) fn assign(&mut self, job: JobId, attempt: Attempt) {
        if self.sleepers.awaits_waking(&self.tx, job, attempt) {
            return;
        }
        let Some(assignment) = self.assignment(job, attempt) else { return };
        let nodes = nodes_of(assignment);
        let peers = nodes.iter().map(|node| Some((*node, self.link(*node)?)));
        let Some(peers) = peers.collect::<Option<BTreeMap<NodeId, PeerId>>>() else {
            return self.take_back(job, attempt, "its node has gone");
        };
        let execs: Vec<(PeerId, DoExec)> = (0..)
            .zip(&nodes)
            .filter_map(|(index, node)| Some((*peers.get(node)?, self.exec(job, attempt, (&nodes, index))?)))
            .collect();
        let until = self.tx.now + self.tx.settings.ack_timeout;
        self.assignments.sent(job, Awaited { attempt, peers, until, preparing: BTreeSet::new() });
        for (peer, exec) in execs {
            self.tell_node(peer, MasterToNode::DoExec(Box::new(exec)));
        }
    }

    /// Returns the message for the node at `index` among the job's nodes.
    fn exec(&self, job: JobId, attempt: Attempt, (nodes, index): (&[NodeId], usize)) -> Option<DoExec> {
        let (assignment, live) = (self.assignment(job, attempt)?, self.live_of(job)?);
        Some(DoExec {
            journal: self.tx.journal,
            job,
            attempt,
            name: live.request.name.clone(),
            application: live.request.application.clone(),
            size: live.request.size.clone(),
            user: live.request.user.clone(),
            placement: placed_on(assignment, *nodes.get(index)?),
            time_limit: self.tx.core.job(job).and_then(|job| job.request.time_limit),
            warning: live.request.warning,
            kill_grace: self.grace_of(job),
            restarts: self.tx.core.job(job).map_or(0, |job| job.restarts),
            launch: live.launch_of_one(),
            task: live.task(job),
            share: self.share(job, live, (nodes, index)),
            lease: assignment.lease,
            checkpoint: self.checkpoint_order(job, &live.request),
            step: self.step_of(live),
        })
    }

    /// Takes back an attempt that was not released.
    pub(super) fn take_back(&mut self, job: JobId, attempt: Attempt, reason: &str) {
        self.withdraw((job, attempt), reason, None);
    }

    /// Withdraws an attempt. `blame` is a node that gets no job for a while. All nodes of a multi-node job forget the attempt; an
    /// unreachable node is told when it returns.
    fn withdraw(&mut self, (job, attempt): (JobId, Attempt), reason: &str, blame: Option<NodeId>) {
        self.sleepers.is_withdrawn(job);
        tracing::warn!(%job, %attempt, reason, "assignment taken back");
        let (open, is_multi_node) = (self.open_nodes(job), self.is_multi_node(job));
        let nodes = self.assignment(job, attempt).filter(|_| is_multi_node).map(nodes_of).unwrap_or_default();
        self.assignments.withdrawn(job);
        self.tx.must(Event::TakenBack { job, attempt, reason: reason.to_owned(), suspect: blame.is_some(), blame });
        for node in nodes {
            // The peers include a node that is being registered. It gets the message after its registration is on disk.
            let Some(peer) = self.nodes.of(node).map(|known| known.peer) else { continue };
            // A part that was stopped before the command began has ended; its streams have no reader.
            let (drop, discard) = (MasterToNode::Drop { job, attempt }, MasterToNode::Discard { job });
            self.after(After::ToNode(peer, if open.contains(&node) { drop } else { discard }));
        }
    }

    pub(super) fn send_go(&mut self, peer: PeerId, job: JobId, attempt: Attempt) {
        self.assignments.release(job, attempt);
        let order = self.go(job, attempt);
        self.tell_node(peer, order);
    }

    /// Returns the permission to run a job, which is the same for each of its nodes.
    pub(super) fn go(&self, job: JobId, attempt: Attempt) -> MasterToNode {
        let each = |of: &Assignment| of.estimate.power.scaled(1, nodes(&of.placement).count().try_into().unwrap_or(1));
        MasterToNode::Go { job, attempt, expected: self.assignment(job, attempt).map_or(Power::ZERO, each) }
    }

    pub(super) fn job_ack(&mut self, (peer, node): (PeerId, NodeId), job: JobId, attempt: Attempt) {
        let asked = self.assignments.is_asked((peer, node), job, attempt);
        if asked {
            self.assignments.not_awaited(job, node);
            self.routes.stdin_on(job, node, 0);
        }
        match self.assignment(job, attempt) {
            Some(Assignment { stop: None, .. }) if asked && self.is_multi_node(job) => {
                self.assignments.part_held(job, attempt, node);
                self.release_parts(job, attempt);
            }
            Some(Assignment { stop: None, .. }) if asked && self.is_held_back(job) => {
                self.assignments.part_held(job, attempt, node);
            }
            Some(Assignment { stop: None, .. }) if asked => self.send_go(peer, job, attempt),
            Some(_) if asked => {
                self.tell_node(peer, MasterToNode::Drop { job, attempt });
                self.take_back(job, attempt, UNWANTED);
            }
            // The acknowledgement is repeated: the attempt was already released, or waits for other nodes.
            Some(_)
                if self.assignments.may_be_released(job, attempt)
                    || self.assignments.is_part_held(job, attempt, node) => {}
            _ => self.tell_node(peer, MasterToNode::Drop { job, attempt }),
        }
    }

    pub(super) fn job_refused(&mut self, from: (PeerId, NodeId), job: JobId, attempt: Attempt, reason: &str) {
        if self.assignments.is_asked(from, job, attempt) {
            self.withdraw((job, attempt), reason, Some(from.1));
        }
    }

    /// Takes back attempts that were not acknowledged in time, and closes the connections of their nodes.
    pub(super) fn acks_missed(&mut self) {
        if faults::has(Fault::AcknowledgementNotDue) {
            return;
        }
        for (job, missed) in self.assignments.missed(self.tx.now) {
            if self.assignments.is_awaited(job) {
                let attempt = missed.attempt;
                let timeout = self.tx.settings.ack_timeout;
                let first = missed.due().next().map(|(node, _)| node);
                self.withdraw((job, attempt), &format!("its node did not acknowledge it within {timeout}"), first);
                for (_, peer) in missed.due() {
                    self.close_node(peer, format!("job {job} was not acknowledged within {timeout}"));
                }
            }
        }
    }

    /// Stops a job whose end was ordered durably. An unreachable node is told when it returns.
    pub(super) fn halt(&mut self, job: JobId, attempt: Attempt) {
        if self.assignment(job, attempt).is_none() {
            return;
        }
        let peers = self.open_links(job);
        if self.is_starting(job) && !self.assignments.may_be_released(job, attempt) {
            for peer in peers {
                self.tell_node(peer, MasterToNode::Drop { job, attempt });
            }
            let stop = self.assignment(job, attempt).and_then(|assignment| assignment.stop.clone());
            let reason = match stop {
                Some((why @ StopReason::Unconfirmed { .. }, _)) => why.to_string(),
                _ => UNWANTED.to_owned(),
            };
            self.take_back(job, attempt, &reason);
        } else {
            for peer in peers {
                self.tell_node(peer, self.stop_order(job, attempt));
            }
        }
    }

    /// Returns the attempts that the core has on a node.
    pub(super) fn attempts_on(&self, node: NodeId) -> Vec<(JobId, Attempt)> {
        self.tx.attempts_on(node)
    }

    /// Returns the verdict on each attempt that the core has on a node. `reports` are in ascending order.
    pub(super) fn verdicts(
        &self,
        node: NodeId,
        same_incarnation: bool,
        reports: &[AttemptReport],
    ) -> Vec<(JobId, Attempt, Verdict)> {
        // A node cannot know an attempt that was never sent.
        let open = |(job, attempt): &(JobId, Attempt)| {
            self.open_nodes(*job).contains(&node) && !self.sleepers.is_unsent(*job, *attempt)
        };
        let verdict = |(job, attempt): (JobId, Attempt)| {
            let belief = Belief {
                running: !self.is_starting(job),
                released: self.assignments.may_be_released(job, attempt),
                stop: self.assignment(job, attempt).is_some_and(|assignment| assignment.stop.is_some()),
                same_incarnation,
            };
            let reported = reported(reports, (job, attempt)).filter(|_| !faults::has(Fault::ReportsIgnored));
            (job, attempt, judge(belief, reported.map(|report| &report.state)))
        };
        self.attempts_on(node).into_iter().filter(open).map(verdict).collect()
    }

    /// Applies a verdict; returns the message for the node after its registration.
    pub(super) fn follow(
        &mut self,
        (job, attempt): (JobId, Attempt),
        node: NodeId,
        verdict: Verdict,
    ) -> Option<MasterToNode> {
        if self.is_multi_node(job) {
            return self.follow_part((job, attempt), node, verdict);
        }
        let mut order = None;
        match verdict {
            Verdict::Release if self.is_awaiting(job) => self.assignments.part_held(job, attempt, node),
            Verdict::Forget => self.take_back(job, attempt, UNWANTED),
            Verdict::TakeBack(reason) => self.take_back(job, attempt, reason),
            Verdict::Release => {
                self.assignments.release(job, attempt);
                return Some(self.go(job, attempt));
            }
            Verdict::Started => {
                self.assignments.release(job, attempt);
                self.tx.must(Event::Started { job, attempt });
                order = self.repeated_stop(job, attempt);
            }
            Verdict::GoesOn => order = self.repeated_stop(job, attempt),
            // The node gets one confirmation for all ends that it reports.
            Verdict::Ended(outcome, usage) => self.attempt_over((job, attempt), (outcome, usage)),
            Verdict::Lost(reason) => {
                tracing::error!(%job, %attempt, reason, "job lost");
                let outcome = Outcome::Lost { reason: reason.to_owned() };
                self.tx.must(Event::Ended { job, attempt, outcome, usage: Usage::default() });
            }
        }
        order
    }

    /// Returns the order to stop, which the node may have missed.
    pub(super) fn repeated_stop(&self, job: JobId, attempt: Attempt) -> Option<MasterToNode> {
        let stopping = self.assignment(job, attempt)?.stop.as_ref().is_some_and(|(_, told)| *told);
        let told = (stopping || self.is_doomed(job)) && !faults::has(Fault::StopNotRepeated);
        told.then(|| self.stop_order(job, attempt))
    }

    /// Returns the order to end an attempt; an evicted one makes a checkpoint first.
    pub(super) fn stop_order(&self, job: JobId, attempt: Attempt) -> MasterToNode {
        let grace = self.grace_of(job);
        let stop = self.assignment(job, attempt).and_then(|assignment| assignment.stop.as_ref());
        match stop {
            Some((StopReason::Evicted { .. }, _)) => MasterToNode::Evict { job, attempt, grace },
            _ => MasterToNode::Stop { job, attempt, grace },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELIEF: Belief = Belief { running: false, released: true, stop: false, same_incarnation: false };

    fn check(belief: Belief, reported: Option<AttemptState>, expected: &str) {
        let verdict = format!("{:?}", judge(belief, reported.as_ref()));
        assert!(verdict.starts_with(expected), "{belief:?}, {reported:?}: {verdict} in place of {expected}");
    }

    fn ended() -> AttemptState {
        AttemptState::Ended { outcome: Outcome::Exited(0), usage: Usage::default() }
    }

    #[test]
    fn the_record_of_the_node_decides() {
        for running in [false, true] {
            for released in [false, true] {
                let belief = Belief { running, released, ..BELIEF };
                check(belief, Some(ended()), "Ended(Exited(0)");
                check(belief, Some(AttemptState::Running), if running { "GoesOn" } else { "Started" });
                check(belief, Some(AttemptState::Held), if running { "Lost" } else { "Release" });
            }
        }
        check(Belief { stop: true, ..BELIEF }, Some(AttemptState::Held), "Forget");
    }

    #[test]
    fn a_possible_start_is_taken_back_only_on_proof() {
        check(Belief { released: false, ..BELIEF }, None, "TakeBack");
        check(Belief { same_incarnation: true, ..BELIEF }, None, "TakeBack");
        check(BELIEF, None, "Lost");
        check(Belief { running: true, same_incarnation: true, ..BELIEF }, None, "Lost");
        check(Belief { running: true, released: false, same_incarnation: true, stop: false }, None, "Lost");
    }
}
