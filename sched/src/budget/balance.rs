//! The energy balance of one budget period under a known draw: what is released less what is drawn, and whether a load
//! would put it into debt (energy-budget-2017, IV-B, rule 2).
//!
//! The balance is linear between the times at which the release or the draw changes, so a bound on it need only be
//! tested there and at the end of the load. For the former, minima from the left (of what each moment could give per ms
//! since the start) and from the right (of the balance) are kept: O(n) to prepare, O(log n) to answer.

use super::narrow;
use super::steps::{Steps, differences};

#[derive(Debug, Clone, Copy)]
struct Point {
    at: i64,
    /// µJ.
    balance: i128,
    /// mW until the next point.
    slope: i64,
}

/// The moment at which a load would leave a debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Debt {
    pub at: i64,
    /// µJ that the load draws up to then.
    pub needs: i128,
    /// µJ that are left then without it.
    pub left: i128,
}

#[derive(Debug, Clone)]
pub(super) struct Balance {
    from: i64,
    until: i64,
    available: i128,
    release: Steps,
    /// Where the balance begins: `from`, or now within the period.
    start: i64,
    /// From `start` to `until`, both included. Empty where the period is over.
    points: Vec<Point>,
    /// The largest load (mW) that every point up to this one can bear from `start` on, and the point that sets it.
    bearable: Vec<(i64, usize)>,
    /// The point with the lowest balance from this one on.
    lowest: Vec<usize>,
}

impl Balance {
    pub(super) fn new(from: i64, until: i64, available: i128, release: Steps) -> Self {
        let (points, bearable, lowest) = (Vec::new(), Vec::new(), Vec::new());
        Self { from, until, available, release, start: from, points, bearable, lowest }
    }

    pub(super) fn start(&self) -> i64 {
        self.start
    }

    pub(super) fn until(&self) -> i64 {
        self.until
    }

    pub(super) fn prepare(&mut self, now: i64, draw: &Steps) {
        self.start = self.from.max(now);
        self.points.clear();
        self.bearable.clear();
        self.lowest.clear();
        if self.start >= self.until {
            return;
        }
        let mut last = Point { at: self.start, balance: self.available, slope: 0 };
        for (at, slope) in differences(&self.release, draw, self.start, self.until) {
            last = Point { at, balance: last.balance_at(at), slope };
            self.points.push(last);
        }
        self.points.push(Point { at: self.until, balance: last.balance_at(self.until), slope: 0 });
        let mut least = (i64::MAX, 0);
        for (index, point) in self.points.iter().enumerate() {
            let share = point.share(self.start);
            if share < least.0 {
                least = (share, index);
            }
            self.bearable.push(least);
        }
        let mut lowest = self.points.len() - 1;
        self.lowest.resize(self.points.len(), lowest);
        for (index, point) in self.points.iter().enumerate().rev() {
            if point.balance < self.points[lowest].balance {
                lowest = index;
            }
            self.lowest[index] = lowest;
        }
    }

    /// What keeps a load of `extra` mW (positive) from running from the start of the balance until `to`.
    pub(super) fn debt(&self, extra: i64, to: i64) -> Option<Debt> {
        if self.points.is_empty() || to <= self.start {
            return None;
        }
        let work = |until: i64| i128::from(extra) * (i128::from(until) - i128::from(self.start));
        // Points up to `to` bear the load since the start; the first point is one of them.
        let after = self.points.partition_point(|point| point.at <= to);
        let (bearable, index) = self.bearable[after - 1];
        if extra > bearable {
            let Point { at, balance, .. } = self.points[index];
            return Some(Debt { at, needs: work(at), left: balance });
        }
        // Later ones bear all that it has drawn. Between two points the balance with the load bends at `to`.
        let lowest = self.points[*self.lowest.get(after)?];
        let here = self.points[after - 1].balance_at(to);
        let (at, left) = if here <= lowest.balance { (to, here) } else { (lowest.at, lowest.balance) };
        (left < work(to)).then_some(Debt { at, needs: work(to), left })
    }

    /// The first time of the period from which on a load of `extra` mW (positive) for `span` ms leaves no debt in the
    /// period, or the end of the period; earlier than its start where every time will do.
    ///
    /// A moment t asks for t - start times `extra`, at most `span` times `extra`, and nothing of loads that start
    /// later: within the period a later start is never worse. So the answer is the latest of what single moments ask
    /// for. Where the balance is less than the whole load needs, moment t asks for a start not before
    /// t - balance / extra; where it is negative, for a start when that is over.
    pub(super) fn clear_from(&self, extra: i64, span: i64) -> i64 {
        let endless = span == i64::MAX;
        let whole = if endless { i128::MAX } else { i128::from(extra) * i128::from(span) };
        let mut clear = i64::MIN;
        for (index, point) in self.points.iter().enumerate() {
            if point.balance >= whole {
                continue;
            }
            if point.balance >= 0 {
                clear = clear.max(point.at.saturating_sub(narrow(point.balance.div_euclid(i128::from(extra)))));
            }
            let Some(next) = self.points.get(index + 1) else {
                return if point.balance < 0 { self.until } else { clear };
            };
            if point.balance < 0 && next.balance >= 0 {
                clear = clear.max(point.reaches(0));
            }
            if next.balance >= whole {
                clear = clear.max(point.reaches(whole).saturating_sub(span));
            }
        }
        clear
    }
}

impl Point {
    fn balance_at(&self, at: i64) -> i128 {
        let length = i128::from(at) - i128::from(self.at);
        self.balance.saturating_add(i128::from(self.slope).saturating_mul(length))
    }

    /// The largest load that leaves no debt here when it has run since `start`; with a debt, none.
    fn share(&self, start: i64) -> i64 {
        match i128::from(self.at) - i128::from(start) {
            _ if self.balance < 0 => i64::MIN,
            0 => i64::MAX,
            length => narrow(self.balance.div_euclid(length)),
        }
    }

    /// When the rising balance reaches `level`, rounded up.
    fn reaches(&self, level: i128) -> i64 {
        let slope = i128::from(self.slope.max(1));
        let missing = level.saturating_sub(self.balance);
        self.at.saturating_add(narrow((missing.saturating_add(slope - 1)).div_euclid(slope)))
    }
}
