//! Whether a job could run on a node if nothing else were there, and what is refused since no node could ever run it. Does
//! not know what is free.

use limo_model::{Cores, Request, UnitKind, UnitSpec};

use crate::cluster::Cluster;
use crate::refused::Refused;
use crate::state::Node;

/// Refuses what no known node could ever run. While no node is known, everything may still become possible.
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
    if allowed.is_empty() {
        return Err(Refused::NoneLeft);
    }
    let units = || allowed.iter().flat_map(|node| node.units().map(move |(_, unit)| (*node, unit)));
    if !units().any(|(_, unit)| allows_unit(request, unit)) {
        let mut known: Vec<&str> = units().map(|(_, unit)| unit.hardware.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let wanted = match (request.hardware.is_empty(), request.accelerators) {
            (false, _) => request.hardware.join("|"),
            (true, Some(_)) => "of an accelerator".to_owned(),
            (true, None) => request.variants.join("|"),
        };
        return Err(Refused::NoHardware { wanted, known: known.join(", ") });
    }
    if let Some(refused) = too_few_accelerators(request, &allowed) {
        return Err(refused);
    }
    let wide = allowed.iter().filter(|node| fits_node(request, node)).count();
    if wide >= request.nodes.get() as usize {
        return Ok(());
    }
    if wide > 0 {
        return Err(Refused::TooWide { nodes: request.nodes.get(), offered: wide });
    }
    let possible = units().filter(|(_, unit)| allows_unit(request, unit));
    let largest = possible.max_by_key(|(node, unit)| (unit.cores, node.spec.memory));
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

/// The quick answer for a request that does not name nodes: whether enough nodes are of a class that could run it.
fn fits_somewhere(cluster: &Cluster, request: &Request) -> bool {
    if may_be_denied(request) {
        return false;
    }
    let classes = cluster.index.classes.all().iter();
    let able = classes.filter(|class| request.memory <= class.memory && first_fit(request, &class.units).is_some());
    able.map(|class| class.nodes.len()).sum::<usize>() >= request.nodes.get() as usize
}

pub(crate) fn allows_node(request: &Request, node: &Node) -> bool {
    let named = |names: &[String]| names.contains(&node.spec.name);
    (request.include.is_empty() || named(&request.include)) && !named(&request.exclude)
}

/// Whether a unit of the node could run the job, if nothing else were on it.
pub(super) fn fits_node(request: &Request, node: &Node) -> bool {
    request.memory <= node.spec.memory && first_fit(request, &node.spec.units).is_some()
}

/// Whether there may be nodes that the job must not have: else [`allows_node`] need not be asked.
pub(crate) fn may_be_denied(request: &Request) -> bool {
    !request.include.is_empty() || !request.exclude.is_empty() || request.reservation.is_some()
}

/// Whether the job may run on a unit of this type, and has a command for it: a variant, or on a CPU its main command, or
/// on what it asks for with `--gres`.
pub(crate) fn allows_unit(request: &Request, unit: &UnitSpec) -> bool {
    let constrained = request.hardware.is_empty() || request.hardware.contains(&unit.hardware);
    let has_command = match request.accelerators {
        Some(_) => unit.kind == UnitKind::Accelerator,
        None => unit.kind == UnitKind::Cpu || request.variants.contains(&unit.hardware),
    };
    constrained && has_command
}

/// How many units the job takes of each of its nodes.
pub(crate) fn units_wanted(request: &Request) -> usize {
    request.accelerators.map_or(1, |count| count.get() as usize)
}

/// Units of a node that are of the same type as the one at `like`, in order.
pub(crate) fn units_like(units: &[UnitSpec], like: u16) -> impl Iterator<Item = u16> + '_ {
    let first = units.get(usize::from(like));
    let same = move |unit: &UnitSpec| first.is_some_and(|of| (of.kind, &of.hardware) == (unit.kind, &unit.hardware));
    (0..).zip(units).filter(move |(_, unit)| same(unit)).map(|(index, _)| index)
}

/// The first of a node's units that could run the job, with enough others of its type where it wants several.
pub(crate) fn first_fit(request: &Request, units: &[UnitSpec]) -> Option<usize> {
    let wanted = units_wanted(request);
    let fits = |index: &usize| {
        let unit = &units[*index];
        let like = u16::try_from(*index).unwrap_or(u16::MAX);
        let enough = wanted == 1 || units_like(units, like).count() >= wanted;
        allows_unit(request, unit) && cores_on(request, unit) <= unit.cores && enough
    };
    (0..units.len()).find(fits)
}

/// Where no node has as many accelerators of one type as the job wants: the most that there are, and where.
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

/// Cores that the job takes of a unit; an accelerator is taken whole.
pub(crate) fn cores_on(request: &Request, unit: &UnitSpec) -> u32 {
    match unit.kind {
        UnitKind::Cpu => request.cores.on(unit.cores),
        UnitKind::Accelerator => Cores::All.on(unit.cores),
    }
}
