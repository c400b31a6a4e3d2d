//! Checkpoints of jobs: the orders for their nodes, and what the nodes report about them.

use limo_model::{Attempt, Checkpoint, JobId, NodeId, Request, Span};
use limo_proto::AttemptReport;
use limo_sched::Event;

use super::Controller;
use super::submit::check_signal;

/// Checks what a request says about checkpoints.
///
/// # Errors
/// If a part is missing or wrong.
pub(super) fn check(request: &Request) -> Result<(), String> {
    let (signal, every) = match (request.restart.signal, request.restart.checkpoint) {
        (None, None) => return Ok(()),
        (Some(signal), Some(every)) => (signal, every),
        _ => return Err("checkpoints need a signal and a time between two of them".into()),
    };
    if !request.may_requeue {
        return Err("only a job that may run again makes checkpoints".into());
    }
    check_signal(signal)?;
    every.checked().map(drop).map_err(|error| format!("the time between checkpoints: {error}"))
}

impl Controller {
    /// Returns the order for the nodes of an assigned job.
    pub(super) fn checkpoint_order(&self, job: JobId, request: &Request) -> Option<Checkpoint> {
        let every = self.tx.core.checkpoint_every(self.tx.now, job)?;
        request.restart.signal.map(|signal| Checkpoint { signal, every })
    }

    /// Records the last checkpoint of an attempt. A node does not know how long one takes.
    pub(super) fn checkpointed(&mut self, node: NodeId, (job, attempt): (JobId, Attempt), ran: Span) {
        let is_new = |job: &limo_sched::Job| job.running().is_some() && ran > job.kept_so_far() - job.kept.ran;
        if self.is_on(node, job, attempt) && self.tx.core.job(job).is_some_and(is_new) {
            self.tx.must(Event::Checkpointed { job, attempt, ran, took: Span::ZERO });
        }
    }

    /// Records what a registration says about checkpoints.
    pub(super) fn checkpoints_introduced(&mut self, node: NodeId, attempts: &[AttemptReport]) {
        for AttemptReport { job, attempt, checkpointed, .. } in attempts {
            checkpointed.iter().for_each(|ran| self.checkpointed(node, (*job, *attempt), *ran));
        }
    }
}
