//! Numbers and names that identify jobs, nodes and units.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A job's number. The master assigns it at submission, from 1, and never uses it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// The number of an attempt: 1 for the first placement, and one more after each placement that was taken back. A
/// message about an older attempt is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

/// A node's number. It is assigned in order of first registration, and permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// One unit of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId {
    /// Node of the unit.
    pub node: NodeId,
    /// Index into the node's units, from 0.
    pub unit: u16,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reason for refusing a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum NameError {
    #[error("the {what} is empty")]
    Empty { what: &'static str },
    #[error("the {what} `{name}` is longer than {limit} bytes")]
    TooLong { what: &'static str, name: String, limit: usize },
    #[error("the {what} `{name}` has the character `{found}`: letters, digits, `.`, `_`, `-`, `+` are allowed")]
    Character { what: &'static str, name: String, found: char },
}

/// Longest name, in bytes. Names of nodes, units, hardware, applications and size classes go into file names, tables
/// and messages, so they are kept short and plain.
pub(crate) const NAME_LIMIT: usize = 64;

/// Checks the length and characters of a name; `what` is its kind (node name, hardware, application).
///
/// # Errors
/// [`NameError`], naming the problem.
pub fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    if name.len() > NAME_LIMIT {
        let shown = name.chars().take(NAME_LIMIT).collect();
        return Err(NameError::TooLong { what, name: shown, limit: NAME_LIMIT });
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    match name.chars().find(|c| !plain(*c)) {
        Some(found) => Err(NameError::Character { what, name: name.to_owned(), found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(check_name("node name", "odroid-c1+"), Ok(()));
        assert_eq!(check_name("node name", ""), Err(NameError::Empty { what: "node name" }));
        assert!(matches!(check_name("node name", "a/b"), Err(NameError::Character { found: '/', .. })));
        assert!(matches!(check_name("node name", &"x".repeat(65)), Err(NameError::TooLong { limit: 64, .. })));
    }
}
