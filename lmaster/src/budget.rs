//! The account of an energy budget on a live cluster, and its monitoring stages. A stage replaces the core's
//! over-estimated use by the master's believed use (energy-budget-2017, section IV-C.1).
//!
//! The energy used is the integral of the believed draw, which the core keeps: readings of meters, else estimates.
//! This module keeps only the energy used at the last stage. Every snapshot is written right after a stage, so this
//! number can be derived from the state. Independent of jobs; makes no decision.

use limo_model::{Budget, Energy, Span, Time};
use limo_proto::BudgetAccount;
use limo_sched::budget::{Counter, release};
use limo_sched::{Core, Event, Refused, Round, Sums};

/// The stages of the current period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stages {
    /// The budget with an open account.
    of: Option<Budget>,
    /// Energy that the cluster had used when the account was opened, or at the last stage.
    mark: Energy,
    /// Time of `mark`, or of a later stage that had nothing to record.
    last: Time,
}

impl Stages {
    /// Resumes from a state right after a stage, or without an open account.
    pub fn resume(core: &Core) -> Self {
        let sums = core.sums();
        let of = core.counter().map(|counter| *counter.budget());
        Self { of, mark: sums.bill.energy(), last: sums.since }
    }

    /// Applies an event to the core and updates the account. All events go through this function.
    ///
    /// # Errors
    /// Same as [`Core::apply`].
    pub fn apply(&mut self, core: &mut Core, now: Time, event: &Event) -> Result<(), Refused> {
        let before = *core.sums();
        core.apply(now, event)?;
        self.observe(before, core);
        if let Event::Metered { .. } = event {
            self.mark = core.sums().bill.energy();
            self.last = core.sums().since;
        }
        Ok(())
    }

    /// Runs a round and updates the account.
    pub fn round(&mut self, core: &mut Core, now: Time) -> Round {
        let before = *core.sums();
        let round = core.round(now);
        self.observe(before, core);
        round
    }

    /// Updates the account after the core's time has advanced from `before`. The draw was constant until now.
    fn observe(&mut self, before: Sums, core: &Core) {
        let open = core.counter().map(|counter| *counter.budget());
        if open == self.of {
            return;
        }
        self.of = open;
        if let Some(budget) = open {
            self.last = before.since.max(budget.from);
            self.mark = energy_at(before, self.last);
        }
    }

    /// Returns the energy used since the last stage or since the account was opened; `None` if no period runs.
    pub fn used(&self, core: &Core, now: Time) -> Option<Energy> {
        let runs = core.counter().is_some_and(|counter| counter.budget().contains(now));
        (runs && self.of.is_some()).then(|| energy_at(*core.sums(), now) - self.mark)
    }

    /// Marks the stage of `now` as done, even if it had nothing to record.
    pub fn pass(&mut self, now: Time) {
        self.last = self.last.max(now);
    }

    /// Returns the time of the next stage: a multiple of `every` after the beginning of the period. At the end of the
    /// period the account is closed, so no stage is due then.
    pub fn due(&self, every: Span) -> Option<Time> {
        let budget = self.of.as_ref()?;
        let every = every.max(Span::from_ms(1));
        let next = budget.from + every.scaled((self.last - budget.from).ms() / every.ms() + 1, 1);
        (next < budget.until).then_some(next)
    }
}

/// Returns the total energy used until `at`, assuming the last known draw.
fn energy_at(sums: Sums, at: Time) -> Energy {
    let mut bill = sums.bill;
    bill.add(sums.drawn(), sums.since, at, None);
    bill.energy()
}

/// Returns the account of the period that runs at `now`. The core's own account is only as new as its last event.
pub fn account(core: &Core, now: Time) -> Option<BudgetAccount> {
    let budget = core.settings().budgets.at(now)?;
    let since = core.sums().since;
    let steps = |of: &Budget| release(of, core.idle(), core.prices());
    let mut counter = match core.counter().filter(|counter| counter.budget() == budget) {
        Some(counter) => counter.clone(),
        None => Counter::open(*budget, since, &steps(budget)),
    };
    let rest = steps(&counter.rest());
    counter.advance(now, core.view(now).estimated_draw(), &rest);
    let (released, spent, reserved) = (counter.released(), counter.spent(), counter.reserved());
    Some(BudgetAccount { budget: budget.moved(core.clock().offset), released, spent, reserved })
}
