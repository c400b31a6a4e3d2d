//! Quotas: a job enters the queue only if it fits its user's quota together with the user's running and queued jobs. So
//! plans cannot exceed a quota. Until then the job is blocked; jobs of one user enter in the order of their priorities
//! and of submission.

use limo_model::{Energy, JobId, OverQuota, Quota, Quotas, Request, Time, Wait};

use super::{eligible, jobs, licences};
use crate::cluster::Cluster;
use crate::facts::{Known, allows_unit, cores_on, estimate, host_cores, units_wanted};
use crate::index::{Class, Users};
use crate::refused::Refused;
use crate::state::{Assignment, Charge, Clock, Job, Phase, State, Used};

/// Refuses a submission that the user's quota forbids or could never allow.
pub(super) fn check(cluster: &Cluster, now: Time, request: &Request, tasks: u32) -> Result<(), Refused> {
    let user = || request.user.clone();
    if cluster.state.settings.denied.contains(&request.user) {
        return Err(Refused::Denied { user: user() });
    }
    if cluster.state.settings.quotas.is_empty() {
        return Ok(());
    }
    let quota = cluster.state.settings.quotas.of(&request.user);
    if let Some(most) = quota.submitted {
        let has = submitted(cluster, &request.user);
        if has + u64::from(tasks) > u64::from(most) {
            return Err(Refused::TooManySubmitted { user: user(), has, more: tasks, most });
        }
    }
    let need = need(cluster, request);
    if let Some(over) = beyond(quota, &need, (0, 0, Energy::ZERO), (&cluster.state.clock, now)) {
        return Err(Refused::NeverInQuota { user: user(), over });
    }
    match over(cluster, now, &request.user, &need).filter(|_| request.immediate) {
        Some(over) => Err(Refused::NotInQuota { user: user(), over }),
        None => Ok(()),
    }
}

/// Returns the number of a user's unfinished jobs; each task of an array counts as one.
pub(crate) fn submitted(cluster: &Cluster, user: &str) -> u64 {
    let own = cluster.index.users.as_ref().and_then(|users| users.get(user)).map_or(0, |held| held.submitted.len());
    let is_users = |own: &JobId| cluster.state.jobs.get(*own).is_some_and(|job| job.request.user == user);
    let arrays = cluster.state.arrays.iter().filter(|(own, _)| is_users(own));
    let (arrays, tasks) =
        arrays.fold((0, 0), |(arrays, tasks), (_, array)| (arrays + 1, tasks + u64::from(array.left() + array.live())));
    own as u64 + tasks - arrays
}

/// Returns the most cores that a job could take on any known unit.
fn need(cluster: &Cluster, request: &Request) -> Charge {
    let units = cluster.index.classes.all().iter().flat_map(|class| &class.units);
    let able = || units.clone().filter(|unit| allows_unit(request, unit) && cores_on(request, unit) <= unit.cores);
    let cores = able().map(|unit| cores_on(request, unit)).max().unwrap_or_else(|| request.cores.on(1));
    let energy = able().map(|unit| estimate(Known::of(&cluster.state), request, unit).energy).max().unwrap_or_default();
    // The request states this number for each node.
    let parts = request.nodes.get().saturating_mul(u32::try_from(units_wanted(request)).unwrap_or(u32::MAX));
    let beside = beside_accelerators(cluster, request).unwrap_or_default();
    let cores = cores.saturating_mul(parts).saturating_add(beside.cores.saturating_mul(request.nodes.get()));
    Charge { cores, energy: energy.scaled(i64::from(parts), 1) + beside.energy.scaled(request.nodes.get().into(), 1) }
}

/// Returns the most cores that a job could take of a node's CPU next to its accelerators.
fn beside_accelerators(cluster: &Cluster, request: &Request) -> Option<Charge> {
    let of = |class: &Class| {
        let host = host_cores(request, &class.units)?;
        let energy = estimate(Known::of(&cluster.state), request, &class.units[usize::from(host.unit)]).energy;
        Some(Charge { cores: host.cores, energy })
    };
    let all = cluster.index.classes.all().iter().filter_map(of);
    all.reduce(|one, other| Charge { cores: one.cores.max(other.cores), energy: one.energy.max(other.energy) })
}

/// Returns the limit of a quota that a job would exceed in addition to the given jobs, cores and energy.
fn beyond(
    quota: &Quota,
    need: &Charge,
    (jobs, cores, energy): (u32, u64, Energy),
    (clock, now): (&Clock, Time),
) -> Option<OverQuota> {
    if let Some(most) = quota.jobs.filter(|most| jobs >= *most) {
        return Some(OverQuota::Jobs { has: jobs, most });
    }
    if let Some(most) = quota.cores.filter(|most| cores + u64::from(need.cores) > u64::from(*most)) {
        return Some(OverQuota::Cores { needs: need.cores, has: cores, most });
    }
    let (most, window) = quota.energy.filter(|(most, _)| energy + need.energy > *most)?;
    Some(OverQuota::Energy { needs: need.energy, has: energy, most, window, until: clock.window_end(window, now) })
}

fn over(cluster: &Cluster, now: Time, user: &str, need: &Charge) -> Option<OverQuota> {
    let quota = cluster.state.settings.quotas.of(user);
    let held = cluster.index.users.as_ref().and_then(|users| users.get(user));
    let (jobs, cores, expected) = held.map_or((0, 0, Energy::ZERO), |held| (held.jobs, held.cores, held.energy));
    let used = quota
        .energy
        .and_then(|(_, window)| Some(cluster.state.used.get(user)?.in_window(window, cluster.state.clock.shown(now))));
    beyond(quota, need, (jobs, cores, expected + used.unwrap_or_default()), (&cluster.state.clock, now))
}

/// Returns the wait reason of a job that exceeds its user's quota.
pub(super) fn wait_of(cluster: &Cluster, now: Time, id: JobId) -> Option<Wait> {
    let job = cluster.state.jobs.get(id).filter(|_| cluster.state.over_quota.contains(id))?;
    let user = &job.request.user;
    let first = || cluster.index.users.as_ref()?.get(user)?.waiting.first().map(|(_, first)| *first);
    let over = over(cluster, now, user, &need(cluster, &job.request));
    Some(Wait::Quota(over.unwrap_or(OverQuota::Turn { job: first().unwrap_or(id) })))
}

/// Charges a job that may run to its user's quota, or blocks the job if the quota is used up. Returns true if it may
/// enter the queue.
pub(super) fn make_room(cluster: &mut Cluster, now: Time, id: JobId) -> bool {
    if cluster.index.users.is_none() || cluster.state.arrays.contains_key(&id) {
        return true;
    }
    let Some(job) = cluster.state.jobs.get(id) else { return true };
    let (user, rank) = (job.request.user.clone(), (-job.request.priority, id));
    if !cluster.state.settings.quotas.of(&user).holds_back() {
        return true;
    }
    let need = need(cluster, &job.request);
    // A returning job gives its charge back first: the quota or its nodes may have changed.
    charge(cluster, &user, id, None);
    let line = cluster.index.users.as_ref().and_then(|users| users.get(&user)).map(|held| &held.waiting);
    let is_first = line.and_then(|line| line.first()).is_none_or(|first| rank < *first);
    if is_first && over(cluster, now, &user, &need).is_none() {
        charge(cluster, &user, id, Some(need));
        return true;
    }
    cluster.state.over_quota.insert(id);
    if let Some(users) = &mut cluster.index.users {
        users.entry(&user).waiting.insert(rank);
    }
    false
}

/// Charges a job to its user's quota from now on.
fn charge(cluster: &mut Cluster, user: &str, id: JobId, charge: Option<Charge>) {
    let before = match charge {
        Some(charge) => cluster.state.charges.insert(id, charge),
        None => cluster.state.charges.remove(&id),
    };
    let Some(users) = &mut cluster.index.users else { return };
    let held = users.entry(user);
    if let Some(before) = before {
        held.give(&before);
    }
    if let Some(charge) = charge {
        held.take(&charge);
    }
}

/// Returns true if a charged job would be admitted with this request instead of its own.
pub(super) fn would_admit(cluster: &mut Cluster, now: Time, id: JobId, request: &Request) -> bool {
    let before = cluster.state.charges.get(&id).copied();
    charge(cluster, &request.user, id, None);
    let need = need(cluster, request);
    let admits = over(cluster, now, &request.user, &need).is_none();
    charge(cluster, &request.user, id, before);
    admits
}

/// Charges a charged job for this request from now on.
pub(super) fn charge_again(cluster: &mut Cluster, id: JobId, request: &Request) {
    let need = need(cluster, request);
    charge(cluster, &request.user, id, Some(need));
}

/// Lets a user's waiting jobs enter the queue as far as they fit the quota.
pub(super) fn admit(cluster: &mut Cluster, now: Time, user: &str) {
    loop {
        let first = cluster.index.users.as_ref().and_then(|users| users.get(user)?.waiting.first().copied());
        let Some((id, job)) = first.and_then(|(_, id)| Some((id, cluster.state.jobs.get(id)?))) else { return };
        let need = need(cluster, &job.request);
        if let Some(over) = over(cluster, now, user, &need) {
            tell_again(cluster, id, Wait::Quota(over));
            return;
        }
        if licences::make_room(cluster, now, id) {
            eligible::enter(cluster, now, id, |cluster| charge(cluster, user, id, Some(need)));
            continue;
        }
        // It counts in the quota from now on, and waits for its licences.
        leave_line(cluster, id);
        charge(cluster, user, id, Some(need));
        if let Some(job) = cluster.state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        cluster.index.blocked.untold.insert(id);
    }
}

/// Updates the reason of the user's first blocked job.
fn tell_again(cluster: &mut Cluster, id: JobId, wait: Wait) {
    if let Some(Job { phase: phase @ Phase::Waiting(_), .. }) = cluster.state.jobs.get_mut(id).map(Box::as_mut)
        && *phase != Phase::Waiting(Some(wait))
    {
        *phase = Phase::Waiting(None);
        cluster.index.blocked.untold.insert(id);
    }
}

/// Unblocks a job that waited for its quota; if it is a task, the next one may enter.
pub(super) fn leave_line(cluster: &mut Cluster, id: JobId) {
    if !cluster.state.over_quota.remove(id) {
        return;
    }
    if let Some((users, job)) = cluster.index.users.as_mut().zip(cluster.state.jobs.get(id)) {
        users.entry(&job.request.user).waiting.remove(&(-job.request.priority, id));
    }
    cluster.index.hungry.extend(cluster.state.array_of(id).map(|(own, _)| own));
}

/// Handles a job that no longer runs, and will not start.
pub(super) fn give_back(cluster: &mut Cluster, now: Time, id: JobId, user: &str) {
    if cluster.state.charges.contains_key(&id) {
        charge(cluster, user, id, None);
        admit(cluster, now, user);
    }
}

/// Adds a new job or array.
pub(super) fn known(cluster: &mut Cluster, id: JobId, user: &str) {
    if let Some(users) = &mut cluster.index.users {
        users.entry(user).submitted.insert(id);
    }
}

/// Removes a finished job or array.
pub(super) fn gone(cluster: &mut Cluster, now: Time, id: JobId, user: &str) {
    let Some(users) = &mut cluster.index.users else { return };
    users.entry(user).submitted.remove(&id);
    give_back(cluster, now, id, user);
    // A shorter line may let jobs enter even if no room was freed.
    admit(cluster, now, user);
    if let Some(users) = &mut cluster.index.users {
        users.tidy(user);
    }
}

/// Records the exact cores of a job that was put on its nodes.
pub(crate) fn placed(cluster: &mut Cluster, now: Time, id: JobId, assignment: &Assignment) {
    if !cluster.state.charges.contains_key(&id) {
        return;
    }
    let Some(user) = cluster.state.jobs.get(id).map(|job| job.request.user.clone()) else { return };
    charge(cluster, &user, id, Some(taken_by(assignment)));
    admit(cluster, now, &user);
}

fn taken_by(assignment: &Assignment) -> Charge {
    let cores = assignment.placement.iter().map(|part| part.cores.saturating_mul(part.count));
    Charge { cores: cores.fold(0, u32::saturating_add), energy: assignment.estimate.energy }
}

/// Adds the usage of a run that is over, or was ended to run again.
pub(super) fn used(state: &mut State, now: Time, user: &str, (energy, core_ms): (Energy, u64)) {
    if !state.settings.counts_users() {
        return;
    }
    if !state.used.contains_key(user) {
        state.used.insert(user.to_owned(), Used { at: now, ..Used::default() });
    }
    if let Some(used) = state.used.get_mut(user) {
        used.add(state.clock.shown(now), energy);
        let mj = u64::try_from(energy.mj()).unwrap_or(0);
        used.count(now, [mj, core_ms], state.settings.fairshare.half_life);
    }
}

/// Returns the beginnings of the next days, weeks or months for which blocked jobs wait.
fn turns(cluster: &Cluster) -> impl Iterator<Item = (Time, &String)> {
    let users = cluster.index.users.iter().flat_map(Users::iter).filter(|(_, held)| !held.waiting.is_empty());
    users.filter_map(|(user, _)| {
        let (_, window) = cluster.state.settings.quotas.of(user).energy?;
        let (begin, energy) = cluster.state.used.get(user)?.energy[window as usize];
        (energy > Energy::ZERO).then(|| (cluster.state.clock.cluster(window.end(begin)), user))
    })
}

pub(crate) fn next_turn(cluster: &Cluster) -> Option<Time> {
    turns(cluster).map(|(at, _)| at).min()
}

/// Forgets the usage of the previous day, week or month.
pub(crate) fn turn(cluster: &mut Cluster, now: Time) {
    let users: Vec<String> = turns(cluster).filter(|(at, _)| *at <= now).map(|(_, user)| user.clone()).collect();
    for user in users {
        if let Some(used) = cluster.state.used.get_mut(&user) {
            used.add(cluster.state.clock.shown(now), Energy::ZERO);
        }
        admit(cluster, now, &user);
    }
}

/// Sets the quotas. All accepted waiting jobs are checked again; running jobs continue.
pub(super) fn set(cluster: &mut Cluster, now: Time, quotas: &Quotas) -> Result<(), Refused> {
    cluster.state.settings.quotas = quotas.clone();
    let mut again: Vec<JobId> = cluster.state.over_quota.iter().chain(cluster.state.over_licence.iter()).collect();
    for id in &again {
        eligible::unblock(cluster, *id);
    }
    let queued: Vec<JobId> = cluster.state.queue.iter().collect();
    for id in queued {
        jobs::dequeue(cluster, id);
        again.push(id);
    }
    cluster.state.charges.clear();
    cluster.index.users = None;
    if !quotas.is_empty() {
        for (id, job) in cluster.state.active.iter().filter_map(|id| cluster.state.jobs.get(id).map(|job| (id, job))) {
            let charge = job.assignment().filter(|_| quotas.of(&job.request.user).holds_back()).map(taken_by);
            cluster.state.charges.extend(charge.map(|charge| (id, charge)));
        }
        cluster.index.users = Some(Users::of(&cluster.state));
    }
    again.sort_unstable_by_key(|id| (cluster.state.jobs.get(*id).map_or(0, |job| -job.request.priority), *id));
    for id in again {
        if let Some(job) = cluster.state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        jobs::enqueue(cluster, now, id);
    }
    Ok(())
}

/// Changes a job, and updates its place in the user's line.
pub(super) fn ranked(cluster: &mut Cluster, now: Time, id: JobId, change: impl FnOnce(&mut Cluster)) {
    let waits = cluster.state.over_quota.contains(id);
    if waits {
        leave_line(cluster, id);
    }
    change(cluster);
    let job = cluster.state.jobs.get(id).filter(|_| waits);
    if let Some((user, priority)) = job.map(|job| (job.request.user.clone(), job.request.priority)) {
        cluster.state.over_quota.insert(id);
        if let Some(users) = &mut cluster.index.users {
            users.entry(&user).waiting.insert((-priority, id));
        }
        admit(cluster, now, &user);
    }
}
