//! Values of the rank `learned` of the placement `pool`: one for each group and each hour of the week in which an attempt
//! starts.

use std::collections::BTreeMap;

use limo_model::{Span, Time};
use serde::{Deserialize, Serialize};

/// Number of hours in a week.
const HOURS: i64 = 168;

/// Hours from the begin of a week, on Monday, to that of 1970, a Thursday.
const HOURS_TO_1970: i64 = 72;

/// Part of the distance to a reward by which it moves a value, as a power of a half: an eighth.
const RATE: u32 = 3;

/// Largest reward in milliseconds: an hour of work. So long jobs do not outweigh all others.
const MOST: i64 = 3_600_000;

/// Values of one group by the hour of the week, in milliseconds from -[`MOST`] to [`MOST`]; those of other hours are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LearnedValues(BTreeMap<u8, i32>);

/// Returns the hour of the week, from 0, at a wall time. All hours are in UTC.
pub(crate) fn hour_of_week(wall: Time) -> u8 {
    let hour = wall.unix_ms().div_euclid(3_600_000) + HOURS_TO_1970;
    // It is from 0 to 167.
    u8::try_from(hour.rem_euclid(HOURS)).unwrap_or(0)
}

impl LearnedValues {
    /// Returns the value at an hour.
    pub fn at(&self, hour: u8) -> i32 {
        self.0.get(&hour).copied().unwrap_or(0)
    }

    /// Moves the value at an hour towards a reward.
    pub fn learn(&mut self, hour: u8, reward: Span) {
        let reward = reward.ms().clamp(-MOST, MOST);
        let value = self.0.entry(hour).or_default();
        let moved = i64::from(*value) + ((reward - i64::from(*value)) >> RATE);
        // It is between the value and the reward, so it fits.
        *value = i32::try_from(moved).unwrap_or(*value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(day: i64, hour: i64) -> Time {
        Time::from_unix_ms((day * 24 + hour) * 3_600_000)
    }

    #[test]
    fn a_week_begins_on_monday() {
        // 1 January 1970 was a Thursday, 5 January 1970 a Monday, and 28 December 1969 a Sunday.
        assert_eq!([at(0, 0), at(4, 0), at(4, 23), at(-4, 23)].map(hour_of_week), [72, 0, 23, 167]);
        assert_eq!(hour_of_week(at(0, 1).moved(Span::from_ms(-1))), 72);
    }

    #[test]
    fn a_value_moves_by_an_eighth_of_the_distance() {
        let mut values = LearnedValues::default();
        values.learn(9, Span::from_secs(-800));
        assert_eq!((values.at(9), values.at(10)), (-100_000, 0));
        values.learn(9, Span::from_secs(700));
        assert_eq!(values.at(9), 0);
        values.learn(9, Span::from_secs(1 << 40));
        assert_eq!(values.at(9), 450_000, "an eighth of an hour");
    }

    proptest! {
        /// Values stay within the bounds of a reward, and come to it if it stays the same.
        #[test]
        fn values_are_bounded(rewards in proptest::collection::vec(any::<i64>(), 0..50), last in -MOST..=MOST) {
            let mut values = LearnedValues::default();
            for reward in rewards {
                values.learn(0, Span::from_ms(reward));
                prop_assert!((-MOST..=MOST).contains(&i64::from(values.at(0))));
            }
            (0..200).for_each(|_| values.learn(0, Span::from_ms(last)));
            // Below the reward, an eighth of less than 8 ms moves nothing.
            prop_assert!((0..8).contains(&(last - i64::from(values.at(0)))));
        }
    }
}
