//! The state of a node once some jobs have ended, and the chunks of a job that could then be on it. Counts cores,
//! accelerators and memory.

use limo_model::{Memory, NodeId, Part, UnitId};

use crate::facts::{ChunkNeed, ChunkRoom, units_like};
use crate::index::{Gains, Way};
use crate::state::{Job, Node};
use crate::view::View;

/// The nodes of a cluster after the return of `gains`.
#[derive(Clone, Copy)]
pub(super) struct Then<'a> {
    pub view: View<'a>,
    pub gains: &'a Gains,
}

/// Returns the present nodes.
pub(super) fn now<'a>(view: &View<'a>) -> Then<'a> {
    static NONE: Gains = Gains::NONE;
    Then { view: *view, gains: &NONE }
}

impl Then<'_> {
    /// Returns the cores of a unit that jobs have.
    fn used(&self, unit: UnitId) -> u32 {
        self.view.index().cores_used(unit).saturating_sub(self.gains.cores(unit))
    }

    /// Returns the number of chunks of the job that could be on the node by the given candidate, together with another
    /// job that has `others` of it: at most one, unless the job is packed.
    pub fn chunks(&self, job: &Job, (way, node): (&Way, NodeId), others: &[Part]) -> u32 {
        let Some(of) = self.view.node(node).filter(|node| node.is_available(self.view.now())) else { return 0 };
        let fits = self.fitting(job, (way, of), others).min(way.most);
        if fits > 0 && self.is_uncapped(of) && self.view.may_use(&job.request, of) { fits } else { 0 }
    }

    fn fitting(&self, job: &Job, (way, node): (&Way, &Node), others: &[Part]) -> u32 {
        let taken =
            |unit: u16| -> u32 { others.iter().filter(|part| part.unit.unit == unit).map(|part| part.cores).sum() };
        let used = |unit: u16| self.used(UnitId { node: node.id, unit }) + taken(unit);
        if job.request.exclusive && !(others.is_empty() && node.units().all(|(unit, _)| used(unit.unit) == 0)) {
            return 0;
        }
        let Some(spec) = node.spec.units.get(usize::from(way.unit)) else { return 0 };
        let Some(memory) = self.free_memory(node, others) else { return 0 };
        let mut need = ChunkNeed { host: way.host, ..ChunkNeed::of(&job.request, &node.spec.units, spec) };
        if need.units == 0 && !job.request.is_packed() {
            need.cores = way.cores;
        }
        let free = |unit: u16| {
            let total = node.spec.units.get(usize::from(unit)).map_or(0, |unit| unit.cores);
            total.saturating_sub(used(unit))
        };
        let is_free = |unit: &u16| used(*unit) == 0;
        let like = || units_like(&node.spec.units, way.unit).filter(is_free).count();
        need.fits(&ChunkRoom {
            cores: free(way.unit),
            units: if need.units > 0 { u32::try_from(like()).unwrap_or(u32::MAX) } else { 0 },
            host: way.host.map_or(0, |host| free(host.unit)),
            memory,
        })
    }

    fn free_memory(&self, node: &Node, others: &[Part]) -> Option<Memory> {
        let used = self.view.index().classes.memory_used(node.id);
        let left = used.saturating_sub(self.gains.memory(node.id));
        let all = others.iter().fold(left, |sum, part| sum.saturating_add(part.memory));
        (all <= node.spec.memory).then(|| node.spec.memory.saturating_sub(all))
    }

    /// Jobs on one unit share its cap. A policy that divides the upper limit changes it while they run; the others start
    /// no job on a capped unit.
    fn is_uncapped(&self, node: &Node) -> bool {
        self.view.parts().divides()
            || node.units().all(|(unit, _)| node.cap(unit.unit).is_none() || self.used(unit) == 0)
    }
}
