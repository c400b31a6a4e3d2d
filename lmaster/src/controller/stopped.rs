//! Nodes whose jobs an operator ends at once, for example before a repair.

use std::collections::BTreeSet;

use limo_model::{JobId, NodeId};
use limo_sched::{Event, Refused};

use super::commit::done;
use super::{Controller, PeerId};

impl Controller {
    /// Drains all of these nodes, or none, and ends their jobs. Requeueable ones run again on other nodes, others are
    /// cancelled.
    pub(super) fn stop_nodes(&mut self, peer: PeerId, names: &[String], (reason, by): (&str, &str)) {
        let nodes: BTreeSet<NodeId> = match names.iter().map(|name| self.node(name)).collect::<Result<_, Refused>>() {
            Ok(nodes) => nodes,
            Err(refused) => return self.refuse(peer, refused.to_string(), None),
        };
        // All are drained first, so that no requeued job starts on one of them.
        for &node in &nodes {
            self.tx.must(Event::NodeDrained { node, reason: reason.to_owned(), by: by.to_owned() });
        }
        let jobs: BTreeSet<JobId> = nodes.iter().flat_map(|node| self.tx.core.jobs_on(*node)).collect();
        for job in jobs {
            match self.tx.core.check_requeue(job) {
                Ok(()) => self.tx.must(Event::RequeueRequested { job, by: by.to_owned() }),
                Err(Refused::MayNotRunAgain { .. }) => self.tx.must(Event::CancelRequested { job, by: by.to_owned() }),
                // The job is being ended already.
                Err(_) => {}
            }
        }
        self.after(done(peer));
    }
}
