//! Levels that change at known times, as numbers: what limits, releases and draws have in common.

use limo_model::{Power, Time};

/// mW over ms. Each level holds from its time until the next one; the first entry stands for all time before.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps(Vec<(i64, i64)>);

impl Steps {
    /// `before` holds until the first of `steps`, whose times ascend.
    pub(super) fn new(before: i64, steps: &[(Time, Power)]) -> Self {
        let steps = steps.iter().map(|(time, power)| (time.unix_ms(), power.mw()));
        Self([(i64::MIN, before)].into_iter().chain(steps).collect())
    }

    /// Starts anew with `base` and adds up `changes`, whose times ascend.
    pub(super) fn sum_up(&mut self, base: i64, changes: &[(i64, i64)]) {
        self.0.clear();
        self.0.push((i64::MIN, base));
        let mut level = base;
        self.0.extend(changes.iter().map(|(time, change)| {
            level = level.saturating_add(*change);
            (*time, level)
        }));
    }

    fn index_at(&self, at: i64) -> usize {
        self.0.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }

    fn start(&self, index: usize) -> i64 {
        self.0.get(index).map_or(i64::MAX, |(start, _)| *start)
    }
}

/// The pieces of `[from, until)` in which `upper - lower` is constant: their start and that difference.
pub(super) fn differences<'a>(
    upper: &'a Steps,
    lower: &'a Steps,
    from: i64,
    until: i64,
) -> impl Iterator<Item = (i64, i64)> + 'a {
    let (mut above, mut below, mut at) = (upper.index_at(from), lower.index_at(from), from);
    std::iter::from_fn(move || {
        if at >= until {
            return None;
        }
        let piece = (at, upper.0[above].1.saturating_sub(lower.0[below].1));
        at = upper.start(above + 1).min(lower.start(below + 1));
        above += usize::from(upper.start(above + 1) == at && at < i64::MAX);
        below += usize::from(lower.start(below + 1) == at && at < i64::MAX);
        Some(piece)
    })
}
