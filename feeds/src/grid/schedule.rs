//! Time table: limits at hours of certain days, in a time zone. Never fails.
//!
//! An hour that is skipped in spring begins after the change of clocks; if an hour is repeated in autumn, its first
//! occurrence counts.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{Time as Hour, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use limo_model::{Band, Time};
use thiserror::Error;

use super::limit::{Limit, Word};
use super::teller::Teller;
use crate::fetch::now;

/// Days in advance: longer than any plan of a job.
const DAYS_AHEAD: i64 = 8;

/// Interval between updates.
const EVERY: Duration = Duration::from_secs(3_600);

/// Days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days([bool; 7]);

/// Line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Days on which the limit begins.
    pub days: Days,
    /// Begin in local time.
    pub from: Hour,
    /// End in local time, on the next day if it is not after `from`.
    pub until: Hour,
    /// Limits of the line.
    pub band: Band,
    /// Priority among lines that overlap: the lower number counts.
    pub priority: u32,
}

/// Time table.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Zone of the hours.
    pub zone: TimeZone,
    /// The lines, in any order.
    pub lines: Vec<Line>,
}

/// Error of a text that names no days.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` names no days: write for example `daily`, `mon-fri` or `sat,sun`")]
pub struct DaysError {
    text: String,
}

/// Error of a text in the table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TextError {
    #[error("`{text}` is not a time zone: write for example `Europe/Berlin`")]
    Zone { text: String },
    #[error("`{text}` is not a time of day: write for example `17:30`")]
    Hour { text: String },
}

const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl FromStr for Days {
    type Err = DaysError;

    fn from_str(text: &str) -> Result<Self, DaysError> {
        let error = || DaysError { text: text.to_owned() };
        let day = |name: &str| NAMES.iter().position(|known| *known == name.trim()).ok_or_else(error);
        if text == "daily" {
            return Ok(Self([true; 7]));
        }
        let mut days = [false; 7];
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (day(first)?, day(last)?),
                None => (day(part)?, day(part)?),
            };
            // `fri-mon` crosses the end of the week.
            let length = (last + 7 - first) % 7;
            (first..=first + length).for_each(|index| days[index % 7] = true);
        }
        Ok(Self(days))
    }
}

impl Days {
    fn has(self, day: Weekday) -> bool {
        self.0[usize::try_from(day.to_monday_zero_offset()).unwrap_or(0) % 7]
    }
}

impl Schedule {
    /// Parses the name of a time zone.
    ///
    /// # Errors
    /// [`TextError::Zone`] if this machine does not know it.
    pub fn zone(text: &str) -> Result<TimeZone, TextError> {
        TimeZone::get(text).map_err(|_| TextError::Zone { text: text.to_owned() })
    }

    /// Returns the limits of the days around `now`.
    pub fn limits(&self, now: Time) -> Vec<Limit> {
        let Ok(today) = Timestamp::from_millisecond(now.unix_ms()).map(|now| now.to_zoned(self.zone.clone())) else {
            return Vec::new();
        };
        // A limit of yesterday may still be in force.
        let days = (-1..DAYS_AHEAD).filter_map(|offset| today.checked_add(offset.days()).ok());
        let mut limits = Vec::new();
        for day in days {
            let lines = self.lines.iter().filter(|line| line.days.has(day.weekday()));
            limits.extend(lines.filter_map(|line| line.on(&day, now)).filter(|limit| limit.until > Some(now)));
        }
        limits
    }
}

impl Line {
    /// Parses `17:30`, on a clock of 24 hours; `00:00` is also the end of a day.
    ///
    /// # Errors
    /// [`TextError::Hour`] for other texts.
    pub fn hour(text: &str) -> Result<Hour, TextError> {
        let error = || TextError::Hour { text: text.to_owned() };
        let (hour, minute) = text.split_once(':').ok_or_else(error)?;
        let number = |text: &str| {
            let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse::<i8>().ok()).flatten()
        };
        let (hour, minute) = number(hour).zip(number(minute)).ok_or_else(error)?;
        Hour::new(hour, minute, 0, 0).map_err(|_| error())
    }

    fn on(&self, day: &Zoned, now: Time) -> Option<Limit> {
        let date = day.date();
        let last = if self.until > self.from { date } else { date.tomorrow().ok()? };
        let at = |date: jiff::civil::Date, hour: Hour| {
            let zoned = date.to_datetime(hour).to_zoned(day.time_zone().clone()).ok()?;
            Some(Time::from_unix_ms(zoned.timestamp().as_millisecond()))
        };
        let (from, until) = (at(date, self.from)?, at(last, self.until)?);
        let (low, high) = (self.band.low(), self.band.high());
        let limit =
            Limit { low, high, from, until: Some(until), priority: self.priority, emergency: false, received_at: now };
        // Both ends may fall into the hour that is skipped in spring.
        (from < until).then_some(limit)
    }
}

/// Reports the limits until the receiver is closed.
pub async fn run(schedule: Schedule, teller: Teller) {
    while teller.tell(Word::Limits(schedule.limits(now()))).await.is_ok() {
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Power;

    fn line(days: &str, from: &str, until: &str) -> Line {
        let band = Band::new(Power::ZERO, Power::from_watts(500)).expect("a band");
        let hour = |text: &str| Line::hour(text).expect("an hour");
        Line { days: days.parse().expect("days"), from: hour(from), until: hour(until), band, priority: 0 }
    }

    /// Checks the first limits of a table in Copenhagen at a time, with both ends in UTC.
    fn check(line: Line, now: &str, expected: &[(&str, &str)]) {
        let zone = TimeZone::get("Europe/Copenhagen").expect("a zone");
        let now: Timestamp = now.parse().expect("a time");
        let limits = Schedule { zone, lines: vec![line] }.limits(Time::from_unix_ms(now.as_millisecond()));
        let text = |at: Time| Timestamp::from_millisecond(at.unix_ms()).expect("a time").to_string();
        let found: Vec<_> = limits.iter().map(|limit| (text(limit.from), text(limit.until.expect("an end")))).collect();
        let found: Vec<_> = found.iter().map(|(from, until)| (from.as_str(), until.as_str())).collect();
        assert_eq!(found.get(..expected.len()), Some(expected), "{found:?}");
    }

    #[test]
    fn days_of_the_week() {
        let days = |text: &str| text.parse::<Days>().map(|days| days.0.map(u8::from));
        assert_eq!(days("daily"), Ok([1; 7]));
        assert_eq!(days("mon-fri"), Ok([1, 1, 1, 1, 1, 0, 0]));
        assert_eq!(days("sat, sun"), Ok([0, 0, 0, 0, 0, 1, 1]));
        assert_eq!(days("fri-mon,wed"), Ok([1, 0, 1, 0, 1, 1, 1]));
        let error = days("weekdays").expect_err("refused").to_string();
        assert_eq!(error, "`weekdays` names no days: write for example `daily`, `mon-fri` or `sat,sun`");
        assert!(days("").is_err() && days("mon-").is_err());
    }

    #[test]
    fn local_hours_over_the_change_of_the_clocks() {
        // Copenhagen is two hours ahead of UTC in summer; the clocks go back on 2026-10-25 at 01:00 UTC.
        check(
            line("daily", "17:00", "20:00"),
            "2026-10-24T12:00:00Z",
            &[("2026-10-24T15:00:00Z", "2026-10-24T18:00:00Z"), ("2026-10-25T16:00:00Z", "2026-10-25T19:00:00Z")],
        );
        // From 02:00 to 04:00 takes three hours in that night.
        check(
            line("sun", "02:00", "04:00"),
            "2026-10-24T12:00:00Z",
            &[("2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z")],
        );
        // On 2027-03-28 the clocks go from 02:00 to 03:00 at 01:00 UTC: 02:30 is 03:30.
        check(
            line("sun", "02:30", "05:00"),
            "2027-03-27T12:00:00Z",
            &[("2027-03-28T01:30:00Z", "2027-03-28T03:00:00Z")],
        );
    }

    #[test]
    fn limits_over_midnight_apply() {
        // 2026-11-20 is a Friday.
        check(
            line("fri", "22:00", "06:00"),
            "2026-11-21T01:00:00Z",
            &[("2026-11-20T21:00:00Z", "2026-11-21T05:00:00Z"), ("2026-11-27T21:00:00Z", "2026-11-28T05:00:00Z")],
        );
        check(
            line("fri", "22:00", "06:00"),
            "2026-11-21T05:00:00Z",
            &[("2026-11-27T21:00:00Z", "2026-11-28T05:00:00Z")],
        );
        // A limit from an hour to the same hour lasts a whole day.
        check(
            line("fri", "00:00", "00:00"),
            "2026-11-20T01:00:00Z",
            &[("2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z")],
        );
    }
}
