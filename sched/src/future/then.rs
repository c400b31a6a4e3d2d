//! The state of a node once some jobs have ended, and the test if a job could then have the node. Counts cores,
//! accelerators and memory.

use limo_model::{NodeId, Part, UnitId};

use crate::facts::{units_like, units_wanted};
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

    /// Returns true if the job could have the node by the given candidate, together with another job that has
    /// `others` of it.
    pub fn serves(&self, job: &Job, (way, node): (&Way, NodeId), others: &[Part]) -> bool {
        let Some(of) = self.view.node(node).filter(|node| node.is_available(self.view.now())) else { return false };
        self.has_units(job, (way, of), others)
            && self.has_memory(job, of, others)
            && self.is_uncapped(of)
            && self.view.may_use(&job.request, of)
    }

    fn has_units(&self, job: &Job, (way, node): (&Way, &Node), others: &[Part]) -> bool {
        let taken =
            |unit: u16| -> u32 { others.iter().filter(|part| part.unit.unit == unit).map(|part| part.cores).sum() };
        let used = |unit: u16| self.used(UnitId { node: node.id, unit }) + taken(unit);
        if job.request.exclusive {
            return others.is_empty() && node.units().all(|(unit, _)| used(unit.unit) == 0);
        }
        if job.request.accelerators.is_some() {
            let like = units_like(&node.spec.units, way.unit);
            let total = |unit: u16| node.spec.units.get(usize::from(unit)).map_or(0, |unit| unit.cores);
            let has_host_cores = way.host.is_none_or(|host| used(host.unit) + host.cores <= total(host.unit));
            return has_host_cores && like.filter(|unit| used(*unit) == 0).count() >= units_wanted(&job.request);
        }
        let cores = node.spec.units.get(usize::from(way.unit)).map_or(0, |unit| unit.cores);
        used(way.unit) + way.cores <= cores
    }

    fn has_memory(&self, job: &Job, node: &Node, others: &[Part]) -> bool {
        let used = self.view.index().classes.memory_used(node.id);
        let left = used.saturating_sub(self.gains.memory(node.id));
        let all = others.iter().fold(left, |sum, part| sum.saturating_add(part.memory));
        all.saturating_add(job.request.memory) <= node.spec.memory
    }

    /// Jobs on one unit share its cap, and these policies set no caps.
    fn is_uncapped(&self, node: &Node) -> bool {
        node.units().all(|(unit, _)| node.cap(unit.unit).is_none() || self.used(unit) == 0)
    }
}
