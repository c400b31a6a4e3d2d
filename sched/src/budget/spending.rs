//! The budget periods over time: opens the account of each period, books the use, and closes the account.

use limo_model::{Budget, Budgets, Curve, Energy, Power, Price, Release, Span, Time};
use serde::{Deserialize, Serialize};

use super::{Counter, UJ_PER_MJ, release};

/// The account of the current period, and the release of its budget.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Spending {
    counter: Option<Counter>,
    release: Vec<(Time, Power)>,
}

impl Spending {
    pub fn counter(&self) -> Option<&Counter> {
        self.counter.as_ref()
    }

    /// Books the use from `since` to `now` at a constant `estimated` draw; `idle` is the draw of the cluster without
    /// jobs.
    pub fn spend(
        &mut self,
        budgets: &Budgets,
        (idle, estimated): (Power, Power),
        prices: Option<&Curve<Price>>,
        (since, now): (Time, Time),
    ) {
        let mut at = since;
        loop {
            if let Some(counter) = &mut self.counter {
                counter.advance(now, estimated, &self.release);
                if !counter.is_over(now) {
                    return;
                }
                at = counter.budget().until;
                self.counter = None;
            }
            let Some(next) = budgets.from_then_on(at).first().filter(|budget| budget.from <= now) else { return };
            self.release = release(next, idle, prices);
            self.counter = Some(Counter::open(*next, at.max(next.from), &self.release));
        }
    }

    /// Puts other budgets into force from `now` on. An unchanged period keeps its account.
    pub fn follow(&mut self, budgets: &Budgets, now: Time) {
        if self.counter.as_ref().map(Counter::budget) != budgets.at(now) {
            self.counter = None;
        }
    }

    /// Releases the rest of a budget anew after a change of prices, if the release depends on them.
    pub fn release_again(&mut self, idle: Power, prices: Option<&Curve<Price>>) {
        if let Some(counter) = self.counter.as_ref().filter(|counter| counter.budget().release == Release::ByPrice) {
            self.release = release(&counter.rest(), idle, prices);
        }
    }

    /// Handles a jump of the wall clock: the period is later by `by`, in cluster time. If it still runs, its remaining
    /// energy is released anew over the remaining time; else its account is closed.
    pub fn moved(
        &mut self,
        by: Span,
        (budgets, now): (&Budgets, Time),
        (idle, prices): (Power, Option<&Curve<Price>>),
    ) {
        if let Some(counter) = &mut self.counter {
            counter.moved(by);
        }
        self.follow(budgets, now);
        match &self.counter {
            Some(counter) => self.release = release(&counter.rest(), idle, prices),
            None => self.release.clear(),
        }
    }

    /// Records a monitoring stage: the use since the last one.
    pub fn measured(&mut self, energy: Energy) {
        if let Some(counter) = &mut self.counter {
            counter.measured(i128::from(energy.mj()) * UJ_PER_MJ);
        }
    }

    pub fn reserve(&mut self, energy: Energy) {
        if let Some(counter) = &mut self.counter {
            counter.reserve(energy);
        }
    }

    pub fn release_of(&self, budget: &Budget, idle: Power, prices: Option<&Curve<Price>>) -> Vec<(Time, Power)> {
        match &self.counter {
            Some(counter) if counter.budget() == budget => self.release.clone(),
            _ => release(budget, idle, prices),
        }
    }

    /// Returns the released energy that is not used, in µJ; `None` outside of the period.
    pub fn available(&self, budget: &Budget) -> i128 {
        let counter = self.counter.as_ref().filter(|counter| counter.budget() == budget);
        counter.map_or(0, Counter::available_uj)
    }
}
