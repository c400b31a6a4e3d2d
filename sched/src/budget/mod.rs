//! Energy budgets (energy-budget-2017, IV): the release of a budget, its used and its available energy.
//!
//! Internal energies are µJ (mW x ms) in `i128`: exact for every draw and time that fit an `i64`.

mod counter;
mod release;
mod spending;

pub use counter::Counter;
pub use release::{Impossible, least, possible, release, released};
pub(crate) use spending::Spending;

/// µJ in one mJ, the unit of [`limo_model::Energy`].
pub(crate) const UJ_PER_MJ: i128 = 1_000;

/// Clamps to the range instead of wrapping.
pub(crate) fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
