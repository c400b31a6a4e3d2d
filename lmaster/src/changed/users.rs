//! Changes of quotas, shares, denied users, groups of nodes, licences, accounts, QOS and queues in words: the parts of the setting that differ.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    AccountSpec, Accounts, Beside, Deferral, Fairshare, GroupSpec, Groups, Licences, OwnerRules, QosClasses, QosSpec,
    QueueSpec, Queues, Quotas, host_list,
};

/// The differing parts, before and after.
type Words = (String, String);

pub(super) fn quotas(old: &Quotas, new: &Quotas) -> Words {
    let parts = |of: &Quotas| -> BTreeMap<String, String> {
        let users = of.users.iter().map(|(user, quota)| (user.clone(), quota.to_string()));
        let default = Some(("everybody else".to_owned(), of.default.to_string()));
        users.chain(default.filter(|_| !of.default.is_empty())).collect()
    };
    differing(&parts(old), &parts(new))
}

pub(super) fn fairshare(old: &Fairshare, new: &Fairshare) -> Words {
    let parts = |of: &Fairshare| -> BTreeMap<String, String> {
        let own = [
            ("age-weight", of.age_weight.to_string()),
            ("age-max", of.age_max.to_string()),
            ("weight", of.weight.to_string()),
            ("half-life", of.half_life.to_string()),
            ("by", of.measure.to_string()),
            ("rank-every", of.rank_every.to_string()),
        ];
        let shares = of.shares.iter().map(|(user, shares)| (format!("shares of {user}"), shares.to_string()));
        own.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(shares).collect()
    };
    differing(&parts(old), &parts(new))
}

pub(super) fn groups(old: &Groups, new: &Groups) -> Words {
    let parts = |of: &Groups| -> BTreeMap<String, String> {
        of.iter().map(|(name, spec)| (name.to_owned(), group(spec))).collect()
    };
    differing(&parts(old), &parts(new))
}

pub(super) fn queues(old: &Queues, new: &Queues) -> Words {
    let parts = |of: &Queues| -> BTreeMap<String, String> {
        of.iter().map(|(name, spec)| (name.to_owned(), queue(spec))).collect()
    };
    differing(&parts(old), &parts(new))
}

pub(super) fn licences(old: &Licences, new: &Licences) -> Words {
    let parts = |of: &Licences| -> BTreeMap<String, String> {
        of.iter().map(|(name, count)| (name.to_owned(), count.to_string())).collect()
    };
    differing(&parts(old), &parts(new))
}

pub(super) fn accounts(old: &Accounts, new: &Accounts) -> Words {
    let parts = |of: &Accounts| -> BTreeMap<String, String> {
        of.iter().map(|(name, spec)| (name.to_owned(), account(spec))).collect()
    };
    differing(&parts(old), &parts(new))
}

pub(super) fn qos(old: &QosClasses, new: &QosClasses) -> Words {
    let parts = |of: &QosClasses| -> BTreeMap<String, String> {
        of.iter().map(|(name, spec)| (name.to_owned(), one_qos(spec))).collect()
    };
    differing(&parts(old), &parts(new))
}

/// Returns a list of names; `None` for an empty one.
fn names(names: &BTreeSet<String>) -> Option<String> {
    (!names.is_empty()).then(|| host_list(names.iter().map(String::as_str)))
}

fn account(spec: &AccountSpec) -> String {
    let keys = [
        ("parent", spec.parent.clone()),
        ("users", names(&spec.users)),
        ("groups", names(&spec.groups)),
        ("limits", (!spec.quota.is_empty()).then(|| spec.quota.to_string())),
        ("default", spec.is_default.then(|| "true".to_owned())),
    ];
    let keys = keys.into_iter().filter_map(|(key, value)| Some(format!(", {key} {}", value?)));
    std::iter::once(format!("share {}", spec.share)).chain(keys).collect()
}

fn one_qos(spec: &QosSpec) -> String {
    let keys = [
        ("limits of each user", (!spec.quota.is_empty()).then(|| spec.quota.to_string())),
        ("max_time", spec.max_time.map(|span| span.to_string())),
        ("users", names(&spec.users)),
        ("groups", names(&spec.groups)),
        ("accounts", names(&spec.accounts)),
        ("default", spec.is_default.then(|| "true".to_owned())),
    ];
    let keys = keys.into_iter().filter_map(|(key, value)| Some(format!(", {key} {}", value?)));
    std::iter::once(format!("priority {}", spec.priority)).chain(keys).collect()
}

fn queue(spec: &QueueSpec) -> String {
    let state = if spec.is_closed() { "down" } else { "up" };
    let nodes = names(&spec.nodes).unwrap_or_else(|| "all nodes".to_owned());
    let keys = [
        ("users", names(&spec.users)),
        ("groups", names(&spec.groups)),
        ("expected_wait", spec.expected_wait.map(|span| span.to_string())),
        ("default_time", spec.default_time.map(|span| span.to_string())),
        ("max_time", spec.max_time.map(|span| span.to_string())),
        ("max_nodes", spec.max_nodes.map(|most| most.to_string())),
        ("default", spec.is_default.then(|| "true".to_owned())),
    ];
    let keys = keys.into_iter().filter_map(|(key, value)| Some(format!(", {key} {}", value?)));
    std::iter::once(format!("{state} for {nodes}")).chain(keys).collect()
}

fn group(spec: &GroupSpec) -> String {
    let nodes = host_list(spec.nodes.iter().map(String::as_str));
    let limit = if spec.limit().is_unlimited() { "no limit".to_owned() } else { spec.limit().to_string() };
    let owners = match spec.owners {
        None => String::new(),
        Some(OwnerRules { jobs: Beside::Run, .. }) => ", jobs beside owners".to_owned(),
        Some(OwnerRules { jobs: Beside::Suspend, start_after, evict_after }) => {
            format!(", owners evict after {evict_after}, jobs start after {start_after}")
        }
    };
    let sleep = spec.sleep.after.map_or(String::new(), |after| format!(", sleep after {after}"));
    let wake = if spec.sleep.stays { ", woken by no job" } else { "" };
    let reboot = spec.reboot.map_or(String::new(), |rule| match rule.defer {
        Deferral::No => format!(", reboot {} at once", rule.window),
        Deferral::UntilEnd => format!(", reboot {} when jobs have ended", rule.window),
    });
    format!("{limit} for {nodes}{owners}{sleep}{wake}{reboot}")
}

pub(super) fn denied(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Words {
    let words = |users: &BTreeSet<String>| match users.is_empty() {
        true => "nobody".to_owned(),
        false => users.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    (words(old), words(new))
}

fn differing(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Words {
    let names: BTreeSet<&String> =
        old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name)).collect();
    let words = |of: &BTreeMap<String, String>| {
        let part = |name: &&String| format!("{name}: {}", of.get(*name).map_or("none", String::as_str));
        names.iter().map(part).collect::<Vec<_>>().join("; ")
    };
    (words(old), words(new))
}

#[cfg(test)]
mod tests {
    use limo_model::{Quota, QuotaLimit, SleepRules};

    use super::*;

    #[test]
    fn only_differences_are_listed() {
        let quota = |text: &str| {
            let mut quota = Quota::default();
            text.parse::<QuotaLimit>().expect("a limit").change(&mut quota);
            quota
        };
        let old = Quotas { default: quota("jobs=9"), users: [("ada".to_owned(), quota("cores=4"))].into() };
        let users = [("ada".to_owned(), quota("cores=4")), ("bob".to_owned(), quota("jobs=2"))].into();
        let new = Quotas { default: Quota::default(), users };
        let words = ("bob: none; everybody else: jobs=9".to_owned(), "bob: jobs=2; everybody else: none".to_owned());
        assert_eq!(quotas(&old, &new), words);
        let weighed = Fairshare { weight: 100, shares: [("ada".to_owned(), 3)].into(), ..Fairshare::default() };
        let words = ("shares of ada: none; weight: 0".to_owned(), "shares of ada: 3; weight: 100".to_owned());
        assert_eq!(fairshare(&Fairshare::default(), &weighed), words);
        let named = |sleep| {
            let spec = GroupSpec { nodes: ["n1".to_owned()].into(), sleep, ..GroupSpec::default() };
            Groups::new([("desk".to_owned(), spec)].into()).expect("a group")
        };
        let sleep = SleepRules { after: Some("30min".parse().expect("a time")), stays: true };
        let words = ("desk: no limit for n1", "desk: no limit for n1, sleep after 30min, woken by no job");
        let (before, after) = groups(&named(SleepRules::default()), &named(sleep));
        assert_eq!((before.as_str(), after.as_str()), words);
        let one = BTreeSet::from(["ada".to_owned()]);
        assert_eq!(denied(&BTreeSet::new(), &one), ("nobody".to_owned(), "ada".to_owned()));
    }
}
