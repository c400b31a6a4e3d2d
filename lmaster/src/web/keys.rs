//! The right of a browser to act for its user: a code that is used once, then a key in a cookie. Both belong to a user
//! of this machine, whom the kernel names for each request.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

/// Time in which a code can be used.
const CODE_LIFE: Duration = Duration::from_secs(60);

/// Time for which a browser may act.
pub const LIFE: Duration = Duration::from_secs(8 * 3_600);

/// Most codes and most keys of one user, and of all; older ones are forgotten.
const PER_USER: usize = 8;
const MOST: usize = 1_024;

/// All codes and keys.
#[derive(Debug, Default)]
pub struct Keys(Mutex<Stored>);

#[derive(Debug, Default)]
struct Stored {
    codes: Secrets,
    keys: Secrets,
}

/// Secrets in the order in which they were made.
#[derive(Debug, Default)]
struct Secrets(VecDeque<Secret>);

#[derive(Debug)]
struct Secret {
    text: String,
    uid: u32,
    until: Instant,
}

impl Secrets {
    /// Adds a new secret; returns its text of 64 digits.
    fn add(&mut self, uid: u32, until: Instant) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let own = self.0.iter().filter(|secret| secret.uid == uid).count();
        let oldest = self.0.iter().position(|secret| own < PER_USER || secret.uid == uid);
        if (own >= PER_USER || self.0.len() >= MOST)
            && let Some(oldest) = oldest
        {
            self.0.remove(oldest);
        }
        self.0.push_back(Secret { text: text.clone(), uid, until });
        Ok(text)
    }

    /// Returns the place of a secret of this user that is still valid.
    fn find(&self, text: &str, uid: u32, now: Instant) -> Option<usize> {
        let is_it = |secret: &Secret| bool::from(secret.text.as_bytes().ct_eq(text.as_bytes()));
        self.0.iter().position(|secret| is_it(secret) && secret.uid == uid && now < secret.until)
    }
}

impl Keys {
    fn with<T>(&self, then: impl FnOnce(&mut Stored) -> T) -> T {
        // Every change leaves the lists consistent, even if a holder of the lock panicked.
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a code for a user.
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn code(&self, uid: u32, now: Instant) -> Result<String, getrandom::Error> {
        self.with(|stored| stored.codes.add(uid, now + CODE_LIFE))
    }

    /// Exchanges a code for a key. `None` if the code is unknown, expired, used, or of another user.
    ///
    /// # Errors
    /// If the kernel has no random bytes.
    pub fn exchange(&self, code: &str, uid: u32, now: Instant) -> Result<Option<String>, getrandom::Error> {
        self.with(|stored| {
            let Some(at) = stored.codes.find(code, uid, now) else { return Ok(None) };
            stored.codes.0.remove(at);
            stored.keys.add(uid, now + LIFE).map(Some)
        })
    }

    /// Returns true if this is a valid key of the user.
    pub fn may_act(&self, key: &str, uid: u32, now: Instant) -> bool {
        self.with(|stored| stored.keys.find(key, uid, now).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_used_once_in_time_and_by_its_user() {
        let (keys, now) = (Keys::default(), Instant::now());
        let code = keys.code(7, now).expect("random");
        let exchange = |code: &str, uid, at| keys.exchange(code, uid, at).expect("random");
        assert_eq!(exchange(&code, 8, now), None, "another user");
        assert_eq!(exchange(&code, 7, now + CODE_LIFE), None, "expired");
        let key = exchange(&code, 7, now).expect("a key");
        assert_eq!(exchange(&code, 7, now), None, "used");
        assert_eq!(exchange("", 7, now), None);
        assert!(keys.may_act(&key, 7, now) && key.len() == 64 && key != code);
        assert!(!keys.may_act(&key, 8, now), "another user");
        assert!(!keys.may_act(&code, 7, now), "a code is no key");
        assert!(!keys.may_act(&key, 7, now + LIFE), "expired");
    }

    #[test]
    fn a_user_who_asks_often_takes_no_place_of_others() {
        let (keys, now) = (Keys::default(), Instant::now());
        let other = keys.code(7, now).expect("random");
        let codes: Vec<String> = (0..=PER_USER).map(|_| keys.code(8, now).expect("random")).collect();
        assert_eq!(keys.exchange(&codes[0], 8, now).expect("random"), None, "the oldest is forgotten");
        assert!(keys.exchange(&codes[1], 8, now).expect("random").is_some());
        assert!(keys.exchange(&other, 7, now).expect("random").is_some());
        (0..2 * MOST).for_each(|uid| drop(keys.code(uid as u32 + 100, now).expect("random")));
        assert_eq!(keys.with(|stored| stored.codes.0.len()), MOST);
    }
}
