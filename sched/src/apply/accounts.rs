//! Accounts and QOS: which of them a job has, and the effect of new ones. Their limits are quotas.
//!
//! The promise: the membership and the longest time of a QOS hold at submission; a later change of them concerns new jobs
//! only. A job whose account or QOS is no longer configured goes on without its limits.

use std::collections::BTreeSet;

use limo_model::{Accounts, QosClasses, QosSpec, Request, Time, clip};

use super::quota;
use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::Settings;

/// Longest list of names in a refusal, in bytes.
const NAMES_SHOWN: usize = 256;

/// Fills in the account, the QOS and the time limit of a request that names none, if accounts or QOS are configured.
/// Refuses those that its user, who belongs to these groups, may not use.
pub(crate) fn resolve(
    settings: &Settings,
    (user, groups): (&str, &BTreeSet<String>),
    request: &mut Request,
) -> Result<(), Refused> {
    let accounts = &settings.accounts;
    if !accounts.is_empty() {
        let own = accounts.of_user(user, groups).map(str::to_owned);
        match &request.account {
            None => request.account = Some(own.ok_or_else(|| Refused::NoAccount { user: user.to_owned() })?),
            Some(name) if accounts.get(name).is_some() && !accounts.admits(name, user, groups) => {
                return Err(Refused::AccountForOthers { account: name.clone(), user: user.to_owned(), own });
            }
            Some(_) => {}
        }
    }
    if settings.qos.is_empty() {
        return check(settings, request);
    }
    if request.qos.is_none() {
        request.qos = settings.qos.default_name().map(str::to_owned);
    }
    if let Some((name, spec)) = of(&settings.qos, request)? {
        let is_for_all = spec.users.is_empty() && spec.groups.is_empty() && spec.accounts.is_empty();
        let is_member = || spec.users.contains(user) || !spec.groups.is_disjoint(groups);
        let by_account = || {
            let mut chain = request.account.iter().flat_map(|account| accounts.chain(account));
            chain.any(|(account, _)| spec.accounts.contains(account))
        };
        if !is_for_all && !is_member() && !by_account() {
            return Err(Refused::QosForOthers { qos: name.clone(), user: user.to_owned() });
        }
        request.time_limit = request.time_limit.or(spec.max_time);
    }
    check(settings, request)
}

/// Returns the QOS of a request, if it has one and QOS are configured.
fn of<'a>(qos: &'a QosClasses, request: &Request) -> Result<Option<(String, &'a QosSpec)>, Refused> {
    let Some(name) = request.qos.clone().filter(|_| !qos.is_empty()) else { return Ok(None) };
    match qos.get(&name) {
        Some(spec) => Ok(Some((name, spec))),
        None => Err(Refused::NoSuchQos { name, known: known(qos.iter().map(|(name, _)| name)) }),
    }
}

fn known<'a>(names: impl Iterator<Item = &'a str>) -> String {
    clip(names.collect::<Vec<_>>().join(", "), NAMES_SHOWN)
}

/// Refuses a job whose account or QOS is unknown, or whose time limit is too long for its QOS.
pub(super) fn check(settings: &Settings, request: &Request) -> Result<(), Refused> {
    let accounts = &settings.accounts;
    if let Some(name) = request.account.as_ref().filter(|name| !accounts.is_empty() && accounts.get(name).is_none()) {
        let known = known(accounts.iter().map(|(name, _)| name));
        return Err(Refused::NoSuchAccount { name: name.clone(), known });
    }
    let Some((qos, spec)) = of(&settings.qos, request)? else { return Ok(()) };
    match spec.max_time.zip(request.time_limit).filter(|(most, limit)| limit > most) {
        Some((most, limit)) => Err(Refused::QosTooShort { qos, limit, most }),
        None => Ok(()),
    }
}

/// Sets the accounts. Waiting jobs are checked again; running jobs continue, even over a limit.
pub(super) fn set(cluster: &mut Cluster, now: Time, accounts: &Accounts) -> Result<(), Refused> {
    accounts.check()?;
    quota::change(cluster, now, |settings| settings.accounts = accounts.clone());
    // Use in accounts that are removed no longer counts.
    cluster.state.account_used.retain(|name, _| accounts.get(name).is_some());
    (cluster.state.ranking.mixed, cluster.state.ranking.due) = (true, true);
    Ok(())
}

/// Sets the QOS, likewise.
pub(super) fn set_qos(cluster: &mut Cluster, now: Time, qos: &QosClasses) -> Result<(), Refused> {
    qos.check()?;
    quota::change(cluster, now, |settings| settings.qos = qos.clone());
    (cluster.state.ranking.mixed, cluster.state.ranking.due) = (true, true);
    Ok(())
}
