//! A set of positions `0..len` with one bit each, processed by words of 64 positions.
//!
//! For sets in which the lowest members and runs of neighbours are searched, such as free nodes. It does not grow by
//! itself: inserting a position at or above `len` is an error of the caller and panics. It also stores the number of
//! members. A second level has a bit for each word with members, so that scans skip empty parts: a scan of 80,640
//! empty positions takes 20 steps.

mod sets;

use std::ops::{ControlFlow, Range};

const WORD: u32 = u64::BITS;

/// Positions `0..len`. Memory: one bit per position.
#[derive(Debug, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
    /// Bit `i % 64` of `some[i / 64]` is set if `words[i]` is not empty.
    some: Vec<u64>,
    len: u32,
    count: u32,
}

/// Returns the word of a position, and its bit there.
fn place(position: u32) -> (usize, u64) {
    ((position / WORD) as usize, 1 << (position % WORD))
}

/// Calls `each` with the words that a range touches, and the bits of the range in each. Stops if `each` breaks.
#[inline]
fn masks(range: Range<u32>, mut each: impl FnMut(usize, u64) -> ControlFlow<()>) {
    if range.is_empty() {
        return;
    }
    let (first, last) = ((range.start / WORD) as usize, ((range.end - 1) / WORD) as usize);
    let (above, below) = (u64::MAX << (range.start % WORD), u64::MAX >> (WORD - 1 - (range.end - 1) % WORD));
    let mut mask = above;
    for at in first..last {
        if each(at, mask).is_break() {
            return;
        }
        mask = u64::MAX;
    }
    // This is the first word, or only the last one, which both ends cut.
    let _ = each(last, mask & below);
}

/// Finds the first run of at least `n` ones; `n` is 1 to 63. Each step joins pieces that are known to be runs.
fn run_in_word(mut word: u64, n: u32) -> Option<u32> {
    let mut have = 1;
    while have < n && word != 0 {
        let step = have.min(n - have);
        word &= word >> step;
        have += step;
    }
    (word != 0).then(|| word.trailing_zeros())
}

impl Bits {
    /// Makes the empty set of positions `0..len`. `len` is at most 2^32 - 64.
    pub(crate) fn new(len: u32) -> Self {
        let mut bits = Self { words: Vec::new(), some: Vec::new(), len: 0, count: 0 };
        bits.grow(len);
        bits
    }

    /// Reserves positions up to `len`; never shrinks.
    #[inline]
    pub(crate) fn grow(&mut self, len: u32) {
        if len > self.len {
            self.len = len;
            self.words.resize(len.div_ceil(WORD) as usize, 0);
            self.some.resize(self.words.len().div_ceil(WORD as usize), 0);
        }
    }

    /// Returns the number of positions, members or not.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of members.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn contains(&self, position: u32) -> bool {
        let (word, bit) = place(position);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds the bits to the word; returns the number of new ones.
    #[inline]
    fn add(&mut self, at: usize, bits: u64) -> u32 {
        let added = (bits & !self.words[at]).count_ones();
        self.words[at] |= bits;
        self.some[at / WORD as usize] |= 1 << (at as u32 % WORD);
        self.count += added;
        added
    }

    /// Removes the bits from the word; returns the number of removed ones.
    #[inline]
    fn drop(&mut self, at: usize, bits: u64) -> u32 {
        let dropped = (bits & self.words[at]).count_ones();
        self.words[at] &= !bits;
        if self.words[at] == 0 {
            self.some[at / WORD as usize] &= !(1 << (at as u32 % WORD));
        }
        self.count -= dropped;
        dropped
    }

    /// Adds a position; returns true if it was not a member before. Panics at and above `len`.
    #[inline]
    pub(crate) fn insert(&mut self, position: u32) -> bool {
        assert!(position < self.len, "position {position} of {}", self.len);
        let (at, bit) = place(position);
        self.add(at, bit) == 1
    }

    /// Removes a position; returns true if it was a member before.
    #[inline]
    pub(crate) fn remove(&mut self, position: u32) -> bool {
        let (at, bit) = place(position);
        at < self.words.len() && self.drop(at, bit) == 1
    }

    /// Adds a range; returns the number of new members. Panics if the range reaches beyond `len`.
    pub(crate) fn insert_range(&mut self, range: Range<u32>) -> u32 {
        assert!(range.end <= self.len, "positions up to {} of {}", range.end, self.len);
        let mut added = 0;
        masks(range, |at, mask| {
            added += self.add(at, mask);
            ControlFlow::Continue(())
        });
        added
    }

    /// Removes a range; returns the number of removed members.
    pub(crate) fn remove_range(&mut self, range: Range<u32>) -> u32 {
        let mut removed = 0;
        masks(range.start..range.end.min(self.len), |at, mask| {
            removed += self.drop(at, mask);
            ControlFlow::Continue(())
        });
        removed
    }

    /// Returns the first word with members, from `from` on.
    #[inline]
    fn next_word(&self, from: usize) -> Option<usize> {
        let mut at = from / WORD as usize;
        let mut some = self.some.get(at)? & (u64::MAX << (from as u32 % WORD));
        while some == 0 {
            at += 1;
            some = *self.some.get(at)?;
        }
        Some(at * WORD as usize + some.trailing_zeros() as usize)
    }

    /// Returns the words in blocks of 64, with a bit for each word that has members.
    fn blocks(&self) -> impl Iterator<Item = (&[u64], u64)> {
        self.words.chunks(WORD as usize).zip(self.some.iter().copied())
    }

    pub(crate) fn clear(&mut self) {
        for (words, some) in self.words.chunks_mut(WORD as usize).zip(&mut self.some) {
            if *some != 0 {
                words.fill(0);
                *some = 0;
            }
        }
        self.count = 0;
    }

    /// Returns true if the range has a member.
    pub(crate) fn intersects_range(&self, range: Range<u32>) -> bool {
        let mut found = false;
        masks(range.start..range.end.min(self.len), |at, mask| {
            found = self.words[at] & mask != 0;
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    /// Returns true if all positions of the range are members, or the range is empty.
    pub(crate) fn contains_range(&self, range: Range<u32>) -> bool {
        let mut all = range.is_empty() || range.end <= self.len;
        masks(range.start..range.end.min(self.len), |at, mask| {
            all &= self.words[at] & mask == mask;
            if all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        all
    }

    /// Returns the number of members in the range.
    #[cfg(test)]
    pub(crate) fn count_range(&self, range: Range<u32>) -> u32 {
        let mut count = 0;
        masks(range.start..range.end.min(self.len), |at, mask| {
            count += (self.words[at] & mask).count_ones();
            ControlFlow::Continue(())
        });
        count
    }

    /// Calls `each` with the lowest `n` members, or all if there are fewer, as runs in ascending order. Returns their
    /// number. The runs are as long as possible; the last one is cut at `n`. Cost: the words that have members, up to
    /// the last one needed.
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

    /// Returns the runs of neighbouring members, as long as possible, in ascending order.
    pub(crate) fn runs(&self) -> Runs<'_> {
        Runs { bits: self, at: 0, rest: self.words.first().copied().unwrap_or(0) }
    }

    /// Returns the run of members around a member.
    pub(crate) fn run_around(&self, position: u32) -> Range<u32> {
        let (word, bit) = ((position / WORD) as usize, position % WORD);
        // Extends the run downwards, then upwards, each until the first non-member.
        let below = (!(self.words[word] << (WORD - 1 - bit))).leading_zeros();
        let mut start = position + 1 - below;
        if below > bit {
            let full = self.words[..word].iter().rev().take_while(|word| **word == u64::MAX).count();
            let next = (word - full).checked_sub(1).map_or(0, |word| (!self.words[word]).leading_zeros());
            start = start - full as u32 * WORD - next;
        }
        let above = (!(self.words[word] >> bit)).trailing_zeros();
        let mut end = position + above;
        if above >= WORD - bit {
            end = position + WORD - bit;
            let full = self.words[word + 1..].iter().take_while(|word| **word == u64::MAX).count();
            let next = self.words.get(word + 1 + full).map_or(0, |word| (!word).trailing_zeros());
            end = end + full as u32 * WORD + next;
        }
        start..end
    }

    /// Returns the members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs().flatten()
    }

    /// Returns the beginning of the first run of at least `n` members; 0 counts as 1. Cost: a few steps per word with
    /// members, for any distribution of them.
    pub(crate) fn first_run(&self, n: u32) -> Option<u32> {
        let n = n.max(1);
        if self.count < n {
            return None;
        }
        // Number of members at the end of the previous word.
        let mut before = 0;
        for (block, (words, some)) in self.blocks().enumerate() {
            if some == 0 {
                before = 0;
                continue;
            }
            for (at, word) in words.iter().enumerate() {
                if *word == 0 {
                    before = 0;
                    continue;
                }
                let start = (block as u32 * WORD + at as u32) * WORD;
                if before + word.trailing_ones() >= n {
                    return Some(start - before);
                }
                if *word == u64::MAX {
                    before += WORD;
                    continue;
                }
                // A run inside the word comes before one that begins at the end of the word.
                if n < WORD
                    && let Some(inside) = run_in_word(*word, n)
                {
                    return Some(start + inside);
                }
                before = word.leading_ones();
            }
        }
        None
    }
}

/// The iterator of [`Bits::runs`].
#[derive(Debug, Clone)]
pub(crate) struct Runs<'a> {
    bits: &'a Bits,
    at: usize,
    /// Bits of the word `at` that are still to be returned.
    rest: u64,
}

impl Iterator for Runs<'_> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        if self.rest == 0 {
            self.at += 1;
            self.rest = *self.bits.words.get(self.at)?;
            if self.rest == 0 {
                self.at = self.bits.next_word(self.at)?;
                self.rest = self.bits.words[self.at];
            }
        }
        let start = self.at as u32 * WORD + self.rest.trailing_zeros();
        // The zeros below the run are filled, so that they and the run form one block of ones.
        let filled = self.rest | (self.rest - 1);
        if filled != u64::MAX {
            self.rest &= filled + 1;
            return Some(start..self.at as u32 * WORD + filled.trailing_ones());
        }
        // The run continues in the next word, if there is one.
        self.rest = 0;
        let mut end = (self.at as u32 + 1) * WORD;
        while let Some(word) = self.bits.words.get(self.at + 1) {
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
        assert_eq!(set(64, &[0..32, 32..64]).first_run(64), Some(0));
    }

    #[test]
    #[should_panic(expected = "position 65 of 65")]
    fn a_position_beyond_the_end_is_refused() {
        set(65, &[]).insert(65);
    }
}
