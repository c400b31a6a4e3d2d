//! What the last plan found about the jobs that wait, kept until something happens that could change it.

use std::collections::BTreeMap;
use std::ops::Range;

use limo_model::{JobId, Power, Span, Time, UnitId, Wait};

/// Still holds while there is nothing but submissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanCache {
    pub head: JobId,
    pub reservation: HeadReservation,
    /// Jobs at places below were looked at and cannot start.
    pub next: u64,
    /// How many of them looked possible.
    pub misses: u32,
    /// When it no longer holds by itself.
    pub until: Time,
    /// Why the first job waits, as long as nothing was started after it was found.
    pub wait: Option<Wait>,
}

/// The place of the first job in the future.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadReservation {
    /// When it is expected to start; the end of time where nothing that is known makes room for it.
    pub at: Time,
    /// Whether that is when something is expected that should have come already: nobody knows when it will.
    pub is_guess: bool,
    /// What it will draw, and for how long.
    pub power: Power,
    pub span: Option<Span>,
    /// By how much the draw will have fallen by then.
    pub freed: Power,
    /// Nodes that it could have then and does not need.
    pub extra: u32,
    /// The shape of the job.
    pub shape: usize,
    /// With neighbours only: the positions of a class that it will have.
    pub run: Option<(usize, Range<u32>)>,
    /// Cores given back by then on units that are taken in part.
    pub gains: BTreeMap<UnitId, u32>,
    /// Whether it wants its nodes alone.
    pub alone: bool,
    /// Whether it wants any of the accelerators of a type.
    pub any: bool,
}
