//! Restarts of evicted jobs: their limits, and the work that checkpoints keep (htc-sim-2015, sections III-E and VI).

use limo_model::{Attempt, CheckpointFailure, JobId, Kept, RestartLimits, Span, StopReason, Time};

use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Job, Phase, Running};

impl Job {
    /// Returns the running time up to its last checkpoint, in all attempts together.
    pub fn kept_so_far(&self) -> Span {
        self.kept.ran + self.running().and_then(|running| running.kept).map_or(Span::ZERO, |kept| kept.ran)
    }

    /// Returns the reason, if a checkpoint has failed since its last one.
    pub fn checkpoint_failed(&self) -> Option<CheckpointFailure> {
        self.running().and_then(|running| running.kept).unwrap_or(self.kept).failed
    }

    /// Returns the time for which its attempt has run, without the time for which it was suspended.
    pub(crate) fn worked(&self, now: Time) -> Span {
        let (held, until) = match &self.phase {
            Phase::Running(assignment, _) => (assignment.held, now),
            Phase::Suspended(assignment, _, causes) => (assignment.held, causes.since()),
            Phase::Waiting(_) | Phase::Starting(_) => return Span::ZERO,
        };
        let ran = |running: &Running| (until - running.started - held.max(Span::ZERO)).max(Span::ZERO);
        self.running().map_or(Span::ZERO, ran)
    }
}

/// Records a checkpoint. It keeps at most what the attempt has run; an older one than the last is ignored.
pub(super) fn checkpointed(
    cluster: &mut Cluster,
    now: Time,
    (id, attempt): (JobId, Attempt),
    kept: Kept,
) -> Result<(), Refused> {
    let job = cluster.state.jobs.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    let ran = kept.ran.clamp(Span::ZERO, job.worked(now));
    let Some((_, running)) = job.running_mut().filter(|(assignment, _)| assignment.attempt == attempt) else {
        return Err(Refused::OldAttempt { job: id, attempt });
    };
    if running.kept.is_none_or(|before| before.ran <= ran) {
        running.kept = Some(Kept { ran, took: kept.took.max(Span::ZERO), ..kept });
    }
    Ok(())
}

/// Counts the end of an attempt that ran for `ran`, if an eviction is its reason. If this exceeds a limit, the job is
/// given up.
pub(super) fn count(job: &mut Job, limits: &RestartLimits, (stopped, ran): (&mut Option<StopReason>, Span)) {
    let Some(StopReason::Evicted { node, why }) = stopped else { return };
    job.evictions.count(*why);
    let limits = RestartLimits { restarts: job.request.restart.most.or(limits.restarts), ..*limits };
    if let Some(limit) = limits.exceeded(job.evictions, *why, ran) {
        *stopped = Some(StopReason::GivenUp { node: std::mem::take(node), why: *why, limit });
    }
}

/// Adds the kept work of an attempt to that of earlier ones.
pub(super) fn keep(job: &mut Job, kept: Option<Kept>) {
    if let Some(Kept { ran, took, failed }) = kept {
        let took = if ran > Span::ZERO { took } else { job.kept.took };
        job.kept = Kept { ran: job.kept.ran + ran, took, failed };
    }
}
