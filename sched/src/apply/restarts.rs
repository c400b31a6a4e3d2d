//! Restarts of evicted jobs: their limits, and the work that checkpoints keep (htc-sim-2015, sections III-E and VI).

use std::collections::BTreeSet;

use limo_model::{
    Attempt, CheckpointFailure, JobId, Kept, Outcome, Placement, RestartLimits, Span, StopReason, Time, nodes,
};

use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::{Job, Phase, Running, State, group_place, hour_of_week};

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

/// An attempt that is over and has run.
pub(super) struct RanAttempt<'a> {
    pub started: Time,
    /// Running time, without suspensions.
    pub worked: Span,
    /// The work that its checkpoints keep.
    pub kept: Option<Kept>,
    pub placement: &'a Placement,
    pub outcome: &'a Outcome,
}

/// Handles the end of an attempt; `stopped` is the reason, if it did not end by itself.
pub(super) fn over(state: &mut State, job: &mut Job, ran: &RanAttempt<'_>, stopped: &mut Option<StopReason>) {
    learn(state, ran, stopped.as_ref());
    count(job, &state.settings.options.restarts, (stopped, ran.worked));
    keep(job, ran.kept);
}

/// Lets the rank `learned` learn from an attempt: the time whose work is kept minus that whose work is wasted. The end of a
/// node says nothing about its owner.
fn learn(state: &mut State, ran: &RanAttempt<'_>, stopped: Option<&StopReason>) {
    let is_lost = matches!(ran.outcome, Outcome::Lost { .. } | Outcome::NodeFailed { .. });
    if !state.learns() || is_lost || ran.worked <= Span::ZERO {
        return;
    }
    let kept = match stopped {
        Some(StopReason::Evicted { .. }) => ran.kept.map_or(Span::ZERO, |kept| kept.ran),
        _ => ran.worked,
    };
    let hour = hour_of_week(state.clock.shown(ran.started));
    let nodes = nodes(ran.placement).filter_map(|node| state.nodes.get(node.0 as usize));
    let places: BTreeSet<usize> = nodes.map(|node| group_place(node.group)).collect();
    for place in places {
        state.learned.resize_with(state.learned.len().max(place + 1), Default::default);
        state.learned[place].learn(hour, kept - (ran.worked - kept));
    }
}

/// Counts the end of an attempt that ran for `ran`, if an eviction is its reason. If this exceeds a limit, the job is
/// given up.
fn count(job: &mut Job, limits: &RestartLimits, (stopped, ran): (&mut Option<StopReason>, Span)) {
    let Some(StopReason::Evicted { node, why }) = stopped else { return };
    job.evictions.count(*why);
    let limits = RestartLimits { restarts: job.request.restart.most.or(limits.restarts), ..*limits };
    if let Some(limit) = limits.exceeded(job.evictions, *why, ran) {
        *stopped = Some(StopReason::GivenUp { node: std::mem::take(node), why: *why, limit });
    }
}

/// Adds the kept work of an attempt to that of earlier ones.
fn keep(job: &mut Job, kept: Option<Kept>) {
    if let Some(Kept { ran, took, failed }) = kept {
        let took = if ran > Span::ZERO { took } else { job.kept.took };
        job.kept = Kept { ran: job.kept.ran + ran, took, failed };
    }
}
