//! Placements: the nodes, the cap and the start time that a job gets.

mod assignment;
mod by_price;
pub(super) mod capped;
mod first_fit;
mod least_energy;
pub(super) mod least_room;
mod offers;
mod packed;
mod pool;
pub(super) mod ranked;
mod weigh;

pub(super) use assignment::assign;
pub(super) use by_price::{Aim, aims_low};
pub(super) use least_energy::Placements;
pub(super) use offers::{Against, AllWays, Ask, Found, Offer, Pools, Room, Ways};
pub(super) use ranked::KnownPlacements;
pub use weigh::Weighed;
pub(crate) use weigh::weigh;
