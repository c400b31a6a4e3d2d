//! Whether a waiting job may run at all: nobody holds it, its begin has come, what it depends on has become so, and no
//! earlier job of its name is left where it wants to be the only one. A job that may not is `blocked`: no policy sees it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use limo_model::{Became, Condition, Dependency, JobEnd, JobId, Request, Time, Wait};

use super::{arrays, jobs, quota};
use crate::index::{begin_of, wants_to_be_alone};
use crate::refused::Refused;
use crate::round::Finished;
use crate::state::{Assignment, Job, Phase, State};

/// Refuses conditions that contradict the rest of the request, or name jobs that are over or not there.
pub(super) fn check(state: &State, request: &Request) -> Result<(), Refused> {
    let Some(conditions) = &request.conditions else { return Ok(()) };
    if request.immediate {
        return Err(Refused::ImmediateWaits);
    }
    for (what, at) in [("deadline", request.deadline), ("latest start", request.start_by)] {
        if let Some((at, begin)) = at.zip(conditions.begin).filter(|(at, begin)| at <= begin) {
            return Err(Refused::BeforeBegin { what, at: at.unix_ms(), begin: begin.unix_ms() });
        }
    }
    let is_there = |job| state.jobs.get(job).is_some() || state.is_coming(job);
    match conditions.dependencies.iter().find(|on| !is_there(on.job)) {
        Some(on) => Err(Refused::NoSuchJob { job: on.job }),
        None => Ok(()),
    }
}

/// What a new job still has to wait for.
pub(super) fn conditions(state: &State, job: &mut Job) {
    let Some(conditions) = &job.request.conditions else { return };
    let is_met = |on: &Dependency| {
        let begun = state.jobs.get(on.job).is_some_and(|other| other.running().is_some());
        on.condition == Condition::After && begun
    };
    job.held = conditions.hold.then(|| job.request.user.clone());
    job.after = conditions.dependencies.iter().filter(|on| !is_met(on)).copied().collect();
}

/// Why a waiting job may not run yet; `None` for one that a policy may look at.
pub(crate) fn obstacle(state: &State, now: Time, id: JobId) -> Option<Wait> {
    condition(state, now, id).or_else(|| quota::wait_of(state, now, id))
}

/// What must still be so before a job may run, its user's quota aside.
fn condition(state: &State, now: Time, id: JobId) -> Option<Wait> {
    let job = state.jobs.get(id)?;
    if let Some(by) = &job.held {
        return Some(Wait::Held { by: by.clone() });
    }
    if let Some(at) = begin_of(&job.request, &state.clock).filter(|at| *at > now) {
        return Some(Wait::Begin { at });
    }
    if let Some(Dependency { condition, job }) = job.after.first().copied() {
        return Some(Wait::Dependency { job, condition });
    }
    let before = || state.index.blocked.before(id, &job.request);
    if wants_to_be_alone(&job.request) { before().map(|job| Wait::Singleton { job }) } else { None }
}

/// Puts a waiting job among the blocked ones, where something stands against it; whether it did.
pub(super) fn block(state: &mut State, now: Time, id: JobId) -> bool {
    let Some(job) = state.jobs.get(id) else { return false };
    if wants_to_be_alone(&job.request) {
        state.index.blocked.know_names(&state.jobs, &state.arrays);
    }
    if condition(state, now, id).is_none() && quota::make_room(state, now, id) {
        return false;
    }
    state.blocked.insert(id);
    if let Some(job) = state.jobs.get(id) {
        state.index.blocked.add(id, job, &state.clock);
    }
    true
}

/// Takes a job that no longer waits, or may run now, out of the blocked ones.
pub(super) fn unblock(state: &mut State, id: JobId) {
    quota::leave_line(state, id);
    state.blocked.remove(id);
    if let Some(job) = state.jobs.get(id) {
        state.index.blocked.remove(id, job, &state.clock);
    }
}

/// Something that may have blocked a job has changed.
fn reconsider(state: &mut State, now: Time, id: JobId) {
    if !state.blocked.contains(id) {
        return;
    }
    if condition(state, now, id).is_some() {
        state.index.blocked.untold.insert(id);
        return;
    }
    if state.over_quota.contains(id) {
        return;
    }
    if quota::make_room(state, now, id) {
        return enter(state, now, id, |_| ());
    }
    if let Some(job) = state.jobs.get_mut(id) {
        job.phase = Phase::Waiting(None);
    }
    state.index.blocked.untold.insert(id);
}

/// Nothing stands against a blocked job any more, once this is done.
pub(super) fn enter(state: &mut State, now: Time, id: JobId, done: impl FnOnce(&mut State)) {
    unblock(state, id);
    done(state);
    if let Some(job) = state.jobs.get_mut(id) {
        job.phase = Phase::Waiting(None);
        job.eligible = Some(now);
    }
    if state.arrays.contains_key(&id) {
        state.index.hungry.insert(id);
    } else {
        jobs::queue(state, now, id);
        state.index.hungry.extend(state.array_of(id).map(|(own, _)| own));
    }
    // It may be before others in the queue.
    state.index.memo = None;
    state.dirty = true;
}

/// Jobs whose begin has come.
pub(crate) fn begin_due(state: &mut State, now: Time) {
    while let Some(id) = state.index.blocked.next_to_begin(now) {
        reconsider(state, now, id);
    }
}

/// What blocked jobs are to be told: each reason once.
pub(crate) fn tell_blocked(state: &mut State, now: Time) -> Vec<(JobId, Wait)> {
    let mut told_now = Vec::new();
    for id in std::mem::take(&mut state.index.blocked.untold).iter() {
        let Some(wait) = obstacle(state, now, id) else { continue };
        let Some(Job { phase: Phase::Waiting(told), .. }) = state.jobs.get_mut(id).map(Box::as_mut) else { continue };
        if told.as_ref() == Some(&wait) {
            continue;
        }
        *told = Some(wait.clone());
        // What holds back the next task of an array holds back the array.
        let array = state.array_of(id).map(|(own, _)| own).filter(|_| matches!(wait, Wait::Quota(_)));
        match array.and_then(|own| Some((own, state.jobs.get_mut(own)?))) {
            None => told_now.push((id, wait)),
            // It is held itself, and was told that.
            Some((own, _)) if state.blocked.contains(own) => {}
            Some((own, job)) if job.phase != Phase::Waiting(Some(wait.clone())) => {
                job.phase = Phase::Waiting(Some(wait.clone()));
                told_now.push((own, wait));
            }
            Some(_) => {}
        }
    }
    told_now
}

/// A job has begun.
pub(super) fn begun(state: &mut State, now: Time, id: JobId) {
    for dependent in state.index.blocked.dependents_of(id) {
        let Some(job) = state.jobs.get_mut(dependent) else { continue };
        job.after.retain(|on| on.job != id || on.condition != Condition::After);
        if !job.after.iter().any(|on| on.job == id) {
            state.index.blocked.no_longer_depends(dependent, id);
        }
        reconsider(state, now, dependent);
    }
}

/// A job is over, and no longer in the state. Those that waited for that may run; those that can never run any more are
/// over too, and what depends on them.
pub(crate) fn over(state: &mut State, now: Time, (id, request): (JobId, &Request), end: &JobEnd) {
    let unmet = gone(state, now, (id, request), Became::of(end));
    end_unmet(state, now, unmet);
}

/// Tasks of these numbers will not become jobs.
pub(super) fn never(state: &mut State, now: Time, tasks: RangeInclusive<JobId>) {
    let unmet = follow_all(state, now, tasks);
    end_unmet(state, now, unmet);
}

type Unmet = Vec<(JobId, Dependency, Became)>;

fn end_unmet(state: &mut State, now: Time, unmet: Unmet) {
    let mut unmet = VecDeque::from(unmet);
    while let Some((id, dependency, became)) = unmet.pop_front() {
        unblock(state, id);
        let Some(job) = state.jobs.remove(id) else { continue };
        let array = arrays::take_out(state, id);
        if let Some(array) = &array {
            unmet.extend(follow_all(state, now, array.numbers(id, 0)));
        }
        let end = JobEnd::Unmet { dependency, became };
        unmet.extend(gone(state, now, (id, &job.request), Became::of(&end)));
        let tasks = array.map(|array| array.ended.counts);
        state.finished.push(Finished { tasks, ..Finished::before_start(id, &job, now, end) });
    }
}

/// Returns those for which this can never become right.
fn gone(state: &mut State, now: Time, (id, request): (JobId, &Request), became: Became) -> Unmet {
    quota::gone(state, now, id, &request.user);
    if let Some(next) = state.index.blocked.gone(id, request) {
        reconsider(state, now, next);
    }
    follow(state, now, id, became)
}

fn follow_all(state: &mut State, now: Time, tasks: RangeInclusive<JobId>) -> Unmet {
    let awaited = state.index.blocked.awaited(tasks);
    awaited.into_iter().flat_map(|id| follow(state, now, id, Became::Cancelled)).collect()
}

fn follow(state: &mut State, now: Time, id: JobId, became: Became) -> Unmet {
    let mut unmet = Vec::new();
    for dependent in state.index.blocked.dependents_of(id) {
        let Some(job) = state.jobs.get_mut(dependent) else { continue };
        if let Some(on) = job.after.iter().find(|on| on.job == id && !became.meets(on.condition)) {
            unmet.push((dependent, *on, became));
            continue;
        }
        job.after.retain(|on| on.job != id);
        state.index.blocked.no_longer_depends(dependent, id);
        reconsider(state, now, dependent);
    }
    unmet
}

/// Only a job that waits, or will wait again, can be held.
pub(crate) fn check_hold(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let comes_back = || job.assignment().is_some_and(Assignment::runs_again);
    let can = matches!(job.phase, Phase::Waiting(_)) || comes_back();
    if can { Ok(()) } else { Err(Refused::NotWaiting { job: id }) }
}

pub(super) fn held(state: &mut State, now: Time, id: JobId, by: &str) -> Result<(), Refused> {
    check_hold(state, id)?;
    if let Some(job) = state.jobs.get_mut(id)
        && (job.held.is_none() || by != job.request.user)
    {
        job.held = Some(by.to_owned());
    }
    if state.over_quota.contains(id) {
        quota::leave_line(state, id);
        let Some(job) = state.jobs.get_mut(id) else { return Ok(()) };
        job.phase = Phase::Waiting(None);
        let user = job.request.user.clone();
        quota::admit(state, now, &user);
    }
    if state.blocked.contains(id) {
        state.index.blocked.untold.insert(id);
    } else {
        wait_again(state, now, id);
    }
    Ok(())
}

/// A job that was free to run no longer is.
pub(super) fn wait_again(state: &mut State, now: Time, id: JobId) {
    if state.queue.contains(id) {
        jobs::dequeue(state, id);
        if let Some(job) = state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        block(state, now, id);
        if let Some(user) = state.jobs.get(id).map(|job| job.request.user.clone()) {
            quota::give_back(state, now, id, &user);
        }
    } else if state.arrays.contains_key(&id) && !state.blocked.contains(id) {
        // What began goes on.
        arrays::unmake_tasks(state, now, id);
        block(state, now, id);
    }
}

pub(crate) fn check_release(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    if job.held.is_some() { Ok(()) } else { Err(Refused::NotHeld { job: id }) }
}

pub(super) fn released(state: &mut State, now: Time, id: JobId) -> Result<(), Refused> {
    check_release(state, id)?;
    if let Some(job) = state.jobs.get_mut(id) {
        job.held = None;
    }
    reconsider(state, now, id);
    Ok(())
}
