//! Reads and writes times in the local time zone: `18:00`, `2026-10-26 18:00`, RFC 3339, `now+2h`.
//!
//! A [`Clock`] is one instant and one zone, so that everything in one command agrees on the meaning of "today".

use std::{env, fs};

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use limo_model::{Span, Time, UnitError};
use thiserror::Error;

/// Time at which the command began, and the zone in which times are shown.
#[derive(Debug, Clone)]
pub struct Clock {
    now: Time,
    zone: TimeZone,
}

/// Longest range of days, 10 years: longer lists cannot be shown.
pub const DAYS_LIMIT: i64 = 3_660;

/// Error of a text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TimeError {
    #[error("`{value}` is not a time: write `18:00`, `2026-10-26 18:00`, `2026-10-26T18:00:00Z` or `now+2h`")]
    Unknown { value: String },
    #[error("`{value}` is not a time: write `18:00`, `2026-10-26 18:00`, `2026-10-26T18:00:00Z` or `now-2h`")]
    UnknownPast { value: String },
    #[error("`{value}`: {source}")]
    Span { value: String, source: UnitError },
    #[error("`{value}` has no date: write `2026-10-26 18:00` or `2026-10-26T18:00:00Z`")]
    NoDate { value: String },
    #[error("`{value}` is outside the range of times")]
    OutOfRange { value: String },
    #[error("the range from {begin} to {end} has more than {DAYS_LIMIT} days")]
    TooManyDays { begin: String, end: String },
}

/// Returns the zone that `TZ` or the system names. Without `TZ` the file of the system is read by its own name:
/// [`TimeZone::system`] first lists all zones of the machine, which takes longer than most commands.
fn zone() -> TimeZone {
    let file = if env::var_os("TZ").is_none() { fs::read("/etc/localtime").ok() } else { None };
    let zone = file.and_then(|file| TimeZone::tzif("", &file).ok());
    zone.unwrap_or_else(TimeZone::system)
}

impl Clock {
    /// Returns the current time in the zone that `TZ` or the system names.
    pub fn system() -> Self {
        Self::new(Time::from_unix_ms(Timestamp::now().as_millisecond()), zone())
    }

    /// Makes a clock from a time and a zone, for tests and for records of other machines.
    pub fn new(now: Time, zone: TimeZone) -> Self {
        Self { now, zone }
    }

    /// Makes a clock in UTC.
    pub fn utc(now: Time) -> Self {
        Self::new(now, TimeZone::UTC)
    }

    /// Returns the time at which the command began; it does not advance.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Converts a time to the clock's zone; `None` outside the years -9999 to 9999.
    fn zoned(&self, time: Time) -> Option<Zoned> {
        Timestamp::from_millisecond(time.unix_ms()).ok().map(|instant| instant.to_zoned(self.zone.clone()))
    }

    /// Formats a time of today as `HH:MM`, other times with their date.
    pub fn show(&self, time: Time) -> String {
        let Some(shown) = self.zoned(time) else { return "never".into() };
        let today = self.zoned(self.now).is_some_and(|now| now.date() == shown.date());
        shown.strftime(if today { "%H:%M" } else { "%Y-%m-%d %H:%M" }).to_string()
    }

    /// Formats the date, as `2026-10-26`.
    pub fn date(&self, time: Time) -> String {
        self.zoned(time).map_or_else(|| "never".into(), |shown| shown.strftime("%Y-%m-%d").to_string())
    }

    /// Returns the local midnights that enclose the range: from the last one at or before `begin` to the first one at
    /// or after `end`. Two neighbours enclose a day, which may have 23 or 25 hours.
    ///
    /// # Errors
    /// [`TimeError`] for an empty range, and for more than [`DAYS_LIMIT`] days.
    pub fn days(&self, begin: Time, end: Time) -> Result<Vec<Time>, TimeError> {
        let out_of_range = || TimeError::OutOfRange { value: self.show(begin) };
        if (end - begin).ms() > DAYS_LIMIT * 86_400_000 {
            return Err(TimeError::TooManyDays { begin: self.show(begin), end: self.show(end) });
        }
        let mut day = self.zoned(begin).ok_or_else(out_of_range)?.date();
        let mut days = Vec::new();
        loop {
            let midnight = self.instant(day.to_datetime(civil::Time::midnight())).ok_or_else(out_of_range)?;
            days.push(midnight);
            if midnight >= end {
                return Ok(days);
            }
            day = day.tomorrow().map_err(|_| out_of_range())?;
        }
    }

    /// Formats a time with date and seconds.
    pub fn show_full(&self, time: Time) -> String {
        self.zoned(time).map_or_else(|| "never".into(), |shown| shown.strftime("%Y-%m-%d %H:%M:%S").to_string())
    }

    /// Formats a time as RFC 3339 in UTC, for files that other machines read.
    pub fn rfc3339(time: Time) -> String {
        Timestamp::from_millisecond(time.unix_ms()).map_or_else(|_| "never".into(), |instant| instant.to_string())
    }

    /// Parses a time as users type it. A time of day without a date is its next occurrence: today, or tomorrow if it
    /// has passed.
    ///
    /// # Errors
    /// [`TimeError`], naming the value and the accepted forms.
    pub fn parse(&self, text: &str) -> Result<Time, TimeError> {
        let text = text.trim();
        let value = || text.to_owned();
        if let Some(rest) = text.strip_prefix("now") {
            return match rest.trim().strip_prefix('+') {
                _ if rest.is_empty() => Ok(self.now),
                Some(span) => match span.parse::<Span>() {
                    Ok(span) => Ok(self.now + span),
                    Err(source) => Err(TimeError::Span { value: value(), source }),
                },
                None => Err(TimeError::Unknown { value: value() }),
            };
        }
        if is_time_of_day(text) {
            let time = text.parse::<civil::Time>().map_err(|_| TimeError::Unknown { value: value() })?;
            return self.next(time).ok_or_else(|| TimeError::OutOfRange { value: value() });
        }
        self.parse_dated(text)
    }

    /// Parses a time in the past. A time of day without a date is its last occurrence; `now-2h` is accepted.
    ///
    /// # Errors
    /// [`TimeError`], naming the value and the accepted forms.
    pub fn parse_past(&self, text: &str) -> Result<Time, TimeError> {
        let text = text.trim();
        let value = || text.to_owned();
        if let Some(rest) = text.strip_prefix("now") {
            return match rest.trim().strip_prefix('-') {
                _ if rest.is_empty() => Ok(self.now),
                Some(span) => match span.parse::<Span>() {
                    Ok(span) => Ok(self.now - span),
                    Err(source) => Err(TimeError::Span { value: value(), source }),
                },
                None => Err(TimeError::UnknownPast { value: value() }),
            };
        }
        if is_time_of_day(text) {
            let time = text.parse::<civil::Time>().map_err(|_| TimeError::UnknownPast { value: value() })?;
            return self.latest(time).ok_or_else(|| TimeError::OutOfRange { value: value() });
        }
        self.parse_dated(text).map_err(|error| match error {
            TimeError::Unknown { value } => TimeError::UnknownPast { value },
            other => other,
        })
    }

    /// Parses a time that has a date, as in files.
    ///
    /// # Errors
    /// The same as for [`Clock::parse`].
    pub fn parse_dated(&self, text: &str) -> Result<Time, TimeError> {
        let text = text.trim();
        let value = || text.to_owned();
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Ok(Time::from_unix_ms(instant.as_millisecond()));
        }
        if is_time_of_day(text) {
            return Err(TimeError::NoDate { value: value() });
        }
        let local = text.parse::<civil::DateTime>().map_err(|_| TimeError::Unknown { value: value() })?;
        self.instant(local).ok_or_else(|| TimeError::OutOfRange { value: value() })
    }

    fn next(&self, time: civil::Time) -> Option<Time> {
        let today = self.zoned(self.now)?.date();
        let at = self.instant(today.to_datetime(time))?;
        if at > self.now { Some(at) } else { self.instant(today.tomorrow().ok()?.to_datetime(time)) }
    }

    fn latest(&self, time: civil::Time) -> Option<Time> {
        let today = self.zoned(self.now)?.date();
        let at = self.instant(today.to_datetime(time))?;
        if at <= self.now { Some(at) } else { self.instant(today.yesterday().ok()?.to_datetime(time)) }
    }

    /// Resolves a local time. A time that a clock change repeats is its first occurrence; a time that it skips is the
    /// time after the gap.
    fn instant(&self, local: civil::DateTime) -> Option<Time> {
        let zoned = local.to_zoned(self.zone.clone()).ok()?;
        Some(Time::from_unix_ms(zoned.timestamp().as_millisecond()))
    }
}

/// Returns true for digits and colons only, e.g. `18:00` or `18:00:30`.
fn is_time_of_day(text: &str) -> bool {
    text.contains(':') && text.bytes().all(|b| b.is_ascii_digit() || b == b':')
}

/// Formats a length of time as `squeue` does: `M:SS`, `H:MM:SS`, `D-HH:MM:SS`. Negative lengths are `0:00`.
pub fn elapsed(span: Span) -> String {
    let seconds = span.ms().max(0) / 1000;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-26 12:00 in Berlin, the day after the end of summer time: UTC+1.
    fn clock() -> Clock {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        Clock::new(Time::from_unix_ms(1_793_012_400_000), zone)
    }

    fn check(text: &str, shown: &str) {
        let time = clock().parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(clock().show_full(time), shown, "{text}");
    }

    fn refused(text: &str) -> String {
        clock().parse(text).expect_err(text).to_string()
    }

    #[test]
    fn the_zone_is_that_of_the_system() {
        for time in ["2026-01-15T12:00:00Z", "2026-07-15T12:00:00Z"] {
            let time: Timestamp = time.parse().expect("a time");
            assert_eq!(zone().to_offset(time), TimeZone::system().to_offset(time));
        }
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        check("now", "2026-10-26 12:00:00");
        check("now+2h", "2026-10-26 14:00:00");
        check("now + 90s", "2026-10-26 12:01:30");
        check("18:00", "2026-10-26 18:00:00");
        check("11:59", "2026-10-27 11:59:00");
        check("12:00", "2026-10-27 12:00:00");
        check("2026-10-28 06:30", "2026-10-28 06:30:00");
        check("2026-10-28", "2026-10-28 00:00:00");
        check("2026-10-28T06:30:00Z", "2026-10-28 07:30:00");
        check("2026-10-28T06:30:00+02:00", "2026-10-28 05:30:00");
        // The end of summer time repeats this hour; its first occurrence counts.
        check("2026-10-25 02:30", "2026-10-25 02:30:00");
        assert_eq!(clock().parse("2026-10-25 02:30"), clock().parse("2026-10-25T00:30:00Z"));
    }

    #[test]
    fn wrong_times_are_refused_with_the_accepted_forms() {
        let forms = "write `18:00`, `2026-10-26 18:00`, `2026-10-26T18:00:00Z` or `now+2h`";
        for text in ["noon", "25:00", "2026-13-01 00:00", "now-2h", ""] {
            assert_eq!(refused(text), format!("`{text}` is not a time: {forms}"));
        }
        assert!(refused("now+2").starts_with("`now+2`: `2` has no unit: write for example `30min`"));
        let undated = clock().parse_dated("18:00").map_err(|error| error.to_string());
        assert_eq!(undated, Err("`18:00` has no date: write `2026-10-26 18:00` or `2026-10-26T18:00:00Z`".into()));
    }

    #[test]
    fn past_times_are_their_last_occurrence() {
        let check = |text: &str, shown: &str| {
            let time = clock().parse_past(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(clock().show_full(time), shown, "{text}");
        };
        check("now", "2026-10-26 12:00:00");
        check("now-2h", "2026-10-26 10:00:00");
        check("12:00", "2026-10-26 12:00:00");
        check("18:00", "2026-10-25 18:00:00");
        check("2026-10-20 06:30", "2026-10-20 06:30:00");
        let refused = |text: &str| clock().parse_past(text).expect_err(text).to_string();
        for text in ["now+2h", "yesterday", "25:00"] {
            assert!(refused(text).ends_with("`2026-10-26T18:00:00Z` or `now-2h`"), "{}", refused(text));
        }
        assert!(refused("now-2").starts_with("`now-2`: `2` has no unit"));
        assert_eq!(Clock::rfc3339(clock().now()), "2026-10-26T11:00:00Z");
    }

    #[test]
    fn days_are_23_24_or_25_hours_long() {
        let at = |text: &str| clock().parse_dated(text).expect("a time");
        let days = clock().days(at("2026-10-24 13:00"), at("2026-10-26 12:00")).expect("days");
        let shown: Vec<String> = days.iter().map(|day| clock().show_full(*day)).collect();
        let expected = ["2026-10-24", "2026-10-25", "2026-10-26", "2026-10-27"].map(|day| format!("{day} 00:00:00"));
        assert_eq!(shown, expected);
        // Summer time ends in the second of the three nights.
        assert_eq!((days[2] - days[1], days[3] - days[2]), (Span::from_secs(25 * 3600), Span::from_secs(24 * 3600)));
        let midnight = at("2026-10-26");
        assert_eq!(clock().days(midnight, midnight), Ok(vec![midnight]));
        let error = clock().days(at("2000-01-01"), midnight).map_err(|error| error.to_string());
        assert_eq!(error, Err("the range from 2000-01-01 00:00 to 00:00 has more than 3660 days".into()));
        assert_eq!(clock().date(midnight), "2026-10-26");
    }

    #[test]
    fn times_of_today_are_shown_without_date() {
        let clock = clock();
        assert_eq!(clock.show(clock.now() + Span::from_secs(3600)), "13:00");
        assert_eq!(clock.show(clock.now() + Span::from_secs(86_400)), "2026-10-27 12:00");
        assert_eq!(clock.show(Time::MAX), "never");
    }

    #[test]
    fn elapsed_time_looks_as_in_squeue() {
        let check = |secs, shown| assert_eq!(elapsed(Span::from_secs(secs)), shown);
        check(-5, "0:00");
        check(65, "1:05");
        check(3_661, "1:01:01");
        check(90_061, "1-01:01:01");
    }
}
