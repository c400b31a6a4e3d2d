//! Noise as users write it: `2%`.

use std::fmt;
use std::str::FromStr;

use limo_model::decimal::percent;
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
        if !text.ends_with('%') {
            return Err(PercentError::NoUnit(text.to_owned()));
        }
        let millionths = percent(text, 4).ok_or_else(|| PercentError::Number(text.to_owned()))?;
        match u32::try_from(millionths) {
            Ok(millionths) if millionths <= LIMIT => Ok(Self(millionths)),
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
