//! Levels that change at known times, as numbers: the common form of limits, releases and draws.

use limo_model::{Power, Time};

/// Levels in mW, by time in ms. Each level holds from its time until the next one. The first entry holds for all
/// earlier times, so the list is never empty.
#[derive(Debug, Clone)]
pub(super) struct Steps(Vec<(i64, i64)>);

impl Steps {
    /// Makes steps. `before` holds until the first of `steps`, whose times ascend.
    pub(super) fn new(before: i64, steps: &[(Time, Power)]) -> Self {
        let steps = steps.iter().map(|(time, power)| (time.unix_ms(), power.mw()));
        Self([(i64::MIN, before)].into_iter().chain(steps).collect())
    }

    /// Makes one level for all time, with room for `changes`.
    pub(super) fn constant(level: i64, changes: usize) -> Self {
        let mut steps = Vec::with_capacity(changes.saturating_add(1));
        steps.push((i64::MIN, level));
        Self(steps)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the last change, even if it is zero.
    pub(super) fn last_change(&self) -> Option<i64> {
        self.0.last().map(|(at, _)| *at).filter(|at| *at > i64::MIN)
    }

    /// Lowers the level from each time on by the given amount; costs O(1) per time in ascending order.
    pub(super) fn lower(&mut self, falls: impl Iterator<Item = (i64, i64)>) {
        let (mut last, mut level) = self.last();
        for (at, by) in falls {
            if at < last {
                self.raise(at, None, by.saturating_neg());
                (_, level) = self.last();
                continue;
            }
            level = level.saturating_sub(by);
            match self.0.last_mut() {
                Some(step) if at == last => step.1 = level,
                _ => self.0.push((at, level)),
            }
            last = at;
        }
    }

    fn last(&self) -> (i64, i64) {
        self.0.last().copied().unwrap_or((i64::MIN, 0))
    }

    /// Raises the level in `[from, to)`, or from `from` on.
    pub(super) fn raise(&mut self, from: i64, to: Option<i64>, by: i64) {
        let first = self.split(from);
        let end = to.map_or(self.0.len(), |to| self.split(to));
        for (_, level) in self.0.iter_mut().take(end).skip(first) {
            *level = level.saturating_add(by);
        }
    }

    /// Returns the index of the entry that starts at `at`; inserts it if missing.
    fn split(&mut self, at: i64) -> usize {
        let index = self.0.partition_point(|(start, _)| *start < at);
        if self.start(index) != at || index == self.0.len() {
            let level = self.0[index.saturating_sub(1)].1;
            self.0.insert(index, (at, level));
        }
        index
    }

    fn index_at(&self, at: i64) -> usize {
        self.0.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }

    fn start(&self, index: usize) -> i64 {
        self.0.get(index).map_or(i64::MAX, |(start, _)| *start)
    }
}

/// Calls back with the pieces of `[from, until)` in which `upper - lower` is constant, in order: their start and the
/// difference.
#[inline]
pub(super) fn differences(upper: &Steps, lower: &Steps, from: i64, until: i64, mut piece: impl FnMut(i64, i64)) {
    let (mut at, mut below) = (from, lower.index_at(from));
    for (above, (_, high)) in upper.0.iter().enumerate().skip(upper.index_at(from)) {
        let end = upper.start(above + 1).min(until);
        if end <= at {
            continue;
        }
        // Runs over all running jobs in each round of a simulation, so it avoids look-ups.
        let mut low = lower.0[below].1;
        let mut rest = lower.0[below + 1..].iter().take_while(|(next, _)| *next < end);
        loop {
            piece(at, high.saturating_sub(low));
            let Some((next, level)) = rest.next() else { break };
            (at, low) = (*next, *level);
            below += 1;
        }
        at = end;
        below += usize::from(below + 1 < lower.0.len() && lower.start(below + 1) == end);
    }
}
