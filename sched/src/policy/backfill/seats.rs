//! The nodes of a class from now on, one by one: what is free of each, from each time until the next.
//!
//! For planned starts where jobs take parts of nodes: then sums over a class promise no node. Knows units, cores, memory
//! and times; not which job has what, and not which nodes a job may have.

use limo_model::{Memory, Span, Time, UnitSpec};

use super::chances::{Chance, Chances};

/// The resources that a job wants of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Want {
    pub of: Units,
    pub memory: Memory,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Units {
    /// Cores of a unit.
    Cores { unit: usize, cores: u64 },
    /// As many whole units as `count`, of those that are listed.
    Any { units: Vec<usize>, count: usize },
    /// All units, with nobody beside.
    All,
}

/// The free resources of each node of a class: the cores of each unit, and the bytes of memory.
pub(super) struct Seats {
    /// Of a node that no job is on.
    whole: Vec<u64>,
    lines: Vec<NodeLine>,
    /// Of nodes that take jobs, as [`Self::open`] was told.
    chances: Chances,
}

/// As many steps most nodes have: their lines need not grow.
pub(super) const STEPS: usize = 6;

/// One node. Step `i` lasts from `times[i]` until the next; its amounts are at `i * axes`.
#[derive(Debug, Clone)]
struct NodeLine {
    times: Vec<Time>,
    free: Vec<u64>,
}

impl Seats {
    /// Nodes with these units and this memory, of which is free now what `free` says: of each unit, then of memory.
    pub fn new(units: &[UnitSpec], memory: Memory, now: Time, free: impl Iterator<Item = Vec<u64>>) -> Self {
        let whole = units.iter().map(|unit| u64::from(unit.cores)).chain([memory.bytes()]).collect();
        let line = |free: Vec<u64>| {
            let mut times = Vec::with_capacity(STEPS);
            times.push(now);
            NodeLine { times, free }
        };
        let lines = free.map(line).collect();
        Self { whole, lines, chances: Chances::default() }
    }

    /// Nodes that take jobs, each from a time on. What is given back is known by now.
    pub fn open(&mut self, nodes: impl Iterator<Item = (u32, Time)>) {
        let axes = self.axes();
        let mut all = Vec::new();
        for (node, from) in nodes {
            let line = &self.lines[node as usize];
            let first = line.times.partition_point(|at| *at <= from).saturating_sub(1);
            let steps = line.times.iter().zip(line.free.chunks(axes)).skip(first);
            all.extend(steps.map(|(at, free)| Chance { at: from.max(*at), node, free: free[0] }));
        }
        self.chances = Chances::of(all);
    }

    fn axes(&self) -> usize {
        self.whole.len()
    }

    /// The step that begins at `at`, which is not before now; made where there is none.
    fn cut(&mut self, node: usize, at: Time) -> usize {
        let axes = self.axes();
        let line = &mut self.lines[node];
        match line.times.binary_search(&at) {
            Ok(step) => step,
            Err(step) => {
                line.times.insert(step, at);
                line.free.extend_from_within((step - 1) * axes..step * axes);
                line.free[step * axes..].rotate_right(axes);
                step
            }
        }
    }

    /// A job ends and gives back cores of a unit, or memory.
    pub fn give(&mut self, node: usize, from: Time, (unit, cores): (Option<usize>, u64)) {
        let (axes, axis) = (self.axes(), unit.unwrap_or(self.whole.len() - 1));
        let step = self.cut(node, from);
        self.lines[node].free[step * axes..].iter_mut().skip(axis).step_by(axes).for_each(|free| *free += cores);
    }

    /// A job ends that had the node alone.
    pub fn give_all(&mut self, node: usize, from: Time) {
        let step = self.cut(node, from);
        let (axes, whole) = (self.axes(), &self.whole);
        self.lines[node].free[step * axes..].chunks_mut(axes).for_each(|free| free.copy_from_slice(whole));
    }

    /// Nothing is free of a node until then, and all of it from then on.
    pub fn block(&mut self, node: usize, until: Time) {
        let line = &mut self.lines[node];
        line.times.truncate(1);
        line.free = vec![0; self.whole.len()];
        self.give_all(node, until);
    }

    /// A job is planned there, which fits.
    pub fn take(&mut self, node: usize, (from, until): (Time, Time), want: &Want) {
        let taken = self.taken(node, (from, until), want);
        let (first, last) = (self.cut(node, from), self.cut(node, until));
        let (axes, line) = (self.axes(), &mut self.lines[node]);
        for free in line.free[first * axes..last * axes].chunks_mut(axes) {
            free.iter_mut().zip(&taken).for_each(|(free, taken)| *free = free.saturating_sub(*taken));
        }
        for step in first..=last {
            let (at, node, free) = (line.times[step], node as u32, line.free[step * axes]);
            self.chances.set(Chance { at, node, free });
        }
    }

    /// How much of each axis a job takes: of the units that are free for all of the time the first ones.
    fn taken(&self, node: usize, window: (Time, Time), want: &Want) -> Vec<u64> {
        let mut taken = vec![0; self.axes()];
        match &want.of {
            Units::Cores { unit, cores } => taken[*unit] = *cores,
            Units::Any { .. } => {
                self.units(node, window, want).into_iter().for_each(|unit| taken[unit] = self.whole[unit])
            }
            Units::All => return self.whole.clone(),
        }
        taken[self.whole.len() - 1] = want.memory.bytes();
        taken
    }

    /// The units that a job which asks for any of several gets.
    pub fn units(&self, node: usize, window: (Time, Time), want: &Want) -> Vec<usize> {
        let Units::Any { units, count } = &want.of else { return Vec::new() };
        let is_free = |unit: &usize| self.steps(node, window).all(|free| free[*unit] == self.whole[*unit]);
        units.iter().copied().filter(is_free).take(*count).collect()
    }

    /// The free resources in each step that touches a window.
    fn steps(&self, node: usize, (from, until): (Time, Time)) -> impl Iterator<Item = &[u64]> {
        let (axes, line) = (self.axes(), &self.lines[node]);
        let first = line.times.partition_point(|at| *at <= from).saturating_sub(1);
        let last = line.times.partition_point(|at| *at < until).max(first + 1);
        line.free[first * axes..last * axes].chunks(axes)
    }

    fn fits(&self, free: &[u64], want: &Want) -> bool {
        let memory = free[self.whole.len() - 1] >= want.memory.bytes();
        memory
            && match &want.of {
                Units::Cores { unit, cores } => free[*unit] >= *cores,
                Units::Any { units, count } => {
                    units.iter().filter(|unit| free[**unit] == self.whole[**unit]).count() >= *count
                }
                Units::All => free[..self.whole.len() - 1] == self.whole[..self.whole.len() - 1],
            }
    }

    /// The first time at which a job fits on any node, and the lowest of those on which it does then; nodes that sleep come
    /// last. `sleeps`: how long a node needs to wake.
    pub fn soonest(&self, span: Span, want: &Want, sleeps: impl Fn(u32) -> Span) -> Option<(Time, u32)> {
        let least = match want.of {
            Units::Cores { unit: 0, cores } => cores,
            Units::All => self.whole[0],
            _ => 0,
        };
        let mut asleep: Option<(Time, u32)> = None;
        for Chance { at, node, .. } in self.chances.with(least) {
            if asleep.is_some_and(|(found, _)| found < at) {
                break;
            }
            let wake = sleeps(node);
            if !self.is_free(node as usize, (at, at + span + wake), want) {
                continue;
            }
            if wake == Span::ZERO {
                return Some((at, node));
            }
            asleep = asleep.or(Some((at, node)));
        }
        asleep
    }

    /// Returns true if a job fits in all of a window.
    fn is_free(&self, node: usize, window: (Time, Time), want: &Want) -> bool {
        self.steps(node, window).all(|free| self.fits(free, want))
            && match &want.of {
                Units::Any { count, .. } => self.units(node, window, want).len() == *count,
                _ => true,
            }
    }

    /// The first time from `from` on at which a job fits for all of `span`.
    pub fn earliest(&self, node: usize, (from, span): (Time, Span), want: &Want) -> Option<Time> {
        let (axes, line) = (self.axes(), &self.lines[node]);
        let first = line.times.partition_point(|at| *at <= from).saturating_sub(1);
        let mut start: Option<Time> = None;
        for (step, free) in line.free.chunks(axes).enumerate().skip(first) {
            if !self.fits(free, want) {
                start = None;
                continue;
            }
            let at = *start.get_or_insert(line.times[step].max(from));
            let until = line.times.get(step + 1).copied().unwrap_or(Time::MAX);
            if until - at >= span {
                return match &want.of {
                    Units::Any { .. } => self.earliest_of_units(node, (at, span), want),
                    _ => Some(at),
                };
            }
        }
        None
    }

    /// The same where as many units are free at each moment, but perhaps not the same ones.
    fn earliest_of_units(&self, node: usize, (from, span): (Time, Span), want: &Want) -> Option<Time> {
        let Units::Any { count, .. } = &want.of else { return Some(from) };
        if self.units(node, (from, from + span), want).len() == *count {
            return Some(from);
        }
        let line = &self.lines[node];
        let next = line.times.partition_point(|at| *at <= from);
        self.earliest(node, (*line.times.get(next)?, span), want)
    }

    /// The first time after `after` at which anything changes on one of the nodes.
    pub fn next_change(&self, after: Time) -> Option<Time> {
        let next = |line: &NodeLine| line.times.get(line.times.partition_point(|at| *at <= after)).copied();
        self.lines.iter().filter_map(next).min()
    }
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
        UnitSpec { name: name.clone(), hardware: name, kind, cores, nameplate: Power::ZERO, caps: None }
    }

    /// One free node with four cores, two accelerators and ten bytes.
    fn seats() -> Seats {
        let (cpu, gpu) = (unit(UnitKind::Cpu, 4), unit(UnitKind::Accelerator, 1));
        let units = [cpu, gpu.clone(), gpu];
        Seats::new(&units, Memory::from_bytes(10), at(0), std::iter::once(vec![4, 1, 1, 10]))
    }

    fn want(of: Units, memory: u64) -> Want {
        Want { of, memory: Memory::from_bytes(memory) }
    }

    fn earliest(seats: &Seats, want: &Want, from: i64, span: i64) -> Option<i64> {
        seats.earliest(0, (at(from), Span::from_secs(span)), want).map(|at| at.unix_ms() / 1_000)
    }

    #[test]
    fn cores_and_memory_must_be_free_for_all_of_the_time() {
        let mut seats = seats();
        let cores = |cores, memory| want(Units::Cores { unit: 0, cores }, memory);
        seats.take(0, (at(0), at(10)), &cores(3, 4));
        seats.take(0, (at(20), at(30)), &cores(1, 8));
        assert_eq!(earliest(&seats, &cores(1, 6), 0, 20), Some(0));
        // Its memory is needed from 20 on.
        assert_eq!(earliest(&seats, &cores(1, 6), 0, 21), Some(30));
        assert_eq!(earliest(&seats, &cores(1, 2), 0, 21), Some(0));
        assert_eq!(earliest(&seats, &cores(2, 0), 0, 21), Some(10));
        assert_eq!(earliest(&seats, &cores(4, 0), 5, 10), Some(10));
        assert_eq!(earliest(&seats, &cores(4, 0), 5, 11), Some(30));
        assert_eq!(earliest(&seats, &want(Units::All, 0), 0, 10), Some(10));
        assert_eq!(earliest(&seats, &cores(5, 0), 0, 1), None);
        assert_eq!(seats.next_change(at(10)), Some(at(20)));
    }

    #[test]
    fn a_job_keeps_its_accelerator() {
        let mut seats = seats();
        let any = |count| want(Units::Any { units: vec![1, 2], count }, 0);
        // The first one is taken until 10, the second from then on until 20.
        seats.take(0, (at(0), at(10)), &want(Units::Cores { unit: 1, cores: 1 }, 0));
        seats.take(0, (at(10), at(20)), &want(Units::Cores { unit: 2, cores: 1 }, 0));
        assert_eq!(earliest(&seats, &any(1), 0, 10), Some(0));
        // One is free at each moment, but not the same one.
        assert_eq!(earliest(&seats, &any(1), 0, 11), Some(10));
        assert_eq!(earliest(&seats, &any(2), 0, 1), Some(20));
        assert_eq!(seats.units(0, (at(10), at(30)), &any(1)), [1]);
        seats.take(0, (at(20), at(40)), &any(2));
        assert_eq!(earliest(&seats, &any(1), 10, 10), Some(10));
        assert_eq!(earliest(&seats, &any(1), 10, 11), Some(40));
    }

    #[test]
    fn what_ends_is_given_back() {
        let mut seats =
            Seats::new(&[unit(UnitKind::Cpu, 4)], Memory::from_bytes(10), at(0), [vec![0, 3], vec![1, 10]].into_iter());
        seats.give(0, at(5), (Some(0), 4));
        seats.give(0, at(8), (None, 7));
        seats.give_all(1, at(3));
        let cores = want(Units::Cores { unit: 0, cores: 4 }, 4);
        assert_eq!(earliest(&seats, &cores, 0, 100), Some(8));
        assert_eq!(seats.earliest(1, (at(0), Span::from_secs(1)), &cores), Some(at(3)));
        seats.block(1, at(50));
        assert_eq!(seats.earliest(1, (at(0), Span::from_secs(1)), &cores), Some(at(50)));
    }
}
