//! Connected clients: their requests, their pending answers, and their queues. A client's request waits until the
//! previous one is answered, so that answers keep the order of requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use limo_model::JobId;
use limo_proto::{ClientToMaster, encoded_len};

use super::clients::BACKLOG_LIMIT;
use super::numbers::Numbers;
use super::pages::Cursor;
use super::turns::{Most, Turns};
use super::waits::Waits;
use super::{Caller, PeerId, Ticket};
use crate::limits::Limits;

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    clients: BTreeMap<PeerId, ClientPeer>,
    waits: Waits,
    turns: Turns,
    /// Encoded bytes of each user's queued requests.
    backlogs: BTreeMap<u32, usize>,
}

/// One connection of a client.
#[derive(Debug)]
pub(super) struct ClientPeer {
    pub(super) caller: Caller,
    /// A request that waits for the journal, the profile database or a node.
    pub(super) busy: Option<Ticket>,
    /// A query that waits for its turn.
    pub(super) heavy: Option<ClientToMaster>,
    /// The remaining part of the current answer.
    pub(super) cursor: Option<Cursor>,
    /// Awaited jobs that are over.
    pub(super) over: VecDeque<Numbers>,
    /// Streams with dropped output, by job and node of the job.
    pub(super) behind: BTreeSet<(JobId, u32)>,
    /// Requests after the current one, with their encoded sizes.
    backlog: VecDeque<(ClientToMaster, usize)>,
}

impl ClientPeer {
    fn new(caller: Caller) -> Self {
        Self {
            caller,
            busy: None,
            heavy: None,
            cursor: None,
            over: VecDeque::new(),
            behind: BTreeSet::new(),
            backlog: VecDeque::new(),
        }
    }

    /// Returns true if a request is unanswered.
    pub(super) fn is_occupied(&self) -> bool {
        self.busy.is_some() || self.heavy.is_some() || self.cursor.is_some()
    }
}

impl Sessions {
    pub(super) fn connected(&mut self, peer: PeerId, caller: Caller) {
        self.clients.insert(peer, ClientPeer::new(caller));
    }

    pub(super) fn contains(&self, peer: PeerId) -> bool {
        self.clients.contains_key(&peer)
    }

    pub(super) fn get(&self, peer: PeerId) -> Option<&ClientPeer> {
        self.clients.get(&peer)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut ClientPeer> {
        self.clients.get_mut(&peer)
    }

    pub(super) fn peers(&self) -> Vec<PeerId> {
        self.clients.keys().copied().collect()
    }

    /// Returns the waits for ends of jobs.
    pub(super) fn waits(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// Returns the clients whose answers wait only for their connections.
    pub(super) fn being_told(&self) -> Vec<PeerId> {
        let ends = |client: &ClientPeer| client.cursor.is_some() && client.busy.is_none();
        self.clients.iter().filter(|(_, client)| ends(client)).map(|(peer, _)| *peer).collect()
    }

    /// Queues a query for its turn.
    ///
    /// # Errors
    /// The reason if its user has too many queries.
    pub(super) fn enter(&mut self, peer: PeerId, message: ClientToMaster, limits: Limits) -> Result<(), String> {
        let Some(client) = self.clients.get_mut(&peer) else { return Ok(()) };
        let most = most(limits, &client.caller);
        if self.turns.enter(peer, client.caller.uid, most) {
            client.heavy = Some(message);
            return Ok(());
        }
        let (user, running, queued) = (&client.caller.user, most.running, most.queued);
        Err(format!("{user} has {running} queries running and {queued} waiting: the limit is reached"))
    }

    /// Returns true if a query can be served.
    pub(super) fn has_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns the connection of the next turn.
    pub(super) fn next_turn(&mut self) -> Option<PeerId> {
        self.turns.next()
    }

    /// Marks the next slice of a connection as ready.
    pub(super) fn ready(&mut self, peer: PeerId) {
        self.turns.ready(peer);
    }

    /// Records that a client has read everything that was sent.
    pub(super) fn drained(&mut self, peer: PeerId) {
        let Some(client) = self.clients.get(&peer) else { return };
        if client.cursor.is_some() && client.busy.is_none() {
            self.turns.ready(peer);
        }
    }

    /// Returns the next request of an idle client. Its query is over, and awaited jobs are reported first.
    pub(super) fn next_request(&mut self, peer: PeerId, limits: Limits) -> Option<ClientToMaster> {
        let client = self.clients.get_mut(&peer).filter(|client| !client.is_occupied())?;
        let (uid, most) = (client.caller.uid, most(limits, &client.caller));
        self.turns.over(peer, uid, most);
        if let Some(jobs) = client.over.pop_front() {
            client.cursor = Some(Cursor::reports(jobs));
            self.turns.enter_always(peer, uid, most);
            return None;
        }
        self.pop_backlog(peer)
    }

    /// Removes a closed connection. Returns true for a client.
    pub(super) fn remove(&mut self, peer: PeerId, limits: Limits) -> bool {
        let Some(client) = self.clients.remove(&peer) else { return false };
        self.waits.gone(peer);
        self.turns.gone(peer, client.caller.uid, most(limits, &client.caller));
        let size = client.backlog.iter().map(|(_, size)| size).sum();
        self.forget_backlog(client.caller.uid, size);
        true
    }

    /// Records that a slice of a client's action on many jobs is on disk.
    pub(super) fn slice_written(&mut self, peer: PeerId) {
        if self.clients.contains_key(&peer) {
            self.turns.ready(peer);
        }
    }

    #[cfg(test)]
    pub(super) fn open_waits(&self) -> usize {
        self.waits.len()
    }

    /// Returns true if a client waits for an answer.
    #[cfg(test)]
    pub(super) fn is_held_up(&self) -> bool {
        let waits = |client: &ClientPeer| client.is_occupied() || !client.over.is_empty() || !client.backlog.is_empty();
        !self.backlogs.is_empty() || self.clients.values().any(waits)
    }

    fn forget_backlog(&mut self, uid: u32, size: usize) {
        if let Some(held) = self.backlogs.get_mut(&uid) {
            *held -= size.min(*held);
            if *held == 0 {
                self.backlogs.remove(&uid);
            }
        }
    }

    /// Keeps a request until earlier requests are answered.
    ///
    /// # Errors
    /// If the client or its user has too many requests: the reason to close the connection.
    pub(super) fn postpone(&mut self, peer: PeerId, message: ClientToMaster, limits: Limits) -> Result<(), String> {
        let Some(client) = self.clients.get_mut(&peer) else { return Ok(()) };
        if client.backlog.len() >= BACKLOG_LIMIT {
            return Err(format!("more than {BACKLOG_LIMIT} requests without waiting for an answer"));
        }
        let (size, limit) = (encoded_len(&message), limits.of(client.caller.operator).requests);
        let held = self.backlogs.entry(client.caller.uid).or_default();
        if *held + size > limit {
            return Err(format!("requests of more than {limit} bytes without waiting for an answer (limits.requests)"));
        }
        *held += size;
        client.backlog.push_back((message, size));
        Ok(())
    }

    fn pop_backlog(&mut self, peer: PeerId) -> Option<ClientToMaster> {
        let client = self.clients.get_mut(&peer)?;
        let (message, size) = client.backlog.pop_front()?;
        let uid = client.caller.uid;
        self.forget_backlog(uid, size);
        Some(message)
    }
}

/// Returns the query limits of a caller's user.
fn most(limits: Limits, caller: &Caller) -> Most {
    let limits = limits.of(caller.operator);
    Most { running: limits.queries_running as usize, queued: limits.queries_queued as usize }
}
