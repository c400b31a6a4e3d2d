//! Limits on the connections of each user, and on those that have not greeted. Independent of sockets.
//!
//! Half of the process's descriptors is reserved for operators, to whom the nodes belong, and for files. All other
//! users share the other half, and each of them gets a sixteenth at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::Semaphore;

use crate::controller::faults::{self, Fault};

/// Descriptors of the process per permitted connection of one user.
const DESCRIPTORS_PER_CONNECTION: u64 = 16;

/// Most log lines about rejected callers of one user in each interval.
const LINES: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(60);

/// Most users whose last log line is remembered. Above this number, users without a connection are forgotten.
const REMEMBERED: usize = 1024;

/// The limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Most connections of one user.
    pub per_user: usize,
    /// Most connections of one user that may be greeting at a time; others are queued.
    pub ungreeted_per_user: usize,
    /// Most connections of all users who are not operators.
    pub users: usize,
    /// Longest time from the accept to the greeting.
    pub greeting_time: Duration,
}

impl ConnectionLimits {
    /// Reduces the shares of one user and of all users to those that `descriptors` of the process allow.
    #[must_use]
    pub fn within(self, descriptors: u64) -> Self {
        let at_most = |count: u64| usize::try_from(count).unwrap_or(usize::MAX).max(1);
        let per_user = self.per_user.min(at_most(descriptors / DESCRIPTORS_PER_CONNECTION));
        Self { per_user, users: self.users.min(at_most(descriptors / 2)), ..self }
    }
}

/// Reason why a caller is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Full {
    #[error("you have {0} connections to the master, which is the limit for one user (per_user of [connections])")]
    User(usize),
    #[error("the master has {0} connections of users, which is the limit for all of them together: try again later")]
    Users(usize),
}

#[derive(Debug)]
struct Visitor {
    connections: usize,
    greeting: Arc<Semaphore>,
    /// Rejected callers since the last log line.
    unlogged: u64,
    /// Beginning of the interval, and the number of its lines.
    logged: Option<(Instant, u32)>,
}

#[derive(Debug, Default)]
struct Visitors {
    users: HashMap<u32, Visitor>,
    /// Connections of users who are not operators.
    connections: usize,
}

/// Counts the connections of all users.
#[derive(Debug, Clone)]
pub struct Admission {
    limits: ConnectionLimits,
    accounts: Arc<Mutex<Visitors>>,
}

/// A connection of a user, freed when dropped.
#[derive(Debug)]
pub struct Place {
    admission: Admission,
    uid: u32,
    is_operator: bool,
}

impl Admission {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { limits, accounts: Arc::default() }
    }

    pub fn limits(&self) -> &ConnectionLimits {
        &self.limits
    }

    /// Takes a connection for `uid`. Operators have no limit, because every node is a connection of theirs.
    ///
    /// # Errors
    /// [`Full`] if the user, or all users together, have as many as allowed.
    pub fn take(&self, uid: u32, is_operator: bool) -> Result<Place, Full> {
        let mut accounts = self.lock();
        let everybody = accounts.connections;
        let mine = accounts.account(uid, &self.limits);
        if !is_operator && !faults::has(Fault::LimitIgnored) {
            if mine.connections >= self.limits.per_user {
                return Err(Full::User(self.limits.per_user));
            }
            if everybody >= self.limits.users {
                return Err(Full::Users(self.limits.users));
            }
        }
        mine.connections += 1;
        accounts.connections += usize::from(!is_operator);
        Ok(Place { admission: self.clone(), uid, is_operator })
    }

    /// Counts a rejected caller of this user. Returns the number since the last log line, if one is due now.
    pub fn turned_away(&self, uid: u32, now: Instant) -> Option<u64> {
        let mut accounts = self.lock();
        let account = accounts.account(uid, &self.limits);
        account.unlogged += 1;
        let lines = match account.logged {
            Some((begin, lines)) if now.duration_since(begin) < INTERVAL => (begin, lines + 1),
            _ => (now, 1),
        };
        if lines.1 > LINES {
            return None;
        }
        account.logged = Some(lines);
        Some(std::mem::take(&mut account.unlogged))
    }

    fn lock(&self) -> MutexGuard<'_, Visitors> {
        // The counts are complete at every moment, even if a thread panicked with the lock.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitors {
    fn account(&mut self, uid: u32, limits: &ConnectionLimits) -> &mut Visitor {
        if self.users.len() >= REMEMBERED && !self.users.contains_key(&uid) {
            self.users.retain(|_, account| account.connections > 0);
        }
        self.users.entry(uid).or_insert_with(|| Visitor {
            connections: 0,
            greeting: Arc::new(Semaphore::new(limits.ungreeted_per_user)),
            unlogged: 0,
            logged: None,
        })
    }
}

impl Place {
    /// Returns the permits that one user's callers need to greet, and return afterwards. `None` for operators, who need
    /// none.
    pub fn turn(&self) -> Option<Arc<Semaphore>> {
        if self.is_operator {
            return None;
        }
        Some(Arc::clone(&self.admission.lock().account(self.uid, &self.admission.limits).greeting))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut accounts = self.admission.lock();
        accounts.connections -= usize::from(!self.is_operator);
        if let Some(account) = accounts.users.get_mut(&self.uid) {
            account.connections -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        per_user: 1024,
        ungreeted_per_user: 16,
        users: usize::MAX,
        greeting_time: Duration::from_secs(5),
    };

    #[test]
    fn a_user_has_so_many_connections_and_others_have_theirs() {
        let admission = Admission::new(LIMITS.within(65_536));
        let mut taken: Vec<_> = (0..1024).map(|_| admission.take(7, false).expect("free")).collect();
        assert_eq!(admission.take(7, false).expect_err("full"), Full::User(1024));
        let other = admission.take(8, false).expect("another user");
        taken.push(admission.take(7, true).expect("an operator has no limit"));
        taken.truncate(1023);
        assert!(admission.take(7, false).is_ok());
        drop((taken, other));
        let accounts = admission.lock();
        assert!(accounts.connections == 0 && accounts.users.values().all(|account| account.connections == 0));
    }

    #[test]
    fn half_of_the_descriptors_is_kept_for_operators() {
        let limits = LIMITS.within(64);
        assert_eq!((limits.per_user, limits.users), (4, 32));
        let admission = Admission::new(limits);
        let taken: Vec<_> = (0..32).map(|at| admission.take(1000 + at / 4, false).expect("free")).collect();
        assert_eq!(admission.take(2000, false).expect_err("full"), Full::Users(32));
        let operators: Vec<_> = (0..100).map(|_| admission.take(0, true).expect("kept for them")).collect();
        drop(taken);
        assert!(admission.take(2000, false).is_ok());
        drop(operators);
    }

    #[test]
    fn a_flood_is_logged_now_and_then_with_its_size() {
        let admission = Admission::new(LIMITS);
        let begin = Instant::now();
        let lines: Vec<u64> =
            (0..70).filter_map(|second| admission.turned_away(7, begin + Duration::from_secs(second))).collect();
        assert_eq!(lines, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 51, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(admission.turned_away(8, begin), Some(1), "another user");
    }

    #[test]
    fn users_without_connections_are_forgotten_when_there_are_many() {
        let admission = Admission::new(LIMITS);
        let place = admission.take(5, false).expect("free");
        (1000..3000).for_each(|uid| drop(admission.take(uid, false).expect("free")));
        assert!(admission.lock().users.len() <= REMEMBERED);
        assert_eq!(admission.lock().users.get(&5).map(|account| account.connections), Some(1));
        drop(place);
    }
}
