//! Orders that lower the draw and are not confirmed yet. Until its node confirms an order, the old draw may last.

use std::collections::BTreeMap;

use limo_model::{Attempt, JobId, NodeId, Power};
use serde::{Deserialize, Serialize};

use super::pairs;
use crate::round::Await;

/// The power that unconfirmed orders free, by the confirmation that ends each of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reliefs(#[serde(with = "pairs")] BTreeMap<Await, Relief>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Relief {
    power: Power,
    /// True if its confirmation did not come in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overdue: bool,
}

impl Reliefs {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the power of the orders that `counts` accepts: those on which starts may count, and the others, which are
    /// overdue or accepted by `is_away`.
    pub(crate) fn power(&self, counts: impl Fn(&Await) -> bool, is_away: impl Fn(&Await) -> bool) -> (Power, Power) {
        let all = self.0.iter().filter(|(awaited, _)| counts(awaited));
        all.fold((Power::ZERO, Power::ZERO), |(open, gone), (awaited, relief)| {
            match relief.overdue || is_away(awaited) {
                true => (open, gone + relief.power),
                false => (open + relief.power, gone),
            }
        })
    }

    /// Returns true if an order that frees power is not confirmed.
    pub(crate) fn has(&self, awaited: &Await) -> bool {
        self.0.contains_key(awaited)
    }

    /// Returns the confirmations to wait for, in order.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Await> {
        self.0.iter().filter(|(_, relief)| !relief.overdue).map(|(awaited, _)| *awaited)
    }

    /// Counts on an order no longer, until it is confirmed or replaced.
    pub(crate) fn give_up(&mut self, awaited: &Await) {
        if let Some(relief) = self.0.get_mut(awaited) {
            relief.overdue = true;
        }
    }

    /// Adds an order to a node, which replaces its earlier one: the draw changes by `more`.
    pub(crate) fn add_caps(&mut self, node: NodeId, generation: u64, more: Power) {
        let earlier = self.take(|awaited| matches!(awaited, Await::Capped { node: of, .. } if *of == node));
        self.insert(Await::Capped { node, generation }, earlier - more);
    }

    /// Adds the suspension or resumption of a job: the draw changes by `more`.
    pub(crate) fn add_pause(&mut self, job: JobId, attempt: Attempt, more: Power) {
        let earlier = self.take(|awaited| matches!(awaited, Await::Paused { job: of, .. } if *of == job));
        self.insert(Await::Paused { job, attempt }, earlier - more);
    }

    /// Adds to the power of an unconfirmed suspension whose job may draw more than at the order.
    pub(crate) fn add_to_pause(&mut self, job: JobId, attempt: Attempt, more: Power) {
        if let Some(relief) = self.0.get_mut(&Await::Paused { job, attempt }) {
            relief.power += more;
        }
    }

    fn insert(&mut self, awaited: Await, power: Power) {
        if power > Power::ZERO {
            self.0.insert(awaited, Relief { power, overdue: false });
        }
    }

    /// Forgets orders that are confirmed, or no longer matter. Returns their power.
    pub(crate) fn take(&mut self, is_over: impl Fn(&Await) -> bool) -> Power {
        self.0.extract_if(.., |awaited, _| is_over(awaited)).map(|(_, relief)| relief.power).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    #[test]
    fn the_old_draw_lasts_until_the_newest_order_is_confirmed() {
        let mut reliefs = Reliefs::default();
        let (node, all, nobody) = (NodeId(1), |_: &Await| true, |_: &Await| false);
        reliefs.add_caps(node, 1, watts(-40));
        reliefs.add_caps(node, 2, watts(30));
        assert_eq!(reliefs.power(all, nobody), (watts(10), watts(0)));
        assert_eq!(reliefs.power(all, all), (watts(0), watts(10)));
        assert_eq!(reliefs.awaited().collect::<Vec<_>>(), [Await::Capped { node, generation: 2 }]);
        // More power than before frees none.
        reliefs.add_caps(node, 3, watts(30));
        assert!(reliefs.is_empty());
        let (job, attempt) = (JobId(7), Attempt(1));
        reliefs.add_caps(node, 4, watts(-5));
        reliefs.add_pause(job, attempt, watts(-20));
        assert_eq!(reliefs.power(all, nobody), (watts(25), watts(0)));
        reliefs.give_up(&Await::Paused { job, attempt });
        assert_eq!(reliefs.power(all, nobody), (watts(5), watts(20)));
        assert_eq!(reliefs.awaited().collect::<Vec<_>>(), [Await::Capped { node, generation: 4 }]);
        reliefs.add_pause(job, attempt, watts(20));
        assert_eq!(reliefs.take(all), watts(5));
    }
}
