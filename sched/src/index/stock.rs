//! Free resources of the nodes of a class other than cores: accelerators by type, and memory.

use std::ops::Range;

use limo_model::{Memory, UnitKind, UnitSpec};

use crate::facts::units_like;
use crate::structure::{Bits, Levels};

/// Number of parts in which a node's memory is counted; amounts between two of its multiples are checked exactly.
const PARTS: u32 = 64;

#[derive(Debug, Clone)]
pub(super) struct Stock {
    /// Units of each type, and the number of free ones on each node.
    accelerators: Vec<(Vec<u16>, Levels)>,
    /// A node's memory, and the free parts of it on each node, rounded down.
    memory: Memory,
    parts: Levels,
}

impl Stock {
    /// Makes an empty stock, without nodes.
    pub fn new(units: &[UnitSpec], memory: Memory) -> Self {
        let mut accelerators: Vec<(Vec<u16>, Levels)> = Vec::new();
        for (unit, _) in (0..).zip(units).filter(|(_, unit)| unit.kind == UnitKind::Accelerator) {
            if !accelerators.iter().any(|(like, _)| like.contains(&unit)) {
                let like: Vec<u16> = units_like(units, unit).collect();
                let levels = Levels::new(like.len() as u32);
                accelerators.push((like, levels));
            }
        }
        Self { accelerators, memory, parts: Levels::new(PARTS) }
    }

    /// Appends a free node.
    pub fn push(&mut self) {
        for (units, levels) in &mut self.accelerators {
            levels.push(units.len() as u32, true);
        }
        self.parts.push(PARTS, true);
    }

    pub fn take(&mut self, unit: u16, run: Range<u32>) {
        if let Some((_, levels)) = self.accelerators.iter_mut().find(|(units, _)| units.contains(&unit)) {
            levels.take(run, 1);
        }
    }

    pub fn give(&mut self, unit: u16, run: Range<u32>) {
        if let Some((_, levels)) = self.accelerators.iter_mut().find(|(units, _)| units.contains(&unit)) {
            levels.give(run, 1);
        }
    }

    pub fn take_whole(&mut self, run: Range<u32>) {
        for (units, levels) in &mut self.accelerators {
            levels.take(run.clone(), units.len() as u32);
        }
    }

    pub fn give_whole(&mut self, run: Range<u32>) {
        for (units, levels) in &mut self.accelerators {
            levels.give(run.clone(), units.len() as u32);
        }
    }

    /// Records the used memory of a node.
    pub fn put_memory(&mut self, position: u32, used: Memory) {
        let free = u128::from(self.memory.saturating_sub(used).bytes());
        let parts = (free * u128::from(PARTS)).checked_div(self.memory.bytes().into());
        self.parts.put(position, parts.map_or(PARTS, |parts| parts.min(PARTS.into()) as u32));
    }

    /// Returns the nodes with at least `count` free accelerators of the type of a unit.
    pub fn with_accelerators<'a>(&'a self, unit: u16, count: u32, scratch: &'a mut Bits) -> &'a Bits {
        scratch.clear();
        match self.accelerators.iter().find(|(units, _)| units.contains(&unit)) {
            Some((_, levels)) => levels.members(count, scratch),
            None => scratch,
        }
    }

    /// Keeps the nodes with enough free memory. `free` returns the exact free memory of a node.
    pub fn keep_with_memory(&self, found: &mut Bits, memory: Memory, free: impl Fn(u32) -> Memory) {
        let parts = (u128::from(memory.bytes()) * u128::from(PARTS)).div_ceil(u128::from(self.memory.bytes()).max(1));
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        let mut border = found.clone();
        match parts.checked_sub(1).and_then(|below| self.parts.at(below)) {
            Some(below) => border.intersect_with(below),
            None => border.clear(),
        }
        let mut scratch = Bits::new(found.len());
        found.intersect_with(self.parts.members(parts, &mut scratch));
        for position in border.iter().filter(|position| free(*position) >= memory) {
            found.insert(position);
        }
    }

    #[cfg(debug_assertions)]
    pub fn is_same(&self, found: &Self) -> bool {
        let of = |(units, levels): &(Vec<u16>, Levels)| (units.clone(), levels.positions());
        self.accelerators.iter().map(of).eq(found.accelerators.iter().map(of))
            && self.parts.positions() == found.parts.positions()
    }
}
