//! The charge of a job that is not on nodes yet: the most that it could take.

use limo_model::{Energy, Request};

use crate::cluster::Cluster;
use crate::facts::{Known, allows_unit, cores_on, estimate, host_cores, units_wanted};
use crate::index::Class;
use crate::state::Charge;

/// Returns the most cores that a job could take on any known unit.
pub(super) fn need(cluster: &Cluster, request: &Request) -> Charge {
    let units = cluster.index.classes.all().iter().flat_map(|class| &class.units);
    let able = || units.clone().filter(|unit| allows_unit(request, unit) && cores_on(request, unit) <= unit.cores);
    let cores = able().map(|unit| cores_on(request, unit)).max().unwrap_or_else(|| request.cores.on(1));
    let energy = able().map(|unit| estimate(Known::of(&cluster.state), request, unit).energy).max().unwrap_or_default();
    // The request states this number for each node.
    let parts = request.nodes.get().saturating_mul(u32::try_from(units_wanted(request)).unwrap_or(u32::MAX));
    let beside = beside_accelerators(cluster, request).unwrap_or(Charge::new(0, Energy::ZERO));
    let cores = cores.saturating_mul(parts).saturating_add(beside.cores.saturating_mul(request.nodes.get()));
    let energy = energy.scaled(i64::from(parts), 1) + beside.energy.scaled(request.nodes.get().into(), 1);
    Charge::new(cores, energy)
}

/// Returns the most cores that a job could take of a node's CPU next to its accelerators.
fn beside_accelerators(cluster: &Cluster, request: &Request) -> Option<Charge> {
    let of = |class: &Class| {
        let host = host_cores(request, &class.units)?;
        let energy = estimate(Known::of(&cluster.state), request, &class.units[usize::from(host.unit)]).energy;
        Some(Charge::new(host.cores, energy))
    };
    let all = cluster.index.classes.all().iter().filter_map(of);
    all.reduce(|one, other| Charge::new(one.cores.max(other.cores), one.energy.max(other.energy)))
}
