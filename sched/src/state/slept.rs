//! Energy of a node while it was not awake.

use limo_model::{Energy, Time};
use serde::{Deserialize, Serialize};

use super::node::{Node, Sleep};

/// Energy of one node up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slept {
    pub asleep: Energy,
    /// Energy while falling asleep and waking.
    pub switching: Energy,
    /// Energy of the node itself up to that moment.
    mark: Energy,
}

impl Node {
    /// Returns its energy asleep and while switching, until `now`.
    pub fn slept(&self, now: Time) -> Slept {
        let mut bill = self.bill;
        bill.add(self.own, self.since, now, None);
        let Slept { asleep, switching, mark } = self.slept.as_deref().copied().unwrap_or_default();
        let (drawn, mark) = (bill.energy() - mark, bill.energy());
        match self.sleep {
            Sleep::Awake => Slept { asleep, switching, mark },
            Sleep::Asleep => Slept { asleep: asleep + drawn, switching, mark },
            Sleep::GoingDown | Sleep::Waking => Slept { asleep, switching: switching + drawn, mark },
        }
    }
}
