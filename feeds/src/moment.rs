//! Times in the formats of feeds, and local days, which have 23, 24 or 25 hours.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};
use limo_model::{Span, Time};
use serde::Deserialize;

/// Format of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeFormat {
    /// Seconds since 1970.
    UnixS,
    /// Milliseconds since 1970.
    UnixMs,
    /// `2026-10-25T00:00:00+02:00`; seconds may be missing.
    Rfc3339,
    /// `2026-10-25T00:00:00` or `2026-10-25 00:00`, in the time zone of the feed.
    Local,
}

/// Requested time, and the time of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First moment.
    pub from: Time,
    /// First moment after the window.
    pub until: Time,
    /// Time of the request.
    pub now: Time,
}

impl Window {
    /// Makes a window of yesterday, today and tomorrow, in local days of `zone`: yesterday is for a fallback that
    /// repeats it.
    pub fn around(now: Time, zone: &TimeZone) -> Self {
        let today = date_of(now, zone);
        let day = |days: i64| start_of(today.saturating_add(days.days()), zone);
        Self { from: day(-1), until: day(2), now }
    }

    /// Returns the local days that the window touches, at most 400.
    pub fn days(&self, zone: &TimeZone) -> Vec<Date> {
        let (first, end) = (date_of(self.from, zone), date_of(self.until - Span::from_ms(1), zone));
        first.series(1.day()).take(400).take_while(|date| *date <= end).collect()
    }
}

/// Converts a time; clamps it to the range of dates.
pub(crate) fn timestamp(time: Time) -> Timestamp {
    let end = if time.unix_ms() < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(time.unix_ms()).unwrap_or(end)
}

fn time(timestamp: Timestamp) -> Time {
    Time::from_unix_ms(timestamp.as_millisecond())
}

pub(crate) fn date_of(at: Time, zone: &TimeZone) -> Date {
    zone.to_datetime(timestamp(at)).date()
}

/// Returns the first instant of a local day.
pub(crate) fn start_of(date: Date, zone: &TimeZone) -> Time {
    // A day without a midnight begins at its first instant.
    let start = zone.to_ambiguous_timestamp(date.to_datetime(jiff::civil::Time::midnight())).compatible();
    start.map_or(Time::from_unix_ms(0), time)
}

/// Returns `hour` o'clock of a local day.
pub(crate) fn hour_of(date: Date, hour: i8, zone: &TimeZone) -> Time {
    let at = zone.to_ambiguous_timestamp(date.at(hour.clamp(0, 23), 0, 0, 0)).compatible();
    at.map_or(Time::from_unix_ms(0), time)
}

/// Parses text. A local time that occurs twice is the first one after `before`.
pub(crate) fn parse(text: &str, format: TimeFormat, zone: &TimeZone, before: Option<Time>) -> Option<Time> {
    let text = text.trim();
    match format {
        TimeFormat::UnixS | TimeFormat::UnixMs => number(text.parse().ok()?, format),
        TimeFormat::Rfc3339 => text.parse::<Timestamp>().ok().map(time),
        TimeFormat::Local => {
            // An offset would be ignored silently.
            if text.parse::<Timestamp>().is_ok() {
                return None;
            }
            local(text.parse().ok()?, zone, before)
        }
    }
}

/// Converts a number.
pub(crate) fn number(number: i64, format: TimeFormat) -> Option<Time> {
    let ms = match format {
        TimeFormat::UnixS => number.checked_mul(1_000)?,
        TimeFormat::UnixMs => number,
        TimeFormat::Rfc3339 | TimeFormat::Local => return None,
    };
    Timestamp::from_millisecond(ms).ok().map(time)
}

fn local(civil: DateTime, zone: &TimeZone, before: Option<Time>) -> Option<Time> {
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => ambiguous.unambiguous().ok().map(time),
        AmbiguousOffset::Gap { .. } => None,
        AmbiguousOffset::Fold { .. } => {
            let (first, second) = (time(ambiguous.earlier().ok()?), time(ambiguous.later().ok()?));
            Some(if before.is_some_and(|before| before >= first) { second } else { first })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> TimeZone {
        TimeZone::get("Europe/Copenhagen").expect("known")
    }

    fn utc(text: &str) -> Time {
        time(text.parse().expect("a time"))
    }

    #[test]
    fn formats() {
        let check = |text: &str, format, expected: Option<&str>| {
            assert_eq!(parse(text, format, &zone(), None), expected.map(utc), "{text}");
        };
        check("1761516000", TimeFormat::UnixS, Some("2025-10-26T22:00:00Z"));
        check("1761516000000", TimeFormat::UnixMs, Some("2025-10-26T22:00:00Z"));
        check("2018-01-20T12:00Z", TimeFormat::Rfc3339, Some("2018-01-20T12:00:00Z"));
        check("2025-10-26T00:00:00+02:00", TimeFormat::Rfc3339, Some("2025-10-25T22:00:00Z"));
        check("2025-10-26T00:00:00", TimeFormat::Rfc3339, None);
        check("2025-10-25 13:15", TimeFormat::Local, Some("2025-10-25T11:15:00Z"));
        check("2025-10-25T13:15:00Z", TimeFormat::Local, None);
        // The clocks skip this hour.
        check("2025-03-30T02:30:00", TimeFormat::Local, None);
        check("soon", TimeFormat::Local, None);
        check("99999999999999999", TimeFormat::UnixS, None);
    }

    #[test]
    fn an_hour_that_occurs_twice_is_first_the_one_and_then_the_other() {
        let read = |before| parse("2025-10-26T02:00:00", TimeFormat::Local, &zone(), before);
        assert_eq!(read(None), Some(utc("2025-10-26T00:00:00Z")));
        assert_eq!(read(Some(utc("2025-10-26T00:00:00Z"))), Some(utc("2025-10-26T01:00:00Z")));
    }

    #[test]
    fn windows_are_local_days() {
        let window = Window::around(utc("2025-10-26T12:00:00Z"), &zone());
        assert_eq!((window.from, window.until), (utc("2025-10-24T22:00:00Z"), utc("2025-10-27T23:00:00Z")));
        let days: Vec<String> = window.days(&zone()).iter().map(Date::to_string).collect();
        assert_eq!(days, ["2025-10-25", "2025-10-26", "2025-10-27"]);
        assert_eq!(hour_of(date_of(window.now, &zone()), 13, &zone()), utc("2025-10-26T12:00:00Z"));
    }
}
