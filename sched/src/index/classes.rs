//! Nodes of the same kind, by their free resources.
//!
//! A class holds nodes with equal units and memory, which are closed to the same queues and either all have owners that
//! evict jobs or none; a node has a position in it, in order of registration. Other permissions of jobs are checked
//! elsewhere.

use std::ops::Range;

use limo_model::{Memory, Meter, NodeId, Part, Request, Span, Time, UnitId, UnitSpec};

use super::shapes::{NodeDemand, Way};
use super::stock::Stock;
use crate::facts::{has_hardware, is_open};
use crate::state::{Node, Sleep};
use crate::structure::{Bits, Levels};

/// Nodes with equal units and memory, for jobs of the same queues.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub units: Vec<UnitSpec>,
    pub memory: Memory,
    pub closed_to: Vec<String>,
    /// True if their owners evict jobs.
    evicts: bool,
    metered: bool,
    /// Nodes by position; a node that became another kind left an unused position behind.
    pub nodes: Vec<NodeId>,
    /// True if node numbers increase by one from position to position. Only a node that changed its kind breaks this
    /// order.
    is_linear: bool,
    /// Free cores, by unit. In it, only nodes on which a job can start at once are usable.
    pub levels: Vec<Levels>,
    /// Other free resources, of all nodes.
    pub(super) stock: Stock,
    /// Free nodes that sleep and could be woken for a job.
    pub asleep: Bits,
    /// Nodes that are falling asleep or waking: jobs can start on them soon.
    pub switching: Bits,
    /// Nodes that take no new jobs: drained, away, or suspect.
    pub closed: Bits,
    /// Wake time of its nodes, if all of them have the same.
    wake: Option<Span>,
    /// Increases whenever resources of the class are taken or returned.
    pub version: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    class: u32,
    position: u32,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Classes {
    all: Vec<Class>,
    places: Vec<Place>,
    /// True if owners suspend jobs on the nodes of a class, or did.
    may_suspend: bool,
    /// Memory taken, by node.
    pub(super) memory: Vec<Memory>,
}

impl Class {
    fn holds(&self, node: &Node) -> bool {
        let metered = node.spec.meter != Meter::None;
        self.units == node.spec.units
            && self.memory == node.spec.memory
            && self.closed_to == node.closed_to
            && self.evicts == node.owner.evicts()
            && self.metered == metered
    }

    fn lists_jobs(&self) -> bool {
        self.metered || self.evicts
    }

    /// Returns true if its nodes run jobs of the queue of `request`.
    pub fn is_open_to(&self, request: &Request) -> bool {
        is_open(request, &self.closed_to, self.evicts) && has_hardware(request, &self.units)
    }

    /// Returns the runs of node numbers for a run of positions.
    pub fn node_runs(&self, positions: Range<u32>, mut each: impl FnMut(NodeId, u32)) {
        let nodes = &self.nodes[positions.start as usize..positions.end as usize];
        let Some(first) = nodes.first() else { return };
        if self.is_linear {
            return each(*first, nodes.len() as u32);
        }
        for run in nodes.chunk_by(|before, after| before.0 + 1 == after.0) {
            each(run[0], run.len() as u32);
        }
    }
}

impl Classes {
    pub fn all(&self) -> &[Class] {
        &self.all
    }

    /// Returns true if owners may suspend jobs on a node.
    pub fn may_suspend(&self) -> bool {
        self.may_suspend
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn class(&self, class: usize) -> &Class {
        &self.all[class]
    }

    /// Class and position of a node.
    pub fn place_of(&self, node: NodeId) -> Option<(usize, u32)> {
        self.places.get(node.0 as usize).map(|place| (place.class as usize, place.position))
    }

    /// Returns true if a node has a list of its jobs: its readings or its owner change them.
    pub fn lists_jobs(&self, node: NodeId) -> bool {
        self.place_of(node).is_some_and(|(class, _)| self.all[class].lists_jobs())
    }

    /// Calls back with the nodes of a part that have a list of their jobs. A part may have nodes of several classes,
    /// because groups can give owners to some of them while the job runs.
    pub fn listed_nodes(&self, part: &Part, mut each: impl FnMut(&[NodeId])) {
        self.runs(part, |class, run| {
            let class = &self.all[class];
            if class.lists_jobs() {
                each(&class.nodes[run.start as usize..run.end as usize]);
            }
        });
    }

    /// Puts a node into its class. The node is new, or has no jobs and became another kind. Returns true if it had
    /// another place.
    pub fn place(&mut self, node: &Node, now: Time) -> bool {
        let old = self.places.get(node.id.0 as usize).copied();
        if let Some(old) = old {
            let class = &mut self.all[old.class as usize];
            if class.holds(node) {
                self.refresh(node, now);
                return false;
            }
            for levels in &mut class.levels {
                levels.set_usable(old.position, false);
            }
            class.asleep.remove(old.position);
            class.switching.remove(old.position);
            class.closed.remove(old.position);
            class.version += 1;
        }
        let index = self.all.iter().position(|class| class.holds(node)).unwrap_or_else(|| {
            self.may_suspend |= node.owner.evicts();
            self.all.push(Class {
                units: node.spec.units.clone(),
                memory: node.spec.memory,
                closed_to: node.closed_to.clone(),
                evicts: node.owner.evicts(),
                metered: node.spec.meter != Meter::None,
                nodes: Vec::new(),
                is_linear: true,
                levels: node.spec.units.iter().map(|unit| Levels::new(unit.cores)).collect(),
                stock: Stock::new(&node.spec.units, node.spec.memory),
                asleep: Bits::new(0),
                switching: Bits::new(0),
                closed: Bits::new(0),
                wake: Some(wake(node)),
                version: 0,
            });
            self.all.len() - 1
        });
        let class = &mut self.all[index];
        let position = class.nodes.len() as u32;
        class.is_linear &= class.nodes.last().is_none_or(|last| last.0 + 1 == node.id.0);
        class.nodes.push(node.id);
        for (levels, unit) in class.levels.iter_mut().zip(&node.spec.units) {
            levels.push(unit.cores, node.is_usable(now));
        }
        class.stock.push();
        class.asleep.grow(position + 1);
        class.switching.grow(position + 1);
        class.closed.grow(position + 1);
        let place = Place { class: index as u32, position };
        match self.places.get_mut(node.id.0 as usize) {
            Some(old) => *old = place,
            None => {
                self.places.push(place);
                self.memory.push(Memory::ZERO);
            }
        }
        self.refresh(node, now);
        old.is_some()
    }

    /// Updates a node after a change of its ability to take jobs.
    pub fn refresh(&mut self, node: &Node, now: Time) {
        let Some((class, position)) = self.place_of(node.id) else { return };
        let class = &mut self.all[class];
        class.wake = class.wake.filter(|known| *known == wake(node));
        let usable = node.is_usable(now);
        for levels in &mut class.levels {
            levels.set_usable(position, usable);
        }
        let is_available = node.is_available(now);
        let mut put = |into: fn(&mut Class) -> &mut Bits, is_in| match is_in {
            true => into(class).insert(position),
            false => into(class).remove(position),
        };
        put(|class| &mut class.closed, !is_available);
        put(|class| &mut class.asleep, is_available && node.sleep == Sleep::Asleep);
        put(|class| &mut class.switching, is_available && matches!(node.sleep, Sleep::GoingDown | Sleep::Waking));
        class.version += 1;
    }

    /// Returns true if all nodes of a class take jobs.
    pub fn is_open(&self, class: usize) -> bool {
        self.all[class].closed.count() == 0
    }

    /// Calls back with the positions of a part's nodes, run by run. Adjacent nodes of one class in order of
    /// registration are one run.
    fn each_run(&mut self, part: &Part, mut each: impl FnMut(&mut Class, Range<u32>)) {
        if let Some((class, run)) = self.run_of(part) {
            return each(&mut self.all[class], run);
        }
        for node in part.nodes() {
            if let Some((class, position)) = self.place_of(node) {
                each(&mut self.all[class], position..position + 1);
            }
        }
    }

    /// Returns the class and positions of a part whose nodes are adjacent in one class.
    pub fn run_of(&self, part: &Part) -> Option<(usize, Range<u32>)> {
        let (first, last) = (self.place_of(part.unit.node)?, self.place_of(last_node(part))?);
        let is_run = first.0 == last.0 && last.1.wrapping_sub(first.1) == part.count - 1;
        is_run.then_some((first.0, first.1..last.1 + 1))
    }

    /// Calls back with the class and positions of a part's nodes, run by run.
    pub fn runs(&self, part: &Part, mut each: impl FnMut(usize, Range<u32>)) {
        match self.run_of(part) {
            Some((class, run)) => each(class, run),
            None => part.nodes().filter_map(|node| self.place_of(node)).for_each(|(class, at)| each(class, at..at + 1)),
        }
    }

    /// Returns the wake time of the sleeping nodes of a part, if all of them have the same.
    pub fn waking(&self, part: &Part) -> Option<Span> {
        let (class, run) = self.run_of(part)?;
        if self.all[class].asleep.intersects_range(run) { self.all[class].wake } else { Some(Span::ZERO) }
    }

    pub fn take(&mut self, part: &Part) {
        self.each_run(part, |class, run| {
            class.version += 1;
            // A sleeping node is woken for the job, and reserved for it from now on.
            class.asleep.remove_range(run.clone());
            class.stock.take(part.unit.unit, run.clone());
            if let Some(levels) = class.levels.get_mut(usize::from(part.unit.unit)) {
                levels.take(run, part.cores);
            }
        });
        self.change_memory(part, Memory::saturating_add);
    }

    pub fn give(&mut self, part: &Part) {
        self.each_run(part, |class, run| {
            class.version += 1;
            class.stock.give(part.unit.unit, run.clone());
            if let Some(levels) = class.levels.get_mut(usize::from(part.unit.unit)) {
                levels.give(run, part.cores);
            }
        });
        self.change_memory(part, Memory::saturating_sub);
    }

    /// Takes or returns memory of a job's nodes.
    pub fn change_memory(&mut self, part: &Part, change: impl Fn(Memory, Memory) -> Memory) {
        if part.memory == Memory::ZERO {
            return;
        }
        for node in part.nodes() {
            let Some((class, position)) = self.place_of(node) else { continue };
            let used = &mut self.memory[node.0 as usize];
            *used = change(*used, part.memory);
            self.all[class].stock.put_memory(position, *used);
            self.all[class].version += 1;
        }
    }

    /// Returns the memory of a node that jobs have.
    pub fn memory_used(&self, node: NodeId) -> Memory {
        self.memory.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// Returns the positions of nodes that are awake and have the free resources that a job requests.
    pub fn members(&self, way: &Way, ask: &NodeDemand) -> Bits {
        let class = &self.all[way.class];
        let mut scratch = Bits::new(class.nodes.len() as u32);
        let Some(levels) = class.levels.get(usize::from(way.unit)) else { return scratch };
        let mut found = match ask.accelerators {
            0 => levels.members(way.cores, &mut scratch).clone(),
            count => {
                let mut found = levels.usable().clone();
                found.intersect_with(class.stock.with_accelerators(way.unit, count, &mut scratch));
                if let Some((host, levels)) =
                    way.host.and_then(|host| Some((host, class.levels.get(usize::from(host.unit))?)))
                {
                    found.intersect_with(levels.members(host.cores, &mut scratch));
                }
                found
            }
        };
        if ask.exclusive {
            for (levels, unit) in class.levels.iter().zip(&class.units) {
                found.intersect_with(levels.members(unit.cores, &mut scratch));
            }
        }
        if ask.memory > Memory::ZERO {
            class.stock.keep_with_memory(&mut found, ask.memory, |position| {
                class.memory.saturating_sub(self.memory_used(class.nodes[position as usize]))
            });
        }
        found
    }

    /// Takes all units of nodes without jobs.
    pub fn take_whole(&mut self, first: NodeId, count: u32) {
        self.each_unit((first, count), |class, run| {
            class.asleep.remove_range(run.clone());
            class.stock.take_whole(run.clone());
            for (levels, unit) in class.levels.iter_mut().zip(&class.units) {
                levels.take(run.clone(), unit.cores);
            }
        });
    }

    /// Returns all units of nodes to the free ones.
    pub fn give_whole(&mut self, first: NodeId, count: u32) {
        self.each_unit((first, count), |class, run| {
            class.stock.give_whole(run.clone());
            for (levels, unit) in class.levels.iter_mut().zip(&class.units) {
                levels.give(run.clone(), unit.cores);
            }
        });
    }

    fn each_unit(&mut self, (first, count): (NodeId, u32), mut each: impl FnMut(&mut Class, Range<u32>)) {
        for node in (first.0..first.0.saturating_add(count)).map(NodeId) {
            if let Some((class, position)) = self.place_of(node) {
                let class = &mut self.all[class];
                class.version += 1;
                each(class, position..position + 1);
            }
        }
    }

    /// Returns true if no job has cores of a node.
    pub fn is_free(&self, node: NodeId) -> bool {
        self.place_of(node).is_some_and(|(class, position)| {
            let class = &self.all[class];
            class.levels.iter().zip(&class.units).all(|(levels, unit)| levels.free(position) == unit.cores)
        })
    }

    /// Returns the cores of a unit that jobs have.
    pub fn used(&self, unit: UnitId) -> u32 {
        let Some((class, position)) = self.place_of(unit.node) else { return 0 };
        let class = &self.all[class];
        let of = usize::from(unit.unit);
        let free = class.levels.get(of).map(|levels| levels.free(position));
        free.and_then(|free| class.units.get(of).map(|unit| unit.cores.saturating_sub(free))).unwrap_or(0)
    }
}

fn wake(node: &Node) -> Span {
    node.spec.rest().map_or(Span::ZERO, |rest| rest.up.span)
}

fn last_node(part: &Part) -> NodeId {
    NodeId(part.unit.node.0.saturating_add(part.count.saturating_sub(1)))
}
