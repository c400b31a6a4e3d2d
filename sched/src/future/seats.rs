//! The nodes of a class from now on, one by one: the free resources of each node, from each time until the next.
//!
//! Uses units, cores, memory and times. Does not know the owners of resources or the permissions of jobs.

use limo_model::{Memory, Span, Time, UnitSpec};

use crate::facts::{HostCores, units_like};
use crate::structure::Rows;

/// The resources that a job needs on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeNeed {
    pub of: Units,
    /// Memory in bytes.
    pub memory: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Units {
    /// Cores of a unit.
    Cores { unit: u16, cores: u32 },
    /// `count` whole units of one type, and cores of a CPU next to them.
    Any { like: u16, count: usize, host: Option<HostCores> },
    /// All units, without any other job.
    All,
}

impl NodeNeed {
    /// Returns the need of a number of equal chunks on one node.
    pub fn times(self, chunks: u32) -> Self {
        let of = match self.of {
            Units::Cores { unit, cores } => Units::Cores { unit, cores: cores.saturating_mul(chunks) },
            Units::Any { like, count, host } => {
                let host = host.map(|host| HostCores { cores: host.cores.saturating_mul(chunks), ..host });
                Units::Any { like, count: count.saturating_mul(chunks as usize), host }
            }
            Units::All => Units::All,
        };
        Self { of, memory: self.memory.saturating_mul(i64::from(chunks)) }
    }
}

/// The free resources of each node of a class: the cores of each unit, then the bytes of memory. The line of a node
/// has a step for each change: its time in ms, and the free resources from then on.
#[derive(Debug, Clone)]
pub(crate) struct Seats {
    now: Time,
    /// Resources of a node without jobs.
    whole: Vec<i64>,
    /// By unit, the first unit of its type.
    types: Vec<u16>,
    /// By position and resource, the free resources now.
    free: Vec<i64>,
    /// By position, the steps after now.
    lines: Rows,
}

/// Number of steps that most nodes do not exceed.
const USUAL_STEPS: usize = 4;

pub(crate) fn bytes(memory: Memory) -> i64 {
    i64::try_from(memory.bytes()).unwrap_or(i64::MAX)
}

impl Seats {
    /// Makes nodes with these units and this memory. `free` lists the free resources node by node: of each unit, then
    /// of memory.
    pub fn new(units: &[UnitSpec], memory: Memory, now: Time, free: Vec<i64>) -> Self {
        let whole: Vec<i64> = units.iter().map(|unit| i64::from(unit.cores)).chain([bytes(memory)]).collect();
        let first = |unit: u16| units_like(units, unit).next().unwrap_or(unit);
        let types = (0..).take(units.len()).map(first).collect();
        let lines = Rows::new(free.len() / whole.len(), USUAL_STEPS * (whole.len() + 1));
        Self { now, whole, types, free, lines }
    }

    fn resources(&self) -> usize {
        self.whole.len()
    }

    fn free_now(&self, node: usize) -> &[i64] {
        &self.free[node * self.resources()..(node + 1) * self.resources()]
    }

    /// Returns the free cores of a unit now.
    pub fn cores_now(&self, node: usize, unit: u16) -> Option<i64> {
        self.free_now(node)[..self.resources() - 1].get(usize::from(unit)).copied()
    }

    /// Returns the index of the step that begins at `at`, after now; inserts it if missing.
    fn cut(&mut self, node: usize, at: Time) -> usize {
        let (resources, at) = (self.resources(), at.unix_ms());
        let stride = resources + 1;
        let line = self.lines.row(node);
        let (mut low, mut high) = (0, line.len() / stride);
        while low < high {
            let middle = (low + high) / 2;
            match line[middle * stride] < at {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let place = low * stride;
        if line.get(place) == Some(&at) {
            return low;
        }
        let line = self.lines.insert(node, place, stride);
        line[place] = at;
        match low {
            0 => line[1..stride].copy_from_slice(&self.free[node * resources..(node + 1) * resources]),
            _ => line.copy_within(place + 1 - stride..place, place + 1),
        }
        low
    }

    /// Returns cores of a unit at a job's end, or memory if no unit is given.
    pub fn give(&mut self, node: usize, from: Time, (unit, amount): (Option<u16>, i64)) {
        let stride = self.resources() + 1;
        let axis = unit.map_or(self.resources() - 1, usize::from);
        let step = self.cut(node, from);
        let steps = self.lines.row_mut(node)[step * stride..].chunks_exact_mut(stride);
        steps.for_each(|step| step[axis + 1] = step[axis + 1].saturating_add(amount));
    }

    /// Returns all resources at the end of a job that had the node to itself.
    pub fn give_all(&mut self, node: usize, from: Time) {
        let stride = self.resources() + 1;
        let step = self.cut(node, from);
        let steps = self.lines.row_mut(node)[step * stride..].chunks_exact_mut(stride);
        steps.for_each(|step| step[1..].copy_from_slice(&self.whole));
    }

    /// Blocks a node until a time, at which all of it becomes free; [`Time::MAX`] means never.
    pub fn block(&mut self, node: usize, until: Time) {
        let resources = self.resources();
        self.free[node * resources..(node + 1) * resources].fill(0);
        self.lines.clear(node);
        if until > self.now && until < Time::MAX {
            self.give_all(node, until);
        } else if until <= self.now {
            self.free[node * resources..(node + 1) * resources].copy_from_slice(&self.whole);
        }
    }

    /// Takes the resources of a planned job, which fits; `until` is after `from`.
    pub fn take(&mut self, node: usize, (from, until): (Time, Time), need: &NodeNeed) {
        let taken = self.taken(node, (from, until), need);
        let (resources, stride) = (self.resources(), self.resources() + 1);
        let take = |free: &mut [i64]| {
            free.iter_mut().zip(&taken).for_each(|(free, taken)| *free = free.saturating_sub(*taken));
        };
        let is_now = from <= self.now;
        let first = if is_now { 0 } else { self.cut(node, from) };
        let last = if until == Time::MAX { usize::MAX } else { self.cut(node, until) };
        let steps = self.lines.row_mut(node).chunks_exact_mut(stride).take(last).skip(first);
        steps.for_each(|step| take(&mut step[1..]));
        if is_now {
            take(&mut self.free[node * resources..(node + 1) * resources]);
        }
    }

    /// Returns the amount of each resource that a job takes. It gets the first units that are free for all of the time.
    fn taken(&self, node: usize, window: (Time, Time), need: &NodeNeed) -> Vec<i64> {
        let mut taken = vec![0; self.resources()];
        match need.of {
            Units::Cores { unit, cores } => taken[usize::from(unit)] = i64::from(cores),
            Units::Any { host, .. } => {
                let units = self.units(node, window, need).into_iter().map(usize::from);
                units.for_each(|unit| taken[unit] = self.whole[unit]);
                host.into_iter().for_each(|host| taken[usize::from(host.unit)] = i64::from(host.cores));
            }
            Units::All => return self.whole.clone(),
        }
        taken[self.whole.len() - 1] = need.memory;
        taken
    }

    /// Returns the units of the type of one of them.
    fn alike(&self, like: u16) -> impl Iterator<Item = usize> {
        let of = self.types.get(usize::from(like));
        self.types.iter().enumerate().filter(move |(_, first)| Some(*first) == of).map(|(unit, _)| unit)
    }

    /// Returns the units for a job: the requested one, or the first ones that are free for all of the window.
    pub fn units(&self, node: usize, window: (Time, Time), need: &NodeNeed) -> Vec<u16> {
        let (like, count) = match need.of {
            Units::Any { like, count, .. } => (like, count),
            Units::Cores { unit, .. } => return vec![unit],
            Units::All => return Vec::new(),
        };
        let is_free = |unit: &usize| self.steps(node, window).all(|free| free[*unit] == self.whole[*unit]);
        self.alike(like).filter(is_free).take(count).map(|unit| unit as u16).collect()
    }

    /// Returns the free resources in each step that touches a window.
    fn steps(&self, node: usize, (from, until): (Time, Time)) -> impl Iterator<Item = &[i64]> {
        let stride = self.resources() + 1;
        let line = self.lines.row(node);
        let (from, until) = (from.unix_ms(), until.unix_ms());
        let next = line.chunks_exact(stride).take_while(|step| step[0] <= from).count();
        let before = match next {
            0 => self.free_now(node),
            _ => &line[(next - 1) * stride + 1..next * stride],
        };
        let later = line[next * stride..].chunks_exact(stride);
        let later = later.take_while(move |step| step[0] < until).map(|step| &step[1..]);
        std::iter::once(before).chain(later)
    }

    /// Returns the first time from `from` on at which `fits` holds for all of `span`.
    fn first(&self, node: usize, (from, span): (Time, Span), fits: impl Fn(&[i64]) -> bool) -> Option<Time> {
        let (stride, from) = (self.resources() + 1, from.unix_ms());
        let mut steps = self.lines.row(node).chunks_exact(stride);
        let (mut free, mut start, mut next) = (self.free_now(node), from, steps.next());
        while let Some(step) = next.filter(|step| step[0] <= from) {
            (free, next) = (&step[1..], steps.next());
        }
        loop {
            let end = next.map_or(i64::MAX, |step| step[0]);
            if !fits(free) {
                start = end;
            } else if end.saturating_sub(start) >= span.ms() {
                return Some(Time::from_unix_ms(start));
            }
            (free, next) = (&next?[1..], steps.next());
        }
    }

    /// Returns true if a job fits in all of a window.
    pub fn fits(&self, node: usize, window: (Time, Time), need: &NodeNeed) -> bool {
        let last = self.resources() - 1;
        let mut steps = self.steps(node, window);
        match need.of {
            Units::Cores { unit, cores } => {
                let (unit, cores) = (usize::from(unit), i64::from(cores));
                steps.all(|free| free[unit] >= cores && free[last] >= need.memory)
            }
            Units::All => steps.all(|free| free[..last] == self.whole[..last] && free[last] >= need.memory),
            Units::Any { count, host, .. } => {
                steps.all(|free| free[last] >= need.memory && has_host_cores(host, free))
                    && self.units(node, window, need).len() == count
            }
        }
    }

    /// Returns the first time from `from` on at which a job fits for all of `span`; `None` if it never does.
    pub fn earliest(&self, node: usize, (from, span): (Time, Span), need: &NodeNeed) -> Option<Time> {
        let last = self.resources() - 1;
        match need.of {
            Units::Cores { unit, cores } => {
                let (unit, cores) = (usize::from(unit), i64::from(cores));
                self.first(node, (from, span), |free| free[unit] >= cores && free[last] >= need.memory)
            }
            Units::All => {
                let is_free = |free: &[i64]| free[..last] == self.whole[..last] && free[last] >= need.memory;
                self.first(node, (from, span), is_free)
            }
            Units::Any { like, count, host } => {
                let is_free = |free: &[i64], unit: usize| free[unit] == self.whole[unit];
                let enough = |free: &[i64]| {
                    has_host_cores(host, free) && self.alike(like).filter(|unit| is_free(free, *unit)).count() >= count
                };
                let mut at = from;
                loop {
                    at = self.first(node, (at, span), |free| free[last] >= need.memory && enough(free))?;
                    // Enough units are free at each moment, but perhaps not the same ones.
                    if self.units(node, (at, at + span), need).len() == count {
                        return Some(at);
                    }
                    at = self.next_step(node, at)?;
                }
            }
        }
    }

    /// Returns the free cores of the first unit of a node, from each time until the next.
    pub fn first_cores(&self, node: usize) -> impl Iterator<Item = (Time, i64)> {
        let later = self.lines.row(node).chunks_exact(self.resources() + 1);
        let later = later.map(|step| (Time::from_unix_ms(step[0]), step[1]));
        std::iter::once((self.now, self.free_now(node)[0])).chain(later)
    }

    fn next_step(&self, node: usize, after: Time) -> Option<Time> {
        let mut times = self.lines.row(node).chunks_exact(self.resources() + 1).map(|step| step[0]);
        times.find(|at| *at > after.unix_ms()).map(Time::from_unix_ms)
    }

    /// Returns the first time after `after` at which anything changes on one of the nodes.
    pub fn next_change(&self, after: Time) -> Option<Time> {
        (0..self.lines.len()).filter_map(|node| self.next_step(node, after)).min()
    }
}

fn has_host_cores(host: Option<HostCores>, free: &[i64]) -> bool {
    host.is_none_or(|host| free[usize::from(host.unit)] >= i64::from(host.cores))
}

#[cfg(test)]
mod tests {
    use limo_model::{Power, UnitKind};

    use super::*;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    fn unit(kind: UnitKind, cores: u32) -> UnitSpec {
        let name = String::new();
        let hardware = if kind == UnitKind::Cpu { "xeon" } else { "k80" }.to_owned();
        UnitSpec { name, hardware, kind, cores, nameplate: Power::ZERO, caps: None }
    }

    /// Makes one free node with four cores, two accelerators and ten bytes.
    fn seats() -> Seats {
        let (cpu, gpu) = (unit(UnitKind::Cpu, 4), unit(UnitKind::Accelerator, 1));
        Seats::new(&[cpu, gpu.clone(), gpu], Memory::from_bytes(10), at(0), vec![4, 1, 1, 10])
    }

    fn need(of: Units, memory: i64) -> NodeNeed {
        NodeNeed { of, memory }
    }

    fn earliest(seats: &Seats, need: &NodeNeed, from: i64, span: i64) -> Option<i64> {
        seats.earliest(0, (at(from), Span::from_secs(span)), need).map(|at| at.unix_ms() / 1_000)
    }

    #[test]
    fn cores_and_memory_must_be_free_for_all_of_the_time() {
        let mut seats = seats();
        let cores = |cores, memory| need(Units::Cores { unit: 0, cores }, memory);
        seats.take(0, (at(0), at(10)), &cores(3, 4));
        seats.take(0, (at(20), at(30)), &cores(1, 8));
        assert_eq!(seats.cores_now(0, 0), Some(1));
        assert_eq!(earliest(&seats, &cores(1, 6), 0, 20), Some(0));
        // The memory is needed from 20 on.
        assert_eq!(earliest(&seats, &cores(1, 6), 0, 21), Some(30));
        assert_eq!(earliest(&seats, &cores(1, 2), 0, 21), Some(0));
        assert_eq!(earliest(&seats, &cores(2, 0), 0, 21), Some(10));
        assert_eq!(earliest(&seats, &cores(4, 0), 5, 10), Some(10));
        assert_eq!(earliest(&seats, &cores(4, 0), 5, 11), Some(30));
        assert_eq!(earliest(&seats, &need(Units::All, 0), 0, 10), Some(10));
        assert_eq!(earliest(&seats, &cores(5, 0), 0, 1), None);
        assert_eq!(seats.next_change(at(10)), Some(at(20)));
    }

    #[test]
    fn a_job_keeps_its_accelerator() {
        let mut seats = seats();
        let any = |count| need(Units::Any { like: 1, count, host: None }, 0);
        // The first unit is taken until 10, the second one from then on until 20.
        seats.take(0, (at(0), at(10)), &need(Units::Cores { unit: 1, cores: 1 }, 0));
        seats.take(0, (at(10), at(20)), &need(Units::Cores { unit: 2, cores: 1 }, 0));
        assert_eq!(earliest(&seats, &any(1), 0, 10), Some(0));
        // One unit is free at each moment, but not the same one.
        assert_eq!(earliest(&seats, &any(1), 0, 11), Some(10));
        assert_eq!(earliest(&seats, &any(2), 0, 1), Some(20));
        assert_eq!(seats.units(0, (at(10), at(30)), &any(1)), [1]);
        seats.take(0, (at(20), at(40)), &any(2));
        assert_eq!(earliest(&seats, &any(1), 10, 10), Some(10));
        assert_eq!(earliest(&seats, &any(1), 10, 11), Some(40));
    }

    #[test]
    fn cores_beside_an_accelerator_must_be_free_with_it() {
        let mut seats = seats();
        let both = |cores| need(Units::Any { like: 1, count: 1, host: Some(HostCores { unit: 0, cores }) }, 0);
        seats.take(0, (at(0), at(10)), &need(Units::Cores { unit: 0, cores: 3 }, 0));
        assert_eq!(earliest(&seats, &both(1), 0, 30), Some(0));
        assert_eq!(earliest(&seats, &both(2), 0, 30), Some(10));
        assert!(!seats.fits(0, (at(0), at(30)), &both(2)) && seats.fits(0, (at(10), at(30)), &both(2)));
        // One more job leaves an accelerator, but no core for it.
        seats.take(0, (at(0), at(20)), &both(1));
        assert_eq!(seats.cores_now(0, 0), Some(0));
        assert_eq!(earliest(&seats, &both(1), 0, 5), Some(10));
        assert_eq!(earliest(&seats, &both(4), 0, 5), Some(20));
    }

    #[test]
    fn ended_jobs_return_their_resources() {
        let mut seats = Seats::new(&[unit(UnitKind::Cpu, 4)], Memory::from_bytes(10), at(0), vec![0, 3, 1, 10]);
        seats.give(0, at(5), (Some(0), 4));
        seats.give(0, at(8), (None, 7));
        seats.give_all(1, at(3));
        let cores = need(Units::Cores { unit: 0, cores: 4 }, 4);
        assert_eq!(earliest(&seats, &cores, 0, 100), Some(8));
        assert_eq!(seats.earliest(1, (at(0), Span::from_secs(1)), &cores), Some(at(3)));
        seats.block(1, at(50));
        assert_eq!(seats.earliest(1, (at(0), Span::from_secs(1)), &cores), Some(at(50)));
    }
}
