//! Eligibility of waiting jobs: a job must not be held, its begin time must be past, and its dependencies must be
//! met. For a singleton, no unfinished earlier job may have its name. Its queue must be up. An ineligible job is
//! `blocked`: policies do not see it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use limo_model::{Became, Condition, Dependency, JobEnd, JobId, Request, Time, Usage, Wait};

use super::{arrays, jobs, licences, quota};
use crate::cluster::Cluster;
use crate::facts::{begin_of, closed_queue, wants_to_be_alone};
use crate::refused::Refused;
use crate::round::Finished;
use crate::state::{Assignment, Job, Phase, State};

/// Refuses conditions that contradict the rest of the request, or name jobs that are over or unknown.
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

/// Sets the conditions for which a new job still waits.
pub(super) fn conditions(state: &State, job: &mut Job) {
    let Some(conditions) = &job.request.conditions else { return };
    let is_met = |on: &Dependency| {
        let begun = state.jobs.get(on.job).is_some_and(|other| other.running().is_some());
        on.condition == Condition::After && begun
    };
    job.held = conditions.hold.then(|| job.request.user.clone());
    job.after = conditions.dependencies.iter().filter(|on| !is_met(on)).copied().collect();
}

/// Returns the reason why a waiting job may not run yet; `None` for a job that policies may see.
pub(crate) fn obstacle(cluster: &Cluster, now: Time, id: JobId) -> Option<Wait> {
    condition(cluster, now, id).or_else(|| quota::wait_of(cluster, now, id)).or_else(|| licences::wait_of(cluster, id))
}

/// Returns the conditions that a job still waits for, without its quotas and its licences.
fn condition(cluster: &Cluster, now: Time, id: JobId) -> Option<Wait> {
    let job = cluster.state.jobs.get(id)?;
    if let Some(by) = &job.held {
        return Some(Wait::Held { by: by.clone() });
    }
    if let Some(at) = begin_of(&job.request, &cluster.state.clock).filter(|at| *at > now) {
        return Some(Wait::Begin { at });
    }
    if let Some(Dependency { condition, job }) = job.after.first().copied() {
        return Some(Wait::Dependency { job, condition });
    }
    let before = || cluster.index.blocked.before(id, &job.request);
    let singleton = wants_to_be_alone(&job.request).then(before).flatten();
    singleton.map(|job| Wait::Singleton { job }).or_else(|| closed_queue(&cluster.state, &job.request))
}

/// Moves a waiting job to the blocked ones if it is ineligible. Returns true if it was moved.
pub(super) fn block(cluster: &mut Cluster, now: Time, id: JobId) -> bool {
    let Some(job) = cluster.state.jobs.get(id) else { return false };
    if wants_to_be_alone(&job.request) {
        cluster.index.blocked.know_names(&cluster.state.jobs, &cluster.state.arrays);
    }
    let may_run = condition(cluster, now, id).is_none() && quota::make_room(cluster, now, id);
    if may_run && licences::make_room(cluster, now, id) {
        return false;
    }
    add_blocked(cluster, id);
    true
}

/// Adds a waiting job that is not in the queue to the blocked ones.
pub(super) fn add_blocked(cluster: &mut Cluster, id: JobId) {
    cluster.state.blocked.insert(id);
    if let Some(job) = cluster.state.jobs.get(id) {
        cluster.index.blocked.add(id, job, &cluster.state.clock);
    }
}

/// Removes a job that no longer waits, or may run now, from the blocked ones.
pub(super) fn unblock(cluster: &mut Cluster, id: JobId) {
    quota::leave_line(cluster, id);
    licences::leave_line(cluster, id);
    cluster.state.blocked.remove(id);
    if let Some(job) = cluster.state.jobs.get(id) {
        cluster.index.blocked.remove(id, job, &cluster.state.clock);
    }
}

/// Checks a job again after a change that may have unblocked it.
pub(super) fn reconsider(cluster: &mut Cluster, now: Time, id: JobId) {
    if !cluster.state.blocked.contains(id) {
        return;
    }
    if condition(cluster, now, id).is_some() {
        cluster.index.blocked.untold.insert(id);
        return;
    }
    if cluster.state.is_in_line(id) {
        return;
    }
    if quota::make_room(cluster, now, id) && licences::make_room(cluster, now, id) {
        return enter(cluster, now, id, |_| ());
    }
    if let Some(job) = cluster.state.jobs.get_mut(id) {
        job.phase = Phase::Waiting(None);
    }
    cluster.index.blocked.untold.insert(id);
}

/// Unblocks a job.
pub(super) fn enter(cluster: &mut Cluster, now: Time, id: JobId, done: impl FnOnce(&mut Cluster)) {
    unblock(cluster, id);
    done(cluster);
    if let Some(job) = cluster.state.jobs.get_mut(id) {
        job.phase = Phase::Waiting(None);
        job.eligible = Some(now);
    }
    if cluster.state.arrays.contains_key(&id) {
        cluster.index.hungry.insert(id);
    } else {
        jobs::queue(cluster, now, id);
        cluster.index.hungry.extend(cluster.state.array_of(id).map(|(own, _)| own));
    }
    // The job may come before others in the queue.
    cluster.index.cache = None;
    cluster.state.dirty = true;
}

/// Handles the jobs whose begin time is reached.
pub(crate) fn begin_due(cluster: &mut Cluster, now: Time) {
    while let Some(id) = cluster.index.blocked.next_to_begin(now) {
        reconsider(cluster, now, id);
    }
}

/// Gives blocked jobs their reasons, each once.
pub(crate) fn tell_blocked(cluster: &mut Cluster, now: Time) -> Vec<(JobId, Wait)> {
    let mut told_now = Vec::new();
    for id in std::mem::take(&mut cluster.index.blocked.untold).iter() {
        let Some(wait) = obstacle(cluster, now, id) else { continue };
        let Some(Job { phase: Phase::Waiting(told), .. }) = cluster.state.jobs.get_mut(id).map(Box::as_mut) else {
            continue;
        };
        if told.as_ref() == Some(&wait) {
            continue;
        }
        *told = Some(wait.clone());
        // The reason of the next task of an array is also the array's.
        let array = cluster.state.array_of(id).map(|(own, _)| own).filter(|_| {
            matches!(wait, Wait::Quota(_) | Wait::Account { .. } | Wait::Qos { .. } | Wait::Licence { .. })
        });
        match array.and_then(|own| Some((own, cluster.state.jobs.get_mut(own)?))) {
            None => told_now.push((id, wait)),
            // The array is held itself, and already has that reason.
            Some((own, _)) if cluster.state.blocked.contains(own) => {}
            Some((own, job)) if job.phase != Phase::Waiting(Some(wait.clone())) => {
                job.phase = Phase::Waiting(Some(wait.clone()));
                told_now.push((own, wait));
            }
            Some(_) => {}
        }
    }
    told_now
}

/// Handles the start of a job: dependants may run now.
pub(super) fn begun(cluster: &mut Cluster, now: Time, id: JobId) {
    for dependent in cluster.index.blocked.dependents_of(id) {
        let Some(job) = cluster.state.jobs.get_mut(dependent) else { continue };
        job.after.retain(|on| on.job != id || on.condition != Condition::After);
        if !job.after.iter().any(|on| on.job == id) {
            cluster.index.blocked.no_longer_depends(dependent, id);
        }
        reconsider(cluster, now, dependent);
    }
}

/// Handles the end of a job that was removed from the state. Dependants with met conditions may run. Dependants that
/// can never run are over too, with their own dependants.
pub(crate) fn over(cluster: &mut Cluster, now: Time, (id, request): (JobId, &Request), end: &JobEnd) {
    let unmet = gone(cluster, now, (id, request), Became::of(end));
    end_unmet(cluster, now, unmet);
}

/// Handles tasks that will never become jobs.
pub(super) fn never(cluster: &mut Cluster, now: Time, tasks: RangeInclusive<JobId>) {
    let unmet = follow_all(cluster, now, tasks);
    end_unmet(cluster, now, unmet);
}

type Unmet = Vec<(JobId, Dependency, Became)>;

fn end_unmet(cluster: &mut Cluster, now: Time, unmet: Unmet) {
    let mut unmet = VecDeque::from(unmet);
    while let Some((id, dependency, became)) = unmet.pop_front() {
        unblock(cluster, id);
        let Some(job) = cluster.state.jobs.remove(id) else { continue };
        let array = arrays::take_out(cluster, id);
        if let Some(array) = &array {
            unmet.extend(follow_all(cluster, now, array.numbers(id, 0)));
        }
        let end = JobEnd::Unmet { dependency, became };
        unmet.extend(gone(cluster, now, (id, &job.request), Became::of(&end)));
        let tasks = array.map(|array| array.ended.counts);
        cluster.state.finish(Finished { tasks, ..Finished::before_start(id, &job, now, end) });
    }
}

/// Updates the dependants of a job that has ended. Returns those whose conditions can never be met.
fn gone(cluster: &mut Cluster, now: Time, (id, request): (JobId, &Request), became: Became) -> Unmet {
    quota::gone(cluster, now, id, request);
    licences::give_back(cluster, now, id, request);
    if let Some(next) = cluster.index.blocked.gone(id, request) {
        reconsider(cluster, now, next);
    }
    follow(cluster, now, id, became)
}

fn follow_all(cluster: &mut Cluster, now: Time, tasks: RangeInclusive<JobId>) -> Unmet {
    let awaited = cluster.index.blocked.awaited(tasks);
    awaited.into_iter().flat_map(|id| follow(cluster, now, id, Became::Cancelled)).collect()
}

fn follow(cluster: &mut Cluster, now: Time, id: JobId, became: Became) -> Unmet {
    let mut unmet = Vec::new();
    for dependent in cluster.index.blocked.dependents_of(id) {
        let Some(job) = cluster.state.jobs.get_mut(dependent) else { continue };
        if let Some(on) = job.after.iter().find(|on| on.job == id && !became.meets(on.condition)) {
            unmet.push((dependent, *on, became));
            continue;
        }
        job.after.retain(|on| on.job != id);
        cluster.index.blocked.no_longer_depends(dependent, id);
        reconsider(cluster, now, dependent);
    }
    unmet
}

/// Checks that a job can be held: it is waiting, or will wait again.
pub(crate) fn check_hold(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    let comes_back = || job.assignment().is_some_and(Assignment::runs_again);
    let can = matches!(job.phase, Phase::Waiting(_)) || comes_back();
    if can { Ok(()) } else { Err(Refused::NotWaiting { job: id }) }
}

pub(super) fn held(cluster: &mut Cluster, now: Time, id: JobId, by: &str) -> Result<(), Refused> {
    check_hold(&cluster.state, id)?;
    if let Some(job) = cluster.state.jobs.get_mut(id)
        && (job.held.is_none() || by != job.request.user)
    {
        job.held = Some(by.to_owned());
    }
    if cluster.state.blocked.contains(id) && !cluster.state.is_in_line(id) {
        cluster.index.blocked.untold.insert(id);
    } else {
        wait_again(cluster, now, id);
    }
    Ok(())
}

/// Blocks a job that was free to run, or waited for a quota or its licences alone.
pub(super) fn wait_again(cluster: &mut Cluster, now: Time, id: JobId) {
    if cluster.state.is_in_line(id) {
        quota::leave_line(cluster, id);
        licences::leave_line(cluster, id);
        cluster.index.blocked.untold.insert(id);
        let Some(job) = cluster.state.jobs.get_mut(id) else { return };
        job.phase = Phase::Waiting(None);
        let request = Arc::clone(&job.request);
        quota::give_back(cluster, now, id, &request);
        quota::admit(cluster, now, &request);
        licences::give_back(cluster, now, id, &request);
    } else if cluster.state.queue.contains(id) {
        jobs::dequeue(cluster, id);
        if let Some(job) = cluster.state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        block(cluster, now, id);
        if let Some(request) = cluster.state.jobs.get(id).map(|job| Arc::clone(&job.request)) {
            quota::give_back(cluster, now, id, &request);
            licences::give_back(cluster, now, id, &request);
        }
    } else if cluster.state.arrays.contains_key(&id) && !cluster.state.blocked.contains(id) {
        // A job that has begun continues.
        arrays::unmake_tasks(cluster, now, id);
        block(cluster, now, id);
    }
}

pub(crate) fn check_release(state: &State, id: JobId) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    if job.held.is_some() { Ok(()) } else { Err(Refused::NotHeld { job: id }) }
}

pub(super) fn released(cluster: &mut Cluster, now: Time, id: JobId) -> Result<(), Refused> {
    check_release(&cluster.state, id)?;
    if let Some(job) = cluster.state.jobs.get_mut(id) {
        job.held = None;
    }
    reconsider(cluster, now, id);
    Ok(())
}

impl Finished {
    /// Returns the report of a job that never ran.
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
            evictions: job.evictions,
            kept: job.kept,
            new_limit: job.new_limit,
            steps: job.step_count(),
        }
    }
}
