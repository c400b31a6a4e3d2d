//! Queries of a node's hardware. An operator's query is passed on to the node, and answered with the node's report or
//! the reason for its absence.

use std::collections::BTreeMap;

use limo_model::{NodeId, Span, Time};
use limo_proto::{Answer, MasterToClient, MasterToNode, NodeDetail, NodeQuery};

use super::queries::Serve;
use super::{Controller, PeerId, Ticket};

/// Longest wait for a report: more than a node with responsive devices needs. An unresponsive device may take 5 s.
const PATIENCE: Span = Span::from_secs(10);

/// A queried node.
#[derive(Debug)]
struct Probe {
    client: PeerId,
    node: NodeId,
    until: Time,
}

/// The queried nodes, by the ticket of each query.
#[derive(Debug, Default)]
pub(super) struct Probes(BTreeMap<Ticket, Probe>);

impl Probes {
    /// Returns the time at which the next answer is late.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.values().map(|probe| probe.until).min()
    }

    /// Drops the queries of a disconnected client.
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
        // A probe takes the node seconds, and queries its devices.
        if self.caller(client).is_none_or(|caller| !caller.operator) {
            let reason = "only an operator may inspect the devices of a node";
            return self.detail(client, node, Err(reason.to_owned()));
        }
        let Some(link) = self.link(node) else {
            return self.detail(client, node, Err("the node is unreachable".to_owned()));
        };
        let ticket = self.questions.ticket();
        self.occupy(client, ticket);
        self.questions.probes.0.insert(ticket, Probe { client, node, until: self.tx.now + PATIENCE });
        self.tell_node(link, MasterToNode::Probe { ticket: ticket.0 });
    }

    /// Handles a node's report. It is dropped if the client has disconnected.
    pub(super) fn probed(&mut self, node: NodeId, (ticket, report): (u64, String)) {
        if self.questions.probes.0.get(&Ticket(ticket)).is_some_and(|probe| probe.node == node) {
            self.close_probe(Ticket(ticket), Ok(report));
        }
    }

    /// Handles the broken connection of a node.
    pub(super) fn probes_broke(&mut self, node: NodeId) {
        self.measures_broke(node);
        let reason = "the connection to the node broke before it answered";
        for ticket in self.questions.probes.matching(|probe| probe.node == node) {
            self.close_probe(ticket, Err(reason.to_owned()));
        }
    }

    pub(super) fn probes_due(&mut self) {
        let now = self.tx.now;
        for ticket in self.questions.probes.matching(|probe| probe.until <= now) {
            self.close_probe(ticket, Err(format!("the node has not answered for {PATIENCE}")));
        }
    }

    /// Answers all queries with a refusal, because the journal cannot be written.
    pub(super) fn drop_probes(&mut self, refusal: &MasterToClient) {
        for (ticket, probe) in std::mem::take(&mut self.questions.probes.0) {
            self.free(probe.client, ticket);
            self.tell_client(probe.client, refusal.clone());
        }
    }

    fn close_probe(&mut self, ticket: Ticket, probe: Result<String, String>) {
        let Some(Probe { client, node, .. }) = self.questions.probes.0.remove(&ticket) else { return };
        self.free(client, ticket);
        self.detail(client, node, probe);
        self.serve_backlog(client);
    }

    fn detail(&mut self, client: PeerId, node: NodeId, probe: Result<String, String>) {
        let Some(node) = self.tx.core.node(node) else { return };
        let report = self.node_report(node, &self.tx.core.jobs_on(node.id()));
        self.say(client, Answer::Node(Box::new(NodeDetail { report, probe })));
    }
}
