//! The energy and cost of finished runs.

use limo_model::{Energy, Outcome, Span, Time, Usage};

use crate::round::Account;
use crate::state::{Assignment, Job, Running, State};

/// Returns the run of a job whose start was never recorded, for example because the master was killed before.
pub(super) fn unseen(now: Time, assignment: &Assignment, outcome: &Outcome, usage: Usage) -> Option<Running> {
    outcome.reason().is_none().then(|| Running::from((now - usage.elapsed).max(assignment.assigned)))
}

/// Returns the energy and cost of a run, including unsuccessful attempts. Without a measurement, the energy is the
/// expected draw over the duration: the node may report the end long after it.
pub(super) fn account(
    state: &State,
    now: Time,
    (job, running): (&Job, Option<&Running>),
    usage: Usage,
    assignment: &Assignment,
) -> Account {
    let Some(running) = running else { return job.lost };
    let elapsed = Some(usage.elapsed).filter(|elapsed| *elapsed > Span::ZERO);
    let span: Span = elapsed.map_or(now - running.started, |elapsed| elapsed.min(now - running.started));
    let energy: Energy = usage.energy.unwrap_or_else(|| running.used(assignment, running.started + span));
    let cost = |from: Time| state.cost_on(&assignment.placement, energy, (from, span));
    let mut account = Account { energy, cost: cost(running.started), start_now_cost: cost(job.eligible()) };
    account.add(&job.lost);
    account
}
