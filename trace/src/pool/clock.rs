//! Times of event logs and dumps: seconds since 1970, or dates on the clock of the pool.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use limo_model::decimal::Decimal;

/// Clock of a pool.
#[derive(Debug, Clone)]
pub struct PoolClock {
    /// Time zone of dates without one.
    pub zone: TimeZone,
    /// Year of the first date without one. A month that is more than half a year before the one before it is of the next
    /// year.
    pub year: Option<i16>,
    month: i8,
}

/// Reason why a text is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeFault {
    NoTime,
    NoYear,
}

impl PoolClock {
    /// Makes a clock of a zone.
    pub fn new(zone: TimeZone, year: Option<i16>) -> Self {
        Self { zone, year, month: 0 }
    }

    /// Reads `2010-01-31 12:00:00`, with `T` for the space, decimal places and a zone as options, or `01/31 12:00:00`.
    /// Returns milliseconds since 1970.
    pub(super) fn date(&mut self, text: &str) -> Result<i64, TimeFault> {
        let bytes = text.as_bytes();
        if bytes.get(2) == Some(&b'/') {
            return self.without_year(text);
        }
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(time.as_millisecond());
        }
        // A date alone would be midnight.
        if bytes.len() < "2010-01-31 12:00".len() {
            return Err(TimeFault::NoTime);
        }
        self.local(text.parse().map_err(|_| TimeFault::NoTime)?)
    }

    fn without_year(&mut self, text: &str) -> Result<i64, TimeFault> {
        let (date, time) = text.split_once(' ').ok_or(TimeFault::NoTime)?;
        let (month, day) = date.split_once('/').ok_or(TimeFault::NoTime)?;
        let month: i8 = month.parse().map_err(|_| TimeFault::NoTime)?;
        let mut year = self.year.ok_or(TimeFault::NoYear)?;
        if month < self.month - 6 {
            year = year.saturating_add(1);
        }
        let date = format!("{year:04}-{month:02}-{day}T{time}").parse().map_err(|_| TimeFault::NoTime)?;
        let ms = self.local(date)?;
        (self.year, self.month) = (Some(year), month);
        Ok(ms)
    }

    fn local(&self, date: DateTime) -> Result<i64, TimeFault> {
        let zoned = self.zone.to_ambiguous_zoned(date).compatible();
        zoned.map(|zoned| zoned.timestamp().as_millisecond()).map_err(|_| TimeFault::NoTime)
    }

    /// Reads seconds, which may have decimal places, or a date. Returns milliseconds since 1970.
    pub(super) fn time(&mut self, text: &str) -> Result<i64, TimeFault> {
        match Decimal::read(text.as_bytes()) {
            Ok(seconds) => seconds.rounded(3).map_err(|_| TimeFault::NoTime),
            Err(_) => self.date(text),
        }
    }
}

impl Default for PoolClock {
    fn default() -> Self {
        Self::new(TimeZone::UTC, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2010-01-31 12:00:00 UTC is 14,640 days and a half after 1970.
    const NOON: i64 = (14_640 * 86_400 + 43_200) * 1_000;

    #[test]
    fn dates_and_seconds() {
        let mut clock = PoolClock::default();
        for text in ["2010-01-31 12:00:00", "2010-01-31T12:00:00Z", "2010-01-31T13:00:00+01:00", "1264939200"] {
            assert_eq!(clock.time(text), Ok(NOON), "{text}");
        }
        assert_eq!(clock.time("1264939200.25"), Ok(NOON + 250));
        assert_eq!(clock.time("2010-01-31 12:00:00.007"), Ok(NOON + 7));
        for text in ["", "2010-01-31", "2010-02-31 12:00:00", "1e99", "noon", "é/31 12:00:00", "99/31 12:00:00"] {
            assert!(clock.time(text).is_err(), "{text}");
        }
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(PoolClock::new(zone, None).time("2010-01-31 13:00:00"), Ok(NOON));
    }

    #[test]
    fn years_go_on_at_new_year() {
        let mut clock = PoolClock::default();
        assert_eq!(clock.date("01/31 12:00:00"), Err(TimeFault::NoYear));
        let mut clock = PoolClock::new(TimeZone::UTC, Some(2009));
        let before = clock.date("12/31 12:00:00");
        assert_eq!(before, Ok(NOON - 31 * 86_400_000));
        // An event that is late does not go back a year.
        assert_eq!(clock.date("12/30 12:00:00"), Ok(NOON - 32 * 86_400_000));
        assert_eq!(clock.date("01/31 12:00:00"), Ok(NOON));
    }
}
