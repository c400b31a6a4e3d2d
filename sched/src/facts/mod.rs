//! Facts that follow from the record alone: the needs of a job on a node, and its expected run there. Pure functions of
//! their arguments; they decide nothing and do not use the index.

mod allotment;
mod chunks;
mod draw;
mod eligible;
mod estimate;
mod explore;
mod fits;

pub(crate) use allotment::Allotment;
pub(crate) use chunks::{ChunkNeed, ChunkRoom, chunks_in, most_chunks};
pub(crate) use draw::{
    Expected, by_unit, delay_by_caps, draw_at, draw_if_on, expected, expected_of_units, margin_at_start,
    shares_at_start, under_present_caps, waking_draw,
};
pub(crate) use eligible::{begin_of, closed_queue, not_eligible, wants_to_be_alone};
pub(crate) use estimate::{Known, Looked, estimate, host_power, under_cap};
pub(crate) use explore::{Measured, RUNS, caps, explores, is_near, longest_at};
pub(crate) use fits::{
    HostCores, MARGIN, allows_node, allows_unit, chunks_on_node, cores_on, first_fit, fits_node, has_hardware,
    host_cores, is_open, longest, may_be_denied, obeys_cap, unit_and_chunks, units_like, units_wanted,
    wants_host_cores, wants_several,
};
