//! Users and groups of jobs, and the users whose jobs the node refuses. A name service may block without a limit, so the shell makes each look-up, with a
//! deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use limo_shepherd::Identity;
use thiserror::Error;

/// Time for which a look-up is valid. A new group of a user takes effect after this time.
const FRESH: Duration = Duration::from_secs(60);

/// Longest wait of a job for a look-up, in seconds.
pub const PATIENCE_S: u64 = 10;

/// Most look-ups at a time, including abandoned ones.
const MOST: usize = 32;

/// Most users that are kept.
const KEPT: usize = 1024;

/// Exit code of a job whose user cannot be looked up.
pub const CODE: u8 = 126;

/// Reason why a job cannot run as its user.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UserError {
    #[error("this node runs as user id {own} and cannot run a job of user id {uid}")]
    Other { own: u32, uid: u32 },
    #[error("cannot look up user id {uid}: the name service of this node does not answer within {limit_s} s")]
    Late { uid: u32, limit_s: u64 },
    #[error("user id {uid} is `{here}` on this node, but `{there}` on the machine of the master")]
    Renamed { uid: u32, here: String, there: String },
    #[error("this node runs no jobs of root: `root_jobs` of its settings allows them")]
    Root,
    #[error("this node runs no jobs of user id {uid}: `min_uid` of its settings is {least}")]
    TooLow { uid: u32, least: u32 },
}

/// A user of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name of the user.
    pub name: String,
    /// The user with its groups.
    pub identity: Identity,
}

impl Account {
    /// Returns the identity, if the user has the same name on the machine of the master.
    ///
    /// # Errors
    /// [`UserError::Renamed`].
    pub fn named(self, there: &str) -> Result<Identity, UserError> {
        let Self { name: here, identity } = self;
        if here == there {
            return Ok(identity);
        }
        Err(UserError::Renamed { uid: identity.uid, here, there: there.to_owned() })
    }
}

/// Users whose jobs a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRules {
    /// True if root may run jobs.
    pub root_jobs: bool,
    /// Smallest number of another user.
    pub min_uid: u32,
}

impl UserRules {
    fn check(self, uid: u32) -> Result<(), UserError> {
        match uid {
            0 if self.root_jobs => Ok(()),
            0 => Err(UserError::Root),
            _ if uid < self.min_uid => Err(UserError::TooLow { uid, least: self.min_uid }),
            _ => Ok(()),
        }
    }
}

/// Users of recent jobs. Times are since the daemon began.
#[derive(Debug)]
pub struct Users {
    /// User of the daemon; `None` if it is root.
    own: Option<u32>,
    rules: UserRules,
    known: BTreeMap<u32, (Duration, Account)>,
    asked: BTreeSet<u32>,
}

/// State of a user.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// Known user; `None` if the daemon is that user.
    Here(Option<Account>),
    /// A look-up is under way; `begin` is true if it must be started.
    Awaited { begin: bool },
}

impl Users {
    pub fn new(own: Option<u32>, rules: UserRules) -> Self {
        Self { own, rules, known: BTreeMap::new(), asked: BTreeSet::new() }
    }

    /// Returns the user `uid` of a job.
    ///
    /// # Errors
    /// If the node refuses its jobs, this daemon cannot become that user, or too many look-ups are open.
    pub fn find(&mut self, uid: u32, now: Duration) -> Result<Known, UserError> {
        self.rules.check(uid)?;
        if let Some(own) = self.own {
            return if own == uid { Ok(Known::Here(None)) } else { Err(UserError::Other { own, uid }) };
        }
        if let Some((at, account)) = self.known.get(&uid)
            && now.saturating_sub(*at) < FRESH
        {
            return Ok(Known::Here(Some(account.clone())));
        }
        if self.asked.contains(&uid) {
            return Ok(Known::Awaited { begin: false });
        }
        if self.asked.len() >= MOST {
            return Err(UserError::Late { uid, limit_s: PATIENCE_S });
        }
        self.asked.insert(uid);
        Ok(Known::Awaited { begin: true })
    }

    /// Takes the result of a look-up, if any.
    pub fn found(&mut self, uid: u32, account: Option<&Account>, now: Duration) {
        self.asked.remove(&uid);
        let Some(account) = account else { return };
        if self.known.len() >= KEPT {
            self.known.retain(|_, (at, _)| now.saturating_sub(*at) < FRESH);
        }
        if self.known.len() < KEPT {
            self.known.insert(uid, (now, account.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: UserRules = UserRules { root_jobs: true, min_uid: 0 };

    fn account(uid: u32) -> Account {
        Account { name: "ada".into(), identity: Identity { uid, gid: uid, groups: vec![uid] } }
    }

    #[test]
    fn a_user_has_one_name_on_all_machines() {
        assert_eq!(account(7).named("ada"), Ok(account(7).identity));
        let renamed = UserError::Renamed { uid: 7, here: "ada".into(), there: "bob".into() };
        assert_eq!(account(7).named("bob"), Err(renamed));
    }

    #[test]
    fn jobs_of_root_and_of_small_numbers_can_be_refused() {
        let rules = UserRules { root_jobs: false, min_uid: 1000 };
        let mut users = Users::new(None, rules);
        assert_eq!(users.find(0, Duration::ZERO), Err(UserError::Root));
        assert_eq!(users.find(999, Duration::ZERO), Err(UserError::TooLow { uid: 999, least: 1000 }));
        assert_eq!(users.find(1000, Duration::ZERO), Ok(Known::Awaited { begin: true }));
        let mut users = Users::new(None, UserRules { root_jobs: true, ..rules });
        assert_eq!(users.find(0, Duration::ZERO), Ok(Known::Awaited { begin: true }));
    }

    #[test]
    fn a_look_up_is_shared_and_counts_for_a_minute() {
        let mut users = Users::new(None, ALL);
        let at = Duration::from_secs;
        assert_eq!(users.find(7, at(0)), Ok(Known::Awaited { begin: true }));
        assert_eq!(users.find(7, at(1)), Ok(Known::Awaited { begin: false }));
        users.found(7, Some(&account(7)), at(2));
        assert_eq!(users.find(7, at(61)), Ok(Known::Here(Some(account(7)))));
        assert_eq!(users.find(7, at(62)), Ok(Known::Awaited { begin: true }));
    }

    #[test]
    fn open_look_ups_are_bounded() {
        let mut users = Users::new(None, ALL);
        for uid in 0..32 {
            assert_eq!(users.find(uid, Duration::ZERO), Ok(Known::Awaited { begin: true }));
        }
        assert_eq!(users.find(99, Duration::ZERO), Err(UserError::Late { uid: 99, limit_s: PATIENCE_S }));
        users.found(0, None, Duration::ZERO);
        assert_eq!(users.find(99, Duration::ZERO), Ok(Known::Awaited { begin: true }));
    }

    #[test]
    fn a_daemon_that_is_not_root_runs_its_own_jobs() {
        let mut users = Users::new(Some(5), ALL);
        assert_eq!(users.find(5, Duration::ZERO), Ok(Known::Here(None)));
        assert_eq!(users.find(6, Duration::ZERO), Err(UserError::Other { own: 5, uid: 6 }));
    }
}
