//! Energy used in each budget period, for the figures. Hidden from the policy.

use limo_model::{Budget, Budgets, Energy, Power, Time};

use crate::record::{BudgetPeriod, Window};

/// Energy used, in µJ (mW x ms), by period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spending {
    periods: Vec<(Budget, i128)>,
}

impl Spending {
    /// Takes over the budgets in force from `now` on. A finished period stays, a period with changed energy keeps its
    /// use, and a withdrawn period is forgotten.
    pub fn follow(&mut self, budgets: &Budgets, now: Time) {
        let same = |one: &Budget, other: &Budget| (one.from, one.until) == (other.from, other.until);
        self.periods.retain(|(old, _)| old.until <= now || budgets.iter().any(|new| same(new, old)));
        for new in budgets {
            match self.periods.iter_mut().find(|(old, _)| same(old, new)) {
                Some((old, _)) => *old = *new,
                None => self.periods.push((*new, 0)),
            }
        }
    }

    /// Counts `draw` from `from` to `to`.
    pub fn book(&mut self, draw: Power, from: Time, to: Time) {
        for (budget, used) in &mut self.periods {
            let (from, until) = (budget.from.max(from), budget.until.min(to));
            if until > from {
                *used += i128::from(draw.mw()) * i128::from((until - from).ms());
            }
        }
    }

    /// Returns the energy used in one period.
    pub fn of(&self, budget: &Budget) -> Option<Energy> {
        self.periods.iter().find(|(known, _)| known == budget).map(|(_, used)| energy(*used))
    }

    pub fn periods(&self) -> Vec<BudgetPeriod> {
        let period = |(budget, used): &(Budget, i128)| BudgetPeriod {
            window: Window { from: budget.from, until: budget.until },
            energy: budget.energy,
            spent: energy(*used),
        };
        self.periods.iter().map(period).collect()
    }
}

/// Converts µJ to energy, rounded up.
fn energy(uj: i128) -> Energy {
    Energy::from_mj(i64::try_from(uj.div_euclid(1_000) + i128::from(uj.rem_euclid(1_000) != 0)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use limo_model::Release;

    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn budgets(periods: &[(i64, i64, i64)]) -> Budgets {
        let period = |&(from, until, joules): &(i64, i64, i64)| Budget {
            from: at(from),
            until: at(until),
            energy: Energy::from_joules(joules),
            release: Release::Even,
        };
        Budgets::new(periods.iter().map(period).collect()).expect("periods")
    }

    fn spent(spending: &Spending) -> Vec<(i64, i64)> {
        let of = |period: BudgetPeriod| (period.energy.mj() / 1_000, period.spent.mj());
        spending.periods().into_iter().map(of).collect()
    }

    #[test]
    fn each_period_has_its_own() {
        let mut spending = Spending::default();
        spending.follow(&budgets(&[(1_000, 2_000, 5), (2_000, 4_000, 6)]), at(0));
        // At 2 W: 1 s before the periods, 1 s in the first one, half a second in the second one.
        spending.book(Power::from_watts(2), at(0), at(2_500));
        assert_eq!(spent(&spending), [(5, 2_000), (6, 1_000)]);
        // The running period gets more energy; the finished ones are no longer listed.
        spending.follow(&budgets(&[(2_000, 4_000, 7)]), at(2_500));
        spending.book(Power::from_mw(1), at(2_500), at(9_000));
        assert_eq!(spent(&spending), [(5, 2_000), (7, 1_002)]);
        spending.follow(&budgets(&[(3_000, 4_000, 8)]), at(3_000));
        assert_eq!(spent(&spending), [(5, 2_000), (8, 0)]);
    }
}
