//! What a node has, as it says itself: an operator's question, which is passed on to the node and answered when the node
//! answers, or says why it does not.

use std::collections::BTreeMap;

use limo_model::{NodeId, Span, Time};
use limo_proto::{Answer, MasterToClient, MasterToNode, NodeDetail, NodeQuery};

use super::queries::Serve;
use super::{Controller, PeerId, Ticket};
use crate::report;

/// Longer than a node needs whose devices answer; one that does not may take 5 s.
const PATIENCE: Span = Span::from_secs(10);

/// A node that was asked.
#[derive(Debug)]
struct Probe {
    client: PeerId,
    node: NodeId,
    until: Time,
}

/// The nodes that were asked, by the ticket of each question.
#[derive(Debug, Default)]
pub(super) struct Probes(BTreeMap<Ticket, Probe>);

impl Probes {
    /// When the next of them is late.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.values().map(|probe| probe.until).min()
    }

    /// Nobody waits for the answers any more.
    pub(super) fn client_gone(&mut self, client: PeerId) {
        self.0.retain(|_, probe| probe.client != client);
    }

    fn matching(&self, is_meant: impl Fn(&Probe) -> bool) -> Vec<Ticket> {
        self.0.iter().filter(|(_, probe)| is_meant(probe)).map(|(ticket, _)| *ticket).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Serve for NodeQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.probe(peer, &self.0);
    }
}

impl Controller {
    fn probe(&mut self, client: PeerId, name: &str) {
        let node = match self.node(name) {
            Ok(node) => node,
            Err(refused) => return self.refuse(client, refused.to_string(), None),
        };
        // Looking costs the node seconds, and asks its devices.
        if self.caller(client).is_none_or(|caller| !caller.operator) {
            let reason = "only root and the user that runs the master may let a node look at its devices";
            return self.detail(client, node, Err(reason.to_owned()));
        }
        let Some(link) = self.link(node) else {
            return self.detail(client, node, Err("the node is away".to_owned()));
        };
        let ticket = self.questions.ticket();
        self.occupy(client, ticket);
        self.probes.0.insert(ticket, Probe { client, node, until: self.now + PATIENCE });
        self.tell_node(link, MasterToNode::Probe { ticket: ticket.0 });
    }

    /// A node says what it has. What nobody waits for any more is dropped.
    pub(super) fn probed(&mut self, node: NodeId, (ticket, report): (u64, String)) {
        if self.probes.0.get(&Ticket(ticket)).is_some_and(|probe| probe.node == node) {
            self.close_probe(Ticket(ticket), Ok(report));
        }
    }

    /// The connection of a node broke.
    pub(super) fn probes_broke(&mut self, node: NodeId) {
        let reason = "the connection to the node broke before it answered";
        for ticket in self.probes.matching(|probe| probe.node == node) {
            self.close_probe(ticket, Err(reason.to_owned()));
        }
    }

    pub(super) fn probes_due(&mut self) {
        let now = self.now;
        for ticket in self.probes.matching(|probe| probe.until <= now) {
            self.close_probe(ticket, Err(format!("the node has not answered for {PATIENCE}")));
        }
    }

    /// The journal cannot be written: nobody is answered but with that.
    pub(super) fn drop_probes(&mut self, refusal: &MasterToClient) {
        for (ticket, probe) in std::mem::take(&mut self.probes.0) {
            self.free(probe.client, ticket);
            self.tell_client(probe.client, refusal.clone());
        }
    }

    fn close_probe(&mut self, ticket: Ticket, probe: Result<String, String>) {
        let Some(Probe { client, node, .. }) = self.probes.0.remove(&ticket) else { return };
        self.free(client, ticket);
        self.detail(client, node, probe);
        self.serve_backlog(client);
    }

    fn detail(&mut self, client: PeerId, node: NodeId, probe: Result<String, String>) {
        let Some(node) = self.core.node(node) else { return };
        let report = report::node(&self.core, node, self.now);
        self.say(client, Answer::Node(Box::new(NodeDetail { report, probe })));
    }
}
