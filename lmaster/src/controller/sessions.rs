//! Clients that are connected: what each has asked for, what it still has to be told, and what it has waiting here. A request
//! of a client waits until the one before it is answered, so that answers come in the order of requests.

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
    /// Encoded bytes of the requests of each user that wait for the answers to earlier ones.
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
    /// The rest of the answer that is being told.
    pub(super) cursor: Option<Cursor>,
    /// Jobs that were waited for, and are over.
    pub(super) over: VecDeque<Numbers>,
    /// Streams of which something was dropped, by job and node of the job.
    pub(super) behind: BTreeSet<(JobId, u32)>,
    /// Requests behind the one that is served, with their encoded sizes.
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

    /// Returns true if a request is not answered yet.
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

    /// Clients that wait until jobs are over.
    pub(super) fn waits(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// Those whose answers are being told, and wait for nothing but their connections.
    pub(super) fn being_told(&self) -> Vec<PeerId> {
        let ends = |client: &ClientPeer| client.cursor.is_some() && client.busy.is_none();
        self.clients.iter().filter(|(_, client)| ends(client)).map(|(peer, _)| *peer).collect()
    }

    /// A query waits for its turn.
    ///
    /// # Errors
    /// The reason if its user has too many.
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

    /// Returns true if it is the turn of a query.
    pub(super) fn has_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The connection whose turn it is.
    pub(super) fn next_turn(&mut self) -> Option<PeerId> {
        self.turns.next()
    }

    /// The next slice for a connection can be made.
    pub(super) fn ready(&mut self, peer: PeerId) {
        self.turns.ready(peer);
    }

    /// Everything that was sent to a client was taken.
    pub(super) fn drained(&mut self, peer: PeerId) {
        let Some(client) = self.clients.get(&peer) else { return };
        if client.cursor.is_some() && client.busy.is_none() {
            self.turns.ready(peer);
        }
    }

    /// The client is not occupied: its query is over, and what it waited for is told before its next request, which is returned.
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

    /// A connection has ended. Returns whether it was a client's.
    pub(super) fn remove(&mut self, peer: PeerId, limits: Limits) -> bool {
        let Some(client) = self.clients.remove(&peer) else { return false };
        self.waits.gone(peer);
        self.turns.gone(peer, client.caller.uid, most(limits, &client.caller));
        let size = client.backlog.iter().map(|(_, size)| size).sum();
        self.forget_backlog(client.caller.uid, size);
        true
    }

    /// A slice of what a client does to many jobs is on disk.
    pub(super) fn slice_written(&mut self, peer: PeerId) {
        if self.clients.contains_key(&peer) {
            self.turns.ready(peer);
        }
    }

    #[cfg(test)]
    pub(super) fn open_waits(&self) -> usize {
        self.waits.len()
    }

    /// Returns true if somebody waits for an answer.
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

    /// Keeps a request until those before it are answered.
    ///
    /// # Errors
    /// Where the client or its user has too many of them: the reason to hang up.
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

/// How many queries a caller's user may have.
fn most(limits: Limits, caller: &Caller) -> Most {
    let limits = limits.of(caller.operator);
    Most { running: limits.queries_running as usize, queued: limits.queries_queued as usize }
}
