//! The record of users: their usage, and the charges of jobs to quotas. Also the payers of a job, whose quotas it needs.

use std::fmt;

use limo_model::{Energy, Fairshare, OverQuota, Quota, Request, Span, Time, Wait, Window};
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::fairshare::decayed;

/// One that has a quota of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    User(String),
    /// A user's jobs of a QOS.
    Qos {
        qos: String,
        user: String,
    },
    /// The jobs of an account and of the accounts below it.
    Account(String),
}

impl Payer {
    /// Returns the wait reason of a job over a limit of this payer.
    pub(crate) fn wait(self, over: OverQuota) -> Wait {
        match self {
            Self::User(_) => Wait::Quota(over),
            Self::Qos { qos, .. } => Wait::Qos { qos, over },
            Self::Account(account) => Wait::Account { account, over },
        }
    }
}

impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "user {user}"),
            Self::Qos { qos, user } => write!(f, "user {user} in QOS {qos}"),
            Self::Account(account) => write!(f, "account {account}"),
        }
    }
}

impl Settings {
    /// Returns true if the usage of users is counted.
    pub(crate) fn counts_users(&self) -> bool {
        !self.quotas.is_empty() || self.fairshare.weight > 0
    }

    /// Returns true if a quota may keep jobs waiting, or refuse them.
    pub(crate) fn have_quotas(&self) -> bool {
        !self.quotas.is_empty() || self.accounts.are_limited() || self.qos.are_limited()
    }

    /// Returns the payers of a job with the quotas that can keep it waiting, in the order in which it is charged to them: so
    /// a user takes no more of the quota of an account than the own quota allows.
    pub(crate) fn payers(&self, request: &Request) -> Vec<(Payer, Quota)> {
        let user = || request.user.clone();
        let own = std::iter::once((Payer::User(user()), *self.quotas.of(&request.user)));
        let name = request.qos.as_ref();
        let qos = name.and_then(|qos| Some((Payer::Qos { qos: qos.clone(), user: user() }, self.qos.get(qos)?.quota)));
        let chain = request.account.iter().flat_map(|account| self.accounts.chain(account));
        let accounts = chain.map(|(name, spec)| (Payer::Account(name.to_owned()), spec.quota));
        own.chain(qos).chain(accounts).filter(|(_, quota)| quota.holds_back()).collect()
    }

    /// Returns those whose unfinished jobs are counted, with their limits: the user, and the accounts that have one.
    pub(crate) fn submitters(&self, request: &Request) -> Vec<(Payer, Option<u32>)> {
        let own = (Payer::User(request.user.clone()), self.quotas.of(&request.user).submitted);
        let chain = request.account.iter().flat_map(|account| self.accounts.chain(account));
        let accounts = chain.map(|(name, spec)| (Payer::Account(name.to_owned()), spec.quota.submitted));
        std::iter::once(own).chain(accounts.filter(|(_, most)| most.is_some())).collect()
    }
}

/// The charge of a running or queued job to the quotas of its payers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    pub cores: u32,
    /// Expected energy of the job.
    pub energy: Energy,
    /// Number of payers that are charged, from the first one. A job that waits for the quota of the next one is charged to
    /// these.
    #[serde(default = "all_payers", skip_serializing_if = "is_all_payers")]
    pub(crate) payers: u8,
}

impl Charge {
    /// Returns a charge to all payers.
    pub(crate) fn new(cores: u32, energy: Energy) -> Self {
        Self { cores, energy, payers: all_payers() }
    }
}

/// Jobs have fewer payers.
fn all_payers() -> u8 {
    u8::MAX
}

fn is_all_payers(payers: &u8) -> bool {
    *payers == all_payers()
}

/// Usage of a user. Jobs count when they end, or end to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    /// Energy of the last day, week and month in which a job ended, with their beginnings in wall time.
    pub energy: [(Time, Energy); 3],
    /// Decayed usage at this time, in mJ and in milliseconds of a core.
    pub(crate) counted: [u64; 2],
    pub(crate) at: Time,
}

impl Used {
    /// Returns the energy in the window that contains `wall`. If the clock was set back into an earlier window, the
    /// earlier usage counts.
    pub fn in_window(&self, window: Window, wall: Time) -> Energy {
        let (begin, energy) = self.energy[window as usize];
        if begin >= window.begin(wall) { energy } else { Energy::ZERO }
    }

    /// Returns the decayed usage now.
    pub fn counted(&self, fairshare: &Fairshare, now: Time) -> u64 {
        decayed(self.counted[fairshare.measure as usize], now - self.at, fairshare.half_life)
    }

    /// Decays the usage to the present, and adds to it.
    pub(crate) fn count(&mut self, now: Time, more: [u64; 2], half_life: Span) {
        for (counted, more) in self.counted.iter_mut().zip(more) {
            *counted = decayed(*counted, now - self.at, half_life).saturating_add(more);
        }
        self.at = now;
    }

    pub(crate) fn add(&mut self, wall: Time, energy: Energy) {
        for window in Window::ALL {
            let used = self.in_window(window, wall) + energy;
            let begin = self.energy[window as usize].0.max(window.begin(wall));
            self.energy[window as usize] = (begin, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_usage_decays_and_is_added_to_new_usage() {
        let half_life = Span::from_secs(60);
        let fairshare = Fairshare { half_life, ..Fairshare::default() };
        let at = |seconds: i64| Time::from_unix_ms(seconds * 1_000);
        let mut used = Used { at: at(0), ..Used::default() };
        used.count(at(0), [1_000, 8], half_life);
        used.count(at(60), [100, 1], half_life);
        assert_eq!((used.counted, used.counted(&fairshare, at(60))), ([600, 5], 600));
        assert_eq!(used.counted(&fairshare, at(120)), 300);
    }
}
