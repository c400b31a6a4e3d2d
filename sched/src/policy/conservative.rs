//! `conservative`: conservative backfilling, every job with a planned start that no later job may delay.
//!
//! Idea: jobs in order of submission; each gets the earliest start that delays nobody before it. Constraints: walltimes
//! are the expected durations. Ignores: power, price, deadlines.

use super::compose::{Admission, Caps, Composition, Order, Placement};

pub(super) static CONSERVATIVE: Composition = Composition {
    order: Order::Conservative,
    admission: Admission::Resources,
    placement: Placement::FirstFit,
    caps: Caps::None,
};
