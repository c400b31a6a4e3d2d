//! Clients that are connected: what each has asked for, what it still has to be told, and what it has waiting here. A request
//! of a client waits until the one before it is answered, so that answers come in the order of requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use limo_model::JobId;
use limo_proto::{Change, ClientToMaster, Cost, encoded_len};

use super::clients::BACKLOG_LIMIT;
use super::commit::not_written;
use super::deeds::DEEDS;
use super::numbers::Numbers;
use super::pages::Cursor;
use super::turns::{Most, Turns};
use super::waits::Waits;
use super::{Caller, Controller, Effect, PeerId, Ticket};
use crate::limits::Limits;

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) clients: BTreeMap<PeerId, ClientPeer>,
    pub(super) waits: Waits,
    pub(super) turns: Turns,
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
    pub(super) fn new(caller: Caller) -> Self {
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

    /// Whether a request is not answered yet.
    pub(super) fn is_occupied(&self) -> bool {
        self.busy.is_some() || self.heavy.is_some() || self.cursor.is_some()
    }
}

impl Sessions {
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

    /// Whether somebody waits for an answer.
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
    fn postpone(&mut self, peer: PeerId, message: ClientToMaster, limits: Limits) -> Result<(), String> {
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

/// Whether a request costs more than a look, and waits for its turn.
fn is_heavy(message: &ClientToMaster) -> bool {
    match message {
        ClientToMaster::Ask(query) => query.cost() == Cost::Heavy,
        ClientToMaster::ChangeConf(change) => match change.as_ref() {
            Change::CancelSelected { .. } => true,
            Change::Cancel(jobs)
            | Change::Hold(jobs)
            | Change::Release(jobs)
            | Change::Requeue(jobs)
            | Change::Priority { jobs, .. } => jobs.len() > DEEDS,
            _ => false,
        },
        _ => false,
    }
}

impl Controller {
    /// Serves a request, or keeps it until those before it are answered.
    pub(super) fn request(&mut self, peer: PeerId, message: ClientToMaster) {
        let Some(client) = self.sessions.clients.get(&peer) else { return };
        if !client.is_occupied() && !self.commits.is_recovering() {
            return self.serve_or_queue(peer, message);
        }
        if let Err(reason) = self.sessions.postpone(peer, message, self.settings.limits) {
            self.close_client(peer, reason);
        }
    }

    fn serve_or_queue(&mut self, peer: PeerId, message: ClientToMaster) {
        if !is_heavy(&message) {
            return self.serve(peer, message);
        }
        let limits = self.settings.limits;
        let Sessions { clients, turns, .. } = &mut self.sessions;
        let Some(client) = clients.get_mut(&peer) else { return };
        let most = most(limits, &client.caller);
        if turns.enter(peer, client.caller.uid, most) {
            client.heavy = Some(message);
            return;
        }
        let reason = format!(
            "{} has {} queries running and {} waiting: the limit is reached",
            client.caller.user, most.running, most.queued
        );
        self.refuse(peer, reason, Some("ask again when one of them is answered"));
    }

    /// Whether [`Controller::turn`] has something to do.
    pub fn has_turn(&self) -> bool {
        !self.sessions.turns.is_empty() && !self.commits.is_recovering()
    }

    /// One slice of the query whose turn it is.
    pub(super) fn turn(&mut self) {
        if self.commits.is_recovering() {
            return;
        }
        let Some(peer) = self.sessions.turns.next() else { return };
        let Some(client) = self.sessions.clients.get_mut(&peer) else { return };
        match client.heavy.take() {
            Some(message) => self.serve(peer, message),
            None if client.busy.is_none() => self.next_page(peer),
            None => {}
        }
        self.serve_backlog(peer);
    }

    /// These jobs, which a client waits for, are over.
    pub(super) fn waited(&mut self, peer: PeerId, jobs: Numbers) {
        if let Some(client) = self.sessions.clients.get_mut(&peer) {
            client.over.push_back(jobs);
            self.serve_backlog(peer);
        }
    }

    /// Goes on with what a client waits for, once everything before it is answered.
    pub(super) fn serve_backlog(&mut self, peer: PeerId) {
        while !self.commits.is_recovering() {
            let limits = self.settings.limits;
            let Sessions { clients, turns, .. } = &mut self.sessions;
            let Some(client) = clients.get_mut(&peer).filter(|client| !client.is_occupied()) else { return };
            let (uid, most) = (client.caller.uid, most(limits, &client.caller));
            turns.over(peer, uid, most);
            if let Some(jobs) = client.over.pop_front() {
                client.cursor = Some(Cursor::reports(jobs));
                return turns.enter_always(peer, uid, most);
            }
            let Some(message) = self.sessions.pop_backlog(peer) else { return };
            self.serve_or_queue(peer, message);
        }
    }

    /// Everything that was sent to a client was taken.
    pub(super) fn drained(&mut self, peer: PeerId) {
        let Sessions { clients, turns, .. } = &mut self.sessions;
        let Some(client) = clients.get_mut(&peer) else { return };
        if client.cursor.is_some() && client.busy.is_none() {
            turns.ready(peer);
        }
        self.send_again(peer);
    }

    /// Answers that are being told end here: what they show may not be on disk. A client is told once; `told` are those
    /// that were told already.
    pub(super) fn drop_cursors(&mut self, told: &BTreeSet<PeerId>, reason: &str) {
        let ends = |client: &ClientPeer| client.cursor.is_some() && client.busy.is_none();
        let peers: Vec<PeerId> =
            self.sessions.clients.iter().filter(|(_, client)| ends(client)).map(|(peer, _)| *peer).collect();
        for peer in peers {
            if let Some(client) = self.sessions.clients.get_mut(&peer) {
                client.cursor = None;
            }
            if !told.contains(&peer) {
                self.tell_client(peer, not_written(reason));
            }
        }
    }

    /// A frame of output did not reach a client, because its user has too much queued.
    pub(super) fn mark_behind(&mut self, peer: PeerId, stream: (JobId, u32)) {
        let Some(client) = self.sessions.clients.get_mut(&peer) else { return };
        let is_first = client.behind.is_empty();
        client.behind.insert(stream);
        if is_first {
            self.effects.push(Effect::WhenDrained(peer));
        }
    }
}
