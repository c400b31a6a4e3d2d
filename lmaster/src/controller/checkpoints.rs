//! Checkpoints of jobs: the orders for their nodes, and what the nodes report about them.

use limo_model::{
    Attempt, CHECKPOINT_COMMAND_LIMIT, Checkpoint, CheckpointBy, JobId, Kept, NodeId, Request, Restart, Span,
};
use limo_proto::AttemptReport;
use limo_sched::Event;

use super::Controller;
use super::submit::check_signal;

/// Checks what a request says about checkpoints.
///
/// # Errors
/// If a part is missing or wrong.
pub(super) fn check(request: &Request) -> Result<(), String> {
    let (by, every) = match (by(&request.restart), request.restart.checkpoint) {
        (None, None) => return Ok(()),
        (Some(by), Some(every)) => (by, every),
        _ => return Err("checkpoints need a signal or a command, and a time between two of them".into()),
    };
    if !request.may_requeue {
        return Err("only a job that may run again makes checkpoints".into());
    }
    match by {
        CheckpointBy::Signal(signal) => check_signal(signal)?,
        CheckpointBy::Command(command) if !(1..=CHECKPOINT_COMMAND_LIMIT).contains(&command.len()) => {
            let (length, limit) = (command.len(), CHECKPOINT_COMMAND_LIMIT);
            return Err(format!("the command for checkpoints has {length} bytes, which is not between 1 and {limit}"));
        }
        CheckpointBy::Command(command) if command.contains('\0') => {
            return Err("the command for checkpoints contains a NUL byte".into());
        }
        CheckpointBy::Command(_) => {}
    }
    every.checked().map(drop).map_err(|error| format!("the time between checkpoints: {error}"))
}

/// Returns the way to make checkpoints, if exactly one is given.
fn by(restart: &Restart) -> Option<CheckpointBy> {
    match (restart.signal, &restart.command) {
        (Some(signal), None) => Some(CheckpointBy::Signal(signal)),
        (None, Some(command)) => Some(CheckpointBy::Command(command.clone())),
        _ => None,
    }
}

impl Controller {
    /// Returns the order for the nodes of an assigned job.
    pub(super) fn checkpoint_order(&self, job: JobId, request: &Request) -> Option<Checkpoint> {
        let every = self.tx.core.checkpoint_every(self.tx.now, job)?;
        by(&request.restart).map(|by| Checkpoint { by, every })
    }

    /// Records the last checkpoint of an attempt, and the failure of a later one.
    pub(super) fn checkpointed(&mut self, node: NodeId, (job, attempt): (JobId, Attempt), kept: Kept) {
        let Kept { ran, took, failed } = kept;
        let is_new = |job: &limo_sched::Job| {
            let before = job.kept_so_far() - job.kept.ran;
            job.running().is_some() && (ran > before || (ran == before && failed != job.checkpoint_failed()))
        };
        if self.is_on(node, job, attempt) && self.tx.core.job(job).is_some_and(is_new) {
            self.tx.must(Event::Checkpointed { job, attempt, ran, took: took.max(Span::ZERO), failed });
        }
    }

    /// Records what a registration says about checkpoints.
    pub(super) fn checkpoints_introduced(&mut self, node: NodeId, attempts: &[AttemptReport]) {
        for AttemptReport { job, attempt, checkpointed, .. } in attempts {
            checkpointed.iter().for_each(|kept| self.checkpointed(node, (*job, *attempt), *kept));
        }
    }
}
