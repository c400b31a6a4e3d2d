//! The order of the queue: by priority, and by number among equal priorities. A queue of equal priorities is in the
//! order of numbers and costs nothing here.
//!
//! Cost: ranking n jobs is a sort and one insertion each. It is done before a plan, and only if a job joined the queue
//! before one of a lower priority, or a priority changed; with weights, also as time passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use limo_model::{Fairshare, JobId, Measure, PRIORITY_LIMIT, Request, Span, Standing, Time};

use super::{licences, quota, tree};
use crate::cluster::Cluster;
use crate::fairshare::{age_points, share_points};
use crate::refused::Refused;
use crate::state::{Assignment, Job, Phase, Running, State};

/// A longer queue is ranked at most once in [`INSTANT`], or in [`PAUSE`] if it exceeds [`MANY`]. Several plans are
/// made at one time; array tasks that join between them are ranked before the first plan of the next time.
const FEW: usize = 64;
const INSTANT: Span = Span::from_ms(10);

/// A longer queue is ranked at most once in [`PAUSE`], because ranking takes about a millisecond. Otherwise urgent
/// submissions into a queue of 100,000 would make every round take thirty times as long. Meanwhile an urgent job
/// keeps the place of its number.
const MANY: usize = 4_096;
const PAUSE: Span = Span::from_secs(1);

pub(super) fn check_priority(priority: i32) -> Result<(), Refused> {
    match (-PRIORITY_LIMIT..=PRIORITY_LIMIT).contains(&priority) {
        true => Ok(()),
        false => Err(Refused::Priority { priority }),
    }
}

/// Refuses an immediate job that is beyond the depth of the policy.
pub(super) fn check_depth(cluster: &Cluster, request: &Request) -> Result<(), Refused> {
    let state = &cluster.state;
    let depth = state.settings.options.depth;
    if !request.immediate || cluster.parts.starts_one_by_one() {
        return Ok(());
    }
    let last = state.queue.iter().nth(depth.saturating_sub(1) as usize).and_then(|id| state.jobs.get(id));
    match last {
        Some(last) if last.request.priority >= request.priority => Err(Refused::TooFarBack { depth }),
        _ => Ok(()),
    }
}

/// Checks that a job can get another priority: it must wait.
pub(crate) fn check_priority_of(state: &State, id: JobId, priority: i32) -> Result<(), Refused> {
    let job = state.jobs.get(id).ok_or(Refused::NoSuchJob { job: id })?;
    check_priority(priority)?;
    if matches!(job.phase, Phase::Waiting(_)) { Ok(()) } else { Err(Refused::HasNoPriority { job: id }) }
}

pub(super) fn priority_set(cluster: &mut Cluster, now: Time, id: JobId, priority: i32) -> Result<(), Refused> {
    check_priority_of(&cluster.state, id, priority)?;
    let tasks = cluster.state.arrays.get(&id).map_or(0, |array| u64::from(array.made));
    for id in (id.0..=id.0 + tasks).map(JobId) {
        let change = |cluster: &mut Cluster| {
            if let Some(job) = cluster.state.jobs.get_mut(id).filter(|job| matches!(job.phase, Phase::Waiting(_))) {
                Arc::make_mut(&mut job.request).priority = priority;
            }
        };
        quota::ranked(cluster, now, id, |cluster| licences::ranked(cluster, now, id, change));
    }
    (cluster.state.ranking.mixed, cluster.state.ranking.due) = (true, true);
    Ok(())
}

/// Decays usage by the half-life that held until now.
pub(super) fn fairshare_set(state: &mut State, now: Time, fairshare: &Fairshare) -> Result<(), Refused> {
    let half_life = state.settings.fairshare.half_life;
    let in_accounts = state.account_used.values_mut().flat_map(BTreeMap::values_mut);
    state.used.values_mut().chain(in_accounts).for_each(|used| used.count(now, [0; 2], half_life));
    state.settings.fairshare = fairshare.clone();
    state.ranking.points.clear();
    state.ranking.in_accounts.clear();
    (state.ranking.mixed, state.ranking.due) = (true, true);
    Ok(())
}

/// Handles a job that joined the queue; `last` was the queue's last job before.
#[cold]
pub(super) fn joined(state: &mut State, now: Time, id: JobId, last: Option<JobId>) {
    state.ranking.mixed = true;
    let Some(last) = last else { return };
    let rank = |id: JobId| state.jobs.get(id).map(|job| rank_of(state, now, id, job));
    let is_behind = state.queue.place(last) < state.queue.place(id) && rank(last) < rank(id);
    state.ranking.due |= !is_behind;
}

pub(crate) fn standing(state: &State, now: Time, job: &Job) -> Standing {
    let fairshare = &state.settings.fairshare;
    let by_qos = job.request.qos.as_ref().and_then(|qos| state.settings.qos.get(qos)).map_or(0, |qos| qos.priority);
    let own = i64::from(job.request.priority) + i64::from(by_qos);
    if !fairshare.weighs() {
        return Standing { own, ..Standing::default() };
    }
    let known = match tree::account_of(state, &job.request) {
        Some(account) => state.ranking.in_accounts.get(account).and_then(|users| users.get(&job.request.user)),
        None => state.ranking.points.get(&job.request.user),
    };
    let known = known.copied();
    let share = known.unwrap_or_else(|| share_points(fairshare, (0, 0), (fairshare.share_of(&job.request.user), 1)));
    Standing { own, age: age_points(fairshare, now - job.eligible()), share }
}

/// Returns the rank of a job: the smaller one is first.
fn rank_of(state: &State, now: Time, id: JobId, job: &Job) -> (i64, JobId) {
    (-standing(state, now, job).total(), id)
}

/// Returns each user's points for past use, for all users with counted use, running jobs or waiting jobs. Use by
/// running jobs counts already: otherwise a user who starts a thousand jobs would stay first until they end.
fn points(state: &State, now: Time) -> BTreeMap<String, i64> {
    let fairshare = &state.settings.fairshare;
    if fairshare.weight == 0 {
        return BTreeMap::new();
    }
    let past = state.used.iter().map(|(user, used)| (user.as_str(), used.counted(fairshare, now)));
    let mut users: BTreeMap<&str, u64> = past.filter(|(_, used)| *used > 0).collect();
    for job in state.active.iter().chain(state.queue.iter()).filter_map(|id| state.jobs.get(id)) {
        let used = users.entry(&job.request.user).or_default();
        if let Some((running, assignment)) = job.running().zip(job.assignment()) {
            *used = used.saturating_add(used_so_far(fairshare, (running, assignment), now));
        }
    }
    let all = users.values().fold(0, |all: u64, used| all.saturating_add(*used));
    let shares = users.keys().map(|user| u64::from(fairshare.share_of(user))).sum();
    let of = |(user, used): (&str, u64)| {
        (user.to_owned(), share_points(fairshare, (used, all), (fairshare.share_of(user), shares)))
    };
    users.into_iter().map(of).collect()
}

/// Returns the use of a running job.
pub(super) fn used_so_far(of: &Fairshare, (running, assignment): (&Running, &Assignment), now: Time) -> u64 {
    match of.measure {
        Measure::Energy => u64::try_from(running.used(assignment, now).mj()).unwrap_or(0),
        Measure::CoreSeconds => assignment.core_ms(now - running.started),
    }
}

/// Returns the time at which the queue must be ranked without any event.
pub(crate) fn rank_at(state: &State) -> Option<Time> {
    let last = state.ranking.at?;
    match (state.ranking.due, state.queue.len()) {
        (true, 0..=FEW) => None,
        (true, ..=MANY) => Some(last + INSTANT),
        (true, _) => Some(last + PAUSE),
        (false, 2..) if state.settings.fairshare.weighs() => {
            Some(last + state.settings.fairshare.rank_every.max(PAUSE))
        }
        (false, _) => None,
    }
}

/// Orders the queue by priorities, if its order may have changed.
pub(crate) fn rank(cluster: &mut Cluster, now: Time) {
    let at = rank_at(&cluster.state);
    if !(cluster.state.ranking.due || at.is_some()) || at.is_some_and(|at| now < at) {
        return;
    }
    let weighs = cluster.state.settings.fairshare.weighs();
    cluster.state.ranking.points = points(&cluster.state, now);
    cluster.state.ranking.in_accounts = tree::points(&cluster.state, now);
    let jobs = cluster.state.queue.iter().filter_map(|id| cluster.state.jobs.get(id).map(|job| (id, job)));
    let mut order: Vec<(i64, JobId)> = jobs.map(|(id, job)| rank_of(&cluster.state, now, id, job)).collect();
    let first = order.first().copied();
    order.sort_unstable();
    let is_mixed = weighs || order.iter().any(|(priority, _)| *priority != 0);
    let order: Vec<JobId> = order.into_iter().map(|(_, id)| id).collect();
    if cluster.state.queue.rank(&order) {
        cluster.index.queue_again(&cluster.state);
        // A job that is no longer the first has another wait reason.
        let passed = first.map(|(_, id)| id).filter(|id| order.first() != Some(id));
        if let Some((id, job)) = passed.and_then(|id| cluster.state.jobs.get_mut(id).map(|job| (id, job))) {
            job.phase = Phase::Waiting(None);
            cluster.index.untold.insert(id);
        }
    }
    cluster.state.ranking.mixed = is_mixed || cluster.state.queue.is_ranked();
    (cluster.state.ranking.due, cluster.state.ranking.at) = (false, Some(now));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Core, Options};
    use limo_model::Preset;

    #[test]
    fn the_longer_a_queue_is_the_longer_it_is_between_two_rankings() {
        let now = Time::from_unix_ms(1_000);
        let mut state = Core::new(now, Preset::Fifo, Options::default()).view(now).state().clone();
        (state.ranking.due, state.ranking.at) = (true, Some(now));
        let mut check = |jobs: usize, expected: Option<Span>| {
            while state.queue.len() < jobs {
                state.queue.insert(JobId(state.queue.len() as u64 + 1));
            }
            assert_eq!(rank_at(&state), expected.map(|span| now + span), "{jobs} jobs");
        };
        check(FEW, None);
        check(FEW + 1, Some(INSTANT));
        check(MANY, Some(INSTANT));
        check(MANY + 1, Some(PAUSE));
    }
}
