//! The time of the next round.

use limo_model::{Span, Time};

use crate::apply;
use crate::cluster::Cluster;

/// Returns the time of the next round if no event happens before. It is the earliest time at which a plan could
/// change, a job reaches its time limit, is warned or may begin. It also covers readings that expire, nodes that are
/// no longer suspect or closed by owners, evictions, and the next ranking of the queue.
pub(super) fn next_time(cluster: &Cluster, now: Time) -> Option<Time> {
    let limit = cluster.index.limits.first().map(|(at, _)| *at);
    let stale_after = cluster.state.settings.options.stale_after + Span::from_ms(1);
    let stale = cluster.index.readings.first().map(|(at, _)| *at + stale_after);
    let reopens = cluster.index.reopens.first().map(|(at, _)| *at);
    let evicted = cluster.index.evictions.first().map(|(at, _)| *at);
    let begin = cluster.index.blocked.first_begin();
    let warning = cluster.index.warnings.first().map(|(at, _)| *at);
    let used = super::allowance::look_again(cluster, now);
    let reserved = cluster.index.boundaries.first().copied();
    let overdue = apply::next_overdue(cluster);
    let (rank, turn) = (apply::rank_at(&cluster.state), apply::next_turn(cluster));
    let soon =
        [cluster.state.wake_at, limit, stale, reopens, evicted, begin, warning, used, reserved, rank, turn, overdue];
    Time::first_of(&soon)
}
