//! The wall clock has jumped: what is tied to it moves in cluster time. Nothing that was decided is taken back.

use limo_model::{JobId, Span, Time};

use super::nodes::{settle, settle_nodes};
use super::{eligible, reservations};
use crate::index::{Index, begin_of};
use crate::refused::Refused;
use crate::state::{Clock, State};

pub(super) fn offset(state: &mut State, now: Time, clock: Clock) -> Result<(), Refused> {
    let later = state.clock.offset - clock.offset;
    if later == Span::ZERO {
        state.clock = clock;
        return Ok(());
    }
    // What was used until now was used at the prices and limits of the clock as it was.
    settle(state, now);
    settle_nodes(state, now);
    state.clock = clock;
    let settings = &mut state.settings;
    settings.limits = settings.limits.moved(later);
    settings.own_limits = settings.own_limits.as_ref().map(|limits| limits.moved(later));
    settings.prices = settings.prices.as_ref().map(|prices| prices.moved(later));
    settings.budgets = settings.budgets.moved(later);
    state.spending.moved(later, (&settings.budgets, now), (state.index.idle, settings.prices.as_ref()));
    reservations::moved(state, now, later);
    // Begins, reservations and the plan's memory are found again as after a restart.
    let counted = state.index.counted;
    state.index = Index { counted, ..Index::of(state, now) };
    wait_again(state, now);
    Ok(())
}

/// Jobs in the queue whose begin is to come again may not run before it.
fn wait_again(state: &mut State, now: Time) {
    let to_come = |id: &JobId| {
        let begin = state.jobs.get(*id).and_then(|job| begin_of(&job.request, &state.clock));
        begin.is_some_and(|begin| begin > now)
    };
    let unblocked = state.arrays.keys().copied().filter(|own| !state.blocked.contains(*own));
    let again: Vec<JobId> = unblocked.chain(state.queue.iter()).filter(to_come).collect();
    for id in again {
        eligible::wait_again(state, now, id);
    }
}
