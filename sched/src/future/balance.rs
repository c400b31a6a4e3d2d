//! The energy balance of one budget period under a known draw: the released minus the drawn energy. Tests if a load
//! would put it into debt while the load or another one runs (energy-budget-2017, IV-B, rule 2).
//!
//! The balance is linear between the times at which the release or the draw changes, so a bound must be tested only
//! there and at the end of the load. While loads end and the release does not fall, the balance is convex. In such a
//! run of points bisection finds the point with the highest demand, without preparation. Only the demands of whole
//! runs are stored: preparation takes O(n) additions, an answer O(log n).

use limo_model::{Power, Time};

use super::power::Draw;
use crate::budget::narrow;

#[derive(Debug, Clone, Copy)]
struct Point {
    at: i64,
    /// Slope in mW until the next point. The last point has the highest value: no run begins there.
    slope: i64,
    /// Balance in µJ.
    balance: i128,
}

/// Points between which the balance is convex.
#[derive(Debug, Clone, Copy)]
struct Run {
    begin: usize,
    /// The point of all earlier runs that allows the smallest load from the start on.
    tightest_before: Option<usize>,
    /// The point with the lowest balance in later runs, up to the horizon.
    lowest_after: Option<usize>,
}

/// The moment at which a load would cause a debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Debt {
    pub at: i64,
    /// Energy in µJ that the load draws until then.
    pub needs: i128,
    /// Energy in µJ that is left then without the load.
    pub left: i128,
}

#[derive(Debug, Clone)]
pub(super) struct Balance {
    /// Begin of the balance: the begin of the period, or now if that is later.
    start: i64,
    until: i64,
    available: i128,
    /// Release in mW, from each time on; nothing is released before the first one.
    release: Vec<(Time, Power)>,
    ready: bool,
    /// Points from `start` to `until`, both included. Empty if the period is over.
    points: Vec<Point>,
    /// Runs; not empty if the balance has points.
    runs: Vec<Run>,
    /// Number of points not after the horizon.
    planned: usize,
}

impl Balance {
    /// Makes a balance. Its start is not before now.
    pub(super) fn new((start, until): (Time, Time), available: i128, release: Vec<(Time, Power)>) -> Self {
        let (start, until) = (start.unix_ms(), until.unix_ms());
        Self { start, until, available, release, ready: false, points: Vec::new(), runs: Vec::new(), planned: 0 }
    }

    pub(super) fn start(&self) -> i64 {
        self.start
    }

    pub(super) fn until(&self) -> i64 {
        self.until
    }

    /// Drops the points, because the draw or the horizon has changed.
    pub(super) fn forget(&mut self) {
        self.ready = false;
    }

    /// Computes the points. `horizon` is the end of the last load, or the end of time.
    pub(super) fn prepare(&mut self, draw: &Draw, horizon: i64) {
        if self.ready {
            return;
        }
        self.ready = true;
        let (points, runs) = (&mut self.points, &mut self.runs);
        points.clear();
        runs.clear();
        if self.start >= self.until {
            self.planned = 0;
            return;
        }
        let run = |begin| Run { begin, tightest_before: None, lowest_after: None };
        runs.push(run(0));
        let (mut last, mut rate, mut balance) = (self.start, i64::MIN, self.available);
        differences(&self.release, draw, (self.start, self.until), |at, slope| {
            if slope < rate {
                runs.push(run(points.len()));
            }
            balance = Point { at: last, slope: rate, balance }.balance_at(at);
            (last, rate) = (at, slope);
            points.push(Point { at, slope, balance });
        });
        balance = Point { at: last, slope: rate, balance }.balance_at(self.until);
        points.push(Point { at: self.until, slope: i64::MAX, balance });
        self.planned = points.partition_point(|point| point.at <= horizon);
        self.sum_up_runs();
    }

    fn sum_up_runs(&mut self) {
        let mut tightest: Option<(i64, usize)> = None;
        for index in 1..self.runs.len() {
            let run = self.tightest(self.runs[index - 1].begin, self.runs[index].begin);
            let run = run.map(|point| (self.points[point].share(self.start), point));
            tightest = tightest.into_iter().chain(run).min();
            self.runs[index].tightest_before = tightest.map(|(_, point)| point);
        }
        let (mut lowest, mut end) = (None, self.points.len());
        for index in (1..self.runs.len()).rev() {
            let begin = self.runs[index].begin;
            lowest = self.lower(self.lowest(begin, end), lowest);
            self.runs[index - 1].lowest_after = lowest;
            end = begin;
        }
    }

    /// Returns the debt that prevents a load of `extra` mW (positive) from the start of the balance until `to`.
    pub(super) fn debt(&self, extra: i64, to: i64) -> Option<Debt> {
        let first = self.points.first().filter(|_| to > self.start)?;
        if first.balance < 0 {
            return Some(Debt { at: first.at, needs: 0, left: first.balance });
        }
        let work = |until: i64| i128::from(extra) * i128::from(until.saturating_sub(self.start));
        let debt = |at: i64, needs: i128, left: i128| (left < needs).then_some(Debt { at, needs, left });
        // Points up to `to` bear the load since the start; the first point is one of them.
        let after = self.points.partition_point(|point| point.at <= to);
        let (run, _) = self.run_of(after - 1);
        let tightest = run.tightest_before.into_iter().chain(self.tightest(run.begin, after));
        let mut points = tightest.map(|index| self.points[index]);
        if let Some(debt) = points.find_map(|point| debt(point.at, work(point.at), point.balance)) {
            return Some(debt);
        }
        // Later points, up to the horizon, bear all that the load has drawn; the balance with the load bends at `to`.
        if after == self.points.len() {
            return None;
        }
        let (run, end) = self.run_of(after);
        let lowest = self.lower(self.lowest(after, end), run.lowest_after).map(|index| self.points[index]);
        let here = self.points[after - 1].balance_at(to);
        let (at, left) = match lowest {
            Some(lowest) if lowest.balance < here => (lowest.at, lowest.balance),
            _ => (to, here),
        };
        debt(at, work(to), left)
    }

    /// Returns the earliest start without a debt of a load of `extra` mW (positive) for `span` ms. Without such a
    /// start, returns the end of the period. `at` is the lower bound, not before the start of the balance.
    pub(super) fn clear_from(&self, extra: i64, span: i64, at: i64) -> i64 {
        let endless = span == i64::MAX;
        let load = Load { extra, span, whole: if endless { i128::MAX } else { i128::from(extra) * i128::from(span) } };
        let at = self.clear_as_planned(&load, at);
        self.clear_beyond(&load, at).min(self.until)
    }

    /// Returns the earliest start up to the horizon. The answer is the latest start that a single moment demands.
    ///
    /// A moment t demands t - start times `extra`, at most `span` times `extra`. Loads that start after t need no
    /// energy at t, so a later start is never worse. If the balance is less than the whole load needs, moment t
    /// demands a start not before t - balance / extra. If the balance is negative, it demands a start after the debt.
    fn clear_as_planned(&self, load: &Load, at: i64) -> i64 {
        let points = &self.points[..self.planned];
        let mut clear = at;
        // The latest t - balance / extra, times extra, since the start.
        let mut asked = 0;
        let first = points.partition_point(|point| point.at <= at).saturating_sub(1);
        for (index, point) in points.iter().enumerate().skip(first) {
            if point.balance >= load.whole {
                continue;
            }
            let next = points.get(index + 1).map(|next| next.balance);
            if point.balance >= 0 {
                let length = point.at.saturating_sub(self.start);
                asked = asked.max((i128::from(load.extra) * i128::from(length)).saturating_sub(point.balance));
            } else if next.is_none() {
                clear = clear.max(point.at.saturating_add(1));
            } else if next >= Some(0) {
                clear = clear.max(point.reaches(0));
            }
            if next >= Some(load.whole) {
                clear = clear.max(point.reaches(load.whole).saturating_sub(load.span));
            }
        }
        let extra = i128::from(load.extra);
        clear.max(self.start.saturating_add(narrow(asked.saturating_add(extra - 1).div_euclid(extra))))
    }

    /// Returns the earliest start after the horizon. A moment there demands the same, but only from loads that run
    /// then. Until the load's end reaches the moment, it has no demand.
    fn clear_beyond(&self, load: &Load, mut at: i64) -> i64 {
        let mut entering = self.points[self.planned..].iter().peekable();
        while at < self.until {
            let before = at;
            at = self.rises_from(at, 0);
            // The demand of a point does not depend on the start: once it is met, it stays met.
            while let Some(point) = entering.next_if(|point| point.at <= at.saturating_add(load.span)) {
                let needs = i128::from(load.extra) * i128::from(point.at.saturating_sub(at));
                if point.balance < 0 {
                    at = at.max(point.at.saturating_add(1));
                } else if point.balance < needs {
                    at = point.at.saturating_sub(narrow(point.balance.div_euclid(i128::from(load.extra))));
                }
            }
            let end = at.saturating_add(load.span);
            if end < self.until {
                at = self.rises_from(end, load.whole).saturating_sub(load.span);
            }
            if at == before {
                break;
            }
        }
        at
    }

    /// Returns `at` if the balance is then at least `level`. Otherwise it is the time at which the balance reaches
    /// `level` or bends, whichever is earlier.
    fn rises_from(&self, at: i64, level: i128) -> i64 {
        let next = self.points.partition_point(|point| point.at <= at);
        match (next.checked_sub(1).map(|index| self.points[index]), self.points.get(next)) {
            (Some(point), Some(next)) if point.balance_at(at) < level => {
                if point.slope > 0 {
                    point.reaches(level).min(next.at)
                } else {
                    next.at
                }
            }
            _ => at,
        }
    }

    /// Returns the run of a point and its exclusive end.
    fn run_of(&self, point: usize) -> (Run, usize) {
        let next = self.runs.partition_point(|run| run.begin <= point);
        (self.runs[next - 1], self.runs.get(next).map_or(self.points.len(), |run| run.begin))
    }

    /// Returns the point of one run that allows the smallest load from the start on. The first of all points is
    /// excluded, because it allows any load.
    fn tightest(&self, begin: usize, end: usize) -> Option<usize> {
        let begin = begin.max(1);
        let points = self.points.get(begin..end).filter(|points| !points.is_empty())?;
        // The bearable load falls until the slope is above it.
        let falls = |point: &Point| {
            let length = point.at.saturating_sub(self.start);
            i128::from(point.slope) * i128::from(length) < point.balance
        };
        Some((begin + points.partition_point(falls)).min(end - 1))
    }

    /// Returns the point of one run with the lowest balance up to the horizon.
    fn lowest(&self, begin: usize, end: usize) -> Option<usize> {
        let end = end.min(self.planned);
        let points = self.points.get(begin..end).filter(|points| !points.is_empty())?;
        Some((begin + points.partition_point(|point| point.slope < 0)).min(end - 1))
    }

    fn lower(&self, earlier: Option<usize>, later: Option<usize>) -> Option<usize> {
        earlier.into_iter().chain(later).min_by_key(|index| self.points[*index].balance)
    }
}

struct Load {
    extra: i64,
    span: i64,
    /// Energy in µJ; above any balance if the load has no end.
    whole: i128,
}

impl Point {
    fn balance_at(&self, at: i64) -> i128 {
        self.balance.saturating_add(i128::from(self.slope) * i128::from(at.saturating_sub(self.at)))
    }

    /// Returns the largest load that causes no debt here if it has run since `start`, which is before this point.
    fn share(&self, start: i64) -> i64 {
        narrow(self.balance.div_euclid(i128::from(self.at.saturating_sub(start).max(1))))
    }

    /// Returns the time at which the rising balance reaches `level`, rounded up.
    fn reaches(&self, level: i128) -> i64 {
        let slope = i128::from(self.slope.max(1));
        let missing = level.saturating_sub(self.balance);
        self.at.saturating_add(narrow((missing.saturating_add(slope - 1)).div_euclid(slope)))
    }
}

/// Calls back with the pieces of `[from, until)` in which `release - draw` is constant, in order: their start and the
/// difference.
fn differences(release: &[(Time, Power)], draw: &Draw, (from, until): (i64, i64), mut piece: impl FnMut(i64, i64)) {
    let current = release.partition_point(|(at, _)| at.unix_ms() <= from);
    let mut high = current.checked_sub(1).map_or(0, |current| release[current].1.mw());
    let mut steps = release[current..].iter().map(|(at, level)| (at.unix_ms(), level.mw())).peekable();
    let mut pieces = draw.pieces(Time::from_unix_ms(from)).map(|(at, level)| (at.unix_ms(), level)).peekable();
    let (mut at, mut low) = (from, 0);
    while at < until {
        while let Some((_, level)) = pieces.next_if(|(start, _)| *start <= at) {
            low = level;
        }
        while let Some((_, level)) = steps.next_if(|(start, _)| *start <= at) {
            high = level;
        }
        piece(at, high.saturating_sub(low));
        let next = [pieces.peek(), steps.peek()].map(|next| next.map_or(i64::MAX, |(start, _)| *start));
        at = next[0].min(next[1]);
    }
}
