//! Nodes that are reserved for some users for a time. `sched` enforces this.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// Nodes reserved in `[from, until)` for jobs of these users that request the reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Names of the nodes, each once.
    pub nodes: Vec<String>,
    /// Begin.
    pub from: Time,
    /// End, after `from`.
    pub until: Time,
    /// Users; if empty, the nodes are kept free of all jobs.
    pub users: Vec<String>,
    /// Explanation for readers; may be empty.
    pub reason: String,
}

impl Reservation {
    /// Returns its duration.
    pub fn span(&self) -> Span {
        self.until - self.from
    }

    /// Returns the same reservation, moved later by `by`.
    pub fn moved(&self, by: Span) -> Self {
        Self { from: self.from.moved(by), until: self.until.moved(by), ..self.clone() }
    }

    /// Returns true if both reservations hold at some time. Adjacent reservations do not overlap.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_reservations_do_not_overlap() {
        let of = |from: i64, until: i64| {
            let (from, until) = (Time::from_unix_ms(from), Time::from_unix_ms(until));
            Reservation { nodes: Vec::new(), from, until, users: Vec::new(), reason: String::new() }
        };
        let check = |one: Reservation, other: Reservation, expected: bool| {
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (expected, expected), "{one:?}, {other:?}");
        };
        check(of(1, 3), of(3, 5), false);
        check(of(1, 4), of(3, 5), true);
        check(of(1, 9), of(3, 5), true);
        check(of(1, 2), of(3, 5), false);
    }
}
