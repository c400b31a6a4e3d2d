//! Requests of clients. Each client's requests are served in order, and expensive ones in turns and slices.

use std::collections::BTreeSet;

use limo_model::JobId;
use limo_proto::{Change, ClientToMaster, Cost};

use super::commit::not_written;
use super::deeds::DEEDS;
use super::numbers::Numbers;
use super::{Controller, Effect, PeerId};

/// Returns true if a request is expensive and must wait for its turn.
fn is_heavy(message: &ClientToMaster) -> bool {
    match message {
        ClientToMaster::Ask(query) => query.cost() == Cost::Heavy,
        ClientToMaster::ChangeConf(change) => match change.as_ref() {
            Change::CancelSelected { .. } => true,
            change => change.jobs().is_some_and(|jobs| jobs.len() > DEEDS),
        },
        _ => false,
    }
}

impl Controller {
    /// Serves a request, or queues it behind earlier ones.
    pub(super) fn request(&mut self, peer: PeerId, message: ClientToMaster) {
        let Some(client) = self.sessions.get(peer) else { return };
        if !client.is_occupied() && !self.tx.commits.is_recovering() {
            return self.serve_or_queue(peer, message);
        }
        if let Err(reason) = self.sessions.postpone(peer, message, self.tx.settings.limits) {
            self.close_client(peer, reason);
        }
    }

    fn serve_or_queue(&mut self, peer: PeerId, message: ClientToMaster) {
        if !is_heavy(&message) {
            return self.serve(peer, message);
        }
        if let Err(reason) = self.sessions.enter(peer, message, self.tx.settings.limits) {
            self.refuse(peer, reason, Some("ask again when one of them is answered"));
        }
    }

    /// Returns true if [`Controller::turn`] has work.
    pub fn has_turn(&self) -> bool {
        self.sessions.has_turn() && !self.tx.commits.is_recovering()
    }

    /// Serves one slice of the next query.
    pub(super) fn turn(&mut self) {
        if self.tx.commits.is_recovering() {
            return;
        }
        let Some(peer) = self.sessions.next_turn() else { return };
        let Some(client) = self.sessions.get_mut(peer) else { return };
        match client.heavy.take() {
            Some(message) => self.serve(peer, message),
            None if client.busy.is_none() => self.next_page(peer),
            None => {}
        }
        self.serve_backlog(peer);
    }

    /// Handles the end of jobs that a client waits for.
    pub(super) fn waited(&mut self, peer: PeerId, jobs: Numbers) {
        if let Some(client) = self.sessions.get_mut(peer) {
            client.over.push_back(jobs);
            self.serve_backlog(peer);
        }
    }

    /// Serves a client's next request, once all earlier ones are answered.
    pub(super) fn serve_backlog(&mut self, peer: PeerId) {
        while !self.tx.commits.is_recovering() {
            let Some(message) = self.sessions.next_request(peer, self.tx.settings.limits) else { return };
            self.serve_or_queue(peer, message);
        }
    }

    /// Records that a client has read everything that was sent.
    pub(super) fn drained(&mut self, peer: PeerId) {
        self.sessions.drained(peer);
        self.send_again(peer);
    }

    /// Ends unfinished answers, because their content may not be on disk. Each client gets one refusal; `told`
    /// already have it.
    pub(super) fn drop_cursors(&mut self, told: &BTreeSet<PeerId>, reason: &str) {
        for peer in self.sessions.being_told() {
            if let Some(client) = self.sessions.get_mut(peer) {
                client.cursor = None;
            }
            if !told.contains(&peer) {
                self.tell_client(peer, not_written(reason));
            }
        }
    }

    /// Records that a frame of output was dropped, because the queue of the client's user is too large.
    pub(super) fn mark_behind(&mut self, peer: PeerId, stream: (JobId, u32)) {
        let Some(client) = self.sessions.get_mut(peer) else { return };
        let is_first = client.behind.is_empty();
        client.behind.insert(stream);
        if is_first {
            self.tx.effects.push(Effect::WhenDrained(peer));
        }
    }
}
