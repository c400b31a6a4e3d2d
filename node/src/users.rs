//! Users and groups of jobs. A name service may block without a limit, so the shell makes each look-up, with a
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
}

/// Users of recent jobs. Times are since the daemon began.
#[derive(Debug)]
pub struct Users {
    /// User of the daemon; `None` if it is root.
    own: Option<u32>,
    known: BTreeMap<u32, (Duration, Identity)>,
    asked: BTreeSet<u32>,
}

/// State of a user.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// Known user; `None` if the daemon is that user.
    Here(Option<Identity>),
    /// A look-up is under way; `begin` is true if it must be started.
    Awaited { begin: bool },
}

impl Users {
    pub fn new(own: Option<u32>) -> Self {
        Self { own, known: BTreeMap::new(), asked: BTreeSet::new() }
    }

    /// Returns the identity for a job of user `uid`.
    ///
    /// # Errors
    /// If this daemon cannot become that user, or too many look-ups are open.
    pub fn find(&mut self, uid: u32, now: Duration) -> Result<Known, UserError> {
        if let Some(own) = self.own {
            return if own == uid { Ok(Known::Here(None)) } else { Err(UserError::Other { own, uid }) };
        }
        if let Some((at, identity)) = self.known.get(&uid)
            && now.saturating_sub(*at) < FRESH
        {
            return Ok(Known::Here(Some(identity.clone())));
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
    pub fn found(&mut self, uid: u32, identity: Option<&Identity>, now: Duration) {
        self.asked.remove(&uid);
        let Some(identity) = identity else { return };
        if self.known.len() >= KEPT {
            self.known.retain(|_, (at, _)| now.saturating_sub(*at) < FRESH);
        }
        if self.known.len() < KEPT {
            self.known.insert(uid, (now, identity.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: u32) -> Identity {
        Identity { uid, gid: uid, groups: vec![uid] }
    }

    #[test]
    fn a_look_up_is_shared_and_counts_for_a_minute() {
        let mut users = Users::new(None);
        let at = Duration::from_secs;
        assert_eq!(users.find(7, at(0)), Ok(Known::Awaited { begin: true }));
        assert_eq!(users.find(7, at(1)), Ok(Known::Awaited { begin: false }));
        users.found(7, Some(&identity(7)), at(2));
        assert_eq!(users.find(7, at(61)), Ok(Known::Here(Some(identity(7)))));
        assert_eq!(users.find(7, at(62)), Ok(Known::Awaited { begin: true }));
    }

    #[test]
    fn open_look_ups_are_bounded() {
        let mut users = Users::new(None);
        for uid in 0..32 {
            assert_eq!(users.find(uid, Duration::ZERO), Ok(Known::Awaited { begin: true }));
        }
        assert_eq!(users.find(99, Duration::ZERO), Err(UserError::Late { uid: 99, limit_s: PATIENCE_S }));
        users.found(0, None, Duration::ZERO);
        assert_eq!(users.find(99, Duration::ZERO), Ok(Known::Awaited { begin: true }));
    }

    #[test]
    fn a_daemon_that_is_not_root_runs_its_own_jobs() {
        let mut users = Users::new(Some(5));
        assert_eq!(users.find(5, Duration::ZERO), Ok(Known::Here(None)));
        assert_eq!(users.find(6, Duration::ZERO), Err(UserError::Other { own: 5, uid: 6 }));
    }
}
