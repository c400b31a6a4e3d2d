//! Counts the nodes that have room for the tasks of a job which is not submitted yet.

use limo_model::{Request, UnitKind};

use crate::core::Core;
use crate::facts::{allows_node, allows_unit};

impl Core {
    /// Free cores for the job on each node that it may use. An accelerator, which is taken whole, has room for every
    /// task.
    pub fn offered_cores(&self, request: &Request) -> Vec<u32> {
        let usable = self.known_nodes().filter(|node| allows_node(request, node) && request.memory <= node.spec.memory);
        let most = |node: &crate::state::Node| {
            let units = node.units().map(|(_, unit)| unit).filter(|unit| allows_unit(request, unit));
            units.map(|unit| if unit.kind == UnitKind::Cpu { unit.cores } else { u32::MAX }).max()
        };
        usable.filter_map(most).collect()
    }
}
