//! A level that changes at known times: cores or bytes that are taken. Knows nothing of what takes them.

use limo_model::{Span, Time};

/// What is taken until the first step, and from each step until the next one. The last step never ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    base: i64,
    steps: Vec<(Time, i64)>,
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.base == 0 && self.steps.is_empty()
    }

    /// The place of the step at `at`; made where there is none.
    fn cut(&mut self, at: Time) -> usize {
        match self.steps.binary_search_by_key(&at, |(step, _)| *step) {
            Ok(index) => index,
            Err(index) => {
                let before = index.checked_sub(1).map_or(self.base, |before| self.steps[before].1);
                self.steps.insert(index, (at, before));
                index
            }
        }
    }

    /// Takes `amount` more until `to`, from `from` on or as far back as anybody asks; `to` is after `from`.
    pub fn add(&mut self, from: Option<Time>, to: Time, amount: i64) {
        let first = from.map_or(0, |from| self.cut(from));
        let last = self.cut(to);
        if from.is_none() {
            self.base = self.base.saturating_add(amount);
        }
        if let Some(taken) = self.steps.get_mut(first..last) {
            taken.iter_mut().for_each(|(_, level)| *level = level.saturating_add(amount));
        }
    }

    /// What is taken at a time.
    pub fn level(&self, at: Time) -> i64 {
        let next = self.steps.iter().take_while(|(step, _)| *step <= at);
        next.last().map_or(self.base, |(_, level)| *level)
    }

    /// The pieces from `from` on: start, end, level. The last one never ends.
    pub fn pieces(&self, from: Time) -> impl Iterator<Item = (Time, Time, i64)> {
        let next = self.steps.partition_point(|(at, _)| *at <= from);
        let level = next.checked_sub(1).map_or(self.base, |before| self.steps[before].1);
        let rest = &self.steps[next..];
        let starts = std::iter::once((from, level)).chain(rest.iter().copied());
        let ends = rest.iter().map(|(at, _)| *at).chain([Time::MAX]);
        starts.zip(ends).map(|((start, level), end)| (start, end, level))
    }

    /// The first time from `from` on after which `fits` holds for all of `span`.
    pub fn earliest(&self, from: Time, span: Span, fits: impl Fn(Time, i64) -> bool) -> Option<Time> {
        let mut start = from;
        for (piece, end, level) in self.pieces(from) {
            if !fits(piece, level) {
                start = end;
            } else if end - start >= span {
                return Some(start);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    #[test]
    fn the_earliest_hole_that_is_long_enough() {
        let mut line = Line::default();
        line.add(None, at(10), 4);
        line.add(Some(at(15)), at(30), 3);
        let check = |from, span, most: i64, expected: Option<i64>| {
            let found = line.earliest(at(from), Span::from_ms(span), |_, level| level <= most);
            assert_eq!(found.map(Time::unix_ms), expected, "from {from} for {span} at most {most}");
        };
        check(0, 5, 0, Some(10));
        check(0, 6, 0, Some(30));
        check(0, 100, 3, Some(10));
        check(0, 100, 4, Some(0));
        check(12, 3, 0, Some(12));
        check(0, 1, -1, None);
    }

    #[test]
    fn levels_do_not_wrap() {
        let mut line = Line::default();
        line.add(None, at(5), i64::MAX);
        line.add(None, at(5), i64::MAX);
        line.add(Some(at(1)), at(9), i64::MAX);
        assert!(line.pieces(at(0)).take_while(|(_, end, _)| *end <= at(9)).all(|(_, _, level)| level == i64::MAX));
    }

    proptest! {
        /// Against one level for each millisecond.
        #[test]
        fn a_line_is_its_levels(
            adds in proptest::collection::vec((proptest::option::of(0_i64..20), 1_i64..10, -3_i64..4), 0..6),
            asks in proptest::collection::vec((0_i64..20, 1_i64..8, -3_i64..6), 1..6),
        ) {
            let mut line = Line::default();
            let mut levels = [0_i64; 60];
            for (from, span, amount) in adds {
                let to = from.unwrap_or(0) + span;
                line.add(from.map(at), at(to), amount);
                levels[from.unwrap_or(0) as usize..to as usize].iter_mut().for_each(|level| *level += amount);
            }
            for (from, span, most) in asks {
                let fits = |start: i64| levels[start as usize..(start + span) as usize].iter().all(|level| *level <= most);
                let expected = (from..50).find(|start| fits(*start));
                let found = line.earliest(at(from), Span::from_ms(span), |_, level| level <= most);
                prop_assert_eq!(found.map(Time::unix_ms), expected);
            }
        }
    }
}
