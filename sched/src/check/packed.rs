//! Checks that a packed job gets as many chunks as it requests, each with all of its resources on one node. The check
//! that they are free is the same for all jobs.

use std::collections::BTreeSet;

use limo_model::{JobId, Memory, Part, Request, UnitSpec};

use super::Case;
use super::several::{OnNode, by_node, is_host};
use crate::facts::{cores_on, wants_host_cores};
use crate::plan::Violation;

/// Adds every rule that the placement of a packed job breaks.
pub(super) fn check(case: Case<'_>, (job, request): (JobId, &Request), placement: &[Part], found: &mut Vec<Violation>) {
    let nodes = by_node(case, placement);
    let mut chunks: u64 = 0;
    for parts in nodes.values() {
        let here = match request.accelerators {
            None => of_cores((job, request), parts),
            Some(each) => of_accelerators((job, request, each.get()), parts),
        };
        match here.and_then(|chunks| memory((job, request), (chunks, parts))) {
            Ok(here) => chunks += u64::from(here),
            Err(violation) => return found.push(violation),
        }
    }
    if !placement.is_empty() && chunks != u64::from(request.nodes.get()) {
        found.push(Violation::Chunks { job, chunks });
    }
}

/// Returns the chunks of the parts of a job on one node: one part, whose cores are a multiple of those of a chunk.
fn of_cores((job, request): (JobId, &Request), parts: &[OnNode<'_>]) -> Result<u32, Violation> {
    let [(part, unit)] = parts else { return Err(Violation::NodeTwice { job }) };
    let each = unit.map_or(1, |unit| cores_on(request, unit)).max(1);
    match part.cores > 0 && part.cores.is_multiple_of(each) {
        true => Ok(part.cores / each),
        false => Err(Violation::Cores { job, cores: part.cores }),
    }
}

/// Returns the same for a job that requests `each` accelerators in every chunk, perhaps with cores next to them.
fn of_accelerators((job, request, each): (JobId, &Request, u32), parts: &[OnNode<'_>]) -> Result<u32, Violation> {
    let is_beside = |unit: &Option<&UnitSpec>| unit.is_some_and(|unit| is_host(request, unit));
    let own = || parts.iter().filter(|(_, unit)| !is_beside(unit));
    let types: BTreeSet<Option<&str>> = own().map(|(_, unit)| unit.map(|unit| unit.hardware.as_str())).collect();
    let units: BTreeSet<u16> = own().map(|(part, _)| part.unit.unit).collect();
    let count = units.len() as u32;
    if types.len() != 1 || units.len() != own().count() || !count.is_multiple_of(each) {
        return Err(Violation::Accelerators { job });
    }
    if let Some((part, _)) = own().find(|(part, unit)| unit.is_some_and(|unit| part.cores != unit.cores)) {
        return Err(Violation::Cores { job, cores: part.cores });
    }
    let chunks = count / each;
    let hosts = parts.iter().filter_map(|(part, unit)| Some((part, unit.filter(|unit| is_host(request, unit))?)));
    let beside: Vec<bool> =
        hosts.map(|(part, unit)| part.cores == request.cores.on(unit.cores).saturating_mul(chunks)).collect();
    match !wants_host_cores(request) || beside == [true] {
        true => Ok(chunks),
        false => Err(Violation::HostCores { job }),
    }
}

/// Checks that the parts on a node together have the memory of its chunks.
fn memory((job, request): (JobId, &Request), (chunks, parts): (u32, &[OnNode<'_>])) -> Result<u32, Violation> {
    let memory = parts.iter().fold(Memory::ZERO, |sum, (part, _)| sum.saturating_add(part.memory));
    let needed = request.memory.bytes().saturating_mul(u64::from(chunks));
    if memory.bytes() == needed { Ok(chunks) } else { Err(Violation::Memory { job, memory }) }
}
