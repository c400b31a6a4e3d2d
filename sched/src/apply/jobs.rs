//! The life of a job: submitted, started, taken back, ended, cancelled.

use std::sync::Arc;

use limo_model::{Attempt, JobEnd, JobId, Money, NodeId, Outcome, Request, StopReason, Time, Usage};

use super::fits::check_request;
use super::nodes::{self, release};
use super::{arrays, eligible, lost, quota, rank, reservations, runs};
use crate::estimate::Known;
use crate::refused::Refused;
use crate::round::{Account, Finished};
use crate::state::{Assignment, Job, Phase, Running, State};

/// Whether a submission can be recorded now: of a job, or of an array.
pub(super) fn check_submission(
    state: &State,
    now: Time,
    (id, tasks): (JobId, u32),
    request: &Request,
) -> Result<(), Refused> {
    if id.0 != state.next_job {
        return Err(Refused::Number { job: id, next: JobId(state.next_job) });
    }
    for (what, at) in [("deadline", request.deadline), ("latest start", request.start_by)] {
        if let Some(at) = at.filter(|at| state.clock.cluster(*at) < now) {
            return Err(Refused::passed(what, at));
        }
    }
    check_request(state, request)?;
    check_depth(state, request)?;
    reservations::check(state, now, request)?;
    rank::check_priority(request.priority)?;
    eligible::check(state, request)?;
    quota::check(state, now, request, tasks)
}

/// Refuses what is to start at once behind as many jobs as the policy looks at.
fn check_depth(state: &State, request: &Request) -> Result<(), Refused> {
    let depth = state.settings.options.depth;
    if !request.immediate || state.settings.preset.parts().starts_one_by_one() {
        return Ok(());
    }
    let last = state.queue.iter().nth(depth.saturating_sub(1) as usize).and_then(|id| state.jobs.get(id));
    match last {
        Some(last) if last.request.priority >= request.priority => Err(Refused::TooFarBack { depth }),
        _ => Ok(()),
    }
}

pub(super) fn submitted(state: &mut State, now: Time, id: JobId, request: Arc<Request>) -> Result<(), Refused> {
    check_submission(state, now, (id, 1), &request)?;
    state.next_job += 1;
    admit(state, now, id, request);
    enqueue(state, now, id);
    Ok(())
}

/// Whether a plan can be another one for a job that was just submitted. It is not where the policy only looks at the first
/// `depth` jobs, and had more than those before: whether there are more is known to it.
pub(super) fn matters(state: &State, id: JobId) -> bool {
    let looks_at_all = state.settings.preset.parts().starts_one_by_one();
    let is_last = state.queue.contains(id) && !state.ranking.mixed;
    looks_at_all || !is_last || state.queue.len() <= state.settings.options.depth as usize + 1
}

/// Takes a job or an array in, with what it has to wait for.
pub(super) fn admit(state: &mut State, now: Time, id: JobId, request: Arc<Request>) {
    let mut job = new_job(request, now);
    eligible::conditions(state, &mut job);
    state.index.blocked.known(id, &job.request);
    quota::known(state, id, &job.request.user);
    state.jobs.insert(id, Box::new(job));
}

pub(super) fn new_job(request: Arc<Request>, submitted: Time) -> Job {
    Job {
        request,
        submitted,
        attempts: 0,
        lost: Account::default(),
        phase: Phase::Waiting(None),
        restarts: 0,
        held: None,
        after: Vec::new(),
        eligible: None,
    }
}

/// Puts a waiting job where it waits: into the queue, or among those that may not run yet.
pub(super) fn enqueue(state: &mut State, now: Time, id: JobId) {
    let had_room = state.charges.contains_key(&id);
    if !eligible::block(state, now, id) {
        return queue(state, now, id);
    }
    if let Some(user) = state.jobs.get(id).filter(|_| had_room).map(|job| job.request.user.clone()) {
        quota::give_back(state, now, id, &user);
        quota::admit(state, now, &user);
    }
}

/// Puts a waiting job into the queue, at the place that its number gives it unless another job is there.
pub(super) fn queue(state: &mut State, now: Time, id: JobId) {
    arrays::queued(state, id);
    let options = &state.settings.options;
    let known = Known {
        profiles: &state.profiles,
        default_duration: options.default_duration,
        cap_factor_permille: options.cap_factor_permille,
    };
    let index = &mut state.index;
    if let Some(job) = state.jobs.get(id) {
        let is_mixed = state.ranking.mixed || job.request.priority != 0;
        let last = if is_mixed { state.queue.last() } else { None };
        if let Some(place) = state.queue.insert(id) {
            index.shapes.insert(known, &index.classes, place, &job.request);
        }
        index.untold.insert(id);
        if is_mixed {
            rank::joined(state, now, id, last);
        }
    }
}

/// Takes a job that no longer waits out of where it waited, if it does: one that starts does not.
pub(crate) fn dequeue(state: &mut State, id: JobId) {
    if state.blocked.contains(id) {
        return eligible::unblock(state, id);
    }
    let Some(place) = state.queue.remove(id) else { return };
    arrays::unqueued(state, id);
    state.index.untold.remove(id);
    if let Some(job) = state.jobs.get(id) {
        state.index.shapes.remove(place, &job.request);
    }
}

/// The job and its assignment, if it is in that attempt.
fn attempt(state: &mut State, id: JobId, attempt: Attempt) -> Result<&mut Job, Refused> {
    let job = state.jobs.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    match job.assignment() {
        Some(assignment) if assignment.attempt == attempt => Ok(job),
        _ => Err(Refused::OldAttempt { job: id, attempt }),
    }
}

pub(super) fn started(state: &mut State, now: Time, id: JobId, number: Attempt) -> Result<(), Refused> {
    let job = attempt(state, id, number)?;
    let Phase::Starting(assignment) = &job.phase else { return Err(Refused::AlreadyRunning { job: id }) };
    let as_assigned = assignment.assigned == now;
    let begin = |job: &mut Job| {
        if let Phase::Starting(assignment) = std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
            job.phase = Phase::Running(assignment, Running::from(now));
        }
    };
    if as_assigned {
        // Its expected end stays what it is.
        begin(job);
        if let Some(job) = state.jobs.get(id) {
            state.index.note_bounds(id, job);
        }
    } else {
        with_times(state, id, begin);
    }
    eligible::begun(state, now, id);
    Ok(())
}

/// Changes an active job, and with it when it is expected to end and must end.
pub(crate) fn with_times(state: &mut State, id: JobId, change: impl FnOnce(&mut Job)) {
    let Some(job) = state.jobs.get_mut(id) else { return };
    let before = job.estimated_end();
    state.index.forget_times(id, job);
    change(job);
    state.index.note_times(id, job);
    if job.estimated_end() != before {
        state.index.memo = None;
    }
}

pub(super) fn taken_back(
    state: &mut State,
    now: Time,
    (id, number): (JobId, Attempt),
    (suspect, blame): (bool, Option<NodeId>),
) -> Result<(), Refused> {
    let suspect_until = now + state.settings.options.suspect_for;
    let job = attempt(state, id, number)?;
    let Phase::Starting(assignment) = &job.phase else { return Err(Refused::AlreadyRunning { job: id }) };
    let assignment = assignment.clone();
    with_times(state, id, |job| job.phase = Phase::Waiting(None));
    state.active.remove(id);
    state.index.to_stop.remove(id);
    release(state, now, id, &assignment, &[]);
    match assignment.stop {
        Some((StopReason::Cancelled { by }, _)) => end_waiting(state, now, id, by),
        _ => {
            enqueue(state, now, id);
            let blamed = |node: &NodeId| suspect && blame.is_none_or(|blame| blame == *node);
            for node in assignment.placement.iter().flat_map(|part| part.nodes()).filter(blamed) {
                nodes::suspect(state, now, node, suspect_until);
            }
        }
    }
    Ok(())
}

fn end_waiting(state: &mut State, now: Time, id: JobId, by: String) {
    dequeue(state, id);
    if let Some(job) = state.jobs.remove(id) {
        let end = JobEnd::Cancelled { by };
        eligible::over(state, now, (id, &job.request), &end);
        state.finished.push(Finished::before_start(id, &job, now, end));
    }
}

pub(super) fn cancel_requested(state: &mut State, now: Time, id: JobId, by: &str) -> Result<(), Refused> {
    if state.arrays.contains_key(&id) {
        arrays::cancelled(state, now, id, by);
        return Ok(());
    }
    let Some(job) = state.jobs.get_mut(id) else { return arrays::drop_task(state, now, id, by) };
    match job.assignment_mut() {
        None => end_waiting(state, now, id, by.to_owned()),
        Some(Assignment { stop: Some((why, _)), .. }) if why.runs_again() => {
            // It ends already; it only must not run again.
            *why = StopReason::Cancelled { by: by.to_owned() };
        }
        Some(Assignment { stop: Some(_), .. }) => {}
        Some(_) => {
            with_times(state, id, |job| {
                if let Some(assignment) = job.assignment_mut() {
                    assignment.stop = Some((StopReason::Cancelled { by: by.to_owned() }, false));
                }
            });
            state.index.to_stop.insert(id);
        }
    }
    Ok(())
}

pub(super) fn ended(
    state: &mut State,
    now: Time,
    (id, number): (JobId, Attempt),
    outcome: &Outcome,
    usage: Usage,
) -> Result<(), Refused> {
    attempt(state, id, number)?;
    let Some(mut job) = state.jobs.remove(id) else { return Err(Refused::NoSuchJob { job: id }) };
    state.active.remove(id);
    state.index.to_stop.remove(id);
    state.index.forget_times(id, &job);
    let (assignment, running) = match std::mem::replace(&mut job.phase, Phase::Waiting(None)) {
        Phase::Running(assignment, running) | Phase::Suspended(assignment, running, _) => (assignment, Some(running)),
        Phase::Starting(assignment) => {
            let running = runs::unseen(now, &assignment, outcome, usage);
            (assignment, running)
        }
        Phase::Waiting(_) => return Err(Refused::OldAttempt { job: id, attempt: number }),
    };
    let seen: Vec<_> = running.iter().flat_map(|running| running.seen_on.iter().copied()).collect();
    release(state, now, id, &assignment, &seen);
    lost::hold(state, now, (id, number), &assignment);
    let account = runs::account(state, now, (&job, running.as_ref()), usage, &assignment);
    let (outcome, at_limit) = outcome.clone().split_limit();
    let core_ms = running.as_ref().map_or(0, |running| assignment.core_ms(now - running.started));
    quota::used(state, now, &job.request.user, (account.energy - job.lost.energy, core_ms));
    let (started, steady) = running.map_or((None, false), |running| (Some(running.started), running.steady));
    let limit = job.request.time_limit.filter(|_| at_limit);
    let reached = limit.map(|limit| StopReason::TimeLimit { limit });
    let stopped = assignment.stop.map(|(why, _)| why).or(reached);
    // Without a lease nothing ends it on a node that is out of reach: it might run twice.
    let failed = matches!(outcome, Outcome::Lost { .. } | Outcome::NodeFailed { .. });
    let runs_again = match &stopped {
        Some(why) => why.runs_again() && (assignment.lease.is_some() || !matches!(outcome, Outcome::Lost { .. })),
        None => failed && assignment.lease.is_some(),
    };
    if runs_again {
        job.lost = account;
        job.restarts += u32::from(started.is_some());
        state.jobs.insert(id, job);
        enqueue(state, now, id);
        return Ok(());
    }
    let end = JobEnd::Ran { outcome, stopped };
    eligible::over(state, now, (id, &job.request), &end);
    let sums = &mut state.sums;
    sums.jobs_cost = Money::of_known(sums.jobs_cost, account.cost);
    sums.jobs_start_now_cost = Money::of_known(sums.jobs_start_now_cost, account.start_now_cost);
    state.finished.push(Finished {
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
    });
    Ok(())
}

impl Finished {
    /// For a job that never ran.
    pub(crate) fn before_start(id: JobId, job: &Job, now: Time, end: JobEnd) -> Self {
        Self {
            job: id,
            end,
            submitted: job.submitted,
            started: None,
            ended: now,
            placement: Vec::new(),
            usage: Usage::default(),
            account: job.lost,
            steady: false,
            tasks: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{NodeSpec, Power, Request, Time, UnitKind, UnitSpec};

    use crate::{Core, Event, Options};
    use limo_model::Preset;

    const NOW: Time = Time::from_unix_ms(0);

    /// A core with one node that a job has, and so many that wait; every job is alone on a node.
    fn busy(preset: Preset, waiting: u64) -> Core {
        let mut core = Core::new(NOW, preset, Options { depth: 2, ..Options::default() });
        let unit = UnitSpec {
            name: "cpu".into(),
            hardware: "cpu".into(),
            kind: UnitKind::Cpu,
            cores: 1,
            nameplate: Power::from_watts(10),
            caps: None,
        };
        let spec = NodeSpec {
            name: "n1".into(),
            units: vec![unit],
            memory: limo_model::Memory::ZERO,
            idle: Power::ZERO,
            meter: limo_model::Meter::None,
            rest: None,
        };
        core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
        for _ in 0..=waiting {
            core.submit(NOW, core.next_job(), Request::one_core("true")).expect("possible");
        }
        core.round(NOW);
        core
    }

    /// Whether the policy is asked after one more job.
    fn asks(preset: Preset, waiting: u64, request: Request) -> bool {
        let mut core = busy(preset, waiting);
        assert!(!core.state().dirty, "a round leaves nothing to ask");
        core.submit(NOW, core.next_job(), request).expect("possible");
        core.state().dirty
    }

    #[test]
    fn a_job_beyond_what_is_looked_at_needs_no_plan() {
        let usual = || Request::one_core("true");
        for preset in [Preset::Fifo, Preset::Limo, Preset::LimoPrototype] {
            // The third that waits makes the queue longer than the policy looks: it is told.
            let asked = [0, 1, 2, 3].map(|waiting| asks(preset, waiting, usual()));
            assert_eq!(asked, [true, true, true, false], "{preset}");
            assert!(asks(preset, 3, Request { priority: 1, ..usual() }), "{preset}: it goes before others");
        }
        assert!(asks(Preset::Easy, 3, usual()), "every job may pass others");
    }
}
