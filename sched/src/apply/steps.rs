//! Events of steps: submitted, started, taken back, ended, cancelled. A step ends at the latest with its job.

use std::sync::Arc;

use limo_model::{Attempt, JobEnd, JobId, Outcome, Request, STEPS_LIMIT, Step, StopReason, Time, Usage};

use super::{jobs, parts, runs};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::facts::Allotment;
use crate::refused::Refused;
use crate::round::{Account, Finished};
use crate::state::{Job, Phase, Running, State, StepSums};

/// The author of the ends of steps whose job is over.
const END_OF_JOB: &str = "the end of its job";

/// Records an event of a step. `None`: the event is of something else.
pub(super) fn apply(state: &mut State, now: Time, event: &Event) -> Option<Result<(), Refused>> {
    if state.steps.is_idle() {
        return None;
    }
    let is_step = |id: JobId| state.steps.get(id).is_some();
    Some(match event {
        Event::Started { job, attempt } if is_step(*job) => started(state, now, (*job, *attempt)),
        Event::Ended { job, attempt, outcome, usage } if is_step(*job) => {
            ended(state, now, (*job, *attempt), (outcome, *usage))
        }
        Event::PartEnded { job, attempt, node, outcome, usage } if is_step(*job) => {
            let part = (outcome, *usage);
            in_attempt(state, *job, *attempt).and_then(|step| parts::end_part(step, *job, *node, part))
        }
        Event::TakenBack { job, attempt, reason, suspect, .. } if is_step(*job) => {
            taken_back(state, now, (*job, *attempt), Some(reason).filter(|_| *suspect))
        }
        Event::CancelRequested { job, by } if is_step(*job) => {
            cancel(state, now, *job, by);
            Ok(())
        }
        _ => return None,
    })
}

pub(super) fn submitted(
    cluster: &mut Cluster,
    now: Time,
    (id, step): (JobId, Step),
    request: Arc<Request>,
) -> Result<(), Refused> {
    if id.0 != cluster.state.next_job {
        return Err(Refused::Number { job: id, next: JobId(cluster.state.next_job) });
    }
    check(&cluster.state, step, &request)?;
    let state = &mut cluster.state;
    state.next_job += 1;
    if let Some(job) = state.jobs.get_mut(step.of) {
        job.steps.get_or_insert_default().submitted += 1;
    }
    state.steps.insert(step.of, id, jobs::new_job(request, now));
    Ok(())
}

/// Checks that a step could run if the allocation of its job had no others.
fn check(state: &State, step: Step, request: &Request) -> Result<(), Refused> {
    let job = step.of;
    let of = state.jobs.get(job).ok_or(Refused::NoAllocation { job })?;
    let assignment = of.assignment().filter(|own| own.stop.is_none()).ok_or(Refused::NoAllocation { job })?;
    if of.request.user != request.user {
        return Err(Refused::AllocationOfOther { job, user: of.request.user.clone() });
    }
    if step.number != of.step_count() {
        return Err(Refused::StepNumber { job, number: step.number, next: of.step_count() });
    }
    if state.steps.count(job) >= STEPS_LIMIT {
        return Err(Refused::TooManySteps { job });
    }
    let unknown = request.include.iter().find(|name| !Allotment::of(state, assignment).has_node(name));
    if let Some(name) = unknown {
        return Err(Refused::NotInAllocation { job, node: name.clone() });
    }
    let offered = Allotment::of(state, assignment).room(request);
    if offered < request.nodes.get() as usize {
        let (nodes, cores, memory) = (request.nodes.get(), request.cores, request.memory);
        return Err(Refused::StepTooLarge { job, nodes, cores, memory, offered });
    }
    Ok(())
}

/// Returns the step, if it is in that attempt.
fn in_attempt(state: &mut State, id: JobId, number: Attempt) -> Result<&mut Job, Refused> {
    let step = state.steps.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    match step.assignment() {
        Some(assignment) if assignment.attempt == number => Ok(step),
        _ => Err(Refused::OldAttempt { job: id, attempt: number }),
    }
}

fn started(state: &mut State, now: Time, (id, number): (JobId, Attempt)) -> Result<(), Refused> {
    let step = in_attempt(state, id, number)?;
    match std::mem::replace(&mut step.phase, Phase::Waiting(None)) {
        Phase::Starting(assignment) => {
            step.phase = Phase::Running(assignment, Box::new(Running::from(now)));
            Ok(())
        }
        other => {
            step.phase = other;
            Err(Refused::AlreadyRunning { job: id })
        }
    }
}

/// Handles a withdrawn attempt. A node that refused the step, for this reason, would refuse it again: its job ends there.
fn taken_back(
    state: &mut State,
    now: Time,
    (id, number): (JobId, Attempt),
    refused: Option<&String>,
) -> Result<(), Refused> {
    let step = in_attempt(state, id, number)?;
    let Phase::Starting(assignment) = &step.phase else { return Err(Refused::AlreadyRunning { job: id }) };
    let stopped = assignment.stop.as_ref().map(|(why, _)| match why {
        StopReason::Cancelled { by } => by.clone(),
        other => other.to_string(),
    });
    let of = step.request.step.map(|step| step.of);
    step.phase = Phase::Waiting(None);
    state.steps.to_stop.remove(&id);
    state.steps.due.extend(of);
    if let Some(by) = stopped.or_else(|| refused.cloned()) {
        end_waiting(state, now, id, &by);
    }
    Ok(())
}

fn cancel(state: &mut State, now: Time, id: JobId, by: &str) {
    if !state.steps.stop(id, StopReason::Cancelled { by: by.to_owned() }) {
        end_waiting(state, now, id, by);
    }
}

fn end_waiting(state: &mut State, now: Time, id: JobId, by: &str) {
    if let Some(step) = state.steps.remove(id) {
        let end = JobEnd::Cancelled { by: by.to_owned() };
        state.finish(Finished::before_start(id, &step, now, end));
    }
}

fn ended(
    state: &mut State,
    now: Time,
    (id, number): (JobId, Attempt),
    (outcome, usage): (&Outcome, Usage),
) -> Result<(), Refused> {
    in_attempt(state, id, number)?;
    let Some(mut step) = state.steps.remove(id) else { return Err(Refused::NoSuchJob { job: id }) };
    let (assignment, running) = match std::mem::replace(&mut step.phase, Phase::Waiting(None)) {
        Phase::Running(assignment, running) | Phase::Suspended(assignment, running, _) => (assignment, Some(*running)),
        Phase::Starting(assignment) => {
            let running = runs::unseen(now, &assignment, outcome, usage);
            (assignment, running)
        }
        Phase::Waiting(_) => return Err(Refused::OldAttempt { job: id, attempt: number }),
    };
    let (outcome, at_limit) = outcome.clone().split_limit();
    let limit = step.request.time_limit.filter(|_| at_limit);
    let stopped = assignment.stop.map(|(why, _)| why).or(limit.map(|limit| StopReason::TimeLimit { limit }));
    let of = step.request.step.and_then(|step| state.jobs.get_mut(step.of));
    if let Some(sums) = of.and_then(|of| of.steps.as_mut()) {
        sums.add(&usage);
    }
    state.finish(Finished {
        job: id,
        end: JobEnd::Ran { outcome: without_prolog(outcome), stopped },
        submitted: step.submitted,
        started: running.map(|running| running.started),
        ended: now,
        placement: assignment.placement,
        usage,
        // The energy and the cost of a step are part of its job's.
        account: Account::default(),
        steady: false,
        tasks: None,
        evictions: step.evictions,
        kept: step.kept,
        new_limit: None,
        steps: 0,
    });
    Ok(())
}

/// A step has no prolog, so none can fail.
fn without_prolog(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::NotPrepared { reason } => Outcome::NodeFailed { reason },
        outcome => outcome,
    }
}

/// Ends the steps of a job whose attempt is over. Its nodes have ended their processes already, unless they are lost.
pub(super) fn job_over(state: &mut State, now: Time, job: JobId) {
    let steps: Vec<JobId> = state.steps.of(job).map(|(step, _)| step).collect();
    for step in steps {
        cancel(state, now, step, END_OF_JOB);
    }
}

/// Returns the usage of a job's attempt with that of its steps, which are counted anew from now on.
pub(super) fn take_usage(job: &mut Job, own: Usage) -> Usage {
    let Some(sums) = &mut job.steps else { return own };
    let all = sums.with_own(own);
    **sums = StepSums { submitted: sums.submitted, ..StepSums::default() };
    all
}
