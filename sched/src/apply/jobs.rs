//! The life of a job: submitted, started, taken back, ended, cancelled.

use std::sync::Arc;

use limo_model::{Attempt, Evictions, JobEnd, JobId, Kept, Money, NodeId, Outcome, Request, StopReason, Time, Usage};

use super::nodes::{self, release};
use super::possible::{check_cap, check_request};
use super::{
    accounts, arrays, eligible, licences, lost, owners, pause, queues, quota, rank, reservations, restarts, runs,
    sleep, steps, widths,
};
use crate::cluster::Cluster;
use crate::facts::Known;
use crate::options::Options;
use crate::refused::Refused;
use crate::round::{Account, Await, Finished};
use crate::state::{Assignment, Job, Phase, Running, State};

/// Checks that the submission of a job or an array can be recorded now.
pub(super) fn check_submission(
    cluster: &Cluster,
    now: Time,
    (id, tasks): (JobId, u32),
    request: &Request,
) -> Result<(), Refused> {
    if id.0 != cluster.state.next_job {
        return Err(Refused::Number { job: id, next: JobId(cluster.state.next_job) });
    }
    for (what, at) in [("deadline", request.deadline), ("latest start", request.start_by)] {
        if let Some(at) = at.filter(|at| cluster.state.clock.cluster(*at) < now) {
            return Err(Refused::passed(what, at));
        }
    }
    queues::check(&cluster.state.settings.queues, request)?;
    accounts::check(&cluster.state.settings, request)?;
    widths::check(request)?;
    check_cap(request)?;
    check_request(cluster, request)?;
    rank::check_depth(cluster, request)?;
    reservations::check(&cluster.state, now, request)?;
    rank::check_priority(request.priority)?;
    eligible::check(&cluster.state, request)?;
    quota::check(cluster, now, request, tasks)?;
    licences::check(cluster, id, request)
}

pub(super) fn submitted(cluster: &mut Cluster, now: Time, id: JobId, request: Arc<Request>) -> Result<(), Refused> {
    check_submission(cluster, now, (id, 1), &request)?;
    cluster.state.next_job += 1;
    admit(cluster, now, id, request);
    enqueue(cluster, now, id);
    Ok(())
}

/// Returns true if a submitted job can change the plan. It cannot if more than `depth` jobs are before it: the policy
/// already knows that more jobs wait.
pub(super) fn matters(cluster: &Cluster, id: JobId) -> bool {
    let state = &cluster.state;
    let looks_at_all = cluster.parts.starts_one_by_one();
    let is_last = state.queue.contains(id) && !state.ranking.mixed;
    looks_at_all || !is_last || state.queue.len() <= state.settings.options.depth as usize + 1
}

/// Adds a job or an array with its wait conditions.
pub(super) fn admit(cluster: &mut Cluster, now: Time, id: JobId, request: Arc<Request>) {
    let mut job = new_job(request, now);
    eligible::conditions(&cluster.state, &mut job);
    cluster.index.blocked.known(id, &job.request);
    quota::known(cluster, id, &job.request);
    cluster.state.jobs.insert(id, Box::new(job));
}

pub(super) fn new_job(request: Arc<Request>, submitted: Time) -> Job {
    Job {
        request,
        submitted,
        attempts: 0,
        lost: Account::default(),
        phase: Phase::Waiting(None),
        restarts: 0,
        evictions: Evictions::default(),
        kept: Kept::default(),
        held: None,
        after: Vec::new(),
        eligible: None,
        steps: None,
        new_limit: None,
    }
}

/// Adds a waiting job to the queue, or to the blocked jobs.
pub(super) fn enqueue(cluster: &mut Cluster, now: Time, id: JobId) {
    let had_room = cluster.state.charges.contains_key(&id);
    if !eligible::block(cluster, now, id) {
        return queue(cluster, now, id);
    }
    let Some(request) = cluster.state.jobs.get(id).map(|job| Arc::clone(&job.request)) else { return };
    if had_room && !cluster.state.over_licence.contains(id) {
        quota::blocked(cluster, now, id, &request);
    }
    licences::give_back(cluster, now, id, &request);
}

/// Puts a waiting job into the queue, at the place of its number, or at another place if this one is taken.
pub(super) fn queue(cluster: &mut Cluster, now: Time, id: JobId) {
    arrays::queued(&mut cluster.state, id);
    let Options { default_duration, cap_factor_permille, confidence, .. } = cluster.state.settings.options;
    let (profiles, slowdowns) = (&cluster.state.profiles, &cluster.state.slowdowns);
    let known = Known { profiles, default_duration, slowdowns, cap_factor_permille, confidence };
    let index = &mut cluster.index;
    if let Some(job) = cluster.state.jobs.get(id) {
        let is_mixed = cluster.state.ranking.mixed || job.request.priority != 0 || job.request.qos.is_some();
        let last = if is_mixed { cluster.state.queue.last() } else { None };
        if let Some(place) = cluster.state.queue.insert(id) {
            index.shapes.insert(known, &index.classes, place, &job.request);
        }
        index.moldable.extend(job.request.widths.map(|_| id));
        index.untold.insert(id);
        if is_mixed {
            rank::joined(&mut cluster.state, now, id, last);
        }
    }
}

/// Removes a waiting job from its place. A starting job has no place.
pub(crate) fn dequeue(cluster: &mut Cluster, id: JobId) {
    if cluster.state.blocked.contains(id) {
        return eligible::unblock(cluster, id);
    }
    let Some(place) = cluster.state.queue.remove(id) else { return };
    arrays::unqueued(cluster, id);
    cluster.index.untold.remove(&id);
    cluster.index.moldable.remove(&id);
    if let Some(job) = cluster.state.jobs.get(id) {
        cluster.index.shapes.remove(place, &job.request);
    }
}

/// Returns the job and its assignment, if the job is in that attempt.
fn attempt(state: &mut State, id: JobId, attempt: Attempt) -> Result<&mut Job, Refused> {
    let job = state.jobs.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    match job.assignment() {
        Some(assignment) if assignment.attempt == attempt => Ok(job),
        _ => Err(Refused::OldAttempt { job: id, attempt }),
    }
}

pub(super) fn started(cluster: &mut Cluster, now: Time, id: JobId, number: Attempt) -> Result<(), Refused> {
    let job = attempt(&mut cluster.state, id, number)?;
    let Phase::Starting(assignment) = &job.phase else { return Err(Refused::AlreadyRunning { job: id }) };
    let as_assigned = assignment.assigned == now && assignment.after.is_empty();
    let mut pending = (!assignment.pending.is_zero()).then(|| assignment.clone());
    if let Some(assignment) = &mut pending {
        sleep::draws(cluster, now, assignment);
    }
    let job = attempt(&mut cluster.state, id, number)?;
    let begin = |job: &mut Job| {
        if let Phase::Starting(assignment) = std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
            let mut assignment = pending.unwrap_or(assignment);
            assignment.after = Vec::new();
            job.phase = Phase::Running(assignment, Box::new(Running::from(now)));
        }
    };
    if as_assigned {
        // The expected end of the job is unchanged.
        begin(job);
        if let Some(job) = cluster.state.jobs.get(id) {
            cluster.index.note_bounds(id, job);
        }
    } else {
        with_times(cluster, id, begin);
    }
    eligible::begun(cluster, now, id);
    owners::begun(cluster, now, id);
    Ok(())
}

/// Changes an active job, and updates its expected and latest end.
pub(crate) fn with_times(cluster: &mut Cluster, id: JobId, change: impl FnOnce(&mut Job)) {
    let Some(job) = cluster.state.jobs.get_mut(id) else { return };
    let before = job.estimated_end();
    cluster.index.forget_times(id, job);
    cluster.books.forget_end(id, job);
    change(job);
    cluster.index.note_times(id, job);
    cluster.books.note_end(id, job);
    if job.estimated_end() != before {
        cluster.index.cache = None;
    }
}

pub(super) fn taken_back(
    cluster: &mut Cluster,
    now: Time,
    (id, number): (JobId, Attempt),
    (suspect, blame): (bool, Option<NodeId>),
) -> Result<(), Refused> {
    let suspect_until = now + cluster.state.settings.options.suspect_for;
    let job = attempt(&mut cluster.state, id, number)?;
    let Phase::Starting(assignment) = &job.phase else { return Err(Refused::AlreadyRunning { job: id }) };
    let assignment = assignment.clone();
    with_times(cluster, id, |job| job.phase = Phase::Waiting(None));
    cluster.state.active.remove(id);
    if let Some(job) = cluster.state.jobs.get(id) {
        cluster.books.give_licences(&job.request);
        cluster.books.give_owned(&job.request, &assignment.placement);
    }
    cluster.index.to_stop.remove(id);
    release(cluster, now, id, &assignment, &[]);
    steps::job_over(&mut cluster.state, now, id);
    match assignment.stop {
        Some((StopReason::Cancelled { by }, _)) => end_waiting(cluster, now, id, by),
        _ => {
            enqueue(cluster, now, id);
            let blamed = |node: &NodeId| suspect && blame.is_none_or(|blame| blame == *node);
            for node in assignment.placement.iter().flat_map(|part| part.nodes()).filter(blamed) {
                nodes::suspect(cluster, now, node, suspect_until);
            }
        }
    }
    Ok(())
}

fn end_waiting(cluster: &mut Cluster, now: Time, id: JobId, by: String) {
    dequeue(cluster, id);
    if let Some(job) = cluster.state.jobs.remove(id) {
        let end = JobEnd::Cancelled { by };
        eligible::over(cluster, now, (id, &job.request), &end);
        cluster.state.finish(Finished::before_start(id, &job, now, end));
    }
}

pub(super) fn cancel_requested(cluster: &mut Cluster, now: Time, id: JobId, by: &str) -> Result<(), Refused> {
    if cluster.state.arrays.contains_key(&id) {
        arrays::cancelled(cluster, now, id, by);
        return Ok(());
    }
    let Some(job) = cluster.state.jobs.get_mut(id) else { return arrays::drop_task(cluster, now, id, by) };
    match job.assignment_mut() {
        None => end_waiting(cluster, now, id, by.to_owned()),
        Some(Assignment { stop: Some((why, _)), .. }) if why.runs_again() => {
            // The job is already ending; only a new start must be prevented.
            *why = StopReason::Cancelled { by: by.to_owned() };
        }
        Some(Assignment { stop: Some(_), .. }) => {}
        Some(_) => {
            with_times(cluster, id, |job| {
                if let Some(assignment) = job.assignment_mut() {
                    assignment.stop = Some((StopReason::Cancelled { by: by.to_owned() }, false));
                }
            });
            cluster.index.to_stop.insert(id);
        }
    }
    Ok(())
}

pub(super) fn ended(
    cluster: &mut Cluster,
    now: Time,
    (id, number): (JobId, Attempt),
    outcome: &Outcome,
    usage: Usage,
) -> Result<(), Refused> {
    attempt(&mut cluster.state, id, number)?;
    let Some(mut job) = cluster.state.jobs.remove(id) else { return Err(Refused::NoSuchJob { job: id }) };
    cluster.state.active.remove(id);
    cluster.books.give_licences(&job.request);
    cluster.index.to_stop.remove(id);
    cluster.index.forget_times(id, &job);
    cluster.books.forget_end(id, &job);
    steps::job_over(&mut cluster.state, now, id);
    let usage = steps::take_usage(&mut job, usage);
    let worked = job.worked(now);
    let (assignment, running) = match std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
        Phase::Running(assignment, running) => (assignment, Some(*running)),
        Phase::Suspended(assignment, running, causes) => {
            pause::ended(cluster, now, &assignment, &causes);
            (assignment, Some(*running))
        }
        Phase::Starting(assignment) => {
            let running = runs::unseen(now, &assignment, outcome, usage);
            (assignment, running)
        }
        Phase::Waiting(_) => return Err(Refused::OldAttempt { job: id, attempt: number }),
    };
    let seen: Vec<_> = running.iter().flat_map(|running| running.seen_on.iter().copied()).collect();
    cluster.books.give_owned(&job.request, &assignment.placement);
    let unfollowed = cluster.state.reliefs.has(&Await::Paused { job: id, attempt: number });
    release(cluster, now, id, &assignment, &seen);
    lost::hold(cluster, now, (id, number), &assignment, unfollowed);
    let is_unprepared = matches!(outcome, Outcome::NotPrepared { .. });
    let running = running.filter(|_| !is_unprepared);
    let account = runs::account(&cluster.state, now, (&job, running.as_ref()), usage, &assignment);
    let (outcome, at_limit) = outcome.clone().split_limit();
    let core_ms = running.as_ref().map_or(0, |running| running.core_ms(&assignment, now));
    quota::used(&mut cluster.state, now, &job.request, (account.energy - job.lost.energy, core_ms));
    let kept = running.as_ref().and_then(|running| running.kept);
    let (started, steady) = running.map_or((None, false), |running| (Some(running.started), running.steady));
    let limit = job.request.time_limit.filter(|_| at_limit);
    let reached = limit.map(|limit| StopReason::TimeLimit { limit });
    let mut stopped = assignment.stop.map(|(why, _)| why).or(reached);
    if let Some(started) = started {
        let ran = restarts::RanAttempt { started, worked, kept, placement: &assignment.placement, outcome: &outcome };
        restarts::over(&mut cluster.state, &mut job, &ran, &mut stopped);
    }
    // Without a lease, the job would not end on an unreachable node, so it might run twice.
    let failed = matches!(outcome, Outcome::Lost { .. } | Outcome::NodeFailed { .. });
    let runs_again = match &stopped {
        Some(why) => why.runs_again() && (assignment.lease.is_some() || !matches!(outcome, Outcome::Lost { .. })),
        None => is_unprepared || failed && assignment.lease.is_some(),
    };
    if runs_again {
        job.lost = account;
        job.restarts += u32::from(started.is_some());
        cluster.state.jobs.insert(id, job);
        enqueue(cluster, now, id);
        return Ok(());
    }
    let end = JobEnd::Ran { outcome, stopped };
    eligible::over(cluster, now, (id, &job.request), &end);
    let sums = &mut cluster.state.sums;
    sums.jobs_cost = Money::of_known(sums.jobs_cost, account.cost);
    sums.jobs_start_now_cost = Money::of_known(sums.jobs_start_now_cost, account.start_now_cost);
    cluster.state.finish(Finished {
        job: id,
        end,
        submitted: job.submitted,
        started,
        ended: now,
        placement: assignment.placement,
        usage,
        account,
        steady,
        tasks: None,
        evictions: job.evictions,
        kept: job.kept,
        steps: job.step_count(),
        new_limit: job.new_limit,
    });
    Ok(())
}

#[cfg(test)]
mod tests;
