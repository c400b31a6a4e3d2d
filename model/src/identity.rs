//! Identity of a cluster and of an incarnation of its journal. Pure data: random numbers are drawn elsewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A cluster: 128 random bits, drawn when its first journal is made. Every copy of the journal keeps them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub [u8; 16]);

/// An incarnation of a cluster's journal: a random number, drawn when the journal is made or a backup of it is
/// restored. Older journals have 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// Number of openings of a journal. Of two masters with one incarnation, the one with the higher epoch is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// A journal in one of its incarnations. Job numbers are unique within it, and mean nothing outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct JournalId {
    /// The cluster, which keeps its id when a backup is restored.
    pub cluster: ClusterId,
    /// The incarnation of the cluster's journal.
    pub incarnation: Incarnation,
}

impl JournalId {
    /// Returns true if this journal owns a job with the record `record`. Old records name neither cluster nor
    /// incarnation, and belong to journals without an incarnation.
    pub fn owns(self, record: Self) -> bool {
        let nameless = record == Self::default() && self.incarnation == Incarnation::default();
        record == self || nameless
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_journal_without_incarnation_owns_nameless_records() {
        let cluster = ClusterId([7; 16]);
        let of = |incarnation| JournalId { cluster, incarnation: Incarnation(incarnation) };
        assert!(of(5).owns(of(5)) && of(0).owns(JournalId::default()));
        assert!(!of(5).owns(of(6)) && !of(5).owns(JournalId::default()) && !of(5).owns(of(0)));
        let other = JournalId { cluster: ClusterId([8; 16]), ..of(5) };
        assert!(!of(5).owns(other));
        assert_eq!(of(5).to_string(), format!("{}/0000000000000005", "07".repeat(16)));
    }
}
