//! The free processors as an ordered list of disjoint intervals. Each has a hint that names the end from which
//! processors are taken. Marks keep the reserved processors of the head of the queue for jobs that are short enough.
//!
//! Independent of energy and queue. The rules are those of the published scheduler and decide its results. Some are
//! odd: an interval wholly inside the reserved ones is not limited, and unmarking forgets hints.

/// Value that means no time limit.
pub const FOREVER: i64 = i64::MAX;

/// Processors `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub first: u32,
    pub last: u32,
}

impl Interval {
    pub const fn new(first: u32, last: u32) -> Self {
        Self { first, last }
    }

    pub fn width(self) -> u32 {
        self.last - self.first + 1
    }

    /// Returns the `width` processors at the low or high end; `width` is at most the interval's own.
    pub fn end(self, low: bool, width: u32) -> Self {
        if low {
            Self::new(self.first, self.first + (width - 1))
        } else {
            Self::new(self.last - (width - 1), self.last)
        }
    }

    /// Returns the intersection of two overlapping intervals.
    pub fn common(self, other: Self) -> Self {
        Self::new(self.first.max(other.first), self.last.min(other.last))
    }

    /// Returns the remaining part without `taken`, which covers one of its ends or does not overlap it.
    fn without(self, taken: Self) -> Option<Self> {
        if taken.last < self.first || self.last < taken.first {
            Some(self)
        } else if taken.first <= self.first {
            (taken.last < self.last).then(|| Self::new(taken.last + 1, self.last))
        } else {
            Some(Self::new(self.first, taken.first - 1))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Overlaps the reserved processors, so it is only for jobs that end before the reservation begins. `twinned` is
    /// true if the next entry is its twin.
    Limited {
        twinned: bool,
    },
    /// The part of the previous entry outside the reserved processors. Both entries contain these processors.
    Twin,
}

/// One entry of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    pub at: Interval,
    /// Longest request that may use it, in ms.
    pub limit_ms: i64,
    /// True if it is taken from its low end, else from its high end.
    pub low: bool,
    kind: Kind,
}

/// The widest entries without and with a limit; 0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Widest {
    pub unlimited: u32,
    pub limited: u32,
}

/// The list of free intervals; see the module.
#[derive(Debug, Clone)]
pub struct FreeIntervals {
    list: Vec<Free>,
    processors: u32,
}

impl FreeIntervals {
    /// Makes a list with all processors free; `processors` is at least 1.
    pub fn new(processors: u32) -> Self {
        let all = Free { at: Interval::new(0, processors - 1), limit_ms: FOREVER, low: true, kind: Kind::Plain };
        Self { list: vec![all], processors }
    }

    /// Returns the number of free processors.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    pub fn list(&self) -> &[Free] {
        &self.list
    }

    pub fn widest(&self) -> Widest {
        let mut widest = Widest::default();
        for free in &self.list {
            let most = if free.limit_ms == FOREVER { &mut widest.unlimited } else { &mut widest.limited };
            *most = (*most).max(free.at.width());
        }
        widest
    }

    /// Takes `width` processors at the hinted end of the first entry that is wide enough and whose limit is at least
    /// `request_ms`.
    pub fn take(&mut self, width: u32, request_ms: i64) -> Option<Interval> {
        let index = self.list.iter().position(|free| width <= free.at.width() && request_ms <= free.limit_ms)?;
        let Free { at, low, kind, .. } = self.list[index];
        let taken = at.end(low, width);
        self.processors -= width;
        let partner = match kind {
            Kind::Plain | Kind::Limited { twinned: false } => None,
            Kind::Limited { twinned: true } => Some(index + 1),
            Kind::Twin => Some(index - 1),
        };
        // The later entry comes first, so that the position of the other stays valid.
        let (later, earlier) = match partner {
            Some(partner) => (index.max(partner), Some(index.min(partner))),
            None => (index, None),
        };
        self.cut(later, taken);
        if let Some(earlier) = earlier {
            self.cut(earlier, taken);
        }
        Some(taken)
    }

    fn cut(&mut self, index: usize, taken: Interval) {
        if let Some(left) = self.list[index].at.without(taken) {
            self.list[index].at = left;
            return;
        }
        // A limited entry contains all of its twin, so the twin empties first.
        if self.list.remove(index).kind == Kind::Twin {
            self.list[index - 1].kind = Kind::Limited { twinned: false };
        }
    }

    /// Frees processors. There must be no marks.
    pub fn release(&mut self, at: Interval) {
        self.processors += at.width();
        let next = self.list.partition_point(|free| free.at.first <= at.first);
        let left = next > 0 && self.list[next - 1].at.last + 1 == at.first;
        let right = next < self.list.len() && at.last + 1 == self.list[next].at.first;
        match (left, right) {
            (true, true) => {
                self.list[next - 1].at.last = self.list[next].at.last;
                self.list.remove(next);
            }
            (true, false) => {
                self.list[next - 1].at.last = at.last;
                self.list[next - 1].low = false;
            }
            (false, true) => {
                self.list[next].at.first = at.first;
                self.list[next].low = true;
            }
            (false, false) => {
                self.list.insert(next, Free { at, limit_ms: FOREVER, low: true, kind: Kind::Plain });
            }
        }
    }

    /// Marks `reserved`, which the head needs in `limit_ms`.
    pub fn mark(&mut self, reserved: Interval, limit_ms: i64) {
        let mut index = 0;
        while index < self.list.len() && self.list[index].at.first <= reserved.last {
            let Interval { first, last } = self.list[index].at;
            let before = first < reserved.first && reserved.first <= last;
            let beyond = reserved.last < last;
            if before || beyond || first == reserved.first || last == reserved.last {
                self.list[index].limit_ms = limit_ms;
                self.list[index].kind = Kind::Limited { twinned: before || beyond };
            }
            if before {
                self.twin(index, Interval::new(first, reserved.first - 1), true);
                index += 1;
            } else if beyond {
                // The reserved processors were placed at one end of the free interval that contains them.
                self.twin(index, Interval::new(reserved.last + 1, last), false);
                break;
            }
            index += 1;
        }
    }

    /// Adds a twin. It is taken from the far end of the reserved processors, its partner from the other end.
    fn twin(&mut self, index: usize, at: Interval, low: bool) {
        self.list[index].low = !low;
        self.list.insert(index + 1, Free { at, limit_ms: FOREVER, low, kind: Kind::Twin });
    }

    /// Removes all marks. Marked intervals are taken from their low end from now on.
    pub fn unmark(&mut self) {
        self.list.retain(|free| free.kind != Kind::Twin);
        for free in &mut self.list {
            if free.kind != Kind::Plain {
                (free.limit_ms, free.low, free.kind) = (FOREVER, true, Kind::Plain);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a list of 20 processors of which `busy` are taken; the others are freed in the given order.
    fn free(given: &[(u32, u32)]) -> FreeIntervals {
        let mut free = FreeIntervals::new(20);
        assert_eq!(free.take(20, FOREVER), Some(Interval::new(0, 19)));
        for &(first, last) in given {
            free.release(Interval::new(first, last));
        }
        free
    }

    fn check(free: &FreeIntervals, expected: &[(u32, u32, i64, bool)]) {
        let list: Vec<_> =
            free.list.iter().map(|free| (free.at.first, free.at.last, free.limit_ms, free.low)).collect();
        assert_eq!(list, expected);
    }

    #[test]
    fn the_last_released_interval_is_taken_first() {
        let mut intervals = free(&[(5, 6), (10, 12)]);
        check(&intervals, &[(5, 6, FOREVER, true), (10, 12, FOREVER, true)]);
        intervals.release(Interval::new(7, 7));
        check(&intervals, &[(5, 7, FOREVER, false), (10, 12, FOREVER, true)]);
        assert_eq!(intervals.take(1, 5), Some(Interval::new(7, 7)));
        intervals.release(Interval::new(9, 9));
        // Both sides meet, and the left hint stays.
        intervals.release(Interval::new(7, 8));
        check(&intervals, &[(5, 12, FOREVER, false)]);
        assert_eq!(intervals.processors(), 8);
        assert_eq!(intervals.take(9, 5), None);
        assert_eq!(intervals.take(8, 5), Some(Interval::new(5, 12)));
        check(&intervals, &[]);
    }

    #[test]
    fn marks_limit_what_meets_the_ends_of_the_reserved() {
        let mut intervals = free(&[(0, 4), (6, 7), (9, 14)]);
        intervals.mark(Interval::new(3, 10), 50);
        // Processors 6 to 7 are wholly inside and not limited.
        let marked = [
            (0, 4, 50, false),
            (0, 2, FOREVER, true),
            (6, 7, FOREVER, true),
            (9, 14, 50, true),
            (11, 14, FOREVER, false),
        ];
        check(&intervals, &marked);
        assert_eq!(intervals.widest(), Widest { unlimited: 4, limited: 6 });
        // The request is too long for the limited entries. Taking from the twin also shrinks its partner.
        assert_eq!(intervals.take(4, 51), Some(Interval::new(11, 14)));
        check(&intervals, &[(0, 4, 50, false), (0, 2, FOREVER, true), (6, 7, FOREVER, true), (9, 10, 50, true)]);
        assert_eq!(intervals.take(3, 50), Some(Interval::new(2, 4)));
        check(&intervals, &[(0, 1, 50, false), (0, 1, FOREVER, true), (6, 7, FOREVER, true), (9, 10, 50, true)]);
        assert_eq!(intervals.take(2, 50), Some(Interval::new(0, 1)));
        check(&intervals, &[(6, 7, FOREVER, true), (9, 10, 50, true)]);
        assert_eq!(intervals.processors(), 4);
    }

    #[test]
    fn unmarking_forgets_hints() {
        let mut intervals = free(&[(4, 6), (7, 8), (12, 13), (14, 15)]);
        check(&intervals, &[(4, 8, FOREVER, false), (12, 15, FOREVER, false)]);
        intervals.mark(Interval::new(4, 8), 50);
        check(&intervals, &[(4, 8, 50, false), (12, 15, FOREVER, false)]);
        intervals.unmark();
        check(&intervals, &[(4, 8, FOREVER, true), (12, 15, FOREVER, false)]);
    }
}
