//! Policies that use an option.

use limo_model::{OrderRule, Parts, PlacementRule};

pub(super) const BACKFILL: fn(Parts) -> bool = |parts| parts.order == OrderRule::Easy;
pub(super) const BUDGET: fn(Parts) -> bool = Parts::keeps_budget;
pub(super) const PRICED: fn(Parts) -> bool = Parts::heeds_lower_limit;
pub(super) const LIMO: fn(Parts) -> bool = Parts::steers;
/// Policies that keep the upper limit by caps of running jobs.
pub(super) const CAPPED: fn(Parts) -> bool = |parts| parts.steers() || parts.divides();
/// Policies that expect a slowdown under caps without a profile.
pub(super) const SLOWED: fn(Parts) -> bool = |parts| CAPPED(parts) || parts.takes_what_is_left();
pub(super) const RANKED: fn(Parts) -> bool =
    |parts| matches!(parts.placement, PlacementRule::Ranked | PlacementRule::Window);
pub(super) const WINDOW: fn(Parts) -> bool = |parts| parts.placement == PlacementRule::Window;
pub(super) const POOL: fn(Parts) -> bool = |parts| parts.placement == PlacementRule::Pool;
/// Orders that search for a list of the jobs, and those that have one.
pub(super) const SEARCHED: fn(Parts) -> bool =
    |parts| matches!(parts.order, OrderRule::Program | OrderRule::ByArrivals);
pub(super) const LISTED: fn(Parts) -> bool =
    |parts| matches!(parts.order, OrderRule::Rule | OrderRule::Program | OrderRule::ByArrivals);
pub(super) const ESTIMATED: fn(Parts) -> bool = |parts| parts.order != OrderRule::Strict;
