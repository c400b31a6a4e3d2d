//! Of several masters of one journal, the one with the highest epoch leads. A caller that has met it refuses the others.

use limo_model::{Epoch, JournalId};

use crate::hello::Identity;

/// The newest master that a caller has met, if it has met one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Newest(Option<(JournalId, Epoch)>);

impl Newest {
    /// Makes the value from a record.
    pub fn of(journal: JournalId, epoch: Epoch) -> Self {
        Self(Some((journal, epoch)))
    }

    /// Returns the higher epoch of the same journal that was met, `None` if the master may lead. A restored journal is
    /// another one.
    pub fn later_than(self, identity: &Identity) -> Option<Epoch> {
        let (journal, epoch) = self.0?;
        (journal == identity.journal && epoch > identity.epoch).then_some(epoch)
    }

    /// Remembers a master that was not refused. Returns true if that is news.
    pub fn meet(&mut self, identity: &Identity) -> bool {
        let met = Self::of(identity.journal, identity.epoch);
        std::mem::replace(self, met) != met
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{ClusterId, Incarnation};

    use super::*;

    #[test]
    fn a_lower_epoch_of_the_same_journal_is_refused() {
        let master = |incarnation, epoch| Identity {
            journal: JournalId { cluster: ClusterId([1; 16]), incarnation: Incarnation(incarnation) },
            epoch: Epoch(epoch),
            ..Identity::default()
        };
        let mut newest = Newest::default();
        assert_eq!(newest.later_than(&master(5, 0)), None);
        assert!(newest.meet(&master(5, 7)) && !newest.meet(&master(5, 7)));
        assert_eq!(newest.later_than(&master(5, 6)), Some(Epoch(7)));
        assert_eq!([7, 8].map(|epoch| newest.later_than(&master(5, epoch))), [None, None]);
        assert_eq!(newest.later_than(&master(6, 1)), None, "the journal was restored");
    }
}
