//! The list of issued certificates: one line each, with the serial, the end in seconds since 1970, the identity, and the
//! beginning of the authority's fingerprint.

use limo_identity::{Identity, Serial};

/// Most valid certificates of one identity, so that no caller makes the list long.
pub(crate) const VALID_LIMIT: usize = 64;

/// Time after its end for which a certificate stays in the list, in seconds: 90 days.
const LISTED: u64 = 90 * 86_400;

/// Length of the list above which certificates that ended long ago are removed.
pub(crate) const LONG: usize = 10_000;

/// An issued certificate, as the list records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The serial.
    pub serial: Serial,
    /// The owner.
    pub identity: Identity,
    /// The end in seconds since 1970.
    pub until: u64,
    /// Beginning of the fingerprint of the authority; empty in lists of the first version.
    pub authority: String,
}

impl Issued {
    /// Returns true if the certificate has not ended at `now`, in seconds since 1970.
    pub fn is_valid(&self, now: u64) -> bool {
        now < self.until
    }

    /// Returns true if the list need not name the certificate any longer.
    pub(crate) fn is_history(&self, now: u64) -> bool {
        self.until.saturating_add(LISTED) < now
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {} {} {}\n", self.serial, self.until, self.identity, self.authority)
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let serial = words.next()?.parse().ok()?;
        let until = words.next()?.parse().ok()?;
        let identity = words.next()?.parse().ok()?;
        let authority = words.next().unwrap_or_default().to_owned();
        words.next().is_none().then_some(Self { serial, identity, until, authority })
    }
}
