//! Checks if a job could run on an empty node. Ignores running jobs.

use limo_model::{Cores, Memory, Request, Span, UnitKind, UnitSpec};

use super::chunks::most_chunks;
use crate::state::Node;

pub(crate) fn allows_node(request: &Request, node: &Node) -> bool {
    let named = |names: &[String]| names.contains(&node.spec.name);
    (request.include.is_empty() || named(&request.include))
        && !named(&request.exclude)
        && is_open(request, &node.closed_to, node.owner.evicts())
        && has_hardware(request, &node.spec.units)
}

/// Returns true if a node with these units has all types of hardware that the job requests together, as `a&b`.
pub(crate) fn has_hardware(request: &Request, units: &[UnitSpec]) -> bool {
    let has = |named: &str| units.iter().any(|unit| unit.hardware == named);
    request.hardware.is_empty() || request.hardware.iter().any(|all| !all.contains('&') || all.split('&').all(has))
}

/// Returns true if nodes that are closed to these queues, and whose owners may evict jobs, run the job.
pub(crate) fn is_open(request: &Request, closed_to: &[String], evicts: bool) -> bool {
    request.queue.as_ref().is_none_or(|queue| !closed_to.contains(queue)) && (request.may_requeue || !evicts)
}

/// Returns true if a unit of the empty node could run the job.
pub(crate) fn fits_node(request: &Request, node: &Node) -> bool {
    request.memory <= node.spec.memory && first_fit(request, &node.spec.units).is_some()
}

/// Returns the number of chunks of the job that the empty node could run, at most one unless it is packed.
pub(crate) fn chunks_on_node(request: &Request, node: &Node) -> u32 {
    unit_and_chunks(request, (&node.spec.units, node.spec.memory)).map_or(0, |(_, chunks)| chunks)
}

/// Returns true if some nodes that are open to the job's queue may be denied to it. If not, [`allows_node`] is true for
/// all of these.
pub(crate) fn may_be_denied(request: &Request) -> bool {
    !request.include.is_empty() || !request.exclude.is_empty() || request.reservation.is_some()
}

/// Returns true if the job may run on a unit of this type and has a command for it. The command is a variant, or the
/// main command on a CPU or on the accelerators of `--gres`.
pub(crate) fn allows_unit(request: &Request, unit: &UnitSpec) -> bool {
    let names = |all: &String| all.split('&').any(|one| one == unit.hardware);
    let constrained = request.hardware.is_empty() || request.hardware.iter().any(names);
    let has_command = match request.accelerators {
        Some(_) => unit.kind == UnitKind::Accelerator,
        None => unit.kind == UnitKind::Cpu || request.variants.contains(&unit.hardware),
    };
    constrained && has_command && obeys_cap(request, unit)
}

/// Returns true if the unit can be held at the cap that the job requests, or it requests none.
pub(crate) fn obeys_cap(request: &Request, unit: &UnitSpec) -> bool {
    request.cap.is_none_or(|cap| unit.caps.is_some_and(|(low, high)| (low..=high).contains(&cap)))
}

/// Returns the number of units that each chunk of the job takes, apart from its [`HostCores`].
pub(crate) fn units_wanted(request: &Request) -> usize {
    request.accelerators.map_or(1, |count| count.get() as usize)
}

/// Returns true if the job may take several units on each of its nodes.
pub(crate) fn wants_several(request: &Request) -> bool {
    let packs_accelerators = request.accelerators.is_some() && request.is_packed();
    wants_host_cores(request) || units_wanted(request) > 1 || packs_accelerators
}

/// Cores of a node's CPU that a job takes next to its accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostCores {
    pub unit: u16,
    pub cores: u32,
}

/// Returns the cores that the job takes next to its accelerators on a node with these units: the cores of the first
/// CPU with enough. Returns `None` if it requests none, or no CPU has enough.
pub(crate) fn host_cores(request: &Request, units: &[UnitSpec]) -> Option<HostCores> {
    if !wants_host_cores(request) {
        return None;
    }
    let of = |(index, unit): (u16, &UnitSpec)| {
        let cores = request.cores.on(unit.cores);
        (unit.kind == UnitKind::Cpu && cores <= unit.cores).then_some(HostCores { unit: index, cores })
    };
    (0..).zip(units).find_map(of)
}

/// Returns true if the job takes cores next to its accelerators.
pub(crate) fn wants_host_cores(request: &Request) -> bool {
    request.with_cores && request.accelerators.is_some()
}

/// Returns the units of a node of the same type as the one at `like`, in order.
pub(crate) fn units_like(units: &[UnitSpec], like: u16) -> impl Iterator<Item = u16> + '_ {
    let first = units.get(usize::from(like));
    let same = move |unit: &UnitSpec| first.is_some_and(|of| (of.kind, &of.hardware) == (unit.kind, &unit.hardware));
    (0..).zip(units).filter(move |(_, unit)| same(unit)).map(|(index, _)| index)
}

/// Returns the first of a node's units that could run the job.
pub(crate) fn first_fit(request: &Request, units: &[UnitSpec]) -> Option<usize> {
    fitting(request, units).next()
}

/// Returns the units of a node that could run the job. A job on several units needs enough others of that type, and a job
/// with cores next to accelerators needs a CPU that has them.
fn fitting<'a>(request: &'a Request, units: &'a [UnitSpec]) -> impl Iterator<Item = usize> + use<'a> {
    let wanted = units_wanted(request);
    let lacks_cores = wants_host_cores(request) && host_cores(request, units).is_none();
    let fits = move |index: &usize| {
        let unit = &units[*index];
        let like = u16::try_from(*index).unwrap_or(u16::MAX);
        let enough = wanted == 1 || units_like(units, like).count() >= wanted;
        allows_unit(request, unit) && cores_on(request, unit) <= unit.cores && enough
    };
    (0..if lacks_cores { 0 } else { units.len() }).filter(fits)
}

/// Returns the unit by which a job gets an empty node, and the number of its chunks there: the first that could run it;
/// for a packed job, the first with the most chunks.
pub(crate) fn unit_and_chunks(request: &Request, (units, memory): (&[UnitSpec], Memory)) -> Option<(usize, u32)> {
    if request.memory > memory {
        return None;
    }
    if !request.is_packed() {
        return first_fit(request, units).map(|unit| (unit, 1));
    }
    let each = fitting(request, units).map(|unit| (unit, most_chunks(request, (units, memory), unit)));
    each.max_by_key(|(unit, chunks)| (*chunks, std::cmp::Reverse(*unit)))
}

/// Returns the cores of a unit that the job takes; an accelerator is taken whole.
pub(crate) fn cores_on(request: &Request, unit: &UnitSpec) -> u32 {
    match unit.kind {
        UnitKind::Cpu => request.cores.on(unit.cores),
        UnitKind::Accelerator => Cores::All.on(unit.cores),
    }
}

/// Time added to the time limit: the delay of a start, and the time from TERM to KILL, which is 30 s by default.
pub(crate) const MARGIN: Span = Span::from_secs(60);

/// Returns the longest time on the node of a job that starts now; `None` without a limit.
pub(crate) fn longest(request: &Request, node: &Node) -> Option<Span> {
    let waking = node.spec.rest().map_or(Span::ZERO, |rest| rest.down.span + rest.up.span);
    request.time_limit.map(|limit| limit + MARGIN + waking)
}
