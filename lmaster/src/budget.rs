//! The account of an energy budget on a live cluster: monitoring stages, which put what the master believes was used in
//! the place of what the core over-estimates (energy-budget-2017, section IV-C.1), and the account at any moment.
//!
//! What was used is the integral of the believed draw, which the core keeps: readings where there are meters, estimates
//! elsewhere. Keeps the one number that the core does not: how much that was at the last stage. Every snapshot is written
//! right after a stage, so this number can be had again from the state. Does not know who runs, and decides nothing.

use limo_model::{Budget, Energy, Span, Time};
use limo_proto::BudgetAccount;
use limo_sched::budget::{Counter, release};
use limo_sched::{Core, Event, Refused, Round, Sums};

/// The stages of the period that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stages {
    /// Whose account is open.
    of: Option<Budget>,
    /// All that the cluster had used when the account was opened, or at the last stage.
    mark: Energy,
    /// When that was, or when a stage was due that could not be.
    last: Time,
}

impl Stages {
    /// From a state that has had its stage just now, or has no account open.
    pub fn resume(core: &Core) -> Self {
        let sums = core.sums();
        let of = core.counter().map(|counter| *counter.budget());
        Self { of, mark: sums.bill.energy(), last: sums.since }
    }

    /// Applies an event to the core and takes note of what it does to the account. Events come by no other way.
    ///
    /// # Errors
    /// As [`Core::apply`].
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

    /// The same for a round.
    pub fn round(&mut self, core: &mut Core, now: Time) -> Round {
        let before = *core.sums();
        let round = core.round(now);
        self.observe(before, core);
        round
    }

    /// The core's time has gone on from `before`; until now the draw was what it was then.
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

    /// What was used since the last stage, or since the account was opened; `None` where no period runs.
    pub fn used(&self, core: &Core, now: Time) -> Option<Energy> {
        let runs = core.counter().is_some_and(|counter| counter.budget().contains(now));
        (runs && self.of.is_some()).then(|| energy_at(*core.sums(), now) - self.mark)
    }

    /// The stage of `now` is over, whether there was anything to record or not.
    pub fn pass(&mut self, now: Time) {
        self.last = self.last.max(now);
    }

    /// When the next stage is due: `every` after the beginning of the period, twice that, and so on; none at its end, where
    /// the account is closed.
    pub fn due(&self, every: Span) -> Option<Time> {
        let budget = self.of.as_ref()?;
        let every = every.max(Span::from_ms(1));
        let next = budget.from + every.scaled((self.last - budget.from).ms() / every.ms() + 1, 1);
        (next < budget.until).then_some(next)
    }
}

/// All that was used until `at`, with the draw as it was last known.
fn energy_at(sums: Sums, at: Time) -> Energy {
    let mut bill = sums.bill;
    bill.add(sums.drawn(), sums.since, at, None);
    bill.energy()
}

/// The account of the period that runs at `now`. The core's own is as old as what happened last.
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
