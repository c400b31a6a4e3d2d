//! The most energy and money that a job may use, as its user set it. The scheduler decides when it is used up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{Energy, Money};

/// Limits for all attempts of a job together, above the idle draw of its nodes. In an array they hold for each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Allowance {
    /// Limit of energy; above zero if set.
    pub energy: Option<Energy>,
    /// Limit of the cost; above zero if set. The prices are those during the run; without prices the cost is zero.
    pub cost: Option<Money>,
    /// The consequence of reaching a limit.
    pub when_used: WhenUsed,
}

/// The consequence for a job that has used up its allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUsed {
    /// The job is ended, as at its time limit.
    #[default]
    Stop,
    /// The job continues, and its user gets a message.
    Warn,
}

/// The exhausted limit, and the use so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum UsedUp {
    /// Energy above idle, in all attempts.
    Energy { used: Energy, limit: Energy },
    /// Cost of that energy.
    Cost { used: Money, limit: Money },
}

impl Allowance {
    /// Returns the exhausted limit, if any; energy is checked first.
    pub fn used_up(&self, energy: Energy, cost: Money) -> Option<UsedUp> {
        let by_energy = self.energy.filter(|limit| energy >= *limit);
        let by_cost = self.cost.filter(|limit| cost >= *limit);
        by_energy
            .map(|limit| UsedUp::Energy { used: energy, limit })
            .or_else(|| by_cost.map(|limit| UsedUp::Cost { used: cost, limit }))
    }
}

impl FromStr for WhenUsed {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stop" => Ok(Self::Stop),
            "warn" => Ok(Self::Warn),
            _ => Err(format!("`{text}` is neither `stop` nor `warn`")),
        }
    }
}

/// Continues a sentence that begins with `job 12:`.
impl fmt::Display for UsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Energy { used, limit } => write!(f, "energy limit of {limit} reached, {used} used"),
            Self::Cost { used, limit } => write!(f, "cost limit of {limit} reached, {used} spent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_up_at_the_limit_and_not_before() {
        let (energy, cost) = (Energy::from_joules(100), Money::from_micro(500));
        let check = |allowed: (Option<Energy>, Option<Money>), used: (i64, i64), words: Option<&str>| {
            let allowance = Allowance { energy: allowed.0, cost: allowed.1, when_used: WhenUsed::Stop };
            let found = allowance.used_up(Energy::from_mj(used.0), Money::from_micro(used.1));
            assert_eq!(found.map(|found| found.to_string()).as_deref(), words);
        };
        let by_energy = Some("energy limit of 100.0 J reached, 100.0 J used");
        check((Some(energy), Some(cost)), (99_999, 499), None);
        check((Some(energy), Some(cost)), (100_000, 500), by_energy);
        check((None, Some(cost)), (100_000, 499), None);
        let by_cost = Some("cost limit of 0.001 EUR reached, 0.001 EUR spent");
        check((None, Some(cost)), (0, 500), by_cost);
        check((None, None), (i64::MAX, i64::MAX), None);
    }
}
