//! The expected draw under its ceiling: what the future and the ledger of budgets know about power.

use std::cell::RefCell;

use limo_model::{Power, Span, Time};

use super::power::Draw;
use super::powered::Powered;

/// The expected draw, with the lowest of all upper limits.
#[derive(Debug, Clone)]
pub(super) struct PowerLine {
    pub draw: Draw,
    /// True if there is any upper limit.
    is_limited: bool,
    powered: RefCell<Powered>,
}

/// An upper limit of the draw: each step holds from its time until the next one, the last until `until`. There is no
/// limit before the first step and after `until`. The times ascend.
#[derive(Debug, Clone)]
pub(crate) struct Ceiling {
    pub steps: Vec<(Time, Power)>,
    pub until: Time,
}

impl PowerLine {
    /// Makes the line: `draw` until the first change; the changes are differences in mW, in any order. Each of the
    /// `ceilings` holds from its time on.
    pub fn new(draw: Power, changes: Vec<(Time, i64)>, ceilings: &[(Time, Power)]) -> Self {
        Self {
            draw: Draw::of(draw.mw(), changes, ceilings),
            is_limited: ceilings.iter().any(|(_, ceiling)| !ceiling.is_unlimited()),
            powered: RefCell::default(),
        }
    }

    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Adds a load from `from` until `to`, which is later; a load until [`Time::MAX`] has no end.
    pub fn add(&mut self, (from, to): (Time, Time), load: Power) {
        self.draw.add(from, to, load.mw());
        if load < Power::ZERO {
            // A job that had too little power may have enough now.
            self.powered.get_mut().forget();
        }
    }

    /// Returns the first time from `from` on at which the limits leave `need` for all of `span`; it may return `None`
    /// for a time after `latest`.
    pub fn earliest(&self, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        if !self.is_limited {
            return Some(from);
        }
        self.powered.borrow_mut().earliest(&self.draw, need, (from, latest), span)
    }

    /// Returns the least power that the limits leave from `from` until before `to`.
    pub fn least_left(&self, from: Time, to: Time) -> Power {
        if self.is_limited { self.draw.least_left(from, to) } else { Power::MAX }
    }
}

impl Ceiling {
    /// Returns the lowest of all limits from each change on; before the first one, and where no limit holds, it is
    /// [`Power::MAX`].
    pub fn lowest(limits: &[Self]) -> Vec<(Time, Power)> {
        let mut changes = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            let begins = limit.steps.iter().filter(|(at, _)| *at < limit.until);
            changes.extend(begins.map(|(at, high)| (*at, index, Some(*high))));
            changes.extend(Some((limit.until, index, None)).filter(|(until, ..)| *until < Time::MAX));
        }
        changes.sort_by_key(|(at, ..)| *at);
        let mut lowest = vec![(Time::from_unix_ms(i64::MIN), Power::MAX)];
        // The limits that hold at the time of the change.
        let mut hold: Vec<(usize, Power)> = Vec::new();
        for (at, index, high) in changes {
            hold.retain(|(of, _)| *of != index);
            hold.extend(high.map(|high| (index, high)));
            let least = hold.iter().map(|(_, high)| *high).min().unwrap_or(Power::MAX);
            match lowest.last_mut() {
                Some(last) if last.0 == at => last.1 = least,
                _ => lowest.push((at, least)),
            }
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    #[test]
    fn the_lowest_limit_holds_at_each_time() {
        let ceiling = |steps: &[(i64, i64)], until| Ceiling {
            steps: steps.iter().map(|(ms, high)| (at(*ms), watts(*high))).collect(),
            until,
        };
        let limits =
            [ceiling(&[(10, 50), (20, 30)], Time::MAX), ceiling(&[(15, 40), (25, 20)], at(40)), ceiling(&[], at(99))];
        let expected = [(10, 50), (15, 40), (20, 30), (25, 20), (40, 30)];
        let lowest = Ceiling::lowest(&limits);
        assert_eq!(lowest[0].1, Power::MAX);
        assert_eq!(lowest[1..6], expected.map(|(ms, high)| (at(ms), watts(high))));
        // The end of a limit without steps.
        assert_eq!(lowest[6..], [(at(99), watts(30))]);
    }
}
