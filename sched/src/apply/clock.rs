//! Jumps of the wall clock: times that follow it move in cluster time. No decision is reversed.

use limo_model::{JobId, Span, Time};

use super::nodes::{settle, settle_nodes};
use super::{eligible, reservations};
use crate::cluster::Cluster;
use crate::facts::begin_of;
use crate::refused::Refused;
use crate::state::Clock;

pub(super) fn offset(cluster: &mut Cluster, now: Time, clock: Clock) -> Result<(), Refused> {
    let later = cluster.state.clock.offset - clock.offset;
    if later == Span::ZERO {
        cluster.state.clock = clock;
        return Ok(());
    }
    // Usage until now counts at the prices and limits of the previous clock.
    settle(cluster, now);
    settle_nodes(&mut cluster.state, now);
    cluster.state.clock = clock;
    let settings = &mut cluster.state.settings;
    settings.limits = settings.limits.moved(later);
    settings.own_limits = settings.own_limits.as_ref().map(|limits| limits.moved(later));
    settings.prices = settings.prices.as_ref().map(|prices| prices.moved(later));
    settings.budgets = settings.budgets.moved(later);
    cluster.state.spending.moved(later, (&settings.budgets, now), (cluster.index.idle, settings.prices.as_ref()));
    reservations::moved(&mut cluster.state, now, later);
    // Begins, reservations and the plan cache are computed again as after a restart.
    let counted = cluster.index.counted;
    cluster.find_again(now);
    cluster.index.counted = counted;
    wait_again(cluster, now);
    Ok(())
}

/// Blocks jobs whose begin is in the future again: in the queue, or waiting for a quota or licences alone.
fn wait_again(cluster: &mut Cluster, now: Time) {
    let to_come = |id: &JobId| {
        let begin = cluster.state.jobs.get(*id).and_then(|job| begin_of(&job.request, &cluster.state.clock));
        begin.is_some_and(|begin| begin > now)
    };
    let unblocked = cluster.state.arrays.keys().copied().filter(|own| !cluster.state.blocked.contains(*own));
    let in_line = cluster.state.blocked.iter().filter(|id| cluster.state.is_in_line(*id));
    let again: Vec<JobId> = unblocked.chain(cluster.state.queue.iter()).chain(in_line).filter(to_come).collect();
    for id in again {
        eligible::wait_again(cluster, now, id);
    }
}
