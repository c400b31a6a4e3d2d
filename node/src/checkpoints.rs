//! Reports of checkpoints. `lshepherd` has the timer, so that checkpoints go on without this daemon. The node keeps the last
//! report of each attempt: one that could not be sent is replaced by the next.

use limo_model::{Checkpoint, CheckpointBy, Kept};
use limo_proto::NodeToMaster;
use limo_shepherd::Handle;

use tracing::warn;

use super::Node;
use super::lease::ms;

/// The last checkpoint of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointed {
    pub kept: Kept,
    /// True if it was sent. A registration sends it again.
    pub is_told: bool,
}

/// Returns the checkpoints in the words of an order to `lshepherd`.
pub(super) fn timed(checkpoint: &Checkpoint) -> (Option<i32>, u64) {
    let signal = match checkpoint.by {
        CheckpointBy::Signal(signal) => Some(signal),
        CheckpointBy::Command(_) => None,
    };
    (signal, ms(checkpoint.every))
}

impl Node {
    /// Handles a checkpoint of a job.
    pub(super) fn checkpointed(&mut self, handle: Handle, kept: Kept) {
        let Some((job, number)) = self.job_of(handle) else { return };
        let Some(attempt) = self.attempts.find(job, number) else { return };
        attempt.checkpointed = Some(Checkpointed { kept, is_told: false });
        if let Some(failure) = kept.failed {
            warn!(%job, attempt = %number, %failure, "a checkpoint failed: the last one is kept");
        }
        self.tell_checkpoints();
    }

    /// Tells a master that reads fast enough about checkpoints.
    pub(super) fn tell_checkpoints(&mut self) {
        if self.is_behind || !self.is_registered() {
            return;
        }
        let mut news = Vec::new();
        for (&job, attempt) in &mut self.attempts.known {
            let number = attempt.number;
            if let Some(last) = attempt.checkpointed.as_mut().filter(|last| !last.is_told) {
                last.is_told = true;
                news.push(NodeToMaster::Checkpointed { job, attempt: number, kept: last.kept });
            }
        }
        news.into_iter().for_each(|message| self.send(message));
    }
}
