//! All that clients wait for: queries of the databases, queries of nodes, and the backup that is being made.

use std::collections::HashMap;

use super::backup::Backup;
use super::measured::Measures;
use super::probes::Probes;
use super::{PeerId, Reply, Ticket};

/// Queries by their tickets. Each ticket is used once.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: HashMap<Ticket, PeerId>,
    /// Answers that came while the state was being read back.
    postponed: Vec<(Ticket, Reply)>,
    last: u64,
    pub(super) probes: Probes,
    pub(super) measures: Measures,
    pub(super) backup: Option<Backup>,
}

impl Questions {
    pub(super) fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    /// Starts a query of a connection.
    pub(super) fn ask(&mut self, peer: PeerId) -> Ticket {
        let ticket = self.ticket();
        self.waiting.insert(ticket, peer);
        ticket
    }

    /// Ends a query; returns the connection that made it.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<PeerId> {
        self.waiting.remove(&ticket)
    }

    /// Keeps an answer until a state is available for its consequences.
    pub(super) fn postpone(&mut self, ticket: Ticket, reply: Reply) {
        self.postponed.push((ticket, reply));
    }

    pub(super) fn take_postponed(&mut self) -> Vec<(Ticket, Reply)> {
        std::mem::take(&mut self.postponed)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.postponed.len()
    }
}
