//! Owners of nodes: what nodes report about them, and the standing orders for the nodes.

use limo_model::{Attempt, Eviction, JobId, NodeId, OwnerRules};
use limo_proto::{AttemptReport, MasterToNode};
use limo_sched::Event;

use super::Controller;
use super::commit::After;

/// Reason in the list of nodes and in the log.
const NO_SOURCE: &str = "its group has owners, but lslave cannot tell if one is there: start it with --owner";

impl Controller {
    /// Returns the rules for the owner of a node.
    pub(super) fn owner_rules(&self, node: NodeId) -> Option<OwnerRules> {
        let name = &self.tx.core.node(node)?.spec().name;
        self.tx.core.settings().groups.of(name)?.owners
    }

    /// Returns the reason why a connected node does not follow the rules for its owner.
    pub(super) fn without_owner(&self, node: NodeId) -> Option<String> {
        let link = self.nodes.of(node).filter(|link| link.owner.is_none())?;
        self.owner_rules(node).filter(|_| link.welcome).map(|_| NO_SOURCE.to_owned())
    }

    /// Returns the standing order for a node that can tell if its owner is there.
    pub(super) fn owner_order(&self, node: NodeId) -> Option<MasterToNode> {
        self.nodes.of(node)?.owner?;
        let rules = self.owner_rules(node).filter(OwnerRules::evict);
        Some(MasterToNode::Owners { evict_after: rules.map(|rules| rules.evict_after) })
    }

    /// Records what a registration says about the owner of a node.
    pub(super) fn owner_introduced(&mut self, node: NodeId, attempts: &[AttemptReport]) {
        for report in attempts.iter().filter(|report| report.is_evicted) {
            self.evicted(node, report.job, report.attempt);
        }
        self.owner_found(node);
        if self.nodes.of(node).is_some_and(|link| link.owner.is_none()) && self.owner_rules(node).is_some() {
            tracing::warn!(node = self.tx.name_of(node), "{NO_SOURCE}");
        }
    }

    /// Records the present state of the owner if the core believes another one.
    fn owner_found(&mut self, node: NodeId) {
        let is_there = self.nodes.of(node).is_some_and(|link| link.owner == Some(true));
        let suspends = |node: &limo_sched::Node| node.owner().suspends_since().is_some();
        if self.tx.core.node(node).is_some_and(suspends) != is_there {
            self.owner_changed(node, is_there);
        }
    }

    fn owner_changed(&mut self, node: NodeId, is_there: bool) {
        self.tx.must(if is_there { Event::OwnerCame { node } } else { Event::OwnerLeft { node } });
    }

    /// Handles an owner who came or left. Reports of a node that cannot tell this are ignored.
    pub(super) fn owner_reported(&mut self, node: NodeId, is_there: bool) {
        if self.nodes.set_owner(node, is_there) {
            self.owner_changed(node, is_there);
        }
    }

    /// Handles an attempt that its node ends for the owner; the other nodes of the job end it, too.
    pub(super) fn evicted(&mut self, node: NodeId, job: JobId, attempt: Attempt) {
        let is_open = self.assignment(job, attempt).is_some_and(|assignment| assignment.stop.is_none());
        if is_open && self.is_on(node, job, attempt) {
            tracing::info!(%job, node = self.tx.name_of(node), "job evicted by its node: its owner needs it");
            self.tx.must(Event::Evicted { job, attempt, node, why: Eviction::Owner });
            if self.is_multi_node(job) && !self.is_starting(job) {
                self.after(After::Halt(job, attempt));
            }
        }
    }

    /// Sends the standing orders again after a change of the groups.
    pub(super) fn owners_in_force(&mut self) {
        for (node, peer) in self.nodes.all_welcomed() {
            self.owner_found(node);
            if let Some(order) = self.owner_order(node) {
                self.after(After::ToNode(peer, order));
            }
        }
    }
}
