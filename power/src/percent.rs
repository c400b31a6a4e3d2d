//! Noise as users write it: `2%`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A share of a value in millionths, 0 to 50 %. Larger "noise" would hide the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Percent(u32);

/// Millionths in one percent.
const ONE: u32 = 10_000;
const LIMIT: u32 = 50 * ONE;

/// Reason why a text is not a percentage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PercentError {
    #[error("`{0}` has no unit: write for example `2%`")]
    NoUnit(String),
    #[error("`{0}` is not a percentage: write for example `2%` or `0.5%`")]
    Number(String),
    #[error("`{0}` is too much: it must be 0% to 50%")]
    TooMuch(String),
}

impl Percent {
    /// Returns the share, from 0 to 500,000.
    pub fn millionths(self) -> u32 {
        self.0
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    /// Parses exactly to a ten-thousandth of a percent; further digits are refused.
    fn from_str(text: &str) -> Result<Self, PercentError> {
        let text = text.trim();
        let number = text.strip_suffix('%').ok_or_else(|| PercentError::NoUnit(text.to_owned()))?.trim();
        let wrong = || PercentError::Number(text.to_owned());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 4 {
            return Err(wrong());
        }
        let whole: u32 = whole.parse().map_err(|_| PercentError::TooMuch(text.to_owned()))?;
        let fraction: u32 = format!("{fraction:0<4}").parse().map_err(|_| wrong())?;
        match whole.checked_mul(ONE).and_then(|millionths| millionths.checked_add(fraction)) {
            Some(millionths) if millionths <= LIMIT => Ok(Self(millionths)),
            _ => Err(PercentError::TooMuch(text.to_owned())),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}%", self.0 / ONE, self.0 % ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<u32, &str>) {
        let got = text.parse::<Percent>().map(Percent::millionths).map_err(|error| error.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn percentages() {
        check("2%", Ok(20_000));
        check("0.05 %", Ok(500));
        check("50%", Ok(500_000));
        check("2", Err("`2` has no unit: write for example `2%`"));
        check("-2%", Err("`-2%` is not a percentage: write for example `2%` or `0.5%`"));
        check("50.1%", Err("`50.1%` is too much: it must be 0% to 50%"));
        check("99999999999%", Err("`99999999999%` is too much: it must be 0% to 50%"));
    }
}
