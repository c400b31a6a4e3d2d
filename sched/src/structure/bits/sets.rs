//! Unions and intersections of sets of positions.

use super::{Bits, WORD};

impl Bits {
    /// Adds the members of `other`; grows to its length.
    pub(crate) fn union_with(&mut self, other: &Bits) {
        self.grow(other.len);
        let blocks = self.words.chunks_mut(WORD as usize).zip(&mut self.some);
        for ((words, some), (more, more_some)) in blocks.zip(other.blocks()) {
            if more_some == 0 {
                continue;
            }
            *some |= more_some;
            let mut added = 0;
            for (word, more) in words.iter_mut().zip(more) {
                added += (more & !*word).count_ones();
                *word |= more;
            }
            self.count += added;
        }
    }

    /// Keeps the members that `other` also has.
    pub(crate) fn intersect_with(&mut self, other: &Bits) {
        self.count = 0;
        let others = other.blocks().map(Some).chain(std::iter::repeat(None));
        for ((words, some), other) in self.words.chunks_mut(WORD as usize).zip(&mut self.some).zip(others) {
            let (other, other_some) = other.unwrap_or((&[], 0));
            if *some & other_some == 0 {
                words.fill(0);
                *some = 0;
                continue;
            }
            *some = 0;
            for (index, word) in words.iter_mut().enumerate() {
                *word &= other.get(index).copied().unwrap_or(0);
                *some |= u64::from(*word != 0) << index;
                self.count += word.count_ones();
            }
        }
    }
}
