//! Accounts and QOS of stories: each line adds one, or replaces the one of its name.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{AccountSpec, Accounts, QosClasses, QosSpec, Quota};
use limo_sched::Event;

use super::{Story, parse};

type Fields<'a> = BTreeMap<&'a str, &'a str>;

fn names(given: &Fields<'_>, key: &str) -> BTreeSet<String> {
    given.get(key).into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
}

fn quota(given: &Fields<'_>) -> Quota {
    let limit = |key: &str| given.get(key).map(|text| parse(text));
    Quota { jobs: limit("jobs"), cores: limit("cores"), submitted: limit("submitted"), energy: None }
}

impl Story {
    pub(super) fn account(&mut self, name: &str, given: &Fields<'_>) {
        let before = self.world.core.settings().accounts.clone();
        let spec = AccountSpec {
            parent: given.get("parent").map(|parent| (*parent).to_owned()),
            description: String::new(),
            users: names(given, "users"),
            groups: names(given, "groups"),
            quota: quota(given),
            share: given.get("share").map_or(1, |text| parse(text)),
            is_default: given.contains_key("default"),
        };
        let all = before.iter().map(|(name, spec)| (name.to_owned(), spec.clone()));
        let accounts = Accounts::new(all.chain([(name.to_owned(), spec)]).collect()).expect("accounts");
        self.apply(Event::AccountsSet { accounts, by: "root".into() });
    }

    pub(super) fn qos(&mut self, name: &str, given: &Fields<'_>) {
        let before = self.world.core.settings().qos.clone();
        let spec = QosSpec {
            priority: given.get("priority").map_or(0, |text| parse(text)),
            quota: quota(given),
            max_time: given.get("max-time").map(|text| parse(text)),
            users: names(given, "users"),
            groups: names(given, "groups"),
            accounts: names(given, "accounts"),
            is_default: given.contains_key("default"),
        };
        let all = before.iter().map(|(name, spec)| (name.to_owned(), spec.clone()));
        let qos = QosClasses::new(all.chain([(name.to_owned(), spec)]).collect()).expect("QOS");
        self.apply(Event::QosSet { qos, by: "root".into() });
    }
}
