//! Results of the last plan for waiting jobs, kept until something happens that could change them.

use std::collections::BTreeMap;
use std::ops::Range;

use limo_model::{JobId, Memory, NodeId, Part, Power, Span, Time, UnitId, Wait};

/// Results that stay valid while the only events are submissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanCache {
    pub head: JobId,
    pub reservation: HeadReservation,
    /// Jobs at lower places were considered and cannot start.
    pub next: u64,
    /// Number of these jobs that looked possible.
    pub misses: u32,
    /// Time at which the cache expires.
    pub until: Time,
    /// The wait reason of the first job, unless a job was started after it was found.
    pub wait: Option<Wait>,
}

/// The future start of the first job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadReservation {
    /// Expected start; the end of time if no known event frees enough for the job.
    pub at: Time,
    /// True if the start depends on something overdue with an unknown time.
    pub is_guess: bool,
    /// Draw and duration of the job.
    pub power: Power,
    pub span: Option<Span>,
    /// Amount by which the draw will have fallen by then.
    pub freed: Power,
    /// Number of further nodes that the job could then have and does not need.
    pub extra: u32,
    /// The shape of the job.
    pub shape: usize,
    /// With neighbours only: the run of positions that the job will have, with its class.
    pub run: Option<(usize, Range<u32>)>,
    /// Resources returned by then, of partly used nodes.
    pub gains: Gains,
    /// True if nodes must be checked one by one: for memory, for all units, or for permissions.
    pub by_node: bool,
}

/// Resources that jobs return by some time, of nodes on which they are not alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Gains {
    cores: BTreeMap<UnitId, u32>,
    memory: BTreeMap<NodeId, Memory>,
}

impl Gains {
    pub const NONE: Self = Self { cores: BTreeMap::new(), memory: BTreeMap::new() };

    pub fn cores(&self, unit: UnitId) -> u32 {
        self.cores.get(&unit).copied().unwrap_or(0)
    }

    pub fn memory(&self, node: NodeId) -> Memory {
        self.memory.get(&node).copied().unwrap_or_default()
    }

    pub fn add_cores(&mut self, unit: UnitId, cores: u32) {
        *self.cores.entry(unit).or_default() += cores;
    }

    /// Adds `parts` of one job on a node.
    pub fn add(&mut self, node: NodeId, parts: &[Part]) {
        for part in parts {
            self.add_cores(UnitId { node, unit: part.unit.unit }, part.cores);
            self.add_memory(node, part.memory);
        }
    }

    pub fn add_memory(&mut self, node: NodeId, memory: Memory) {
        if memory > Memory::ZERO {
            let sum = self.memory.entry(node).or_default();
            *sum = sum.saturating_add(memory);
        }
    }
}
