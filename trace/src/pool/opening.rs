//! Hours of a week at which the computers of a group are open to their owners.

use limo_model::{Curve, DayWindow, Span, Time};

const DAY: Span = Span::from_secs(86_400);
const WEEK_MS: i64 = 7 * 86_400_000;
/// 1 January 1970 was a Thursday: the week began three days before.
const THURSDAY_MS: i64 = 3 * 86_400_000;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Most steps of a curve: more than the groups of a cluster may have, which is then an error.
const STEP_LIMIT: usize = 5_000;

/// Hours of a week, on a clock without summer time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningHours {
    /// Begin and end of each time, from the beginning of a Monday on; in order of their begins.
    times: Vec<(Span, Span)>,
}

impl OpeningHours {
    /// Reads texts such as `mon-fri 08:00-18:00` or `sat 09:00-13:00`.
    ///
    /// # Errors
    /// The text that is wrong.
    pub fn parse(texts: &[String]) -> Result<Self, &str> {
        let mut times = Vec::new();
        for text in texts {
            let (days, (from, until)) = days_and_window(text).ok_or(text.as_str())?;
            times.extend(days.map(|day| (DAY.scaled(day, 1) + from, DAY.scaled(day, 1) + until)));
        }
        times.sort_unstable();
        Ok(Self { times })
    }

    /// Returns true if a group is open at that time (UTC).
    pub fn is_open(&self, at: Time) -> bool {
        let at = Span::from_ms((at.unix_ms() + THURSDAY_MS).rem_euclid(WEEK_MS));
        self.times.iter().any(|(from, until)| (*from..*until).contains(&at))
    }

    /// Returns true between `from` and `until` while a group is open. The last value holds on.
    pub fn curve(&self, from: Time, until: Time) -> Curve<bool> {
        let mut steps = vec![(from, self.is_open(from))];
        let mut monday = from.unix_ms() - (from.unix_ms() + THURSDAY_MS).rem_euclid(WEEK_MS);
        let mut edges: Vec<Span> = self.times.iter().flat_map(|(from, until)| [*from, *until]).collect();
        edges.sort_unstable();
        while Time::from_unix_ms(monday) <= until && steps.len() < STEP_LIMIT {
            for edge in &edges {
                let at = Time::from_unix_ms(monday) + *edge;
                let is_open = self.is_open(at);
                if from < at && at <= until && steps.last().is_some_and(|(_, before)| *before != is_open) {
                    steps.push((at, is_open));
                }
            }
            monday += WEEK_MS;
        }
        // The times ascend, because each one differs from the one before.
        Curve::new(steps, None).unwrap_or_else(|_| Curve::constant(true))
    }
}

/// Reads a weekday or several, 0 for Monday, and a time of the day.
fn days_and_window(text: &str) -> Option<(std::ops::RangeInclusive<i64>, (Span, Span))> {
    let (days, hours) = text.trim().split_once(' ')?;
    let day = |name: &str| DAYS.iter().zip(0..).find(|(known, _)| **known == name).map(|(_, day)| day);
    let (first, last) = days.split_once('-').unwrap_or((days, days));
    let (first, last): (i64, i64) = (day(first)?, day(last)?);
    let window: DayWindow = hours.parse().ok()?;
    (first <= last).then_some((first..=last, (window.from(), window.until())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds after the beginning of Monday, 4 January 2010.
    fn at(days: i64, hours: i64) -> Time {
        Time::from_unix_ms((1_262_563_200 + days * 86_400 + hours * 3_600) * 1_000)
    }

    fn steps(texts: &[&str], from: Time, until: Time) -> Vec<(Time, bool)> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        OpeningHours::parse(&texts).expect("good").curve(from, until).steps().to_vec()
    }

    #[test]
    fn groups_open_and_close_by_the_day_of_the_week() {
        let office = ["thu-fri 08:00-18:00", "sat 09:00-12:30"];
        let half = Span::from_secs(1_800);
        let expected = [
            (at(3, 7), false),
            (at(3, 8), true),
            (at(3, 18), false),
            (at(4, 8), true),
            (at(4, 18), false),
            (at(5, 9), true),
            (at(5, 12) + half, false),
            (at(10, 8), true),
        ];
        assert_eq!(steps(&office, at(3, 7), at(10, 8)), expected);
        assert_eq!(steps(&office, at(3, 8), at(3, 9)), [(at(3, 8), true)]);
    }

    #[test]
    fn times_that_touch_or_overlap_are_one() {
        assert_eq!(steps(&["mon-sun 00:00-24:00"], at(0, 5), at(30, 0)), [(at(0, 5), true)]);
        let night = ["sun 20:00-24:00", "mon 00:00-06:00", "sun 22:00-23:00"];
        assert_eq!(steps(&night, at(5, 0), at(8, 0)), [(at(5, 0), false), (at(6, 20), true), (at(7, 6), false)]);
        let inside = ["mon 08:00-18:00", "mon 09:00-12:00"];
        assert_eq!(steps(&inside, at(0, 0), at(1, 0)), [(at(0, 0), false), (at(0, 8), true), (at(0, 18), false)]);
        assert_eq!(steps(&[], at(0, 0), at(9, 0)), [(at(0, 0), false)]);
    }

    #[test]
    fn wrong_times_are_refused() {
        for text in ["mon", "08:00-18:00", "fri-mon 08:00-18:00", "mon 18:00-08:00", "Mon 08:00-18:00", "mon 8-18"] {
            assert_eq!(OpeningHours::parse(&["sun 00:00-01:00".to_owned(), text.to_owned()]), Err(text));
        }
    }
}
