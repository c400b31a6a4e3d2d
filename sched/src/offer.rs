//! Completes the request of a job that is not submitted yet: its queue; and tells what the cluster offers to it: the nodes
//! on which its tasks fit, and its types of units.

use std::collections::BTreeSet;

use limo_model::{PREDICTED_LIMIT, Request, UnitKind, UnitSpec};

use crate::apply::{resolve_account, resolve_queue};
use crate::core::Core;
use crate::facts::{allows_node, allows_unit, cores_on, wants_host_cores};
use crate::refused::Refused;
use crate::view::View;

/// A chunk of a job on a unit of some type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OnHardware {
    pub hardware: String,
    /// Cores of the unit that it takes.
    pub cores: u32,
    pub is_accelerator: bool,
}

impl OnHardware {
    /// Describes a chunk on a unit like this one. Cores next to accelerators are not included.
    pub fn of(request: &Request, unit: &UnitSpec) -> Self {
        Self {
            hardware: unit.hardware.clone(),
            cores: cores_on(request, unit),
            is_accelerator: unit.kind == UnitKind::Accelerator,
        }
    }
}

impl Core {
    /// Fills in the queue, the account, the QOS and the time limit of a request that names none, if such are configured.
    /// `groups` are those of its user: each may be open to members of one of them.
    ///
    /// # Errors
    /// [`Refused`] if one does not exist, the user may not use the account or the QOS, or the request names none and none
    /// is the default.
    pub fn resolve(&self, request: &mut Request, user: &str, groups: &BTreeSet<String>) -> Result<(), Refused> {
        resolve_queue(&self.settings().queues, groups, request)?;
        resolve_account(self.settings(), (user, groups), request)
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

impl View<'_> {
    /// Returns the types of units that the job may have, at most [`PREDICTED_LIMIT`].
    pub fn offered_hardware(&self, request: &Request) -> BTreeSet<OnHardware> {
        let units = self.index().classes.all().iter().flat_map(|class| &class.units);
        let offered = units.filter(|unit| allows_unit(request, unit) && cores_on(request, unit) <= unit.cores);
        let mut found = BTreeSet::new();
        for on in offered.map(|unit| OnHardware::of(request, unit)) {
            if found.len() == PREDICTED_LIMIT {
                break;
            }
            found.insert(on);
        }
        found
    }
}
