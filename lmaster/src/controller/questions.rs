//! Questions to the databases that are under way, and the connections that wait for their answers.

use std::collections::HashMap;

use super::{PeerId, Reply, Ticket};

/// Questions by their tickets. A ticket is given once.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: HashMap<Ticket, PeerId>,
    /// Answers that came while the state was being read back.
    postponed: Vec<(Ticket, Reply)>,
    last: u64,
}

impl Questions {
    pub(super) fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    /// A connection asks something.
    pub(super) fn ask(&mut self, peer: PeerId) -> Ticket {
        let ticket = self.ticket();
        self.waiting.insert(ticket, peer);
        ticket
    }

    /// The answer is there: returns the connection that asked.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<PeerId> {
        self.waiting.remove(&ticket)
    }

    /// Keeps an answer until there is a state from which something can follow.
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
