//! Owners of nodes in wait reasons.

use limo_model::{JobId, Request, Wait};

use super::View;
use crate::facts::fits_node;
use crate::state::Node;

impl View<'_> {
    /// Returns the wait reason of a job that an owner keeps off a node.
    pub(crate) fn owner_of(&self, node: &Node) -> Option<Wait> {
        let owner = Some(node.owner()).filter(|_| node.is_open(self.now))?;
        let name = || node.spec.name.clone();
        if let Some(since) = owner.suspends_since() {
            return Some(Wait::Owner { node: name(), since, until: None });
        }
        let since = node.idle_since;
        owner.opens_at(self.now).map(|until| Wait::Owner { node: name(), since, until: Some(until) })
    }

    /// Returns the wait reason of a job that could run on more nodes if owners used none: the node that is in use longest.
    pub(crate) fn waits_for_owner(&self, id: JobId) -> Option<Wait> {
        let request: &Request = &self.job(id)?.request;
        let closed = self.nodes().iter().filter(|node| node.owner().closes(self.now));
        let waits = closed.filter(|node| self.may_have(request, node) && fits_node(request, node));
        waits.filter_map(|node| self.owner_of(node)).min_by_key(|wait| match wait {
            Wait::Owner { since, until, .. } => (*until, *since),
            _ => (None, self.now),
        })
    }
}
