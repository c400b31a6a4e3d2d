//! Refuses jobs that no node could ever run, and names the closest match.

use std::collections::BTreeSet;

use limo_model::{Power, Request, UnitKind, UnitSpec};

use super::queues;
use crate::cluster::Cluster;
use crate::facts::{
    allows_node, allows_unit, chunks_on_node, first_fit, may_be_denied, obeys_cap, unit_and_chunks, units_like,
    wants_host_cores,
};
use crate::index::Class;
use crate::refused::Refused;
use crate::state::Node;

/// Refuses a cap that could not be kept.
pub(super) fn check_cap(request: &Request) -> Result<(), Refused> {
    match request.cap {
        Some(_) if !request.exclusive => Err(Refused::SharedCap),
        Some(_) if request.accelerators.is_some() || request.is_packed() => Err(Refused::CapOfSeveral),
        _ => Ok(()),
    }
}

/// Refuses a request that no known node could ever run. While no node is known, every request is accepted.
pub(crate) fn check_request(cluster: &Cluster, request: &Request) -> Result<(), Refused> {
    if cluster.state.nodes.iter().all(Node::is_removed) {
        return Ok(());
    }
    if fits_somewhere(cluster, request) {
        return Ok(());
    }
    let known = || cluster.state.nodes.iter().filter(|node| !node.is_removed());
    let names = || known().map(|node| node.spec.name.as_str()).collect::<Vec<_>>().join(", ");
    let unknown = |name: &&String| !cluster.index.names.contains_key(name.as_str());
    if let Some(name) = request.include.iter().find(unknown) {
        return Err(Refused::UnknownNode { name: name.clone(), known: names() });
    }
    let allowed: Vec<&Node> = known().filter(|node| allows_node(request, node)).collect();
    let may_again = Request { may_requeue: true, ..request.clone() };
    if allowed.is_empty() && known().any(|node| allows_node(&may_again, node)) {
        return Err(Refused::MayBeEvicted);
    }
    let at_any_hardware = Request { hardware: Vec::new(), ..request.clone() };
    let of_others: Vec<&Node> = known().filter(|node| allows_node(&at_any_hardware, node)).collect();
    if allowed.is_empty() && of_others.is_empty() {
        return Err(queues::none_left(request));
    }
    if allowed.is_empty() {
        return Err(no_hardware(request, &of_others));
    }
    let units = || allowed.iter().flat_map(|node| node.units().map(move |(_, unit)| (*node, unit)));
    let at_any_cap = Request { cap: None, ..request.clone() };
    let of_type = || units().filter(|(_, unit)| allows_unit(&at_any_cap, unit));
    if let Some(cap) = request.cap.filter(|_| of_type().next().is_some())
        && !of_type().any(|(_, unit)| obeys_cap(request, unit))
    {
        let ranges: BTreeSet<(Power, Power)> = of_type().filter_map(|(_, unit)| unit.caps).collect();
        let known: Vec<String> = ranges.iter().map(|(low, high)| format!("{low} to {high}")).collect();
        return Err(Refused::NoCap { cap, known: if known.is_empty() { "none".to_owned() } else { known.join(", ") } });
    }
    if !units().any(|(_, unit)| allows_unit(request, unit)) {
        return Err(no_hardware(request, &allowed));
    }
    if let Some(refused) = too_few_accelerators(request, &allowed) {
        return Err(refused);
    }
    let wide: usize = allowed.iter().map(|node| chunks_on_node(request, node) as usize).sum();
    if wide >= request.nodes.get() as usize {
        return Ok(());
    }
    if wide > 0 && request.is_packed() {
        return Err(Refused::TooManyChunks { chunks: request.nodes.get(), offered: wide });
    }
    if wide > 0 {
        return Err(Refused::TooWide { nodes: request.nodes.get(), offered: wide });
    }
    let offered = units().filter(|(node, unit)| offers_cores(request, node, unit));
    let largest = offered.max_by_key(|(node, unit)| (unit.cores, node.spec.memory));
    largest.map_or(Ok(()), |(node, unit)| {
        Err(Refused::TooLarge {
            cores: request.cores,
            memory: request.memory,
            node: node.spec.name.clone(),
            offered_cores: unit.cores,
            offered_memory: node.spec.memory,
        })
    })
}

/// Makes the refusal of a job for which none of these nodes has the types of hardware.
fn no_hardware(request: &Request, nodes: &[&Node]) -> Refused {
    let known: BTreeSet<&str> =
        nodes.iter().flat_map(|node| node.units()).map(|(_, unit)| unit.hardware.as_str()).collect();
    let wanted = match (request.hardware.is_empty(), request.accelerators) {
        (false, _) => request.hardware.join("|"),
        (true, Some(_)) => "of an accelerator".to_owned(),
        (true, None) => request.variants.join("|"),
    };
    Refused::NoHardware { wanted, known: known.into_iter().collect::<Vec<_>>().join(", ") }
}

/// Returns true if the job could have cores of the unit, provided that enough are free. Next to accelerators this is
/// a CPU of a node with as many accelerators of one type as requested.
fn offers_cores(request: &Request, node: &Node, unit: &UnitSpec) -> bool {
    if !wants_host_cores(request) {
        return allows_unit(request, unit);
    }
    let alone = Request { with_cores: false, ..request.clone() };
    unit.kind == UnitKind::Cpu && first_fit(&alone, &node.spec.units).is_some()
}

/// Returns true if enough nodes are of a class that could run the request: a quick answer for requests that do not name
/// nodes.
fn fits_somewhere(cluster: &Cluster, request: &Request) -> bool {
    if may_be_denied(request) {
        return false;
    }
    let chunks = |class: &Class| {
        if !class.is_open_to(request) {
            return None;
        }
        let (_, chunks) = unit_and_chunks(request, (&class.units, class.memory))?;
        Some(class.nodes.len().saturating_mul(chunks as usize))
    };
    let mut found = 0_usize;
    cluster.index.classes.all().iter().filter_map(chunks).any(|more| {
        found = found.saturating_add(more);
        found >= request.nodes.get() as usize
    })
}

/// Returns the node with the most accelerators of one type, if all nodes have fewer than the job needs.
fn too_few_accelerators(request: &Request, allowed: &[&Node]) -> Option<Refused> {
    let wanted = request.accelerators?.get();
    let of = |node: &Node, like: u16| units_like(&node.spec.units, like).count();
    let may_be = |node: &Node, unit: u16| allows_unit(request, &node.spec.units[usize::from(unit)]);
    let units = allowed.iter().flat_map(|node| node.units().map(move |(id, _)| (*node, id.unit)));
    let counts = units.filter(|(node, unit)| may_be(node, *unit)).map(|(node, unit)| (of(node, unit), node, unit));
    let most = counts.max_by_key(|(count, node, unit)| (*count, std::cmp::Reverse((node.id, *unit))))?;
    let (offered, node, unit) = (most.0, &most.1.spec, most.2);
    (offered < wanted as usize).then(|| Refused::TooFewAccelerators {
        wanted,
        hardware: request.hardware.join("|"),
        node: node.name.clone(),
        offered,
        of: node.units[usize::from(unit)].hardware.clone(),
    })
}
