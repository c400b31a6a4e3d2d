//! The tasks of an array: their numbers, and the most that may run at a time.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most tasks of one array: some hours of work at a thousand per second, and far below the limit of 32 bits.
pub const TASKS_LIMIT: u32 = 10_000_000;

/// Most ranges in a list of tasks. A longer list is a mistake, or should be a file.
const RANGES_LIMIT: usize = 1_000;

/// The task numbers of an array, as ranges in ascending order: one range of a million tasks takes as little space as
/// one task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tasks {
    ranges: Vec<Range>,
    limit: Option<NonZeroU32>,
}

/// Numbers from `first` on, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Range {
    first: u32,
    count: u32,
    step: u32,
}

/// Error in a list of task numbers such as `0-999`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TasksError {
    #[error(
        "`{part}` is not a range of tasks: write for example 0-999, 1,3,7 or 0-100:5, and %50 for at most 50 at a time"
    )]
    Syntax { part: String },
    #[error("`{part}` ends before it begins")]
    Backwards { part: String },
    #[error("`{part}` begins before the range in front of it ends: ranges ascend")]
    Order { part: String },
    #[error("{ranges} ranges: the limit is {RANGES_LIMIT}")]
    Ranges { ranges: usize },
    #[error("{tasks} tasks: the limit is {TASKS_LIMIT}")]
    TooMany { tasks: u64 },
}

impl Tasks {
    /// Returns tasks 0 to `count` - 1, without a limit on how many run at a time.
    ///
    /// # Errors
    /// If `count` exceeds [`TASKS_LIMIT`].
    pub fn first(count: NonZeroU32) -> Result<Self, TasksError> {
        Self::of(vec![Range { first: 0, count: count.get(), step: 1 }], None)
    }

    fn of(ranges: Vec<Range>, limit: Option<NonZeroU32>) -> Result<Self, TasksError> {
        let tasks = ranges.iter().map(|range| u64::from(range.count)).sum();
        if tasks > u64::from(TASKS_LIMIT) { Err(TasksError::TooMany { tasks }) } else { Ok(Self { ranges, limit }) }
    }

    /// Returns the same tasks, at most `limit` of them at a time.
    #[must_use]
    pub fn at_most(self, limit: Option<NonZeroU32>) -> Self {
        Self { limit, ..self }
    }

    /// Returns their number: at least 1, at most [`TASKS_LIMIT`].
    pub fn count(&self) -> u32 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    /// Returns the most tasks that may run at a time.
    pub fn limit(&self) -> Option<NonZeroU32> {
        self.limit
    }

    /// Returns the number of the task at `place`, counted from 0.
    pub fn number(&self, mut place: u32) -> Option<u32> {
        for range in &self.ranges {
            if place < range.count {
                return Some(range.first + place * range.step);
            }
            place -= range.count;
        }
        None
    }

    /// Returns the place of the task with this number.
    pub fn place(&self, number: u32) -> Option<u32> {
        let mut before = 0;
        for range in &self.ranges {
            let offset = number.checked_sub(range.first).filter(|offset| offset % range.step == 0);
            match offset.map(|offset| offset / range.step) {
                Some(place) if place < range.count => return Some(before + place),
                _ => before += range.count,
            }
        }
        None
    }

    /// Returns the lowest and the highest number.
    pub fn bounds(&self) -> (u32, u32) {
        let last = |range: &Range| range.first + (range.count - 1) * range.step;
        (self.ranges.first().map_or(0, |range| range.first), self.ranges.last().map_or(0, last))
    }

    /// Returns all tasks except those at these places; `None` if none remain.
    pub fn without(&self, places: &BTreeSet<u32>) -> Option<Self> {
        let mut ranges = Vec::new();
        let mut before = 0;
        for range in &self.ranges {
            let mut next = 0;
            let gaps = places.range(before..before + range.count).map(|place| place - before);
            for gap in gaps.chain([range.count]) {
                if gap > next {
                    ranges.push(Range { first: range.first + next * range.step, count: gap - next, step: range.step });
                }
                next = gap + 1;
            }
            before += range.count;
        }
        (!ranges.is_empty()).then_some(Self { ranges, limit: self.limit })
    }

    /// Returns the first ranges, as many as a list of tasks may have, because a longer list could not be parsed
    /// again.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        self.ranges.truncate(RANGES_LIMIT);
        self
    }

    /// Returns the tasks from `place` on; `None` if none remain.
    pub fn from(&self, mut place: u32) -> Option<Self> {
        let mut ranges = Vec::new();
        for range in &self.ranges {
            let skipped = place.min(range.count);
            place -= skipped;
            if skipped < range.count {
                let first = range.first + skipped * range.step;
                ranges.push(Range { first, count: range.count - skipped, step: range.step });
            }
        }
        (!ranges.is_empty()).then_some(Self { ranges, limit: self.limit })
    }
}

impl FromStr for Tasks {
    type Err = TasksError;
    fn from_str(text: &str) -> Result<Self, TasksError> {
        let syntax = |part: &str| TasksError::Syntax { part: part.to_owned() };
        let (list, limit) = match text.split_once('%') {
            Some((list, limit)) => (list, Some(limit.parse().map_err(|_| syntax(text))?)),
            None => (text, None),
        };
        let parts = list.split(',').count();
        if parts > RANGES_LIMIT {
            return Err(TasksError::Ranges { ranges: parts });
        }
        let mut ranges: Vec<Range> = Vec::with_capacity(parts);
        let mut next = 0;
        for part in list.split(',') {
            let (span, step) = part.split_once(':').unwrap_or((part, "1"));
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            let number = |text: &str| text.parse::<u32>().map_err(|_| syntax(part));
            let (first, last, step) = (number(first)?, number(last)?, number(step)?);
            if step == 0 {
                return Err(syntax(part));
            }
            if last < first {
                return Err(TasksError::Backwards { part: part.to_owned() });
            }
            if u64::from(first) < next {
                return Err(TasksError::Order { part: part.to_owned() });
            }
            // The count of all 32-bit numbers does not fit in 32 bits; the error shows the exact count.
            let count = u64::from((last - first) / step) + 1;
            let count = u32::try_from(count).map_err(|_| TasksError::TooMany { tasks: count })?;
            next = u64::from(last) + 1;
            ranges.push(Range { first, count, step });
        }
        Self::of(ranges, limit)
    }
}

impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Range { first, count, step }) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let last = first + (count - 1) * step;
            match (count, step) {
                (1, _) => write!(f, "{comma}{first}"),
                (_, 1) => write!(f, "{comma}{first}-{last}"),
                _ => write!(f, "{comma}{first}-{last}:{step}"),
            }?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, "%{limit}"))
    }
}

impl From<Tasks> for String {
    fn from(tasks: Tasks) -> Self {
        tasks.to_string()
    }
}

impl TryFrom<String> for Tasks {
    type Error = TasksError;
    fn try_from(text: String) -> Result<Self, TasksError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, numbers: &[u32], limit: Option<u32>) {
        let tasks: Tasks = text.parse().expect("tasks");
        let found: Vec<u32> = (0..tasks.count()).filter_map(|place| tasks.number(place)).collect();
        assert_eq!(found, numbers, "{text}");
        assert_eq!(tasks.number(tasks.count()), None);
        for (place, number) in (0..).zip(numbers) {
            assert_eq!(tasks.place(*number), Some(place), "{text}: {number}");
            let rest = tasks.from(place).expect("some");
            assert_eq!((rest.number(0), rest.count()), (Some(*number), tasks.count() - place));
        }
        assert!(tasks.from(tasks.count()).is_none());
        assert_eq!(tasks.bounds(), (numbers[0], numbers[numbers.len() - 1]));
        assert_eq!((tasks.limit().map(NonZeroU32::get), tasks.to_string()), (limit, text.to_owned()));
    }

    #[test]
    fn ranges_steps_and_limits() {
        check("7", &[7], None);
        check("0-3", &[0, 1, 2, 3], None);
        check("1,3,5-7%2", &[1, 3, 5, 6, 7], Some(2));
        check("0-10:5,20", &[0, 5, 10, 20], None);
        let tasks: Tasks = "0-9:4".parse().expect("tasks");
        assert_eq!((tasks.to_string(), tasks.place(9), tasks.place(3)), ("0-8:4".to_owned(), None, None));
    }

    #[test]
    fn some_less() {
        let check = |text: &str, places: &[u32], left: Option<&str>| {
            let tasks: Tasks = text.parse().expect("tasks");
            let found = tasks.without(&places.iter().copied().collect());
            assert_eq!(found.map(|tasks| tasks.to_string()).as_deref(), left, "{text} without {places:?}");
        };
        check("0-9%3", &[], Some("0-9%3"));
        check("0-9%3", &[0, 4, 5, 9], Some("1-3,6-8%3"));
        check("0-8:4,20-22", &[1, 4], Some("0,8,20,22"));
        check("1,3", &[0, 1], None);
    }

    #[test]
    fn a_list_with_many_gaps_is_shortened_to_a_readable_one() {
        let tasks: Tasks = "0-9999".parse().expect("tasks");
        let gaps = tasks.without(&(0..10_000).step_by(2).collect()).expect("some");
        assert!(gaps.to_string().parse::<Tasks>().is_err(), "5000 ranges");
        let short = gaps.shortened();
        assert_eq!(short.to_string().parse::<Tasks>(), Ok(short.clone()));
        assert_eq!((short.count(), short.bounds()), (1_000, (1, 1_999)));
    }

    #[test]
    fn invalid_lists_of_tasks_are_refused_by_name() {
        let refused = |text: &str| text.parse::<Tasks>().expect_err(text).to_string();
        for text in ["", "a", "1-", "-1", "1,,2", "1-2-3", "0-5:0", "0-5%", "0-5%0", "4294967296"] {
            assert!(refused(text).contains("is not a range of tasks"), "{text}");
        }
        assert_eq!(refused("5-1"), "`5-1` ends before it begins");
        assert_eq!(refused("0-5,3"), "`3` begins before the range in front of it ends: ranges ascend");
        assert_eq!(refused("0-10000000"), "10000001 tasks: the limit is 10000000");
        assert_eq!(refused("0-4294967295"), "4294967296 tasks: the limit is 10000000");
        let many = vec!["1"; 1001].join(",");
        assert_eq!(refused(&many), "1001 ranges: the limit is 1000");
    }
}
