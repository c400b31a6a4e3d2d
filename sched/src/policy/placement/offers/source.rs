//! The nodes on which a part of a job could be, and its needs there.

use limo_model::{Estimate, NodeId};

use super::Ask;
use super::pools::{PoolKind, Waking};
use super::several::Host;
use crate::future::{NodeNeed, Units};

/// Nodes on which a part of a job could be, all with the same estimate.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub kind: PoolKind,
    /// The allowed nodes, if only some of the kind are.
    pub named: Option<Vec<NodeId>>,
    /// True if the job is alone on its nodes.
    pub alone: bool,
    /// Bytes.
    pub memory: i64,
    /// Free cores that the job needs of the unit, for its own cores and for the cap.
    pub taken: u32,
    pub cores: u32,
    /// Units of one type.
    pub units: usize,
    /// True if the job has one unit of each node.
    pub is_single: bool,
    /// Most chunks of a packed job on an empty node; 1 for other jobs. The other amounts are those of one chunk.
    pub most: u32,
    /// Cores of the CPU next to them.
    pub host: Option<Host>,
    /// Cores of the whole unit.
    pub total: u32,
    pub each: Estimate,
    /// Waking of its nodes, if they sleep.
    pub wakes: Option<Waking>,
}

impl Source {
    /// Returns the need of a number of chunks.
    pub fn need(&self, ask: &Ask, chunks: u32) -> NodeNeed {
        match self.alone {
            true => NodeNeed { of: Units::All, memory: self.memory }.times(chunks),
            false => self.units_need(ask, chunks),
        }
    }

    /// Returns the same for the units that the job gets.
    pub fn units_need(&self, ask: &Ask, chunks: u32) -> NodeNeed {
        let unit = self.kind.unit;
        let taken = if self.taken > self.cores { self.taken } else { self.cores.saturating_mul(chunks) };
        let of = match self.is_single {
            true => Units::Cores { unit, cores: if ask.whole { self.total } else { taken } },
            false => {
                let count = self.units.saturating_mul(chunks as usize);
                Units::Any { like: unit, count, host: self.host.map(|host| host.need(ask.whole, chunks)) }
            }
        };
        NodeNeed { of, memory: self.memory.saturating_mul(i64::from(chunks)) }
    }
}
