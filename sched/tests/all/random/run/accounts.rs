//! Quotas of users, accounts and QOS in a random run: no start exceeds them.

use limo_model::{AccountSpec, Accounts, QosClasses, QosSpec, Quota, Request};
use limo_sched::{Event, Refused};

use super::Run;
use crate::random::USERS;

/// Limits on the jobs and cores of a payer.
pub type Limits = [Option<u32>; 2];

/// Use of a limit by the jobs on nodes.
#[derive(Debug)]
pub(super) struct Shared {
    of: String,
    quota: Quota,
    /// Jobs and cores.
    used: (u32, u32),
}

fn quota([jobs, cores]: Limits) -> Quota {
    Quota { jobs, cores, ..Quota::default() }
}

impl Run {
    /// Sets three accounts: `a1` and `a2` are below `a0`.
    pub(super) fn accounts(&mut self, limits: [Limits; 3]) -> Result<(), Refused> {
        let account = |(which, limits): (usize, Limits)| {
            let spec = AccountSpec {
                parent: (which > 0).then(|| "a0".to_owned()),
                description: String::new(),
                users: Default::default(),
                groups: Default::default(),
                quota: quota(limits),
                share: 1,
                is_default: false,
            };
            (format!("a{which}"), spec)
        };
        let accounts = Accounts::new(limits.into_iter().enumerate().map(account).collect()).expect("a tree");
        self.world.apply(Event::AccountsSet { accounts, by: "root".into() })
    }

    /// Sets two QOS with limits for each user.
    pub(super) fn qos(&mut self, limits: [Limits; 2]) -> Result<(), Refused> {
        let class = |(which, limits): (usize, Limits)| {
            let spec = QosSpec {
                priority: 0,
                quota: quota(limits),
                max_time: None,
                users: Default::default(),
                groups: Default::default(),
                accounts: Default::default(),
                is_default: false,
            };
            (format!("c{which}"), spec)
        };
        let qos = QosClasses::new(limits.into_iter().enumerate().map(class).collect()).expect("two QOS");
        self.world.apply(Event::QosSet { qos, by: "root".into() })
    }

    /// Returns the use of the limits of users, of accounts with those below them, and of QOS by each user.
    pub(super) fn shared(&self) -> Vec<Shared> {
        let settings = self.world.core.settings();
        let of_account = settings.accounts.iter().map(|(name, spec)| {
            let used = self.used_by(|request| {
                request.account.as_ref().is_some_and(|own| settings.accounts.chain(own).any(|(above, _)| above == name))
            });
            Shared { of: format!("account {name}"), quota: spec.quota, used }
        });
        let users = || USERS.into_iter();
        let of_user = users().map(|user| {
            let used = self.used_by(|request| request.user == user);
            Shared { of: user.to_owned(), quota: *settings.quotas.of(user), used }
        });
        let of_qos = settings.qos.iter().flat_map(|(name, spec)| users().map(move |user| (name, spec, user)));
        let of_qos = of_qos.map(|(name, spec, user)| {
            let used = self.used_by(|request| request.user == user && request.qos.as_deref() == Some(name));
            Shared { of: format!("{user} in QOS {name}"), quota: spec.quota, used }
        });
        of_user.chain(of_account).chain(of_qos).collect()
    }

    /// Returns the number of jobs with such requests on nodes, and of their cores.
    fn used_by(&self, is_such: impl Fn(&Request) -> bool) -> (u32, u32) {
        let jobs = self.world.core.jobs().filter(|(_, job)| is_such(&job.request));
        jobs.filter_map(|(_, job)| job.assignment()).fold((0, 0), |(jobs, cores), assignment| {
            (jobs + 1, cores + assignment.placement.iter().map(|part| part.cores * part.count).sum::<u32>())
        })
    }

    /// Checks that a round has not exceeded a limit: a new one does not end jobs on nodes, but it admits no others.
    pub(super) fn check_shared(&self, before: &[Shared]) {
        for (before, now) in before.iter().zip(self.shared()) {
            let within = |now: u32, before: u32, most: Option<u32>| most.is_none_or(|most| now <= most.max(before));
            assert!(within(now.used.0, before.used.0, now.quota.jobs), "{}: {now:?} after {before:?}", now.of);
            assert!(within(now.used.1, before.used.1, now.quota.cores), "{}: {now:?} after {before:?}", now.of);
        }
    }
}
