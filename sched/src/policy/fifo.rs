//! `fifo`: what a general-purpose manager does, and the baseline of limo-2018, section 4.4.
//!
//! Idea: jobs in order of submission, each on the first node with room, or on the first nodes that have it together.
//! Constraints: cores and memory; nothing passes a job that waits for room. Ignores: power, price, deadlines, how fast or
//! frugal a unit is. A job for which no node is up holds nobody back. Cost: for each job until the first that waits one look
//! at each kind of unit, and at the nodes that may be free soonest. No options.

use super::compose::{Admission, CapChoice, Composition, Order, Placement};

pub(super) static FIFO: Composition = Composition {
    order: Order::Strict,
    admission: Admission::Resources,
    placement: Placement::FirstFit,
    caps: CapChoice::None,
};
