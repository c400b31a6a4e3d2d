//! Job numbers, kept as ranges. A thousand equal or consecutive numbers take as much memory as one.

use limo_model::JobId;

/// A set of job numbers in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// First and last number of each range; ascending, and neither overlapping nor adjacent.
    ranges: Vec<(u64, u64)>,
}

impl Numbers {
    /// Returns the union of ranges, given by their first and last numbers.
    pub(super) fn of_ranges(mut given: Vec<(u64, u64)>) -> Self {
        given.retain(|(first, last)| first <= last);
        given.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (first, last) in given {
            match ranges.last_mut().filter(|(_, end)| first <= end.saturating_add(1)) {
                Some((_, end)) => *end = last.max(*end),
                None => ranges.push((first, last)),
            }
        }
        ranges.shrink_to_fit();
        Self { ranges }
    }

    pub(super) fn len(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, (first, last)| sum.saturating_add(last - first).saturating_add(1))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn first(&self) -> Option<JobId> {
        self.ranges.first().map(|(first, _)| JobId(*first))
    }

    pub(super) fn last(&self) -> Option<JobId> {
        self.ranges.last().map(|(_, last)| JobId(*last))
    }

    /// Returns the first and last number of each range.
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    pub(super) fn contains(&self, job: JobId) -> bool {
        let behind = self.ranges.partition_point(|(first, _)| *first <= job.0);
        behind.checked_sub(1).is_some_and(|place| self.ranges[place].1 >= job.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = JobId> {
        self.ranges.iter().flat_map(|(first, last)| (*first..=*last).map(JobId))
    }

    /// Takes up to `count` of the first numbers.
    pub(super) fn take(&mut self, count: usize) -> Vec<JobId> {
        let taken: Vec<JobId> = self.iter().take(count).collect();
        if let Some(JobId(last)) = taken.last() {
            let behind = |(first, end): &(u64, u64)| (end > last).then_some(((*first).max(last + 1), *end));
            self.ranges = self.ranges.iter().filter_map(behind).collect();
        }
        taken
    }

    /// Keeps the numbers for which `keep` returns true.
    pub(super) fn retain(&mut self, keep: impl FnMut(&JobId) -> bool) {
        let kept: Self = self.iter().filter(keep).collect();
        *self = kept;
    }
}

impl FromIterator<JobId> for Numbers {
    fn from_iter<I: IntoIterator<Item = JobId>>(numbers: I) -> Self {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for JobId(number) in numbers {
            // Numbers mostly arrive in order.
            match ranges.last_mut().filter(|(first, last)| (*first..=last.saturating_add(1)).contains(&number)) {
                Some((_, last)) => *last = number.max(*last),
                None => ranges.push((number, number)),
            }
        }
        Self::of_ranges(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_consecutive_numbers_become_ranges() {
        let numbers: Numbers = [7, 7, 3, 1, 2, 9, 8, 7].map(JobId).into_iter().collect();
        assert_eq!(numbers.ranges, [(1, 3), (7, 9)]);
        assert_eq!((numbers.len(), numbers.first(), numbers.last()), (6, Some(JobId(1)), Some(JobId(9))));
        assert_eq!(numbers.iter().map(|job| job.0).collect::<Vec<_>>(), [1, 2, 3, 7, 8, 9]);
        assert!([1, 3, 7, 9].iter().all(|job| numbers.contains(JobId(*job))));
        assert!(![0, 4, 6, 10].iter().any(|job| numbers.contains(JobId(*job))));
        let all = Numbers::of_ranges(vec![(5, u64::MAX), (0, 4), (9, 3)]);
        assert_eq!((all.ranges.as_slice(), all.len()), (&[(0, u64::MAX)][..], u64::MAX));
        let mut odd = numbers;
        odd.retain(|job| job.0 % 2 == 1);
        assert_eq!(odd.ranges, [(1, 1), (3, 3), (7, 7), (9, 9)]);
        assert_eq!(odd.take(3), [1, 3, 7].map(JobId));
        assert_eq!((odd.take(3), odd.is_empty()), (vec![JobId(9)], true));
        let mut all = all;
        assert_eq!((all.take(1), all.ranges.as_slice()), (vec![JobId(0)], &[(1, u64::MAX)][..]));
        assert!(Numbers::default().is_empty());
    }
}
