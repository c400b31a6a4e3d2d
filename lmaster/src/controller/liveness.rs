//! Unreachable nodes: their duration, the forced end of their jobs, and their held draw.
//!
//! A node is unreachable as soon as its connection is broken. After `node_lease` it is lost ([`Event::NodeLost`]): its
//! jobs end as failed with their node. A requeueable job ends later, when its lease is certainly over on the node
//! ([`limo_model::Lease::fenced_after`]), because it may then run elsewhere. Times count from when this process
//! noticed the broken connection, or from its start, without times in which it did not run. This is never before the last
//! answer of any master to the node.
//!
//! The draw of such jobs is held until the node reports its running jobs, its own meter shows that the draw has ended,
//! or an operator declares the node dead.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, JobId, Lease, NodeId, Outcome, Span, Time, Usage};
use limo_proto::{AttemptReport, AttemptState};
use limo_sched::{Assignment, Event, Refused};

use super::commit::done;
use super::multi_node::open_nodes_of;
use super::tx::Tx;
use super::{Controller, Fault, PeerId, faults};
use crate::changed::{CONFIGURATION, LOST};

/// The nodes that are unreachable.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    away: BTreeMap<NodeId, Time>,
    /// Times of the next decisions, by node.
    due: BTreeSet<(Time, NodeId)>,
}

impl Liveness {
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Continues after the state was restored: every disconnected node counts as unreachable from now on, at the
    /// latest.
    pub(super) fn take_up(&mut self, tx: &Tx) {
        self.due.clear();
        let away: Vec<NodeId> =
            tx.core.known_nodes().filter(|node| !node.is_connected()).map(limo_sched::Node::id).collect();
        self.away.retain(|node, _| away.contains(node));
        for node in away {
            self.is_unreachable(tx, node);
        }
    }

    /// Applies the configured lease to jobs that are assigned from now on.
    pub(super) fn lease_in_force(tx: &mut Tx) {
        let lease = Lease { span: tx.settings.node_lease, grace: tx.settings.kill_grace };
        if tx.core.settings().lease != Some(lease) {
            tx.must(Event::LeaseSet { lease, by: CONFIGURATION.to_owned() });
        }
    }

    /// Records that a node is disconnected.
    pub(super) fn is_unreachable(&mut self, tx: &Tx, node: NodeId) {
        let since = *self.away.entry(node).or_insert(tx.now);
        let lease = if faults::has(Fault::LeaseNotAwaited) { Span::ZERO } else { tx.settings.node_lease };
        self.due.insert((since + lease, node));
    }

    /// Gives nodes this time in addition, and counts it as if they had been unreachable later.
    pub(super) fn extend(&mut self, by: Span) {
        for (at, node) in std::mem::take(&mut self.due) {
            self.due.insert((at + by, node));
            self.away.entry(node).and_modify(|since| *since = *since + by);
        }
    }

    /// Logs the consequences for its jobs.
    pub(super) fn report_unreachable(tx: &Tx, node: NodeId) {
        let Some(name) = tx.core.node(node).map(|node| node.spec().name.clone()) else { return };
        let (jobs, lease) = (open_attempts(tx, node).len(), tx.settings.node_lease);
        if jobs == 0 {
            return tracing::warn!(node = name, "node unreachable: it gets no jobs until lslave on it connects again");
        }
        tracing::warn!(
            node = name,
            jobs,
            "node unreachable: unless it connects again within {lease}, its jobs end as node_failed; if it is dead, run \
             `lconf node lost {name}`"
        );
    }

    /// Records the registration of a node with its reports.
    pub(super) fn is_reachable(&mut self, tx: &mut Tx, node: NodeId, reports: &[AttemptReport]) {
        if let Some(since) = self.away.remove(&node) {
            self.due.retain(|(_, other)| *other != node);
            if let Some(name) = tx.core.node(node).map(|node| &node.spec().name) {
                tracing::info!(node = name, "node connected after {}", tx.now - since);
            }
        }
        let runs = |(job, attempt): &(JobId, Attempt)| {
            let reported = reports.iter().find(|report| (report.job, report.attempt) == (*job, *attempt));
            reported.is_some_and(|report| report.state == AttemptState::Running) && is_over_on(tx, node, *job, *attempt)
        };
        let kept: Vec<_> = held_on(tx, node).into_iter().filter(runs).collect();
        Self::release_draw(tx, node, kept, "its node");
    }

    /// Records a node's report that nothing remains of an attempt.
    pub(super) fn confirmed_over(tx: &mut Tx, node: NodeId, which: (JobId, Attempt)) {
        let mut kept = held_on(tx, node);
        if let Some(place) = kept.iter().position(|held| *held == which) {
            kept.remove(place);
            Self::release_draw(tx, node, kept, "its node");
        }
    }

    /// Releases the held draw of a node, except for the attempts in `kept`.
    pub(super) fn release_draw(tx: &mut Tx, node: NodeId, kept: Vec<(JobId, Attempt)>, by: &str) {
        if held_on(tx, node).len() == kept.len() {
            return;
        }
        let before = tx.core.node(node).map(limo_sched::Node::held_draw).unwrap_or_default();
        tx.must(Event::DrawReleased { node, kept, by: by.to_owned() });
        if let Some(node) = tx.core.node(node) {
            let released = before - node.held_draw();
            tracing::info!(node = node.spec().name, by, "{released} are no longer held for the node");
        }
    }

    /// Returns the next node whose time has come.
    fn take_due(&mut self, now: Time) -> Option<NodeId> {
        let (at, node) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, node));
        Some(node)
    }

    /// Records that a node is lost if it has jobs. Returns its jobs whose leases are over, and the time for which it was
    /// silent.
    fn lease_over(&mut self, tx: &mut Tx, node: NodeId) -> (Vec<(JobId, Attempt)>, Span) {
        let mut attempts = open_attempts(tx, node);
        let Some(since) = self.away.get(&node).copied().filter(|_| !attempts.is_empty()) else {
            return (Vec::new(), Span::ZERO);
        };
        lose(tx, node, LOST);
        attempts.retain(|(job, attempt)| match fenced_at(tx, since, *job, *attempt).filter(|at| *at > tx.now) {
            Some(at) => {
                self.due.insert((at, node));
                false
            }
            None => true,
        });
        (attempts, tx.now - since)
    }
}

impl Controller {
    /// Decides about the nodes whose time has come.
    pub(super) fn leases_due(&mut self) {
        while self.tx.commits.is_open()
            && let Some(node) = self.liveness.take_due(self.tx.now)
        {
            let (over, silent) = self.liveness.lease_over(&mut self.tx, node);
            for which in over {
                self.fail(which, node, &format!("unreachable for {silent}"));
            }
        }
    }

    /// Ends an attempt on a node without a report of the node.
    fn fail(&mut self, (job, attempt): (JobId, Attempt), node: NodeId, why: &str) {
        let Some(name) = self.tx.core.node(node).map(|node| node.spec().name.clone()) else { return };
        let reason = format!("node {name} failed: {why}");
        if self.is_starting(job) && !self.assignments.may_be_released(job, attempt) {
            // It waits for another node that wakes.
            return self.take_back(job, attempt, &reason);
        }
        let usage = Usage::default();
        if self.is_multi_node(job) {
            tracing::error!(%job, %attempt, reason, "part of a job ended: its node failed");
            self.assignments.not_awaited(job, node);
            self.part_ended((job, attempt), node, (Outcome::NodeFailed { reason }, usage));
        } else {
            tracing::error!(%job, %attempt, reason, "job ended: its node failed");
            self.assignments.none_awaited(job);
            self.tx.must(Event::Ended { job, attempt, outcome: Outcome::NodeFailed { reason }, usage });
        }
        if faults::has(Fault::DrawFreedEarly) {
            Liveness::release_draw(&mut self.tx, node, Vec::new(), "fault");
        }
    }

    /// Declares all of these nodes dead, or none, at an operator's request: their jobs have ended.
    pub(super) fn nodes_lost(&mut self, peer: PeerId, names: &[String], by: &str) {
        let node = |name: &String| {
            let node = self.node(name)?;
            match self.tx.core.node(node).is_some_and(limo_sched::Node::is_connected) {
                true => Err(Refused::NodeIsConnected { name: name.clone() }),
                false => Ok(node),
            }
        };
        match names.iter().map(node).collect::<Result<BTreeSet<NodeId>, Refused>>() {
            Ok(nodes) => {
                for node in nodes {
                    lose(&mut self.tx, node, by);
                    for which in open_attempts(&self.tx, node) {
                        self.fail(which, node, &format!("declared dead by {by}"));
                    }
                    Liveness::release_draw(&mut self.tx, node, Vec::new(), by);
                }
                self.after(done(peer));
            }
            Err(refused) => self.refuse(peer, refused.to_string(), None),
        }
    }
}

fn held_on(tx: &Tx, node: NodeId) -> Vec<(JobId, Attempt)> {
    let held = tx.core.node(node).map(limo_sched::Node::held).unwrap_or_default();
    held.iter().map(|held| (held.job, held.attempt)).collect()
}

/// Returns true if the core no longer has the attempt on the node.
fn is_over_on(tx: &Tx, node: NodeId, job: JobId, attempt: Attempt) -> bool {
    tx.assignment(job, attempt).is_none_or(|assignment| !open_nodes_of(assignment).contains(&node))
}

/// Returns the attempts that the core has on a node and that are not over there.
fn open_attempts(tx: &Tx, node: NodeId) -> Vec<(JobId, Attempt)> {
    let mut attempts = tx.attempts_on(node);
    let is_open = |assignment: &Assignment| open_nodes_of(assignment).contains(&node);
    attempts.retain(|(job, attempt)| tx.assignment(*job, *attempt).is_some_and(is_open));
    attempts
}

/// Returns the time from which on a requeueable job certainly no longer runs on its node. `None` for other jobs.
fn fenced_at(tx: &Tx, since: Time, job: JobId, attempt: Attempt) -> Option<Time> {
    let assignment = tx.assignment(job, attempt)?;
    let is_requeued = assignment.stop.as_ref().is_none_or(|(why, _)| why.runs_again());
    assignment
        .lease
        .filter(|_| is_requeued && !faults::has(Fault::LeaseNotAwaited))
        .map(|lease| since + lease.fenced_after())
}

fn lose(tx: &mut Tx, node: NodeId, by: &str) {
    let Some(known) = tx.core.node(node) else { return };
    let name = known.spec().name.clone();
    if known.lost_since().is_none() {
        tracing::error!(
            node = name,
            by,
            "node lost: its jobs end as node_failed; their watts stay reserved until the node connects again, a meter of \
             its own shows that they are gone, or an operator runs `lconf node lost {name}`"
        );
    }
    tx.must(Event::NodeLost { node, by: by.to_owned() });
}
