//! Quotas: a job enters the queue only if it fits the quotas of all its payers (its user, its QOS, its account and those
//! above it) together with their running and queued jobs. So plans cannot exceed a quota. Until then the job is blocked.
//!
//! Jobs are charged to one payer after the other, in a fixed order, and wait in the line of the first that has no room. In
//! a line they are in the order of their priorities and of submission. A waiting job keeps its charges, so that no job
//! waits forever: since the order is the same for all jobs, they cannot wait for each other.

use std::sync::Arc;

use limo_model::{Energy, JobId, OverQuota, Quota, Quotas, Request, Time, Wait};

use super::need::need;
use super::{eligible, jobs, licences, tree};
use crate::cluster::Cluster;
use crate::index::{PayerSums, Payers};
use crate::refused::Refused;
use crate::state::{Assignment, Charge, Clock, Job, Payer, Phase, Settings, State, Used};

/// Refuses a submission that a quota forbids or could never allow.
pub(super) fn check(cluster: &Cluster, now: Time, request: &Request, tasks: u32) -> Result<(), Refused> {
    let settings = &cluster.state.settings;
    if settings.denied.contains(&request.user) {
        return Err(Refused::Denied { user: request.user.clone() });
    }
    if !settings.have_quotas() {
        return Ok(());
    }
    for (payer, most) in settings.submitters(request) {
        let Some(most) = most else { continue };
        let has = submitted(cluster, &payer);
        if has + u64::from(tasks) > u64::from(most) {
            return Err(Refused::TooManySubmitted { of: payer.to_string(), has, more: tasks, most });
        }
    }
    let need = need(cluster, request);
    for (payer, quota) in settings.payers(request) {
        let of = payer.to_string();
        if let Some(over) = beyond(&quota, &need, (0, 0, Energy::ZERO), (&cluster.state.clock, now)) {
            return Err(Refused::NeverInQuota { of, over });
        }
        if let Some(over) = over(cluster, now, (&payer, &quota), &need).filter(|_| request.immediate) {
            return Err(Refused::NotInQuota { of, over });
        }
    }
    Ok(())
}

/// Returns the number of a payer's unfinished jobs; each task of an array counts as one.
fn submitted(cluster: &Cluster, payer: &Payer) -> u64 {
    let Some(held) = sums(cluster, payer) else { return 0 };
    let count =
        |id: &JobId| cluster.state.arrays.get(id).map_or(1, |array| u64::from(array.left()) + u64::from(array.live()));
    held.submitted.iter().map(count).sum()
}

fn sums<'a>(cluster: &'a Cluster, payer: &Payer) -> Option<&'a PayerSums> {
    cluster.index.payers.as_ref()?.get(payer)
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

fn over(cluster: &Cluster, now: Time, (payer, quota): (&Payer, &Quota), need: &Charge) -> Option<OverQuota> {
    let (jobs, cores, expected) =
        sums(cluster, payer).map_or((0, 0, Energy::ZERO), |held| (held.jobs, held.cores, held.energy));
    // Only users have limits of energy.
    let used = quota.energy.and_then(|(_, window)| match payer {
        Payer::User(user) => Some(cluster.state.used.get(user)?.in_window(window, cluster.state.clock.shown(now))),
        Payer::Qos { .. } | Payer::Account(_) => None,
    });
    beyond(quota, need, (jobs, cores, expected + used.unwrap_or_default()), (&cluster.state.clock, now))
}

/// Returns the number of payers to which a job is charged.
fn charged(state: &State, id: JobId) -> usize {
    state.charges.get(&id).map_or(0, |charge| usize::from(charge.payers))
}

/// Returns the payer in whose line a job waits, and its quota.
fn awaited(state: &State, id: JobId, request: &Request) -> Option<(Payer, Quota)> {
    state.settings.payers(request).into_iter().nth(charged(state, id))
}

/// Returns the wait reason of a job over a quota.
pub(super) fn wait_of(cluster: &Cluster, now: Time, id: JobId) -> Option<Wait> {
    let job = cluster.state.jobs.get(id).filter(|_| cluster.state.over_quota.contains(id))?;
    let (payer, quota) = awaited(&cluster.state, id, &job.request)?;
    let first = || sums(cluster, &payer)?.waiting.first().map(|(_, first)| *first);
    let over = over(cluster, now, (&payer, &quota), &need(cluster, &job.request));
    let over = over.unwrap_or_else(|| OverQuota::Turn { job: first().unwrap_or(id) });
    Some(payer.wait(over))
}

/// Charges a job that may run to its payers, or blocks it in the line of the first that has no room. Returns true if it
/// may enter the queue.
pub(super) fn make_room(cluster: &mut Cluster, now: Time, id: JobId) -> bool {
    if cluster.index.payers.is_none() || cluster.state.arrays.contains_key(&id) {
        return true;
    }
    let Some(request) = cluster.state.jobs.get(id).map(|job| Arc::clone(&job.request)) else { return true };
    // A returning job gives its charge back first: the quotas or its nodes may have changed.
    charge(cluster, &request, id, None);
    take_turns(cluster, now, (id, &request), 0)
}

/// Charges a job to its payers from this one on, as far as they have room. Returns true if all have.
fn take_turns(cluster: &mut Cluster, now: Time, (id, request): (JobId, &Request), from: usize) -> bool {
    let payers = cluster.state.settings.payers(request);
    if payers.is_empty() {
        return true;
    }
    let (need, rank) = (need(cluster, request), (-request.priority, id));
    for (place, (payer, quota)) in payers.iter().enumerate().skip(from) {
        let is_first = sums(cluster, payer).and_then(|held| held.waiting.first()).is_none_or(|first| rank < *first);
        if is_first && over(cluster, now, (payer, quota), &need).is_none() {
            continue;
        }
        // There are at most ten payers.
        let part = (place > 0).then(|| Charge { payers: u8::try_from(place).unwrap_or(u8::MAX), ..need });
        charge(cluster, request, id, part);
        cluster.state.over_quota.insert(id);
        if let Some(all) = &mut cluster.index.payers {
            all.entry(payer).waiting.insert(rank);
        }
        return false;
    }
    charge(cluster, request, id, Some(need));
    true
}

/// Replaces the charge of a job.
fn charge(cluster: &mut Cluster, request: &Request, id: JobId, charge: Option<Charge>) {
    let before = match charge {
        Some(charge) => cluster.state.charges.insert(id, charge),
        None => cluster.state.charges.remove(&id),
    };
    let Some(all) = &mut cluster.index.payers else { return };
    for (place, (payer, _)) in cluster.state.settings.payers(request).iter().enumerate() {
        let is_charged = |charge: &Charge| place < usize::from(charge.payers);
        if let Some(before) = before.filter(is_charged) {
            all.entry(payer).give(&before);
        }
        if let Some(charge) = charge.filter(is_charged) {
            all.entry(payer).take(&charge);
        }
    }
}

/// Returns true if a charged job would be admitted with this request instead of its own.
pub(super) fn would_admit(cluster: &mut Cluster, now: Time, id: JobId, request: &Request) -> bool {
    let before = cluster.state.charges.get(&id).copied();
    charge(cluster, request, id, None);
    let need = need(cluster, request);
    let payers = cluster.state.settings.payers(request);
    let admits = payers.iter().all(|(payer, quota)| over(cluster, now, (payer, quota), &need).is_none());
    charge(cluster, request, id, before);
    admits
}

/// Charges a charged job for this request from now on.
pub(super) fn charge_again(cluster: &mut Cluster, id: JobId, request: &Request) {
    let need = need(cluster, request);
    charge(cluster, request, id, Some(need));
}

/// Lets waiting jobs go on as far as the payers of a request have room.
pub(super) fn admit(cluster: &mut Cluster, now: Time, request: &Request) {
    if cluster.index.payers.is_some() {
        for (payer, _) in cluster.state.settings.payers(request) {
            admit_line(cluster, now, &payer);
        }
    }
}

fn admit_line(cluster: &mut Cluster, now: Time, payer: &Payer) {
    loop {
        let first = sums(cluster, payer).and_then(|held| held.waiting.first()).map(|(_, id)| *id);
        let Some((id, job)) = first.and_then(|id| Some((id, cluster.state.jobs.get(id)?))) else { return };
        let request = Arc::clone(&job.request);
        let Some((_, quota)) = awaited(&cluster.state, id, &request) else { return };
        if let Some(over) = over(cluster, now, (payer, &quota), &need(cluster, &request)) {
            tell_again(cluster, id, payer.clone().wait(over));
            return;
        }
        let from = charged(&cluster.state, id);
        leave_line(cluster, id);
        if take_turns(cluster, now, (id, &request), from) && licences::make_room(cluster, now, id) {
            eligible::enter(cluster, now, id, |_| ());
            continue;
        }
        // It waits for the next payer, or for its licences.
        if let Some(job) = cluster.state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        cluster.index.blocked.untold.insert(id);
    }
}

/// Updates the reason of the first job of a line.
fn tell_again(cluster: &mut Cluster, id: JobId, wait: Wait) {
    if let Some(Job { phase: phase @ Phase::Waiting(_), .. }) = cluster.state.jobs.get_mut(id).map(Box::as_mut)
        && *phase != Phase::Waiting(Some(wait))
    {
        *phase = Phase::Waiting(None);
        cluster.index.blocked.untold.insert(id);
    }
}

/// Unblocks a job that waited for a quota; if it is a task, the next one may enter.
pub(super) fn leave_line(cluster: &mut Cluster, id: JobId) {
    if !cluster.state.over_quota.remove(id) {
        return;
    }
    if let Some(job) = cluster.state.jobs.get(id)
        && let Some((payer, _)) = awaited(&cluster.state, id, &job.request)
        && let Some(all) = &mut cluster.index.payers
    {
        all.entry(&payer).waiting.remove(&(-job.request.priority, id));
    }
    cluster.index.hungry.extend(cluster.state.array_of(id).map(|(own, _)| own));
}

/// Handles a job that no longer runs, and will not start.
pub(super) fn give_back(cluster: &mut Cluster, now: Time, id: JobId, request: &Request) {
    if cluster.state.charges.contains_key(&id) {
        charge(cluster, request, id, None);
        admit(cluster, now, request);
    }
}

/// Gives the charge of a job back that was blocked, unless it waits for a quota or for licences.
pub(super) fn blocked(cluster: &mut Cluster, now: Time, id: JobId, request: &Request) {
    if !cluster.state.is_in_line(id) {
        give_back(cluster, now, id, request);
    }
    // The job may have given some room back even if it waits.
    admit(cluster, now, request);
}

/// Adds a new job or array.
pub(super) fn known(cluster: &mut Cluster, id: JobId, request: &Request) {
    let Some(all) = &mut cluster.index.payers else { return };
    for (payer, _) in cluster.state.settings.submitters(request) {
        all.entry(&payer).submitted.insert(id);
    }
}

/// Removes a finished job or array.
pub(super) fn gone(cluster: &mut Cluster, now: Time, id: JobId, request: &Request) {
    let Some(all) = &mut cluster.index.payers else { return };
    let submitters = cluster.state.settings.submitters(request);
    for (payer, _) in &submitters {
        all.entry(payer).submitted.remove(&id);
    }
    give_back(cluster, now, id, request);
    // A shorter line may let jobs enter even if no room was freed.
    admit(cluster, now, request);
    let payers = cluster.state.settings.payers(request);
    if let Some(all) = &mut cluster.index.payers {
        submitters
            .iter()
            .map(|(payer, _)| payer)
            .chain(payers.iter().map(|(payer, _)| payer))
            .for_each(|payer| all.tidy(payer));
    }
}

/// Records the exact cores of a job that was put on its nodes.
pub(crate) fn placed(cluster: &mut Cluster, now: Time, id: JobId, assignment: &Assignment) {
    if !cluster.state.charges.contains_key(&id) {
        return;
    }
    let Some(request) = cluster.state.jobs.get(id).map(|job| Arc::clone(&job.request)) else { return };
    charge(cluster, &request, id, Some(taken_by(assignment)));
    admit(cluster, now, &request);
}

fn taken_by(assignment: &Assignment) -> Charge {
    let cores = assignment.placement.iter().map(|part| part.cores.saturating_mul(part.count));
    Charge::new(cores.fold(0, u32::saturating_add), assignment.estimate.energy)
}

/// Adds the usage of a run that is over, or was ended to run again.
pub(super) fn used(state: &mut State, now: Time, request: &Request, (energy, core_ms): (Energy, u64)) {
    if !state.settings.counts_users() {
        return;
    }
    tree::used(state, now, request, (energy, core_ms));
    let user = &request.user;
    if !state.used.contains_key(user) {
        state.used.insert(user.clone(), Used { at: now, ..Used::default() });
    }
    if let Some(used) = state.used.get_mut(user) {
        used.add(state.clock.shown(now), energy);
        let mj = u64::try_from(energy.mj()).unwrap_or(0);
        used.count(now, [mj, core_ms], state.settings.fairshare.half_life);
    }
}

/// Returns the beginnings of the next days, weeks or months for which blocked jobs wait.
fn turns(cluster: &Cluster) -> impl Iterator<Item = (Time, &String)> {
    let payers = cluster.index.payers.iter().flat_map(Payers::iter).filter(|(_, held)| !held.waiting.is_empty());
    payers.filter_map(|(payer, _)| {
        let Payer::User(user) = payer else { return None };
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
        admit_line(cluster, now, &Payer::User(user));
    }
}

/// Sets the quotas of users.
pub(super) fn set(cluster: &mut Cluster, now: Time, quotas: &Quotas) -> Result<(), Refused> {
    change(cluster, now, |settings| settings.quotas = quotas.clone());
    Ok(())
}

/// Checks all waiting jobs again, for nodes with other cores.
pub(super) fn check_again(cluster: &mut Cluster, now: Time) {
    if cluster.state.settings.accounts.are_limited() || cluster.state.settings.qos.are_limited() {
        change(cluster, now, |_| ());
    }
}

/// Changes the settings of quotas. All accepted waiting jobs are checked again; running jobs continue.
pub(super) fn change(cluster: &mut Cluster, now: Time, change: impl FnOnce(&mut Settings)) {
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
    cluster.index.payers = None;
    change(&mut cluster.state.settings);
    let settings = &cluster.state.settings;
    if settings.have_quotas() {
        for (id, job) in cluster.state.active.iter().filter_map(|id| cluster.state.jobs.get(id).map(|job| (id, job))) {
            let charge = job.assignment().filter(|_| !settings.payers(&job.request).is_empty()).map(taken_by);
            cluster.state.charges.extend(charge.map(|charge| (id, charge)));
        }
        cluster.index.payers = Some(Payers::of(&cluster.state));
    }
    again.sort_unstable_by_key(|id| (cluster.state.jobs.get(*id).map_or(0, |job| -job.request.priority), *id));
    for id in again {
        if let Some(job) = cluster.state.jobs.get_mut(id) {
            job.phase = Phase::Waiting(None);
        }
        jobs::enqueue(cluster, now, id);
    }
}

/// Changes a job, and updates its place in its line.
pub(super) fn ranked(cluster: &mut Cluster, now: Time, id: JobId, change: impl FnOnce(&mut Cluster)) {
    let waits = cluster.state.over_quota.contains(id);
    if waits {
        leave_line(cluster, id);
    }
    change(cluster);
    let Some(job) = cluster.state.jobs.get(id).filter(|_| waits) else { return };
    let (request, priority) = (Arc::clone(&job.request), job.request.priority);
    let awaited = awaited(&cluster.state, id, &request);
    cluster.state.over_quota.insert(id);
    if let Some((all, (payer, _))) = cluster.index.payers.as_mut().zip(awaited) {
        all.entry(&payer).waiting.insert((-priority, id));
    }
    admit(cluster, now, &request);
}
