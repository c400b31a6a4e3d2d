//! The counter of available energy, C_ea (energy-budget-2017, IV-C.1): the energy released by rule 1 in the current
//! budget period, minus the energy used by the cluster. It is part of the core's state, and neither decides nor
//! measures.

use limo_model::{Budget, Energy, Power, Span, Time};
use serde::{Deserialize, Serialize};

use super::release::released;
use super::{UJ_PER_MJ, narrow};

/// Energy in µJ, as whole mJ and a remainder of 0 to 999, because not every format supports `i128`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Sum {
    energy: Energy,
    rest: i64,
}

impl Sum {
    fn uj(self) -> i128 {
        i128::from(self.energy.mj()) * UJ_PER_MJ + i128::from(self.rest)
    }

    fn add(&mut self, uj: i128) {
        let sum = self.uj().saturating_add(uj);
        self.energy = Energy::from_mj(narrow(sum.div_euclid(UJ_PER_MJ)));
        self.rest = narrow(sum.rem_euclid(UJ_PER_MJ));
    }
}

/// The account of one budget period. Between monitoring stages it counts the core's over-estimated draw; a stage
/// replaces this estimate by the measured use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    budget: Budget,
    /// Time up to which all fields below are counted.
    at: Time,
    released: Sum,
    /// Time of the last stage, or of opening the account.
    stage: Time,
    /// Energy used up to the last stage.
    measured: Sum,
    /// Estimated energy used since the stage.
    estimated: Sum,
    reserved: Energy,
}

impl Counter {
    /// Opens the account of `budget`; the draw is counted from `since` on. The use before `since` is unknown: it counts
    /// as exactly the energy that `release` (of the whole budget) released until then.
    pub fn open(budget: Budget, since: Time, release: &[(Time, Power)]) -> Self {
        let at = since.clamp(budget.from, budget.until);
        let (sum, zero) = (Sum::default(), Energy::ZERO);
        let mut counter = Self { budget, at, released: sum, stage: at, measured: sum, estimated: sum, reserved: zero };
        let before = released(release, budget.from, at);
        counter.released.add(before);
        counter.measured.add(before);
        counter
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Moves its period later by `by`; the counts are unchanged.
    pub fn moved(&mut self, by: Span) {
        self.budget = self.budget.moved(by);
    }

    /// Returns the time up to which the account is complete; never after the end of its period.
    pub fn at(&self) -> Time {
        self.at
    }

    /// Returns true if the period has ended: the account must be closed, and the next one opened with the same `since`.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.budget.until
    }

    /// Counts the time since the last call: adds the energy that `release` releases in it by rule 1. Books
    /// `estimated_draw`, an over-estimate, as used. Time before or after the period does not count. Must be called
    /// before every change of the estimated draw or of the release.
    pub fn advance(&mut self, now: Time, estimated_draw: Power, release: &[(Time, Power)]) {
        let to = now.clamp(self.at, self.budget.until);
        self.released.add(released(release, self.at, to));
        self.estimated.add(i128::from(estimated_draw.mw()) * i128::from((to - self.at).ms()));
        self.at = to;
    }

    /// Records a monitoring stage at [`Counter::at`] (after `advance` to the same time). `uj` µJ (mW x ms) were used
    /// since the last stage, or since the account was opened. Only use within the period counts: a stage at the moment
    /// of opening covers earlier time and is ignored.
    pub fn measured(&mut self, uj: i128) {
        if self.at <= self.stage {
            return;
        }
        self.stage = self.at;
        self.measured.add(uj);
        self.estimated = Sum::default();
    }

    /// Returns C_ea in µJ at [`Counter::at`]: the energy that the cluster may still use by then. Negative if more was
    /// measured than released.
    pub fn available_uj(&self) -> i128 {
        self.released.uj() - self.measured.uj() - self.estimated.uj()
    }

    /// Returns the energy released by rule 1 so far, rounded down.
    pub fn released(&self) -> Energy {
        self.released.energy
    }

    /// Returns the energy used so far: measured up to the last stage, estimated since; rounded up.
    pub fn spent(&self) -> Energy {
        let uj = self.measured.uj() + self.estimated.uj();
        Energy::from_mj(narrow((uj + UJ_PER_MJ - 1).div_euclid(UJ_PER_MJ)))
    }

    /// Returns the energy that the last round reserved for the first waiting job (Algorithm 2). For display only: a
    /// reservation lasts for one round, and `available_uj` still contains it.
    pub fn reserved(&self) -> Energy {
        self.reserved
    }

    pub fn reserve(&mut self, energy: Energy) {
        self.reserved = energy;
    }

    /// Returns the unreleased energy as a budget from [`Counter::at`] on. It is released anew after a change of prices
    /// or of the idle draw, so that all releases together never exceed the budget. Its length is zero once the period
    /// is over.
    pub fn rest(&self) -> Budget {
        let left = i128::from(self.budget.energy.mj()) * UJ_PER_MJ - self.released.uj();
        Budget { from: self.at, energy: Energy::from_mj(narrow(left.div_euclid(UJ_PER_MJ))), ..self.budget }
    }
}

#[cfg(test)]
mod tests {
    use super::super::release::release;
    use super::*;
    use limo_model::{Budgets, Release};
    use proptest::prelude::*;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    fn budget() -> Budget {
        Budget { from: at(100), until: at(1_300), energy: Energy::from_joules(240_000), release: Release::Even }
    }

    fn check(counter: &Counter, available_j: i128, released_j: i64, spent_j: i64) {
        assert_eq!(counter.available_uj(), available_j * 1_000_000);
        assert_eq!(counter.released(), Energy::from_joules(released_j));
        assert_eq!(counter.spent(), Energy::from_joules(spent_j));
    }

    #[test]
    fn stages_return_over_estimated_energy() {
        // 240 kJ over 1,200 s are 200 W.
        let steps = release(&budget(), Power::ZERO, None);
        let mut counter = Counter::open(budget(), at(40), &steps);
        check(&counter, 0, 0, 0);
        // The minute before the period does not count; 300 s of it at an estimate of 150 W do.
        counter.advance(at(400), Power::from_watts(150), &steps);
        check(&counter, 15_000, 60_000, 45_000);
        counter.advance(at(700), Power::from_watts(250), &steps);
        check(&counter, 0, 120_000, 120_000);
        // The true use is 110 kJ.
        counter.measured(110_000 * 1_000_000);
        check(&counter, 10_000, 120_000, 110_000);
        // The last 600 s of the period; later time does not count.
        counter.advance(at(5_000), Power::from_watts(200), &steps);
        check(&counter, 10_000, 240_000, 230_000);
        assert!(counter.is_over(at(1_300)) && !counter.is_over(at(1_299)));
        counter.measured(140_000 * 1_000_000);
        check(&counter, -10_000, 240_000, 250_000);
    }

    #[test]
    fn a_budget_set_within_its_period_begins_balanced() {
        let steps = release(&budget(), Power::ZERO, None);
        let mut counter = Counter::open(budget(), at(400), &steps);
        check(&counter, 0, 60_000, 60_000);
        counter.advance(at(401), Power::from_watts(150), &steps);
        check(&counter, 50, 60_200, 60_150);
        // 179,800 J for 899 s are 200 W again.
        assert_eq!(release(&counter.rest(), Power::ZERO, None), [(at(401), Power::from_watts(200))]);
    }

    #[test]
    fn use_before_the_period_does_not_count() {
        let steps = release(&budget(), Power::ZERO, None);
        let mut counter = Counter::open(budget(), at(100), &steps);
        counter.measured(110_000 * 1_000_000);
        check(&counter, 0, 0, 0);
    }

    #[test]
    fn survives_being_stored() {
        let steps = release(&budget(), Power::ZERO, None);
        let mut counter = Counter::open(budget(), at(100), &steps);
        counter.advance(Time::from_unix_ms(100_007), Power::from_mw(150_033), &steps);
        let text = serde_json::to_string(&counter).expect("json");
        assert_eq!(serde_json::from_str::<Counter>(&text).expect("a counter"), counter);
    }

    #[test]
    fn budgets_are_checked_where_they_arrive() {
        let good = Budgets::new(vec![budget()]).expect("a period");
        let text = serde_json::to_string(&good).expect("json");
        assert!(text.contains(r#""release":"even""#), "{text}");
        assert_eq!(serde_json::from_str::<Budgets>(&text).expect("budgets"), good);
        let bad = text.replace("1300000", "100000");
        let error = serde_json::from_str::<Budgets>(&bad).map_err(|e| e.to_string()).expect_err("empty");
        assert!(error.contains("budget period 1 ends at 100000 ms, not after its begin at 100000 ms"), "{error}");
    }

    proptest! {
        /// The number of calls does not change the counter.
        #[test]
        fn calls_do_not_matter(mut calls in proptest::collection::vec(0_i64..1_400_000, 0..20), draw in 0_i64..500_000) {
            let steps = release(&Budget { energy: Energy::from_mj(77_777_777), ..budget() }, Power::ZERO, None);
            let mut once = Counter::open(budget(), at(0), &steps);
            let mut often = once.clone();
            once.advance(at(1_400), Power::from_mw(draw), &steps);
            calls.sort_unstable();
            for call in calls.into_iter().chain([1_400_000]) {
                often.advance(Time::from_unix_ms(call), Power::from_mw(draw), &steps);
            }
            prop_assert_eq!(&once, &often);
            // 77,777,777 mJ over 1,200,000 ms are 64,814 mW, rounded down.
            prop_assert_eq!(once.available_uj(), i128::from(64_814 - draw) * 1_200_000);
        }
    }
}
