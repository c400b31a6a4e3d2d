//! Free cores of a class of nodes from now on, as one sum. The sum is exact if every job takes whole nodes; otherwise
//! it is a bound.

use limo_model::{Span, Time};

/// Pairs of a time and the free cores from then on; ascending.
#[derive(Debug, Clone)]
pub(crate) struct CountLine(Vec<(Time, i64)>);

impl CountLine {
    pub fn new(now: Time, free: i64) -> Self {
        Self(vec![(now, free)])
    }

    /// Returns the index of the step that begins at `at`, not before now; inserts it if missing.
    fn cut(&mut self, at: Time) -> usize {
        match self.0.binary_search_by_key(&at, |(start, _)| *start) {
            Ok(index) => index,
            Err(index) => {
                let before = self.0[index.saturating_sub(1)].1;
                self.0.insert(index, (at, before));
                index
            }
        }
    }

    pub fn give(&mut self, cores: i64, from: Time) {
        // Most entries are added in order of time.
        if let Some((_, free)) = self.0.last().copied().filter(|(last, _)| *last < from) {
            self.0.push((from, free + cores));
            return;
        }
        let index = self.cut(from);
        self.0[index..].iter_mut().for_each(|(_, free)| *free += cores);
    }

    pub fn take(&mut self, cores: i64, from: Time, until: Time) {
        let (first, last) = (self.cut(from), self.cut(until));
        self.0[first..last].iter_mut().for_each(|(_, free)| *free -= cores);
    }

    /// Returns the first time from now on after which `cores` are free for all of `span`.
    pub fn earliest(&self, cores: i64, span: Span) -> Option<Time> {
        let mut start: Option<Time> = None;
        for (index, (at, free)) in self.0.iter().enumerate() {
            if *free < cores {
                start = None;
                continue;
            }
            let from = *start.get_or_insert(*at);
            let until = self.0.get(index + 1).map_or(Time::MAX, |(next, _)| *next);
            if until - from >= span {
                return Some(from);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    #[test]
    fn the_earliest_start_by_count() {
        // 4 cores are free now; 6 taken ones become free at 100 s.
        let mut line = CountLine::new(at(0), 4);
        line.give(6, at(100));
        let check = |line: &CountLine, cores, span, expected: Option<i64>| {
            assert_eq!(line.earliest(cores, Span::from_secs(span)), expected.map(at), "{cores} cores for {span} s");
        };
        check(&line, 4, 1_000, Some(0));
        check(&line, 5, 10, Some(100));
        check(&line, 11, 10, None);
        // 8 cores are planned from 100 s to 200 s. A short job with few cores still fits before them, a long one at
        // the same time.
        line.take(8, at(100), at(200));
        check(&line, 3, 100, Some(0));
        check(&line, 3, 101, Some(200));
        check(&line, 2, 1_000, Some(0));
        check(&line, 10, 1, Some(200));
    }
}
