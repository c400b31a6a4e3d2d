//! Numbers whose `Option` takes no more memory. Workloads have millions of jobs, and most lack most values.

use std::num::{NonZeroU32, NonZeroU64};

use limo_model::Span;

/// A span that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompactSpan(NonZeroU64);

impl CompactSpan {
    /// Returns the span in this form; a negative one becomes zero.
    pub fn of(span: Span) -> Self {
        Self(NonZeroU64::MIN.saturating_add(u64::try_from(span.ms()).unwrap_or(0)))
    }

    /// Returns the span.
    pub fn span(self) -> Span {
        Span::from_ms(i64::try_from(self.0.get() - 1).unwrap_or(i64::MAX))
    }
}

/// Index in a list of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(NonZeroU32);

impl Index {
    /// Returns an index. It is less than 2^32 - 1, because a list has at most one element for each job in memory.
    pub fn of(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// Returns the index as a number.
    pub fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Job;

    #[test]
    fn values_are_kept_and_options_are_free() {
        for ms in [0, 1, 86_400_000, i64::MAX] {
            assert_eq!(CompactSpan::of(Span::from_ms(ms)).span(), Span::from_ms(ms));
        }
        assert_eq!(CompactSpan::of(Span::from_ms(-1)).span(), Span::ZERO);
        for index in [0, 1, 4_000_000_000] {
            assert_eq!(Index::of(index).get(), index);
        }
        assert_eq!((size_of::<Option<CompactSpan>>(), size_of::<Option<Index>>()), (8, 4));
        assert_eq!(size_of::<Job>(), 88);
    }
}
