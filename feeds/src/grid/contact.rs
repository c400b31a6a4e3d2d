//! Dimming contact: a file like that of a GPIO line, which contains 0 or 1. While it is closed the power is limited to
//! fixed watts. Each successful read is a message; other contents are a fault, and the last limit stays.

use std::path::PathBuf;
use std::time::Duration;

use limo_model::{Power, Time};

use super::limit::{Limit, Word};
use super::teller::Teller;
use crate::fetch::now;
use crate::file::read;

/// Most bytes; `value` of a line has two.
const SIZE_LIMIT: usize = 16;

/// Line and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Path of the line: a file of sysfs with 0 or 1.
    pub path: PathBuf,
    /// True if the limit holds at 0 instead of 1.
    pub active_low: bool,
    /// The upper limit while the contact is closed.
    pub high: Power,
    /// Interval between reads.
    pub poll: Duration,
}

/// Polls until the receiver is closed.
pub async fn run(contact: Contact, teller: Teller) {
    let mut closed_since = None;
    loop {
        let path = contact.path.clone();
        // Fails only if the runtime ends.
        let Ok(found) = tokio::task::spawn_blocking(move || read(&path, SIZE_LIMIT)).await else { return };
        let word = match found {
            Ok((bytes, _)) => contact.word(&bytes, &mut closed_since),
            Err(error) => Word::Fault(error.to_string()),
        };
        if teller.tell(word).await.is_err() {
            return;
        }
        tokio::time::sleep(contact.poll).await;
    }
}

impl Contact {
    fn word(&self, bytes: &[u8], closed_since: &mut Option<Time>) -> Word {
        let closed = match bytes.trim_ascii() {
            b"0" => self.active_low,
            b"1" => !self.active_low,
            other => {
                let found = String::from_utf8_lossy(other);
                return Word::Fault(format!("{}: `{found}` is neither 0 nor 1", self.path.display()));
            }
        };
        *closed_since = closed.then(|| closed_since.unwrap_or_else(now));
        Word::Limits(closed_since.iter().map(|since| self.limit(*since)).collect())
    }

    fn limit(&self, since: Time) -> Limit {
        Limit {
            low: Power::ZERO,
            high: self.high,
            from: since,
            until: None,
            priority: 0,
            emergency: false,
            received_at: since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_one_and_anything_else() {
        let contact = |active_low| Contact {
            path: "line".into(),
            active_low,
            high: Power::from_watts(500),
            poll: Duration::from_secs(1),
        };
        let check = |active_low, bytes: &[u8], expected: Result<usize, &str>| match (
            contact(active_low).word(bytes, &mut None),
            expected,
        ) {
            (Word::Limits(limits), Ok(count)) => assert_eq!(limits.len(), count, "{bytes:?}"),
            (Word::Fault(fault), Err(expected)) => assert_eq!(fault, expected),
            (word, expected) => panic!("{word:?}, not {expected:?}"),
        };
        check(false, b"1\n", Ok(1));
        check(false, b"0\n", Ok(0));
        check(true, b"1", Ok(0));
        check(true, b"0", Ok(1));
        check(false, b"", Err("line: `` is neither 0 nor 1"));
        check(false, b"10\n", Err("line: `10` is neither 0 nor 1"));
        let mut since = None;
        let (first, second) = (contact(false).word(b"1", &mut since), contact(false).word(b"1", &mut since));
        assert_eq!(first, second, "it is the same limit as long as it is closed");
    }
}
