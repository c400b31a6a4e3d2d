//! Points in time and spans between them, in milliseconds. Programs handle time zones and calendars.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::number::{Suffix, UnitError, parse};

/// A point in time: milliseconds since the Unix epoch (a simulator may choose another origin).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

/// A length of time in milliseconds; may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(i64);

impl Time {
    /// Later than every time that occurs; stands for "never".
    pub const MAX: Self = Self(i64::MAX);

    /// Converts milliseconds since the Unix epoch; may be negative.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// Returns the time moved later by `by`; "never" stays "never".
    pub fn moved(self, by: Span) -> Self {
        if self == Self::MAX { self } else { self + by }
    }

    /// Returns the first of the known times.
    pub fn first_of(times: &[Option<Self>]) -> Option<Self> {
        times.iter().fold(None, |first, at| match (first, *at) {
            (Some(first), Some(at)) => Some(at.min(first)),
            (first, at) => first.or(at),
        })
    }
}

impl Span {
    /// The empty span.
    pub const ZERO: Self = Self(0);
    /// Longer than every span that occurs.
    pub const MAX: Self = Self(i64::MAX);
    const UNITS: &'static [Suffix] = &[
        ("s", 1_000),
        ("min", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
        ("w", 604_800_000),
        ("ms", 1),
        ("m", 60_000),
    ];

    /// Converts milliseconds.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Converts seconds, within about 9.2e15 of them.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs * 1_000)
    }

    /// Returns the milliseconds.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// Returns seconds as a number for output (`makespan_s`).
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns `self * numerator / denominator`, rounded half away from zero. A zero denominator counts as one.
    pub fn scaled(self, numerator: i64, denominator: i64) -> Self {
        let denominator = i128::from(denominator.max(1));
        let product = i128::from(self.0) * i128::from(numerator);
        Self(crate::number::saturate(crate::number::divide_rounded(product, denominator)))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, other: Self) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Parses `90s`, `1.5h`, sums such as `1h30min`, and Slurm's `[D-]H:MM:SS` and `MM:SS`. Refuses a bare number.
impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        if text.contains(':') {
            return clock(text).ok_or_else(|| UnitError::NotClock { value: text.to_owned() });
        }
        // The sign is that of all terms: `-2s500ms` is -2.5 s.
        let digits = text.strip_prefix('-').filter(|rest| !rest.starts_with(['-', '+']));
        let mut total: i64 = 0;
        for part in terms(digits.unwrap_or(text)) {
            let ms = parse(part, Self::UNITS, "30min").map_err(|error| whole(error, text))?;
            total = total.checked_add(ms).ok_or_else(|| UnitError::OutOfRange { value: text.to_owned() })?;
        }
        Ok(Self(if digits.is_some() { -total } else { total }))
    }
}

/// Names the whole text in an error about one term, because the user typed the whole text.
fn whole(error: UnitError, text: &str) -> UnitError {
    let value = text.to_owned();
    match error {
        UnitError::NoNumber { example, .. } => UnitError::NoNumber { value, example },
        UnitError::NoUnit { example, units, .. } => UnitError::NoUnit { value, example, units },
        UnitError::UnknownUnit { unit, units, .. } => UnitError::UnknownUnit { value, unit, units },
        UnitError::NotClock { .. } => UnitError::NotClock { value },
        UnitError::OutOfRange { .. } => UnitError::OutOfRange { value },
        UnitError::Negative { .. } => UnitError::Negative { value },
        UnitError::Currency { source, .. } => UnitError::Currency { value, source },
    }
}

/// Cuts `1h30min` into `1h` and `30min`: a term ends where a digit follows a letter.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut letter_before = false;
    for (at, c) in text.char_indices() {
        if c.is_ascii_digit() && letter_before {
            terms.push(&text[start..at]);
            start = at;
        }
        letter_before = if c.is_whitespace() { letter_before } else { c.is_alphabetic() };
    }
    terms.push(&text[start..]);
    terms
}

/// Parses Slurm's `[D-]H:MM:SS` or `MM:SS`; minutes and seconds are at most 59 after a larger field.
fn clock(text: &str) -> Option<Span> {
    let (days, rest) =
        text.split_once('-').map_or((0, text), |(d, rest)| (d.parse::<u32>().map_or(-1, i64::from), rest));
    let fields = rest.split(':').map(|field| field.parse::<u32>().ok().map(i64::from)).collect::<Option<Vec<_>>>()?;
    let seconds = match fields[..] {
        [minutes, seconds] if days == 0 && seconds < 60 => minutes * 60 + seconds,
        [hours, minutes, seconds] if minutes < 60 && seconds < 60 => hours * 3600 + minutes * 60 + seconds,
        _ => return None,
    };
    (days >= 0).then(|| Span((days * 86_400 + seconds) * 1_000))
}

/// Formats at most two terms, e.g. `1h30min`, `2d`, `450ms`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if magnitude == 0 {
            return f.write_str("0s");
        }
        let mut rest = magnitude;
        let mut shown = 0;
        for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)] {
            let count = rest / ms;
            if count > 0 {
                write!(f, "{count}{unit}")?;
                rest %= ms;
                shown += 1;
            } else if shown > 0 {
                break;
            }
            if shown == 2 {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected_ms: i64, shown: &str) {
        let span: Span = text.parse().expect("a span");
        assert_eq!(span.ms(), expected_ms, "{text}");
        assert_eq!(span.to_string(), shown, "{text}");
    }

    #[test]
    fn spans_as_people_write_them() {
        check("30min", 1_800_000, "30min");
        check("-2s500ms", -2_500, "-2s500ms");
        check("1h30min", 5_400_000, "1h30min");
        check("1.5h", 5_400_000, "1h30min");
        check("1:30:00", 5_400_000, "1h30min");
        check("2-00:00:00", 172_800_000, "2d");
        check("05:30", 330_000, "5min30s");
        check("450ms", 450, "450ms");
        check("1d 12h", 129_600_000, "1d12h");
    }

    #[test]
    fn refusals() {
        for (text, expected) in [
            ("30", "`30` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)"),
            (
                "1:75:00",
                "`1:75:00` is not hours, minutes and seconds, both below 60: write for example `1:30:00` or `90:00`",
            ),
            ("1h30", "`1h30` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)"),
            ("3 moons", "`3 moons` has the unknown unit `moons` (units: s, min, h, d, w, ms, m)"),
        ] {
            assert_eq!(text.parse::<Span>().map_err(|e| e.to_string()), Err(expected.to_owned()));
        }
    }
}
