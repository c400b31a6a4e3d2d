//! Entries of the audit log: refused requests, and the changes that operators ask for.

use std::collections::BTreeSet;

use limo_proto::Change;

use super::deeds::Deed;
use super::numbers::Numbers;
use super::{Controller, Effect, PeerId};
use crate::audit::{AuditEntry, AuditKind};

/// Most ranges of jobs, and most users, in an entry.
const RANGES: usize = 50;
const OWNERS: usize = 10;

fn range((first, last): &(u64, u64)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

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

    /// Records an operator's action on jobs of other users.
    pub(super) fn audit_deed(&mut self, peer: PeerId, deed: Deed, jobs: &Numbers) {
        let Some(caller) = self.caller(peer).filter(|caller| caller.operator) else { return };
        let owners: BTreeSet<&str> = jobs
            .iter()
            .filter_map(|job| self.live_of(job))
            .filter(|live| live.uid != caller.uid)
            .map(|live| live.request.user.as_str())
            .collect();
        if owners.is_empty() {
            return;
        }
        let ranges: Vec<String> = jobs.ranges().iter().take(RANGES).map(range).collect();
        let more = if jobs.ranges().len() > RANGES { " and others" } else { "" };
        let owners: Vec<&str> = owners.into_iter().take(OWNERS).collect();
        let text = format!("{deed} of jobs {}{more} of {}", ranges.join(","), owners.join(", "));
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
