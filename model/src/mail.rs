//! Events of a job about which its user wants to be told, in Slurm's words. The master passes them to a program of the
//! site.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::clip;

/// Longest address of a user, in bytes.
pub const MAIL_USER_LIMIT: usize = 256;

/// An event of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MailEvent {
    /// The job begins, or begins again.
    Begin,
    /// It is over.
    End,
    /// It is over, and did not end with exit code 0.
    Fail,
    /// It has reached its time limit.
    TimeLimit,
    /// The events of each task of an array, instead of those of the array.
    ArrayTasks,
}

/// Words of `--mail-type`. Limo has no other events, and accepts the words without them.
const WORDS: [(&str, &[MailEvent]); 12] = [
    ("NONE", &[]),
    ("BEGIN", &[MailEvent::Begin]),
    ("END", &[MailEvent::End]),
    ("FAIL", &[MailEvent::Fail]),
    ("TIME_LIMIT", &[MailEvent::TimeLimit]),
    ("ARRAY_TASKS", &[MailEvent::ArrayTasks]),
    ("ALL", &[MailEvent::Begin, MailEvent::End, MailEvent::Fail]),
    ("REQUEUE", &[]),
    ("INVALID_DEPEND", &[]),
    ("TIME_LIMIT_90", &[]),
    ("TIME_LIMIT_80", &[]),
    ("TIME_LIMIT_50", &[]),
];

impl fmt::Display for MailEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(_, events)| *events == [*self]);
        f.write_str(word.map_or("NONE", |(word, _)| word))
    }
}

/// A set of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MailEvents(u16);

impl MailEvents {
    /// Returns true if an event is in the set.
    pub fn has(self, event: MailEvent) -> bool {
        self.0 >> event as u16 & 1 == 1
    }

    /// Returns true if it has no event.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for MailEvents {
    type Err = String;

    /// Parses a list such as `BEGIN,END`, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = 0;
        for word in text.split(',') {
            let is = |(known, _): &&(&str, &[MailEvent])| known.eq_ignore_ascii_case(word);
            let (_, events) = WORDS.iter().find(is).ok_or_else(|| {
                let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
                format!("`{}` is not an event: {}", clip(word.to_owned(), 32), known.join(", "))
            })?;
            set |= events.iter().fold(0, |set, event| set | 1 << *event as u16);
        }
        Ok(Self(set))
    }
}

/// The events that a job asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mail {
    /// The events.
    pub events: MailEvents,
    /// The address to tell, at most [`MAIL_USER_LIMIT`] bytes; empty for the job's user.
    pub user: String,
}

/// Checks an address: its length, and that it has no control characters.
///
/// # Errors
/// The limit, as the rest of a sentence.
pub fn check_mail_user(user: &str) -> Result<(), String> {
    if user.len() > MAIL_USER_LIMIT {
        return Err(format!("has {} bytes; the limit is {MAIL_USER_LIMIT}", user.len()));
    }
    match user.chars().find(|c| c.is_control()) {
        Some(found) => Err(format!("has the control character {found:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_words_of_slurm() {
        let all = [MailEvent::Begin, MailEvent::End, MailEvent::Fail, MailEvent::TimeLimit, MailEvent::ArrayTasks];
        let check = |text: &str, expected: &str| {
            let found = match text.parse::<MailEvents>() {
                Ok(events) => all
                    .iter()
                    .filter(|event| events.has(**event))
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(error) => error,
            };
            assert!(found.starts_with(expected), "{text}: {found}");
            assert!(!found.is_empty() || expected.is_empty(), "{text}");
        };
        check("begin,END", "BEGIN END");
        check("ALL,TIME_LIMIT_80", "BEGIN END FAIL");
        check("time_limit,array_tasks", "TIME_LIMIT ARRAY_TASKS");
        check("NONE", "");
        check("SOON", "`SOON` is not an event: NONE, BEGIN, END, FAIL");
        assert!(check_mail_user("ada@example.org").is_ok() && check_mail_user("a\nb").is_err());
        assert_eq!(check_mail_user(&"x".repeat(257)), Err("has 257 bytes; the limit is 256".into()));
    }
}
