//! Clients: their connections, their notifications, and the order of their requests.

use limo_model::{JobId, host_list};
use limo_proto::{ClientToMaster, Frame, JobReport, MasterToClient};

use super::commit::{After, not_written};
use super::lookup::Lookup;
use super::multi_node::nodes_of;
use super::read_only::changes_nothing;
use super::submit::Attach;
use super::{Caller, Controller, Effect, PeerId, Question, Reply, Ticket};
use crate::audit::AuditKind;
use crate::privacy;

/// Most requests that a client may send before the answer to an earlier one.
pub(super) const BACKLOG_LIMIT: usize = 1024;

impl Controller {
    pub(super) fn client_connected(&mut self, peer: PeerId, caller: Caller) {
        self.sessions.connected(peer, caller);
    }

    pub(super) fn client_gone(&mut self, peer: PeerId) {
        if !self.sessions.remove(peer, self.tx.settings.limits) {
            return;
        }
        self.backup_unwanted(peer);
        self.questions.probes.client_gone(peer);
        self.questions.measures.client_gone(peer);
        let give_up_at = self.tx.now + self.tx.settings.orphan_grace;
        self.routes.client_gone(peer, give_up_at);
    }

    pub(super) fn close_client(&mut self, peer: PeerId, reason: String) {
        if self.sessions.contains(peer) {
            self.client_gone(peer);
            self.tx.effects.push(Effect::Close(peer, reason));
        }
    }

    /// Closes the connection of a client that returns to its job: it calls again, and a refusal would end it.
    pub(super) fn returns_later(&mut self, peer: PeerId) {
        self.close_client(peer, "the journal cannot be written at present".into());
    }

    pub(super) fn tell_client(&mut self, peer: PeerId, mut message: MasterToClient) {
        let Some(client) = self.sessions.get(peer) else { return };
        if self.tx.settings.hides_commands && !client.caller.operator {
            privacy::hide(&mut message, &client.caller.user);
        }
        let is_piece = matches!(message, MasterToClient::Piece(_));
        self.tx.effects.push(Effect::ToClient(peer, Frame::Message(message)));
        if is_piece {
            self.tx.effects.push(Effect::WhenDrained(peer));
        }
    }

    pub(super) fn caller(&self, peer: PeerId) -> Option<&Caller> {
        self.sessions.get(peer).map(|client| &client.caller)
    }

    /// Answers after all earlier answers to the client.
    pub(super) fn answer(&mut self, peer: PeerId, message: MasterToClient) {
        self.after(After::Answer(peer, message));
    }

    pub(super) fn refuse(&mut self, peer: PeerId, reason: impl Into<String>, hint: Option<&str>) {
        let (reason, hint) = (reason.into(), hint.map(str::to_owned));
        self.audit_client(peer, AuditKind::Refused, &reason);
        self.after_read(After::Answer(peer, MasterToClient::Refused { reason, hint }));
    }

    /// Queries a database for a client, whose further requests wait.
    pub(super) fn ask<L: Lookup>(&mut self, peer: PeerId, lookup: L) {
        if let Some(client) = self.sessions.get_mut(peer) {
            let ticket = self.questions.ask(peer);
            client.busy = Some(ticket);
            let question = Question::new(lookup);
            if L::AT_ONCE {
                self.tx.effects.push(Effect::Ask(ticket, question));
            } else {
                self.after_read(After::Ask(ticket, question));
            }
        }
    }

    pub(super) fn answered(&mut self, ticket: Ticket, reply: Reply) {
        if self.tx.commits.is_recovering() {
            // The result must be applied to the state that is being read back.
            return self.questions.postpone(ticket, reply);
        }
        let Some(peer) = self.questions.answered(ticket) else { return };
        let can_follow = self.tx.commits.is_open() || (self.tx.commits.is_read_only() && !reply.changes_something());
        let reply = if can_follow { reply } else { reply.fail(self.not_open()) };
        self.free(peer, ticket);
        let closes = reply.closes();
        if let Err(reason) = reply.follow(self, peer) {
            if closes {
                return self.close_client(peer, reason);
            }
            if let Some(client) = self.sessions.get_mut(peer) {
                client.cursor = None;
            }
            self.tell_client(peer, MasterToClient::Refused { reason, hint: None });
        }
        self.serve_backlog(peer);
    }

    /// Makes a client's further requests wait for this one.
    pub(super) fn occupy(&mut self, peer: PeerId, ticket: Ticket) {
        if let Some(client) = self.sessions.get_mut(peer) {
            client.busy = Some(ticket);
        }
    }

    /// Unblocks the client's queued requests.
    pub(super) fn free(&mut self, peer: PeerId, ticket: Ticket) {
        if let Some(client) = self.sessions.get_mut(peer).filter(|client| client.busy == Some(ticket)) {
            client.busy = None;
        }
    }

    fn not_open(&self) -> String {
        format!("the journal cannot be written: {}", self.tx.commits.trouble().unwrap_or("it is being read back"))
    }

    /// Serves queued requests after the attempt to read the state back.
    pub(super) fn serve_backlogs(&mut self) {
        for (ticket, reply) in self.questions.take_postponed() {
            self.answered(ticket, reply);
        }
        for peer in self.sessions.peers() {
            self.serve_backlog(peer);
        }
    }

    pub(super) fn client_frame(&mut self, peer: PeerId, frame: Frame<ClientToMaster>) {
        if !self.sessions.contains(peer) {
            return;
        }
        match frame {
            Frame::Data(data) => self.input(peer, data),
            // Stdio never waits.
            Frame::Message(ClientToMaster::StreamAck { stream, offset }) => self.output_taken(peer, stream, offset),
            Frame::Message(message) => self.request(peer, message),
        }
    }

    pub(super) fn serve(&mut self, peer: PeerId, message: ClientToMaster) {
        if !(self.tx.commits.is_open() || (self.tx.commits.is_read_only() && changes_nothing(&message))) {
            let reason = self.tx.commits.trouble().unwrap_or("it is being read back").to_owned();
            return match message {
                ClientToMaster::Attach { .. } => self.returns_later(peer),
                _ => self.tell_client(peer, not_written(&reason)),
            };
        }
        let may_only_ask = self.caller(peer).is_some_and(|caller| caller.may_only_ask);
        if may_only_ask && !matches!(message, ClientToMaster::Ask(_)) {
            return self.refuse(peer, "the certificate is of role read-only, which may only ask", None);
        }
        match message {
            ClientToMaster::SendExec(exec) => self.submit(peer, exec),
            ClientToMaster::Attach { job, key, stdout, stderr, more } => {
                let read = std::iter::once((stdout, stderr)).chain(more).collect();
                self.attach(peer, Attach { job, key, read });
            }
            ClientToMaster::TakeUp { job, take } => self.take_streams(peer, job, take),
            ClientToMaster::Signal { job, signal } => self.signal(peer, job, signal),
            ClientToMaster::StreamAck { stream, offset } => self.output_taken(peer, stream, offset),
            ClientToMaster::Ask(query) => self.query(peer, *query),
            ClientToMaster::ChangeConf(change) => self.change(peer, *change),
            ClientToMaster::Resize { job, size } => self.resize(peer, job, size),
            // This message of a submit host is handled before it reaches the controller.
            ClientToMaster::OnBehalf { .. } => {
                self.refuse(peer, "only a submit host may act for others, and for one user of a connection", None);
            }
        }
    }

    /// Sends a message to the client of an attached job.
    pub(super) fn notify(&mut self, job: JobId, message: MasterToClient) {
        if let Some(client) = self.routes.client(job) {
            self.tell_client(client, message);
        }
    }

    /// Tells the client where its job runs, and opens the streams. This need not wait for the disk, because the node
    /// reports the start again to a later process.
    pub(super) fn after_start(&mut self, job: JobId) {
        let Some(assignment) = self.tx.core.job(job).and_then(|found| found.assignment()) else { return };
        let Some(unit) = assignment.placement.first().map(|part| part.unit) else { return };
        let all = nodes_of(assignment);
        let Some(node) = self.tx.core.node(unit.node).map(limo_sched::Node::spec) else { return };
        let Some(spec) = node.units.get(usize::from(unit.unit)) else { return };
        let names = all.iter().filter_map(|node| self.tx.core.node(*node)).map(|node| node.spec().name.as_str());
        let (node, unit) = (if all.len() > 1 { host_list(names) } else { node.name.clone() }, spec.name.clone());
        self.release(After::Running(job, node, unit));
    }

    /// Tells the client of a job's end, which is on disk.
    pub(super) fn finished(&mut self, report: Box<JobReport>) {
        let job = report.job;
        // An array stays known until it is over itself.
        let (tasks, much_freed) = self.submissions.remove(job);
        if much_freed {
            self.tx.effects.push(Effect::GiveBack);
        }
        self.assignments.over(job);
        self.notify(job, MasterToClient::Finished { job, report: report.clone() });
        self.streams_of_finished(&report);
        self.waited_for(job, tasks);
    }
}
