//! Energy that may be used in a period. `sched` decides how it is released and which jobs may use it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::{Span, Time};
use crate::units::Energy;

/// The way in which the energy of a budget is released over its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Released at a constant rate (energy-budget-2017, IV-B, rule 1).
    #[default]
    Even,
    /// Released faster in cheap hours than in expensive ones (energy-budget-2017, VI, future work).
    ByPrice,
}

/// Error for a text that does not name a release.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a way to release a budget (known: even, by-price)")]
pub struct ReleaseError(String);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Even => "even",
            Self::ByPrice => "by-price",
        })
    }
}

impl FromStr for Release {
    type Err = ReleaseError;
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        match text.trim() {
            "even" => Ok(Self::Even),
            "by-price" => Ok(Self::ByPrice),
            _ => Err(ReleaseError(text.to_owned())),
        }
    }
}

/// The energy that the whole cluster may use in `[from, until)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Begin of the period.
    pub from: Time,
    /// End of the period, after `from`.
    pub until: Time,
    /// Energy, including the idle draw of all nodes; not negative.
    pub energy: Energy,
    /// The release over the period.
    pub release: Release,
}

impl Budget {
    /// Returns the length of the period.
    pub fn span(&self) -> Span {
        self.until - self.from
    }

    /// Returns the same budget, moved later by `by`.
    pub fn moved(&self, by: Span) -> Self {
        Self { from: self.from.moved(by), until: self.until.moved(by), ..*self }
    }

    /// Returns true if `at` lies in the period.
    pub fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }
}

/// Budgets for successive periods, which may leave gaps. Energy is unlimited outside of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Budget>")]
pub struct Budgets(Vec<Budget>);

/// Errors in the periods, which are numbered from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum BudgetError {
    #[error("budget period {number} ends at {until} ms, not after its begin at {from} ms")]
    EndsEarly { number: usize, from: i64, until: i64 },
    #[error("budget period {number} has the negative energy {energy}")]
    Negative { number: usize, energy: Energy },
    #[error("budget period {number} begins at {from} ms, before period {} ends at {until} ms", number - 1)]
    Overlaps { number: usize, from: i64, until: i64 },
}

impl TryFrom<Vec<Budget>> for Budgets {
    type Error = BudgetError;
    fn try_from(periods: Vec<Budget>) -> Result<Self, BudgetError> {
        Self::new(periods)
    }
}

impl Budgets {
    /// Makes budgets of periods in ascending order of time.
    ///
    /// # Errors
    /// [`BudgetError`] if a period is empty or backward, its energy is negative, or it overlaps the previous one.
    pub fn new(periods: Vec<Budget>) -> Result<Self, BudgetError> {
        for (index, period) in periods.iter().enumerate() {
            let (number, from) = (index + 1, period.from.unix_ms());
            if period.until <= period.from {
                return Err(BudgetError::EndsEarly { number, from, until: period.until.unix_ms() });
            }
            if period.energy < Energy::ZERO {
                return Err(BudgetError::Negative { number, energy: period.energy });
            }
            if let Some(before) = index.checked_sub(1).map(|before| periods[before].until)
                && period.from < before
            {
                return Err(BudgetError::Overlaps { number, from, until: before.unix_ms() });
            }
        }
        Ok(Self(periods))
    }

    /// Returns the same periods, each moved later by `by`.
    pub fn moved(&self, by: Span) -> Self {
        Self(self.0.iter().map(|budget| budget.moved(by)).collect())
    }

    /// Returns true if it has no period, so that energy is unlimited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates in ascending order of time.
    pub fn iter(&self) -> std::slice::Iter<'_, Budget> {
        self.0.iter()
    }

    /// Returns the periods that end after `at`.
    pub fn from_then_on(&self, at: Time) -> &[Budget] {
        &self.0[self.0.partition_point(|period| period.until <= at)..]
    }

    /// Returns the period that contains `at`.
    pub fn at(&self, at: Time) -> Option<&Budget> {
        self.from_then_on(at).first().filter(|period| period.contains(at))
    }

    /// Returns the next begin or end of a period strictly after `after`.
    pub fn next_change(&self, after: Time) -> Option<Time> {
        self.from_then_on(after).first().map(|period| if period.from > after { period.from } else { period.until })
    }
}

impl<'a> IntoIterator for &'a Budgets {
    type Item = &'a Budget;
    type IntoIter = std::slice::Iter<'a, Budget>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(from: i64, until: i64, joules: i64) -> Budget {
        let (from, until) = (Time::from_unix_ms(from), Time::from_unix_ms(until));
        Budget { from, until, energy: Energy::from_joules(joules), release: Release::Even }
    }

    #[test]
    fn successive_periods_with_a_gap() {
        let budgets = Budgets::new(vec![period(10, 20, 1), period(20, 30, 2), period(50, 60, 3)]).expect("periods");
        let check = |ms, joules: Option<i64>, next: Option<i64>| {
            let at = Time::from_unix_ms(ms);
            assert_eq!(budgets.at(at).map(|budget| budget.energy), joules.map(Energy::from_joules), "at {ms}");
            assert_eq!(budgets.next_change(at).map(Time::unix_ms), next, "after {ms}");
        };
        check(9, None, Some(10));
        check(10, Some(1), Some(20));
        check(19, Some(1), Some(20));
        check(20, Some(2), Some(30));
        check(30, None, Some(50));
        check(59, Some(3), Some(60));
        check(60, None, None);
        assert_eq!(Budgets::default().next_change(Time::from_unix_ms(0)), None);
    }

    #[test]
    fn refusals() {
        let check = |periods: &[Budget], expected: &str| {
            assert_eq!(Budgets::new(periods.to_vec()).map_err(|e| e.to_string()), Err(expected.into()));
        };
        check(&[period(5, 5, 1)], "budget period 1 ends at 5 ms, not after its begin at 5 ms");
        check(&[period(0, 5, 1), period(5, 6, -1)], "budget period 2 has the negative energy -1.0 J");
        check(&[period(0, 5, 1), period(4, 6, 1)], "budget period 2 begins at 4 ms, before period 1 ends at 5 ms");
    }

    #[test]
    fn releases_as_people_write_them() {
        for release in [Release::Even, Release::ByPrice] {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
        let error = "cheap".parse::<Release>().map_err(|e| e.to_string());
        assert_eq!(error, Err("`cheap` is not a way to release a budget (known: even, by-price)".into()));
    }
}
