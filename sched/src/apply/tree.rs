//! Fair share in the tree of accounts: the use of each subtree, and the points of a user in an account.
//!
//! Cost: a ranking adds the use of each user to the accounts above.

use std::collections::BTreeMap;

use limo_model::{Energy, Request, Time};

use super::rank::used_so_far;
use crate::fairshare::TreeShare;
use crate::state::{State, Used};

/// Returns the account of a request, if it is configured.
pub(super) fn account_of<'a>(state: &State, request: &'a Request) -> Option<&'a str> {
    request.account.as_deref().filter(|account| state.settings.accounts.get(account).is_some())
}

/// Adds the usage of a run to its user in its account.
pub(super) fn used(state: &mut State, now: Time, request: &Request, (energy, core_ms): (Energy, u64)) {
    let Some(account) = account_of(state, request) else { return };
    let half_life = state.settings.fairshare.half_life;
    let users = state.account_used.entry(account.to_owned()).or_default();
    let used = users.entry(request.user.clone()).or_insert(Used { at: now, ..Used::default() });
    used.count(now, [u64::try_from(energy.mj()).unwrap_or(0), core_ms], half_life);
}

/// Returns the points of users in accounts, for all with counted use, running jobs or waiting jobs there.
pub(super) fn points(state: &State, now: Time) -> BTreeMap<String, BTreeMap<String, i64>> {
    let (accounts, fairshare) = (&state.settings.accounts, &state.settings.fairshare);
    if accounts.is_empty() || fairshare.weight == 0 {
        return BTreeMap::new();
    }
    let mut members: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (account, users) in &state.account_used {
        let counted = users.iter().map(|(user, used)| (user.as_str(), used.counted(fairshare, now)));
        members.entry(account).or_default().extend(counted.filter(|(_, used)| *used > 0));
    }
    for job in state.active.iter().chain(state.queue.iter()).filter_map(|id| state.jobs.get(id)) {
        let Some(account) = account_of(state, &job.request) else { continue };
        let used = members.entry(account).or_default().entry(&job.request.user).or_default();
        if let Some(running) = job.running().zip(job.assignment()) {
            *used = used.saturating_add(used_so_far(fairshare, running, now));
        }
    }
    // The use of each subtree.
    let mut below: BTreeMap<&str, u64> = BTreeMap::new();
    for (account, users) in &members {
        let sum = users.values().fold(0, |sum: u64, used| sum.saturating_add(*used));
        for (name, _) in accounts.chain(account) {
            let used = below.entry(name).or_default();
            *used = used.saturating_add(sum);
        }
    }
    let used_below = |name: &str| below.get(name).copied().unwrap_or(0);
    let roots = accounts.iter().filter(|(_, spec)| spec.parent.is_none());
    let all = roots.fold(0, |all: u64, (name, _)| all.saturating_add(used_below(name)));
    // The sum of the shares of the children of each account, and of the roots.
    let mut shares: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for (_, spec) in accounts.iter() {
        *shares.entry(spec.parent.as_deref()).or_default() += u64::from(spec.share);
    }
    for (account, users) in &members {
        *shares.entry(Some(account)).or_default() +=
            users.keys().map(|user| u64::from(fairshare.share_of(user))).sum::<u64>();
    }
    let shares_below = |parent: Option<&str>| shares.get(&parent).copied().unwrap_or(0);
    let of_account = |account: &str| {
        let path: Vec<_> = accounts.chain(account).collect();
        path.into_iter().rev().fold(None, |above: Option<TreeShare>, (name, spec)| {
            let share = (spec.share, shares_below(spec.parent.as_deref()));
            Some(TreeShare::below(above, (used_below(name), all), share))
        })
    };
    let of = |(account, users): (&str, BTreeMap<&str, u64>)| {
        let above = of_account(account);
        let points = users.into_iter().map(|(user, used)| {
            let share = (fairshare.share_of(user), shares_below(Some(account)));
            (user.to_owned(), TreeShare::below(above, (used, all), share).points(fairshare))
        });
        (account.to_owned(), points.collect())
    };
    members.into_iter().map(of).collect()
}
