//! Entries of the audit log: refused requests, and the changes that operators ask for.

use limo_proto::Change;

use super::{Controller, Effect, PeerId};
use crate::audit::{AuditEntry, AuditKind};

impl Controller {
    /// Records a request of a client.
    pub(super) fn audit_client(&mut self, peer: PeerId, what: AuditKind, text: &str) {
        if let Some(caller) = self.caller(peer) {
            let entry = AuditEntry::of(what, &caller.user, text);
            self.tx.effects.push(Effect::Audit(Box::new(entry)));
        }
    }

    /// Records a change that an operator asks for.
    pub(super) fn audit_change(&mut self, peer: PeerId, change: &Change) {
        // All changes can be encoded; the text is only for people.
        let text = serde_json::to_string(change).unwrap_or_else(|_| "a change".to_owned());
        self.audit_client(peer, AuditKind::Asked, &text);
    }

    /// Records that a node was refused.
    pub(super) fn audit_node(&mut self, peer: PeerId, reason: &str) {
        let who = self
            .nodes
            .certified(peer)
            .map_or_else(|| "a node of this machine".to_owned(), |name| format!("node {name}"));
        self.tx.effects.push(Effect::Audit(Box::new(AuditEntry::of(AuditKind::Refused, &who, reason))));
    }
}
