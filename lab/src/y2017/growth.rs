//! The growth of the free intervals while running jobs end one after the other. This copy of the list only grows, and
//! takes constant time for each job.
//!
//! Entries carry the number of the walk that wrote them, so nothing is copied or cleared between walks.

use super::intervals::{Free, Interval};

/// The other end of a free interval, valid for `walk`.
#[derive(Debug, Clone, Copy, Default)]
struct Far {
    walk: u32,
    end: u32,
}

/// The growing free intervals; see the module.
#[derive(Debug)]
pub struct Growth {
    walk: u32,
    /// Last processor of an interval, by its first.
    lasts: Vec<Far>,
    /// First processor of an interval, by its last.
    firsts: Vec<Far>,
    /// True if the interval is taken from its low end, by its first processor.
    low: Vec<bool>,
    pub free: u32,
}

impl Growth {
    pub fn new(processors: u32) -> Self {
        let size = processors as usize;
        Self {
            walk: 0,
            lasts: vec![Far::default(); size],
            firsts: vec![Far::default(); size],
            low: vec![true; size],
            free: 0,
        }
    }

    /// Starts from the current intervals, which have no marks.
    pub fn restart(&mut self, list: &[Free], free: u32) {
        self.walk += 1;
        self.free = free;
        for entry in list {
            self.write(entry.at, entry.low);
        }
    }

    fn write(&mut self, at: Interval, low: bool) {
        self.lasts[at.first as usize] = Far { walk: self.walk, end: at.last };
        self.firsts[at.last as usize] = Far { walk: self.walk, end: at.first };
        self.low[at.first as usize] = low;
    }

    fn of(&self, far: Option<&Far>) -> Option<u32> {
        far.filter(|far| far.walk == self.walk).map(|far| far.end)
    }

    /// Frees processors; returns the interval that contains them now.
    pub fn release(&mut self, at: Interval) -> Interval {
        self.free += at.width();
        let left = at.first.checked_sub(1).and_then(|end| self.of(self.firsts.get(end as usize)));
        let right = self.of(self.lasts.get(at.last as usize + 1));
        let grown = Interval::new(left.unwrap_or(at.first), right.unwrap_or(at.last));
        let low = match (left, right) {
            (Some(first), Some(_)) => self.low[first as usize],
            (left, _) => left.is_none(),
        };
        self.write(grown, low);
        grown
    }

    /// Returns the place of `width` processors in a free interval.
    pub fn place(&self, at: Interval, width: u32) -> Interval {
        at.end(self.low[at.first as usize], width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::y2017::intervals::{FOREVER, FreeIntervals};

    /// Checks that both lists agree for any order of releases.
    #[test]
    fn grows_as_the_list_does() {
        let mut growth = Growth::new(24);
        let mut seed = 7_u32;
        for _ in 0..200 {
            let mut list = FreeIntervals::new(24);
            let mut taken: Vec<Interval> = (0..8).filter_map(|_| list.take(3, FOREVER)).collect();
            growth.restart(list.list(), list.processors());
            while !taken.is_empty() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = taken.swap_remove((seed >> 16) as usize % taken.len());
                list.release(at);
                let grown = growth.release(at);
                let entry = list.list().iter().find(|free| free.at == grown).expect("the same interval");
                assert_eq!(growth.place(grown, 1), entry.at.end(entry.low, 1));
                assert_eq!(growth.free, list.processors());
            }
            assert_eq!(list.list().len(), 1);
        }
    }
}
