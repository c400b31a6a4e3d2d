//! A set of positions `0..len`, one bit each, worked on a word (64 positions) at a time.
//!
//! For sets asked for their lowest members and for runs of neighbours: free nodes. It does not grow by itself: a
//! position at or above `len` is a mistake of the caller and panics on insertion. Beside the words it keeps the number
//! of members, and the window of words outside of which there are none, so that no scan reads the empty ends.

use std::ops::Range;

const WORD: u32 = u64::BITS;

/// Positions `0..len`. Memory: one bit per position.
#[derive(Debug, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: u32,
    count: u32,
    /// The words outside `low..high` are empty. After a removal both ends are exact; `low > high` when there is no member.
    low: usize,
    high: usize,
}

/// The word of a position, and its bit there.
fn place(position: u32) -> (usize, u64) {
    ((position / WORD) as usize, 1 << (position % WORD))
}

/// The words that a range touches, each with the bits of the range. Empty for an empty range.
fn masks(range: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = (range.start / WORD, range.end.div_ceil(WORD));
    let words = if range.is_empty() { 0..0 } else { from..to };
    words.map(move |word| {
        let below = if word == from { range.start % WORD } else { 0 };
        let above = if word + 1 == to { to * WORD - range.end } else { 0 };
        (word as usize, (u64::MAX << below) & (u64::MAX >> above))
    })
}

/// Where the first run of at least `n` ones begins; `n` is 1 to 63. Each step joins pieces that are known to be runs.
fn run_in_word(mut word: u64, n: u32) -> Option<u32> {
    let mut have = 1;
    while have < n {
        let step = have.min(n - have);
        word &= word >> step;
        have += step;
    }
    (word != 0).then(|| word.trailing_zeros())
}

impl Bits {
    /// The empty set of positions `0..len`. `len` is at most 2^32 - 64.
    pub(crate) fn new(len: u32) -> Self {
        Self { words: vec![0; len.div_ceil(WORD) as usize], len, count: 0, low: usize::MAX, high: 0 }
    }

    /// Makes room for positions up to `len`; never shrinks.
    pub(crate) fn grow(&mut self, len: u32) {
        if len > self.len {
            self.len = len;
            self.words.resize(len.div_ceil(WORD) as usize, 0);
        }
    }

    /// How many positions there are, members or not.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// How many members there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn contains(&self, position: u32) -> bool {
        let (word, bit) = place(position);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether it was no member before. Panics at and above `len`.
    pub(crate) fn insert(&mut self, position: u32) -> bool {
        assert!(position < self.len, "position {position} of {}", self.len);
        let (at, bit) = place(position);
        let added = self.words[at] & bit == 0;
        self.words[at] |= bit;
        self.count += u32::from(added);
        self.low = self.low.min(at);
        self.high = self.high.max(at + 1);
        added
    }

    /// Whether it was a member before.
    pub(crate) fn remove(&mut self, position: u32) -> bool {
        let (at, bit) = place(position);
        let Some(word) = self.words.get_mut(at).filter(|word| **word & bit != 0) else { return false };
        *word &= !bit;
        self.count -= 1;
        if *word == 0 {
            self.narrow();
        }
        true
    }

    /// How many of the range were no members before. Panics when it reaches beyond `len`.
    pub(crate) fn insert_range(&mut self, range: Range<u32>) -> u32 {
        assert!(range.end <= self.len, "positions up to {} of {}", range.end, self.len);
        if range.is_empty() {
            return 0;
        }
        self.low = self.low.min((range.start / WORD) as usize);
        self.high = self.high.max(range.end.div_ceil(WORD) as usize);
        let mut added = 0;
        for (at, mask) in masks(range) {
            added += (mask & !self.words[at]).count_ones();
            self.words[at] |= mask;
        }
        self.count += added;
        added
    }

    /// How many of the range were members before.
    pub(crate) fn remove_range(&mut self, range: Range<u32>) -> u32 {
        let mut removed = 0;
        for (at, mask) in masks(range.start..range.end.min(self.len)) {
            removed += (mask & self.words[at]).count_ones();
            self.words[at] &= !mask;
        }
        self.count -= removed;
        if removed > 0 {
            self.narrow();
        }
        removed
    }

    /// Brings the window to its members after words have become empty.
    fn narrow(&mut self) {
        if self.count == 0 {
            (self.low, self.high) = (usize::MAX, 0);
            return;
        }
        // A word inside the window has a member, so both loops end there.
        while self.words[self.low] == 0 {
            self.low += 1;
        }
        while self.words[self.high - 1] == 0 {
            self.high -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        for at in self.low..self.high {
            self.words[at] = 0;
        }
        self.count = 0;
        self.narrow();
    }

    /// Adds the members of `other`; grows to its length.
    pub(crate) fn union_with(&mut self, other: &Bits) {
        self.grow(other.len);
        for at in other.low..other.high {
            self.count += (other.words[at] & !self.words[at]).count_ones();
            self.words[at] |= other.words[at];
        }
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// The part of the range that the window covers.
    fn covered(&self, range: Range<u32>) -> Range<u32> {
        if self.count == 0 {
            return 0..0;
        }
        // The window lies within the words, and their positions fit in u32.
        range.start.max(self.low as u32 * WORD)..range.end.min(self.high as u32 * WORD)
    }

    pub(crate) fn intersects_range(&self, range: Range<u32>) -> bool {
        masks(self.covered(range)).any(|(at, mask)| self.words[at] & mask != 0)
    }

    pub(crate) fn count_range(&self, range: Range<u32>) -> u32 {
        masks(self.covered(range)).map(|(at, mask)| (self.words[at] & mask).count_ones()).sum()
    }

    /// Hands out the lowest `n` members, or all when there are fewer, as runs in ascending order, and returns how many.
    /// The runs are as long as possible; the last one is cut where `n` is reached. Cost: the words up to the last one.
    pub(crate) fn lowest(&self, n: u32, mut each: impl FnMut(Range<u32>)) -> u32 {
        let mut missing = n;
        let mut runs = self.runs();
        while missing > 0 {
            let Some(run) = runs.next() else { break };
            let size = missing.min(run.end - run.start);
            missing -= size;
            each(run.start..run.start + size);
        }
        n - missing
    }

    /// The runs of neighbouring members, as long as possible, in ascending order.
    pub(crate) fn runs(&self) -> Runs<'_> {
        if self.count == 0 {
            return Runs { words: &[], at: 0, rest: 0 };
        }
        Runs { words: &self.words[..self.high], at: self.low, rest: self.words[self.low] }
    }

    /// The members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs().flatten()
    }

    /// Where the first run of at least `n` members begins; 0 is read as 1. Cost: a few steps per word, however the
    /// members are scattered.
    pub(crate) fn first_run(&self, n: u32) -> Option<u32> {
        let n = n.max(1);
        if self.count < n {
            return None;
        }
        // How many members end the word before without a gap.
        let mut before = 0;
        for at in self.low..self.high {
            let word = self.words[at];
            let start = at as u32 * WORD;
            if before + word.trailing_ones() >= n {
                return Some(start - before);
            }
            if word == u64::MAX {
                before += WORD;
                continue;
            }
            // Before the end of the word is found out about: a run inside it comes first.
            if n < WORD
                && let Some(inside) = run_in_word(word, n)
            {
                return Some(start + inside);
            }
            before = word.leading_ones();
        }
        None
    }
}

/// See [`Bits::runs`].
#[derive(Debug, Clone)]
pub(crate) struct Runs<'a> {
    words: &'a [u64],
    at: usize,
    /// What of the word `at` has not been handed out.
    rest: u64,
}

impl Iterator for Runs<'_> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        while self.rest == 0 {
            let next = self.words.get(self.at + 1)?;
            self.at += 1;
            self.rest = *next;
        }
        let start = self.at as u32 * WORD + self.rest.trailing_zeros();
        // The zeros below the run are filled, so that the run and they are one block of ones.
        let filled = self.rest | (self.rest - 1);
        if filled != u64::MAX {
            self.rest &= filled + 1;
            return Some(start..self.at as u32 * WORD + filled.trailing_ones());
        }
        // It goes on in the next word, if there is one.
        self.rest = 0;
        let mut end = (self.at as u32 + 1) * WORD;
        while let Some(word) = self.words.get(self.at + 1) {
            self.at += 1;
            end += word.trailing_ones();
            if *word != u64::MAX {
                self.rest = word & (word + 1);
                break;
            }
        }
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(len: u32, ranges: &[Range<u32>]) -> Bits {
        let mut bits = Bits::new(len);
        for range in ranges {
            bits.insert_range(range.clone());
        }
        bits
    }

    fn lowest(bits: &Bits, n: u32) -> Vec<Range<u32>> {
        let mut runs = Vec::new();
        let handed = bits.lowest(n, |run| runs.push(run));
        assert_eq!(handed, runs.iter().map(|run| run.end - run.start).sum::<u32>());
        runs
    }

    #[test]
    fn the_lowest_are_handed_out_as_runs() {
        let bits = set(300, &[3..5, 60..70, 128..256]);
        assert_eq!(bits.count(), 2 + 10 + 128);
        assert_eq!(lowest(&bits, 0), []);
        assert_eq!(lowest(&bits, 4), [3..5, 60..62]);
        assert_eq!(lowest(&bits, 12), [3..5, 60..70]);
        assert_eq!(lowest(&bits, 1000), [3..5, 60..70, 128..256]);
    }

    #[test]
    fn the_first_run_that_is_long_enough() {
        let bits = set(300, &[3..5, 60..70, 128..256]);
        for (n, start) in [(0, 3), (2, 3), (3, 60), (10, 60), (11, 128), (128, 128)] {
            assert_eq!(bits.first_run(n), Some(start), "{n}");
        }
        assert_eq!(bits.first_run(129), None);
        assert_eq!(set(64, &[0..64]).first_run(64), Some(0));
    }

    #[test]
    #[should_panic(expected = "position 65 of 65")]
    fn a_position_beyond_the_end_is_refused() {
        set(65, &[]).insert(65);
    }
}
