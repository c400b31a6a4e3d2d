//! Waiting jobs by shape: their needs on each node. Jobs of one shape fit the same nodes, so a round needs one search
//! for all of them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use limo_model::{Chunk, Memory, Power, Request};

use super::Classes;
use crate::facts::{
    HostCores, Known, cores_on, estimate, host_cores, host_power, may_be_denied, unit_and_chunks, units_wanted,
};
use crate::structure::{Need, Waiting};

/// The resources that a job needs on each of its nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ShapeKey {
    chunk: Chunk,
    /// For a packed job the number of its chunks, which bounds those on one node.
    packed: Option<NonZeroU32>,
    include: Vec<String>,
    exclude: Vec<String>,
    hardware: Vec<String>,
    variants: Vec<String>,
    reservation: Option<String>,
    queue: Option<String>,
    may_requeue: bool,
    exclusive: bool,
    cap: Option<Power>,
}

/// The fit of a shape to a class: the unit, the number of cores that must be free, and the number that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub class: usize,
    pub unit: u16,
    pub cores: u32,
    pub takes: u32,
    /// Cores taken next to accelerators.
    pub host: Option<HostCores>,
    /// Most chunks of a packed job on an empty node; 1 for other jobs. The cores above are those of one chunk.
    pub most: u32,
}

/// The demands of a job on each node, apart from cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeDemand {
    pub memory: Memory,
    /// True if no other job may be on the node.
    pub exclusive: bool,
    /// Accelerators instead of cores; 0 if none are requested.
    pub accelerators: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Index among the shapes.
    pub number: usize,
    /// True if each node must be checked: jobs of the shape are packed, or name nodes or a reservation, or
    /// reservations exist.
    pub asks_each: bool,
    pub ask: NodeDemand,
    pub ways: Vec<Way>,
    /// Number of nodes on which a job of the shape could start now, by candidate: awake ones, and sleeping ones.
    pub free: Vec<(u32, u32)>,
    pub waiting: Waiting,
    classes: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    by_key: BTreeMap<ShapeKey, usize>,
    all: Vec<Shape>,
    /// The last requested shape, with its key: consecutive requests in traces are often equal.
    last: Option<(ShapeKey, usize)>,
    /// The versions of the classes at the last count.
    counted: Vec<u64>,
    /// True if each node must be checked for every job.
    asks_each: bool,
    /// Largest number of nodes that an inserted job requests. Packed jobs do not count.
    pub widest: u32,
}

fn is_key(key: &ShapeKey, request: &Request) -> bool {
    // Usually, all of them are empty.
    let same =
        |names: &[String], others: &[String]| names.len() == others.len() && (names.is_empty() || names == others);
    key.chunk == request.chunk()
        && key.packed == packed(request)
        && same(&key.include, &request.include)
        && same(&key.exclude, &request.exclude)
        && same(&key.hardware, &request.hardware)
        && same(&key.variants, &request.variants)
        && key.reservation == request.reservation
        && key.queue == request.queue
        && key.may_requeue == request.may_requeue
        && key.exclusive == request.exclusive
        && key.cap == request.cap
}

impl NodeDemand {
    fn of(request: &Request) -> Self {
        let accelerators = request.accelerators.map_or(0, NonZeroU32::get);
        Self { memory: request.memory, exclusive: request.exclusive, accelerators }
    }

    /// Returns true if the demand is for cores only.
    pub fn is_plain(&self) -> bool {
        self.memory == Memory::ZERO && !self.exclusive && self.accelerators == 0
    }
}

fn packed(request: &Request) -> Option<NonZeroU32> {
    request.is_packed().then_some(request.nodes)
}

fn key(request: &Request) -> ShapeKey {
    ShapeKey {
        chunk: request.chunk(),
        packed: packed(request),
        include: request.include.clone(),
        exclude: request.exclude.clone(),
        hardware: request.hardware.clone(),
        variants: request.variants.clone(),
        reservation: request.reservation.clone(),
        queue: request.queue.clone(),
        may_requeue: request.may_requeue,
        exclusive: request.exclusive,
        cap: request.cap,
    }
}

/// Returns, for each class that is open to the job, the first unit that the job may have. This checks the total memory;
/// the free memory is checked with the node.
fn ways(classes: &Classes, request: &Request) -> Vec<Way> {
    let way = |(index, class): (usize, &super::Class)| {
        let (unit, most) = unit_and_chunks(request, (&class.units, class.memory))?;
        let takes = cores_on(request, &class.units[unit]);
        let cores = if request.exclusive { class.units[unit].cores } else { takes };
        let host = host_cores(request, &class.units);
        Some(Way { class: index, unit: u16::try_from(unit).unwrap_or(u16::MAX), cores, takes, host, most })
    };
    classes.all().iter().enumerate().filter(|(_, class)| class.is_open_to(request)).filter_map(way).collect()
}

impl Shapes {
    pub fn new(asks_each: bool) -> Self {
        Self { asks_each, ..Self::default() }
    }

    pub fn all(&self) -> &[Shape] {
        &self.all
    }

    /// Returns the shape of a request, and adds it if it is new.
    pub fn of(&mut self, request: &Request) -> Option<usize> {
        if let Some((key, shape)) = &self.last
            && is_key(key, request)
        {
            return Some(*shape);
        }
        let key = key(request);
        let shape = *self.by_key.get(&key)?;
        self.last = Some((key, shape));
        Some(shape)
    }

    /// Returns the shape of a request without adding it.
    pub fn find(&self, request: &Request) -> Option<&Shape> {
        let last = self.last.as_ref().filter(|(key, _)| is_key(key, request)).map(|(_, shape)| *shape);
        last.or_else(|| self.by_key.get(&key(request)).copied()).and_then(|shape| self.all.get(shape))
    }

    /// Inserts a job that waits at this place of the queue.
    pub fn insert(&mut self, known: Known<'_>, classes: &Classes, place: u64, request: &Request) {
        let shape = self.of(request).unwrap_or_else(|| {
            let key = key(request);
            self.all.push(Shape {
                number: self.all.len(),
                asks_each: self.asks_each || may_be_denied(request) || request.is_packed(),
                ask: NodeDemand::of(request),
                ways: ways(classes, request),
                free: Vec::new(),
                waiting: Waiting::new(),
                classes: classes.len(),
            });
            self.by_key.insert(key.clone(), self.all.len() - 1);
            self.last = Some((key, self.all.len() - 1));
            self.all.len() - 1
        });
        let shape = &mut self.all[shape];
        if shape.classes != classes.len() {
            shape.ways = ways(classes, request);
            shape.classes = classes.len();
        }
        if shape.free.len() != shape.ways.len() {
            shape.free = shape.ways.iter().map(|way| free_on(classes, way, &shape.ask)).collect();
        }
        self.widest = self.widest.max(packed(request).map_or(request.nodes.get(), |_| 1));
        shape.waiting.insert(place, need(known, classes, &shape.ways, request));
    }

    /// Recounts the nodes for each shape if its classes have changed.
    pub fn count(&mut self, classes: &Classes) {
        for (index, class) in classes.all().iter().enumerate() {
            if self.counted.get(index) == Some(&class.version) {
                continue;
            }
            for shape in &mut self.all {
                for (way, free) in shape.ways.iter().zip(&mut shape.free).filter(|(way, _)| way.class == index) {
                    *free = free_on(classes, way, &shape.ask);
                }
            }
        }
        self.counted.clear();
        self.counted.extend(classes.all().iter().map(|class| class.version));
    }

    pub fn remove(&mut self, place: u64, request: &Request) {
        if let Some(shape) = self.of(request) {
            self.all[shape].waiting.remove(place);
        }
    }
}

fn free_on(classes: &Classes, way: &Way, ask: &NodeDemand) -> (u32, u32) {
    let class = classes.class(way.class);
    if !ask.is_plain() {
        return (classes.members(way, ask).count(), class.asleep.count());
    }
    let awake = class.levels.get(usize::from(way.unit)).map_or(0, |levels| levels.count_at_least(way.cores));
    (awake, class.asleep.count())
}

impl Shape {
    /// Returns the least power that a job of the shape needs on any class.
    pub fn need(&self, known: Known<'_>, classes: &Classes, request: &Request) -> Need {
        need(known, classes, &self.ways, request)
    }

    /// Returns the same shape for jobs that may only use units without jobs. No job waits in it.
    pub fn unshared(&self, classes: &Classes) -> Self {
        let whole = |way: &Way| {
            let unit = classes.class(way.class).units.get(usize::from(way.unit));
            Way { cores: unit.map_or(way.cores, |unit| unit.cores), ..*way }
        };
        let ways = self.ways.iter().map(whole).collect();
        Self { ways, free: self.free.clone(), waiting: Waiting::default(), ..*self }
    }

    /// Returns the same shape with its candidates in this order. No job waits in it.
    pub fn in_order(&self, order: impl Iterator<Item = usize>) -> Self {
        let (ways, free) = order.filter_map(|index| Some((*self.ways.get(index)?, *self.free.get(index)?))).unzip();
        Self { ways, free, waiting: Waiting::default(), ..*self }
    }

    /// Removes a candidate.
    pub fn remove_way(&mut self, index: usize) {
        self.ways.remove(index);
        self.free.remove(index);
    }

    /// Returns the number of nodes on which a job of the shape could start, if its nodes require no check.
    pub fn room(&self) -> u32 {
        self.free.iter().map(|(awake, asleep)| awake + asleep).sum()
    }
}

/// Returns the least power that the job needs on any class.
fn need(known: Known<'_>, classes: &Classes, ways: &[Way], request: &Request) -> Need {
    let units = i64::try_from(units_wanted(request)).unwrap_or(i64::MAX);
    let on_node = |way: &Way| {
        let all = &classes.class(way.class).units;
        let each = estimate(known, request, &all[usize::from(way.unit)]).power;
        each.mw().saturating_mul(units).saturating_add(host_power(known, request, all).mw())
    };
    let least = ways.iter().map(on_node).min().unwrap_or_default();
    let span = request.time_limit.unwrap_or(known.default_duration);
    let nodes = request.nodes.get();
    Need { parts: nodes, span: span.ms(), power: least.saturating_mul(i64::from(nodes)) }
}
