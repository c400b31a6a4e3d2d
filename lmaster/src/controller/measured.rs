//! Resources that running jobs have used so far: the nodes of a job are asked when a client asks, and answered or late ones
//! end the query.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, NodeId, Span, Time};
use limo_proto::{Answer, LiveUsage, MasterToClient, MasterToNode, UsageQuery, UsageReport};
use limo_sched::Phase;

use super::multi_node::nodes_of;
use super::queries::Serve;
use super::{Controller, PeerId, Ticket};

/// Longest wait for the nodes. Each reads a few files.
const PATIENCE: Span = Span::from_secs(5);

/// A query of a client.
#[derive(Debug)]
struct Measure {
    client: PeerId,
    /// Nodes that have not answered.
    open: BTreeSet<NodeId>,
    report: UsageReport,
    until: Time,
}

/// The open queries, by their tickets. A client has one at most.
#[derive(Debug, Default)]
pub(super) struct Measures(BTreeMap<Ticket, Measure>);

impl Measures {
    /// Returns the time at which the next answer is late.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.values().map(|measure| measure.until).min()
    }

    /// Drops the queries of a disconnected client.
    pub(super) fn client_gone(&mut self, client: PeerId) {
        self.0.retain(|_, measure| measure.client != client);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Serve for UsageQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.measure(peer, self.0);
    }
}

impl Controller {
    fn measure(&mut self, client: PeerId, job: JobId) {
        let Some(Phase::Running(assignment, ..) | Phase::Suspended(assignment, ..)) =
            self.tx.core.job(job).map(|job| &job.phase)
        else {
            return self.say(client, Answer::Usage(UsageReport::default()));
        };
        let (attempt, nodes) = (assignment.attempt, nodes_of(assignment));
        let report = UsageReport { nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX), ..UsageReport::default() };
        let links: Vec<(NodeId, PeerId)> =
            nodes.into_iter().filter_map(|node| Some((node, self.link(node)?))).collect();
        if links.is_empty() {
            return self.say(client, Answer::Usage(report));
        }
        let ticket = self.questions.ticket();
        self.occupy(client, ticket);
        let open = links.iter().map(|(node, _)| *node).collect();
        let measure = Measure { client, open, report, until: self.tx.now + PATIENCE };
        self.questions.measures.0.insert(ticket, measure);
        for (_, link) in links {
            self.tell_node(link, MasterToNode::Measure { ticket: ticket.0, job, attempt });
        }
    }

    /// Handles the answer of a node.
    pub(super) fn measured(&mut self, node: NodeId, ticket: u64, used: Option<&LiveUsage>) {
        let ticket = Ticket(ticket);
        let Some(measure) = self.questions.measures.0.get_mut(&ticket) else { return };
        if !measure.open.remove(&node) {
            return;
        }
        if let Some(used) = used {
            measure.report.add(&self.tx.name_of(node), used);
        }
        if measure.open.is_empty() {
            self.close_measure(ticket);
        }
    }

    /// Handles the broken connection of a node.
    pub(super) fn measures_broke(&mut self, node: NodeId) {
        let open = self.questions.measures.0.iter().filter(|(_, measure)| measure.open.contains(&node));
        for Ticket(ticket) in open.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
            self.measured(node, ticket, None);
        }
    }

    pub(super) fn measures_due(&mut self) {
        let now = self.tx.now;
        let late = self.questions.measures.0.iter().filter(|(_, measure)| measure.until <= now);
        for ticket in late.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
            self.close_measure(ticket);
        }
    }

    /// Answers all queries with a refusal, because the journal cannot be written.
    pub(super) fn drop_measures(&mut self, refusal: &MasterToClient) {
        for (ticket, measure) in std::mem::take(&mut self.questions.measures.0) {
            self.free(measure.client, ticket);
            self.tell_client(measure.client, refusal.clone());
        }
    }

    fn close_measure(&mut self, ticket: Ticket) {
        let Some(Measure { client, report, .. }) = self.questions.measures.0.remove(&ticket) else { return };
        self.free(client, ticket);
        self.say(client, Answer::Usage(report));
        self.serve_backlog(client);
    }
}
