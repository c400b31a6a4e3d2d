//! A share of jobs, in percent with one decimal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::decimal::percent;

/// A share of 0 to 1000 thousandths, written as `2%` or `2.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "u16")]
pub struct JobShare(u16);

/// Reason why a value is not a share.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a share: write 0% to 100%, with at most one digit after the decimal point")]
pub struct JobShareError(String);

impl JobShare {
    /// No job.
    pub const NONE: Self = Self(0);
    /// All jobs.
    pub const ALL: Self = Self(1_000);

    /// Returns the share in thousandths.
    pub fn permille(self) -> u16 {
        self.0
    }

    /// Returns the share in percent, for output.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 10.0
    }

    /// Returns true if no job is in the share.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl TryFrom<u16> for JobShare {
    type Error = JobShareError;
    fn try_from(permille: u16) -> Result<Self, JobShareError> {
        let share = Self(permille);
        if share <= Self::ALL { Ok(share) } else { Err(JobShareError(share.to_string())) }
    }
}

impl FromStr for JobShare {
    type Err = JobShareError;
    fn from_str(text: &str) -> Result<Self, JobShareError> {
        let refused = || JobShareError(text.to_owned());
        let permille = percent(text, 1).and_then(|permille| u16::try_from(permille).ok()).ok_or_else(refused)?;
        Self::try_from(permille).map_err(|_| refused())
    }
}

impl fmt::Display for JobShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 10, self.0 % 10) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, tenth) => write!(f, "{whole}.{tenth}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_as_it_is_read() {
        for (text, permille) in [("0%", 0), ("2%", 20), ("2.5%", 25), ("99.9%", 999), ("100%", 1_000)] {
            let share: JobShare = text.parse().expect(text);
            assert_eq!((share.permille(), share.to_string().as_str()), (permille, text));
        }
    }

    #[test]
    fn other_values_are_no_shares() {
        for text in ["", "2", "-1%", "2.55%", "100.1%", "6553.7%", "x%"] {
            let refused = text.parse::<JobShare>().expect_err(text).to_string();
            assert!(refused.starts_with(&format!("`{text}` is not a share: write 0% to 100%")), "{refused}");
        }
        assert!(JobShare::try_from(1_001).is_err());
    }
}
