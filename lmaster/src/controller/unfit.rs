//! Nodes whose prolog or epilog failed: they are drained, and a job that was not prepared waits again.

use limo_model::{Attempt, JobId, NodeId, Outcome, Usage};
use limo_sched::Event;

use super::Controller;

/// Author of a change that a node asked for.
const NODE: &str = "lslave";

impl Controller {
    /// Drains a node at its own request. An earlier reason stays.
    pub(super) fn is_unfit(&mut self, node: NodeId, reason: String) {
        let name = self.tx.name_of(node);
        tracing::error!(node = name, reason, "node drained; when it is repaired, run `lconf node resume {name}`");
        if self.tx.core.node(node).is_some_and(|node| node.drained().is_none()) {
            self.tx.must(Event::NodeDrained { node, reason, by: NODE.to_owned() });
        }
    }

    /// Records the end of an attempt on its last node. An attempt that was not prepared has not run, so it is taken back
    /// unless its start is recorded; then the core requeues the job.
    pub(super) fn attempt_over(&mut self, (job, attempt): (JobId, Attempt), how: (Outcome, Usage)) {
        match how {
            (Outcome::NotPrepared { reason }, _) if self.is_starting(job) => self.take_back(job, attempt, &reason),
            (outcome, usage) => self.tx.must(Event::Ended { job, attempt, outcome, usage }),
        }
    }
}
