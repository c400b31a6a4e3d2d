//! Licences: a job enters the queue only if its licences are free, and holds them until its end. So policies need not
//! know of licences, and each planned start has its own. Until then the job is blocked.
//!
//! Jobs get licences in the order of their priorities and of submission. Free licences for which a job waits are kept for
//! it, so that jobs that need few never delay one that needs many. A job in the queue gives them up to a job before it in
//! this order.

use std::ops::Bound;
use std::sync::Arc;

use limo_model::{JobId, LicenceCount, Licences, Request, Time, Wait, check_licences};

use super::{eligible, jobs};
use crate::cluster::Cluster;
use crate::index::{LicenceLine, LicenceLines, Turn, licences_of, turn};
use crate::refused::Refused;
use crate::state::{Phase, State};

/// Most holders of licences in a wait reason.
const HOLDERS_SHOWN: usize = 4;

/// Refuses a job whose licences are unknown or too many.
pub(super) fn check(cluster: &Cluster, id: JobId, request: &Request) -> Result<(), Refused> {
    check_licences(&request.licences)?;
    let all = &cluster.state.settings.licences;
    for LicenceCount { name, count } in &request.licences {
        match all.count(name) {
            None => {
                let known: Vec<&str> = all.iter().map(|(name, _)| name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Refused::NoSuchLicence { name: name.clone(), known: limo_model::clip(known, 256) });
            }
            Some(total) if count.get() > total => {
                return Err(Refused::TooFewLicences { name: name.clone(), needs: count.get(), total });
            }
            Some(_) => {}
        }
    }
    if request.immediate && room(cluster, id, request).is_none() {
        let wait = lacking(cluster, id, request).shown(|_| String::new()).to_string();
        return Err(Refused::LicencesInUse { wait });
    }
    Ok(())
}

/// Returns the queued jobs that must give up their licences before a job gets its own; `None` if it must wait. The job holds
/// none and waits for none.
fn room(cluster: &Cluster, id: JobId, request: &Request) -> Option<Vec<JobId>> {
    let mut victims = Vec::new();
    for own in &request.licences {
        let needs = i64::from(own.count.get());
        let mut left = i64::from(cluster.state.settings.licences.count(&own.name)?);
        let Some(line) = cluster.index.licences.get(&own.name) else {
            if needs > left {
                return None;
            }
            continue;
        };
        left -= i64::try_from(line.held).unwrap_or(i64::MAX);
        let behind = later_in_queue(&cluster.state, line, turn(id, request));
        let of = |id: JobId| -> i64 {
            let job = cluster.state.jobs.get(id);
            job.map_or(0, |job| licences_of(&job.request, &own.name)).try_into().unwrap_or(i64::MAX)
        };
        let most: i64 = behind.iter().map(|id| of(*id)).sum();
        for (_, before) in line.waiting.range(..turn(id, request)) {
            left -= of(*before);
            if left + most < needs {
                return None;
            }
        }
        for victim in behind {
            if left >= needs {
                break;
            }
            left += of(victim);
            victims.push(victim);
        }
        if left < needs {
            return None;
        }
    }
    Some(victims)
}

/// Returns the jobs of the queue that hold licences and come after a place in the line, the last one first.
fn later_in_queue(state: &State, line: &LicenceLine, place: Turn) -> Vec<JobId> {
    let later = line.holders.range((Bound::Excluded(place), Bound::Unbounded)).rev();
    later.map(|(_, id)| *id).filter(|id| state.queue.contains(*id)).collect()
}

/// Gives a job its licences, or lets it wait for them. Returns true if it may enter the queue.
pub(super) fn make_room(cluster: &mut Cluster, now: Time, id: JobId) -> bool {
    let Some(job) = cluster.state.jobs.get(id).filter(|job| !job.request.licences.is_empty()) else { return true };
    if cluster.state.arrays.contains_key(&id) {
        return true;
    }
    let request = Arc::clone(&job.request);
    cluster.index.licences.release(id, &request);
    let Some(victims) = room(cluster, id, &request) else {
        cluster.state.over_licence.insert(id);
        cluster.index.licences.wait(id, &request);
        return false;
    };
    for victim in &victims {
        take_back(cluster, *victim);
    }
    cluster.index.licences.hold(id, &request);
    for victim in victims {
        let of = cluster.state.jobs.get(victim).map(|job| Arc::clone(&job.request));
        of.iter().for_each(|request| admit(cluster, now, request));
    }
    true
}

/// Blocks a job of the queue, which gives up its licences and keeps its room in its user's quota.
fn take_back(cluster: &mut Cluster, id: JobId) {
    jobs::dequeue(cluster, id);
    let Some(job) = cluster.state.jobs.get_mut(id) else { return };
    job.phase = Phase::Waiting(None);
    let request = Arc::clone(&job.request);
    cluster.index.licences.release(id, &request);
    cluster.index.licences.wait(id, &request);
    cluster.state.over_licence.insert(id);
    eligible::add_blocked(cluster, id);
}

/// Lets waiting jobs enter the queue as far as the kinds of licences of a request are free.
pub(super) fn admit(cluster: &mut Cluster, now: Time, request: &Request) {
    for LicenceCount { name, .. } in &request.licences {
        let total = u64::from(cluster.state.settings.licences.count(name).unwrap_or(0));
        let (mut after, mut kept) = (None, 0);
        while let Some(place) = next_waiting(&cluster.index.licences, name, after) {
            let Some(job) = cluster.state.jobs.get(place.1) else { break };
            let waiting = Arc::clone(&job.request);
            if room(cluster, place.1, &waiting).is_some() {
                eligible::enter(cluster, now, place.1, |cluster| {
                    make_room(cluster, now, place.1);
                });
            }
            // It is still there if another of its licences is not free.
            if cluster.state.over_licence.contains(place.1) {
                kept += licences_of(&waiting, name);
                after = Some(place);
            }
            let held = cluster.index.licences.get(name).map_or(0, |line| line.held);
            if kept >= total.saturating_sub(held) {
                break;
            }
        }
    }
}

fn next_waiting(lines: &LicenceLines, name: &str, after: Option<Turn>) -> Option<Turn> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    lines.get(name)?.waiting.range((from, Bound::Unbounded)).next().copied()
}

/// Returns the wait reason of a job that waits for licences.
pub(super) fn wait_of(cluster: &Cluster, id: JobId) -> Option<Wait> {
    let job = cluster.state.jobs.get(id).filter(|_| cluster.state.over_licence.contains(id))?;
    Some(lacking(cluster, id, &job.request))
}

/// Returns the first kind of licence of which a job does not get enough.
fn lacking(cluster: &Cluster, id: JobId, request: &Request) -> Wait {
    let lines = &cluster.index.licences;
    let held = |own: &LicenceCount| lines.get(&own.name).map_or(0, |line| line.held);
    let total = |own: &LicenceCount| cluster.state.settings.licences.count(&own.name);
    let is_used_up =
        |own: &&LicenceCount| total(own).is_none_or(|total| held(own) + u64::from(own.count.get()) > u64::from(total));
    let is_before = |own: &&LicenceCount| {
        lines.get(&own.name).is_some_and(|line| line.waiting.first().is_some_and(|first| *first < turn(id, request)))
    };
    let used_up = request.licences.iter().find(is_used_up);
    let own = used_up.or_else(|| request.licences.iter().find(is_before)).or(request.licences.first());
    let Some(own) = own else { return Wait::PlanRejected };
    let line = lines.get(&own.name);
    let by = match used_up {
        Some(_) => line.map(|line| line.holders.iter().take(HOLDERS_SHOWN).map(|(_, id)| *id).collect()),
        None => line.and_then(|line| line.waiting.first()).map(|(_, first)| vec![*first]),
    };
    Wait::Licence {
        licence: own.name.clone(),
        needs: own.count.get(),
        held: u32::try_from(held(own)).unwrap_or(u32::MAX),
        total: total(own),
        by: by.unwrap_or_default(),
    }
}

/// Removes a job from the lines in which it waits; if it is a task, the next one may enter.
pub(super) fn leave_line(cluster: &mut Cluster, id: JobId) {
    if !cluster.state.over_licence.remove(id) {
        return;
    }
    if let Some(job) = cluster.state.jobs.get(id) {
        cluster.index.licences.leave(id, &job.request);
    }
    cluster.index.hungry.extend(cluster.state.array_of(id).map(|(own, _)| own));
}

/// Returns the licences of a job that is over, or may no longer run.
pub(super) fn give_back(cluster: &mut Cluster, now: Time, id: JobId, request: &Request) {
    if !request.licences.is_empty() {
        cluster.index.licences.release(id, request);
        admit(cluster, now, request);
    }
}

/// Changes the priority of a job, and its place in the lines.
pub(super) fn ranked(cluster: &mut Cluster, now: Time, id: JobId, change: impl FnOnce(&mut Cluster)) {
    let Some(before) = cluster.state.jobs.get(id).map(|job| Arc::clone(&job.request)) else { return };
    if before.licences.is_empty() {
        return change(cluster);
    }
    let holds = cluster.index.licences.holds(id, &before);
    cluster.index.licences.release(id, &before);
    cluster.index.licences.leave(id, &before);
    change(cluster);
    let Some(after) = cluster.state.jobs.get(id).map(|job| Arc::clone(&job.request)) else { return };
    if holds {
        cluster.index.licences.hold(id, &after);
    }
    if cluster.state.over_licence.contains(id) {
        cluster.index.licences.wait(id, &after);
    }
    admit(cluster, now, &after);
}

/// Sets the licences. Waiting jobs are checked again; running jobs continue, even if they hold more than there are.
pub(super) fn set(cluster: &mut Cluster, now: Time, licences: &Licences) -> Result<(), Refused> {
    licences.check()?;
    cluster.state.settings.licences = licences.clone();
    let needs = |id: &JobId| cluster.state.jobs.get(*id).is_some_and(|job| !job.request.licences.is_empty());
    let mut again: Vec<JobId> =
        cluster.state.over_licence.iter().chain(cluster.state.queue.iter().filter(needs)).collect();
    for id in &again {
        jobs::dequeue(cluster, *id);
    }
    again.sort_unstable_by_key(|id| cluster.state.jobs.get(*id).map(|job| turn(*id, &job.request)));
    cluster.index.licences = LicenceLines::of(&cluster.state);
    for id in again {
        if let Some(job) = cluster.state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        jobs::enqueue(cluster, now, id);
    }
    Ok(())
}
