//! Energy budgets and power limits over time (energy-budget-2017, IV and V-C): the release of a budget, its available
//! energy, and the test if one more load fits in addition to the committed draw. Does not choose jobs.
//!
//! Internal energies are µJ (mW x ms) in `i128`: exact for every draw and time that fit an `i64`.

mod balance;
mod counter;
mod headroom;
mod ledger;
#[cfg(test)]
mod naive;
mod release;
mod spending;
mod steps;

pub use counter::Counter;
pub use ledger::{Ledger, Obstacle};
pub use release::{Impossible, least, possible, release, released};
pub(crate) use spending::Spending;

/// µJ in one mJ, the unit of [`limo_model::Energy`].
const UJ_PER_MJ: i128 = 1_000;

/// Clamps to the range instead of wrapping.
fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
