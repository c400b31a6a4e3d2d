//! Completes the request of a job that is not submitted yet: its queue, and the nodes on which its tasks fit.

use limo_model::{Request, UnitKind, UnitSpec};

use crate::apply::resolve_queue;
use crate::core::Core;
use crate::facts::{allows_node, allows_unit, wants_host_cores};
use crate::refused::Refused;

impl Core {
    /// Fills in the queue and the time limit of a request that names none, if queues are configured.
    ///
    /// # Errors
    /// [`Refused`] if the queue does not exist, or the request names none and none is the default.
    pub fn resolve_queue(&self, request: &mut Request) -> Result<(), Refused> {
        resolve_queue(&self.settings().queues, request)
    }

    /// Returns the free cores for the job on each node that it may use. An accelerator is taken whole. Every task
    /// fits on it, unless each task takes cores next to it.
    pub fn offered_cores(&self, request: &Request) -> Vec<u32> {
        let usable = self.known_nodes().filter(|node| allows_node(request, node) && request.memory <= node.spec.memory);
        let most = |node: &crate::state::Node| {
            let units = || node.units().map(|(_, unit)| unit);
            let cores = |unit: &UnitSpec| if unit.kind == UnitKind::Cpu { unit.cores } else { u32::MAX };
            let most = units().filter(|unit| allows_unit(request, unit)).map(cores).max();
            let cpu = || units().filter(|unit| unit.kind == UnitKind::Cpu).map(|unit| unit.cores).max();
            if wants_host_cores(request) { most.and_then(|_| cpu()) } else { most }
        };
        usable.filter_map(most).collect()
    }
}
