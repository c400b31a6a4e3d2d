//! The chunks of packed jobs: how many of them a node has room for. Any other job has one chunk on each of its nodes.

use limo_model::{Memory, Part, Power, Request, UnitKind, UnitSpec};

use super::fits::{HostCores, cores_on, host_cores, units_like, wants_host_cores};

/// The resources that a chunk takes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkNeed {
    /// Cores of one unit; 0 for a chunk of accelerators.
    pub cores: u32,
    /// Accelerators of one type; 0 if none are requested.
    pub units: u32,
    /// Cores next to the accelerators.
    pub host: Option<HostCores>,
    pub memory: Memory,
}

/// The free resources of a node for such chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRoom {
    pub cores: u32,
    pub units: u32,
    /// Cores of the CPU next to the accelerators.
    pub host: u32,
    pub memory: Memory,
}

impl ChunkNeed {
    /// Returns the need of a chunk on a unit of a node with these units.
    pub fn of(request: &Request, units: &[UnitSpec], unit: &UnitSpec) -> Self {
        let accelerators = request.accelerators.map_or(0, std::num::NonZeroU32::get);
        Self {
            cores: if accelerators == 0 { cores_on(request, unit) } else { 0 },
            units: accelerators,
            host: host_cores(request, units),
            memory: request.memory,
        }
    }

    /// Returns the number of chunks for which there is room.
    pub fn fits(&self, room: &ChunkRoom) -> u32 {
        let of = |need: u32, free: u32| free.checked_div(need).unwrap_or(u32::MAX);
        let memory = room.memory.bytes().checked_div(self.memory.bytes()).unwrap_or(u64::MAX);
        let host = self.host.map_or(u32::MAX, |host| of(host.cores, room.host));
        let memory = u32::try_from(memory).unwrap_or(u32::MAX);
        of(self.cores, room.cores).min(of(self.units, room.units)).min(host).min(memory)
    }
}

/// Returns the most chunks of a job on an empty node, by a unit that could run one of them.
pub(crate) fn most_chunks(request: &Request, (units, memory): (&[UnitSpec], Memory), unit: usize) -> u32 {
    let Some(spec) = units.get(unit).filter(|_| request.is_packed()) else { return 1 };
    let need = ChunkNeed::of(request, units, spec);
    let like = u16::try_from(unit).unwrap_or(u16::MAX);
    let host = need.host.and_then(|host| units.get(usize::from(host.unit)));
    let room = ChunkRoom {
        cores: spec.cores,
        units: u32::try_from(units_like(units, like).count()).unwrap_or(u32::MAX),
        host: host.map_or(0, |host| host.cores),
        memory,
    };
    need.fits(&room).min(request.nodes.get())
}

/// Returns the number of chunks whose resources of one unit a part of a job contains.
pub(crate) fn chunks_in(request: &Request, unit: &UnitSpec, part: &Part) -> u32 {
    let is_cpu = unit.kind == UnitKind::Cpu;
    let each = match request.is_packed() {
        true if is_cpu && (request.accelerators.is_none() || wants_host_cores(request)) => cores_on(request, unit),
        _ => return 1,
    };
    (part.cores / each.max(1)).max(1)
}

/// Returns the division of a job's draw among its units, in proportion to `weights`.
pub(crate) fn divided(draw: Power, weights: &[Power]) -> Vec<Power> {
    let all: Power = weights.iter().copied().sum();
    let mut left = draw;
    let last = weights.len().saturating_sub(1);
    let share = |(index, weight): (usize, &Power)| {
        let even = || draw.scaled(1, i64::try_from(weights.len()).unwrap_or(i64::MAX));
        let own = if all > Power::ZERO { draw.scaled(weight.mw(), all.mw()) } else { even() };
        let own = if index == last { left } else { own };
        left -= own;
        own
    };
    weights.iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_bounds_the_chunks_of_a_node() {
        let check = |(cores, units, host, memory): (u32, u32, Option<u32>, u64), expected: u32| {
            let host = host.map(|cores| HostCores { unit: 0, cores });
            let need = ChunkNeed { cores, units, host, memory: Memory::from_bytes(memory) };
            let room = ChunkRoom { cores: 9, units: 5, host: 8, memory: Memory::from_bytes(20) };
            assert_eq!(need.fits(&room), expected, "{need:?}");
        };
        check((2, 0, None, 0), 4);
        check((2, 0, None, 7), 2);
        check((10, 0, None, 0), 0);
        check((0, 1, None, 0), 5);
        check((0, 1, Some(2), 0), 4);
        check((0, 2, Some(2), 10), 2);
    }

    #[test]
    fn a_division_adds_up() {
        let mw = |values: &[i64]| values.iter().map(|value| Power::from_mw(*value)).collect::<Vec<_>>();
        assert_eq!(divided(Power::from_mw(100), &mw(&[2, 1])), mw(&[67, 33]));
        assert_eq!(divided(Power::from_mw(100), &mw(&[0, 0, 0])), mw(&[33, 33, 34]));
    }
}
