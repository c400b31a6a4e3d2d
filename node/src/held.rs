//! Attempts that shepherds hold, from the launch until the end is recorded.

use std::time::Duration;

use limo_model::{Attempt as Number, JobId};
use limo_shepherd::Handle;
use limo_shepherd::processes::Mark;
use tracing::error;

use super::Node;
use crate::attempt::{State, Swept, lost};
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::survivor::SHEPHERD_KILLED;

/// Time for the other processes of a job to disappear after KILL; only an uninterruptible wait takes longer.
const SWEEP: Duration = Duration::from_secs(5);

/// Attempt that a shepherd holds, or held when it was killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    pub(super) number: Number,
    /// Name at the shepherd; `None` if the shepherd was killed.
    pub(super) handle: Option<Handle>,
    /// User of the job's processes.
    pub(super) uid: u32,
}

impl Node {
    /// Handles a killed shepherd: its job is killed, and the outcome is unknown.
    pub(super) fn shepherd_lost(&mut self, handle: Handle) {
        self.effect(Effect::KillOrphans);
        let held = self.holding.iter_mut().find(|(_, held)| held.handle == Some(handle));
        let uid = held.map(|(_, held)| {
            held.handle = None;
            held.uid
        });
        let (Some((job, number)), Some(uid)) = (self.job_of(handle), uid) else { return };
        error!(%job, attempt = %number, "lshepherd was killed; its job is lost");
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let mark = Mark { cookie: attempt.cookie.clone(), uid };
        attempt.state = match &attempt.state {
            State::Sweeping(swept) => State::Sweeping(Swept { handle: None, ..swept.clone() }),
            _ => State::Sweeping(Swept { end: lost(SHEPHERD_KILLED), handle: None }),
        };
        self.energy_ends(job, None);
        self.work_ends(job, None);
        self.end_steps(job);
        if let Some(streams) = self.streams.get_mut(&job) {
            // The streams of a command that never ran end here.
            streams.close_unused();
        }
        self.send_output(job);
        if !faults::has(Fault::LossUntold) {
            self.effect(Effect::Sweep { job, attempt: number, mark, patience: SWEEP });
        }
    }

    /// Lets the shepherd of an attempt forget it: the end is recorded, or the master has it.
    pub(super) fn release(&mut self, job: JobId, number: Number) {
        if let Some(held) = self.holding.get(&job).filter(|held| held.number == number) {
            let handle = held.handle;
            self.holding.remove(&job);
            self.effect(Effect::Release { job, attempt: number, handle });
        }
    }
}
