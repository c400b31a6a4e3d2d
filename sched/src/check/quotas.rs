//! Checks that active jobs and starts keep the limits of accounts and QOS. The quotas of users are kept by the queue alone.

use std::collections::BTreeMap;

use super::Case;
use crate::books::{OwnedSums, Ownership, cores_of};
use crate::plan::{Plan, Violation};
use crate::state::{Payer, Settings};

/// Finds payers that would be above a limit after the starts. Payers without a start may be above a lowered limit.
pub(super) fn check(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let settings = &case.state.settings;
    if !settings.accounts.are_limited() && !settings.qos.are_limited() {
        return;
    }
    let mut more: BTreeMap<Ownership, OwnedSums> = BTreeMap::new();
    let mut payers = BTreeMap::new();
    for start in &plan.starts {
        let Some(job) = case.job(start.job) else { continue };
        let Some(owner) = Ownership::of(&job.request) else { continue };
        let sums = more.entry(owner).or_default();
        (sums.jobs, sums.cores) = (sums.jobs + 1, sums.cores + cores_of(&start.placement));
        payers.extend(settings.payers(&job.request));
    }
    for (payer, quota) in payers {
        let all = case.books.owned.iter().chain(&more).filter(|(owner, _)| pays(settings, &payer, owner));
        let (jobs, cores) = all.fold((0, 0), |(jobs, cores), (_, sums)| (jobs + sums.jobs, cores + sums.cores));
        for (what, held, most) in [("jobs", jobs, quota.jobs), ("cores", cores, quota.cores)] {
            if let Some(most) = most.filter(|most| held > u64::from(*most)) {
                let (of, what) = (payer.to_string(), what.to_owned());
                found.push(Violation::OverQuota { of, what, held, most });
            }
        }
    }
}

/// Returns true if the jobs of an owner count for a payer.
fn pays(settings: &Settings, payer: &Payer, owner: &Ownership) -> bool {
    match payer {
        Payer::User(_) => false,
        Payer::Qos { qos, user } => owner.qos.as_ref() == Some(qos) && owner.user == *user,
        Payer::Account(name) => {
            let mut chain = owner.account.iter().flat_map(|account| settings.accounts.chain(account));
            chain.any(|(above, _)| above == name)
        }
    }
}
