//! Daily reboots of nodes, by the rules of their groups.
//!
//! The progress of a reboot is state of the core, so a restarted master continues from it. This module keeps the next time
//! for each node: its turn, the end of its window, or the end of the wait for its restart.
//!
//! | state in the core | event | result |
//! |---|---|---|
//! | none | its turn comes, and it is connected, awake and not drained | its reboot is wanted: it gets no jobs |
//! | none | its turn comes otherwise | left out until the next day |
//! | wanted | it has no job, and no owner is there | ordered; its boot id is recorded first |
//! | wanted | the window ends | failed |
//! | ordered | it registers with another boot id | none: it has rebooted |
//! | ordered | it registers with the same boot id, says that it failed, or stays connected for too long | failed |
//!
//! After a failure the node takes jobs again, until its turn on the next day.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Deferral, NodeId, Reboot, RebootRule, Span, Time};
use limo_proto::MasterToNode;
use limo_sched::{Event, Node};

use super::commit::After;
use super::node_peer::NodeLinks;
use super::tx::Tx;
use super::{Controller, PeerId};

/// Longest time for which an ordered node may stay connected.
const PATIENCE: Span = Span::from_secs(600);

const SAME_BOOT: &str = "it registered again without a restart of the machine";

/// The next times of the nodes whose groups have reboots.
#[derive(Debug, Default)]
pub(super) struct Reboots {
    times: BTreeMap<NodeId, Time>,
    due: BTreeSet<(Time, NodeId)>,
    /// Nodes that wait until they have no job and no owner.
    wanted: BTreeSet<NodeId>,
}

impl Reboots {
    fn set(&mut self, node: NodeId, at: Option<Time>) {
        if let Some(before) = self.times.remove(&node) {
            self.due.remove(&(before, node));
        }
        if let Some(at) = at {
            self.times.insert(node, at);
            self.due.insert((at, node));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Continues with what the core knows: at the start, after other groups are in force, and after a failed commit.
    pub(super) fn take_up(&mut self, tx: &mut Tx) {
        *self = Self::default();
        let nodes: Vec<NodeId> = tx.core.known_nodes().map(Node::id).collect();
        nodes.into_iter().for_each(|node| self.follow(tx, node));
    }

    /// Finds the next time of a node.
    fn follow(&mut self, tx: &mut Tx, node: NodeId) {
        let is_ruled = rule_of(tx, node).is_some();
        if !is_ruled && tx.core.node(node).is_some_and(Node::reboots) {
            tx.must(Event::Rebooting { node, reboot: None });
        }
        let at = match tx.core.node(node).and_then(Node::reboot) {
            Some(Reboot::Wanted { until, .. }) => Some(*until),
            Some(Reboot::Ordered { .. }) => Some(tx.now + PATIENCE),
            Some(Reboot::Failed { .. }) | None => next_turn(tx, node).map(|(turn, _)| turn),
        };
        let is_wanted = matches!(tx.core.node(node).and_then(Node::reboot), Some(Reboot::Wanted { .. }));
        if is_wanted {
            self.wanted.insert(node)
        } else {
            self.wanted.remove(&node)
        };
        self.set(node, at);
    }

    fn record(&mut self, tx: &mut Tx, node: NodeId, reboot: Option<Reboot>) {
        tx.must(Event::Rebooting { node, reboot });
        self.follow(tx, node);
    }

    fn fail(&mut self, tx: &mut Tx, node: NodeId, reason: String) {
        tracing::warn!(node = tx.name_of(node), reason, "the node does not reboot today");
        self.record(tx, node, Some(Reboot::Failed { reason }));
    }

    /// Decides about the nodes whose time has come.
    pub(super) fn decide(&mut self, tx: &mut Tx) {
        while tx.commits.is_open()
            && let Some((_, node)) = self.due.first().copied().filter(|(at, _)| *at <= tx.now)
        {
            let Some(known) = tx.core.node(node) else { return self.set(node, None) };
            match known.reboot() {
                Some(Reboot::Wanted { .. }) => {
                    self.fail(tx, node, "its jobs or its owner were there until the end of the window".to_owned());
                }
                Some(Reboot::Ordered { .. }) if known.is_connected() => {
                    self.fail(tx, node, format!("it was still connected {PATIENCE} after the order"));
                }
                // It is restarting, or cannot be reached.
                Some(Reboot::Ordered { .. }) => self.set(node, None),
                Some(Reboot::Failed { .. }) | None => self.turn(tx, node),
            }
        }
    }

    fn turn(&mut self, tx: &mut Tx, node: NodeId) {
        let is_ready = |of: &Node| of.is_connected() && of.is_awake() && of.drained().is_none();
        match (rule_of(tx, node), end_of_window(tx, node)) {
            (Some(rule), Some(until)) if tx.core.node(node).is_some_and(is_ready) => {
                tracing::info!(node = tx.name_of(node), "the turn of the node to reboot has come: it gets no jobs");
                self.record(tx, node, Some(Reboot::Wanted { until, evicts: rule.defer == Deferral::No }));
            }
            _ => self.follow(tx, node),
        }
    }

    /// Returns a node that can be ordered to reboot now, and its connection.
    fn ready(&self, tx: &Tx, nodes: &NodeLinks) -> Option<(NodeId, PeerId)> {
        let mut ready = self.wanted.iter().filter(|node| tx.core.may_reboot(**node));
        ready.find_map(|node| Some((*node, nodes.welcomed(*node)?)))
    }

    /// Judges by its boot id if a node that registers has rebooted.
    pub(super) fn registered(&mut self, tx: &mut Tx, node: NodeId, boot: Option<&str>) {
        let before = match tx.core.node(node).and_then(Node::reboot) {
            Some(Reboot::Ordered { boot }) => boot.clone(),
            _ => return self.follow(tx, node),
        };
        if boot.is_some_and(|boot| boot != before) {
            tracing::info!(node = tx.name_of(node), "the node has rebooted");
            self.record(tx, node, None);
        } else {
            self.fail(tx, node, SAME_BOOT.to_owned());
        }
    }

    /// Handles the report of a node that it does not reboot.
    pub(super) fn failed(&mut self, tx: &mut Tx, node: NodeId, reason: String) {
        if matches!(tx.core.node(node).and_then(Node::reboot), Some(Reboot::Ordered { .. })) {
            self.fail(tx, node, reason);
        }
    }
}

fn rule_of(tx: &Tx, node: NodeId) -> Option<RebootRule> {
    let name = &tx.core.node(node)?.spec().name;
    tx.core.settings().groups.of(name)?.reboot
}

/// Returns the next turn of a node and the end of its window, in cluster time.
fn next_turn(tx: &Tx, node: NodeId) -> Option<(Time, Time)> {
    let (rule, name) = (rule_of(tx, node)?, &tx.core.node(node)?.spec().name);
    let ahead = tx.wall() - tx.now;
    let (turn, until) = rule.window.next_turn(name, tx.wall());
    Some((turn - ahead, until - ahead))
}

/// Returns the end of the window in which a node has its turn now; `None` outside of it, as after a jump of the clock.
fn end_of_window(tx: &Tx, node: NodeId) -> Option<Time> {
    const DAY: Span = Span::from_secs(86_400);
    let (turn, until) = next_turn(tx, node)?;
    // The turn of today has just passed, so the next one is that of tomorrow.
    Some(until - DAY).filter(|until| turn - DAY <= tx.now && tx.now < *until)
}

impl Controller {
    /// Continues after a start, another configuration or a failed commit.
    pub(super) fn reboots_in_force(&mut self) {
        if self.tx.commits.is_open() {
            self.reboots.take_up(&mut self.tx);
        }
    }

    /// Orders the nodes to reboot that have no job and no owner any more.
    pub(super) fn order_reboots(&mut self) {
        while self.tx.commits.is_open()
            && let Some((node, peer)) = self.reboots.ready(&self.tx, &self.nodes)
        {
            let name = self.tx.name_of(node);
            // A node that registered has an incarnation.
            let boot = self.nodes.incarnation(&name).map(|known| known.boot.clone()).unwrap_or_default();
            tracing::info!(node = name, "the node is told to reboot");
            self.reboots.record(&mut self.tx, node, Some(Reboot::Ordered { boot }));
            self.after(After::ToNode(peer, MasterToNode::Reboot));
        }
    }

    /// Returns the progress of a node's reboot, for lists of nodes.
    pub(super) fn reboot_in_words(&self, node: NodeId) -> Option<String> {
        Some(match self.tx.core.node(node)?.reboot()? {
            Reboot::Wanted { .. } => "reboots when its jobs have ended and its owner is away".to_owned(),
            Reboot::Ordered { .. } => "reboots".to_owned(),
            Reboot::Failed { reason } => format!("did not reboot: {reason}"),
        })
    }
}
