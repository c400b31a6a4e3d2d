//! The year 2010 in Newcastle: weekdays, terms, holidays, and the opening of the groups.

use super::numbers as n;

/// Returns the index of a day, from 0 for 1 January 2010.
fn day((month, day): (usize, usize)) -> usize {
    // 2010 is not a leap year.
    const BEFORE: [usize; 13] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    BEFORE[month] + day - 1
}

fn is_within(of: usize, [first, last]: [(usize, usize); 2]) -> bool {
    (day(first)..=day(last)).contains(&of)
}

/// Returns the weekday, 0 for Monday.
pub(super) fn weekday(day: usize) -> usize {
    (day + n::FIRST_WEEKDAY) % 7
}

/// Returns the index of the term, if the day is in one.
pub(super) fn term(day: usize) -> Option<usize> {
    n::TERMS.iter().position(|term| is_within(day, *term))
}

/// Returns true for a day of the summer break.
pub(super) fn is_summer(of: usize) -> bool {
    let [_, [_, spring_ends], [autumn_begins, _]] = n::TERMS;
    day(spring_ends) < of && of < day(autumn_begins)
}

/// Returns the weight of a day: its weekday and its season.
pub(super) fn weight(of: usize) -> f64 {
    let is_christmas = n::CHRISTMAS_DAYS.iter().any(|days| is_within(of, *days));
    let is_holiday = n::BANK_HOLIDAYS.iter().any(|holiday| day(*holiday) == of);
    let season = match (is_christmas, is_holiday, term(of)) {
        (true, ..) => n::CHRISTMAS,
        (_, true, _) => n::BANK_HOLIDAY,
        (_, _, Some(_)) => n::TERM,
        (_, _, None) => n::BREAK,
    };
    n::WEEKDAYS[weekday(of)] * season
}

/// Times at which a group is open to its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    AllDay,
    /// From Monday to Saturday, until late.
    Evening,
    /// From Monday to Friday.
    Office,
}

impl Opening {
    /// Returns the hours of opening and closing on a weekday, 0 for Monday.
    fn hours(self, weekday: usize) -> Option<(usize, usize)> {
        match (self, weekday) {
            (Self::AllDay, _) => Some((0, 24)),
            (Self::Evening, 0..=5) => Some((n::OPENS, n::EVENING_CLOSES)),
            (Self::Office, 0..=4) => Some((n::OPENS, n::OFFICE_CLOSES)),
            _ => None,
        }
    }

    pub fn is_open(self, day: usize, hour: usize) -> bool {
        self.hours(weekday(day)).is_some_and(|(opens, closes)| (opens..closes).contains(&hour))
    }

    /// Returns the hour of the day at which users must leave, if any.
    pub fn closes(self, day: usize) -> Option<usize> {
        let (_, closes) = self.hours(weekday(day))?;
        (self != Self::AllDay).then_some(closes)
    }

    /// Returns the times as `groups.toml` has them.
    pub fn shown(self) -> &'static str {
        match self {
            Self::AllDay => "mon-sun 00:00-24:00",
            Self::Evening => "mon-sat 08:00-22:00",
            Self::Office => "mon-fri 08:00-18:00",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_2010() {
        // 31 January, Easter Sunday and 31 December, by a calendar.
        assert_eq!((day((1, 31)), weekday(30)), (30, 6));
        assert_eq!((day((4, 4)), weekday(93)), (93, 6));
        assert_eq!((day((12, 31)), weekday(364)), (364, 4));
        assert_eq!([9, 10, 77, 78].map(term), [None, Some(0), Some(0), None]);
        assert_eq!([168, 169, 275, 276].map(is_summer), [false, true, true, false]);
    }

    #[test]
    fn weights_of_days() {
        let of = |month, of| weight(day((month, of)));
        assert_eq!(of(1, 1), 0.02 * 0.85);
        assert_eq!(of(1, 11), 1.0);
        assert_eq!(of(1, 15), 0.85);
        assert_eq!(of(7, 3), 0.25 * 0.25);
        assert_eq!(of(5, 3), 0.1);
    }

    #[test]
    fn groups_open_and_close() {
        // 1 January is a Friday.
        assert!(Opening::AllDay.is_open(2, 0) && Opening::AllDay.closes(2).is_none());
        assert!(
            Opening::Evening.is_open(1, 21) && !Opening::Evening.is_open(1, 22) && !Opening::Evening.is_open(2, 12)
        );
        assert!(Opening::Office.is_open(0, 8) && !Opening::Office.is_open(0, 18) && !Opening::Office.is_open(1, 12));
        assert_eq!((Opening::Office.closes(0), Opening::Evening.closes(1)), (Some(18), Some(22)));
    }
}
