//! The resources of a job for its steps.

use limo_model::{Memory, Part, Placement, Request, UnitId, UnitKind};

use crate::state::{Assignment, Node, State};

/// The free resources of a job on its nodes. A step takes an equal chunk of each of its nodes.
pub(crate) struct Allotment<'a> {
    nodes: Vec<AllottedNode<'a>>,
}

struct AllottedNode<'a> {
    node: &'a Node,
    /// Cores of a CPU; on a node without any, the cores of the first accelerator.
    cores: Option<Part>,
    memory: Memory,
    /// Memory of the job there, for steps that do not ask for any.
    all_memory: Memory,
    /// All accelerators of the job; those in `taken` are taken by steps that asked for them.
    accelerators: Vec<Part>,
    taken: Vec<UnitId>,
}

impl<'a> Allotment<'a> {
    /// Returns the resources of a job on the nodes where its part has not ended.
    pub(crate) fn of(state: &'a State, assignment: &Assignment) -> Self {
        let left = assignment.left();
        let mut nodes: Vec<AllottedNode<'a>> = Vec::new();
        for id in limo_model::nodes(&assignment.placement).filter(|node| !left.contains(node)) {
            let Some(node) = state.node(id) else { continue };
            let here = assignment.placement.iter().filter(|part| part.is_on(id));
            let mut on = AllottedNode::of(node);
            here.for_each(|part| on.add(Part { unit: UnitId { node: id, ..part.unit }, count: 1, ..*part }));
            nodes.push(on);
        }
        Self { nodes }
    }

    /// Returns true if the job has this node.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.iter().any(|on| on.node.spec().name == name)
    }

    /// Returns the cores on each of the nodes that `include` names; an empty list names all.
    pub(crate) fn cores(&self, include: &[String]) -> Vec<u32> {
        let named = self.nodes.iter().filter(|on| include.is_empty() || include.contains(&on.node.spec().name));
        named.map(|on| on.cores.map_or(0, |part| part.cores)).collect()
    }

    /// Returns the number of nodes with room for a chunk of the step.
    pub(crate) fn room(&self, request: &Request) -> usize {
        self.nodes.iter().filter(|on| on.chunk(request).is_some()).count()
    }

    /// Takes the resources of a running step.
    pub(crate) fn take(&mut self, request: &Request, placement: &[Part]) {
        for on in &mut self.nodes {
            let id = on.node.id();
            for part in placement.iter().filter(|part| part.is_on(id)) {
                on.take(request, part);
            }
        }
    }

    /// Returns a place for a step, on the first nodes that have room.
    pub(crate) fn place(&self, request: &Request) -> Option<Placement> {
        let chunks = self.nodes.iter().filter_map(|on| on.chunk(request));
        let wanted = request.nodes.get() as usize;
        let chunks: Vec<Vec<Part>> = chunks.take(wanted).collect();
        (chunks.len() == wanted).then(|| chunks.concat())
    }
}

impl<'a> AllottedNode<'a> {
    fn of(node: &'a Node) -> Self {
        let (memory, all_memory) = (Memory::ZERO, Memory::ZERO);
        Self { node, cores: None, memory, all_memory, accelerators: Vec::new(), taken: Vec::new() }
    }

    fn kind(&self, unit: UnitId) -> Option<UnitKind> {
        self.node.spec().units.get(usize::from(unit.unit)).map(|unit| unit.kind)
    }

    fn add(&mut self, part: Part) {
        self.memory = Memory::from_bytes(self.memory.bytes().saturating_add(part.memory.bytes()));
        self.all_memory = self.memory;
        match self.kind(part.unit) {
            Some(UnitKind::Cpu) => match &mut self.cores {
                Some(cores) if cores.unit == part.unit => cores.cores += part.cores,
                Some(_) => {}
                None => self.cores = Some(part),
            },
            _ => self.accelerators.push(part),
        }
    }

    fn take(&mut self, request: &Request, part: &Part) {
        if self.kind(part.unit) == Some(UnitKind::Cpu) {
            if let Some(cores) = &mut self.cores {
                cores.cores = cores.cores.saturating_sub(part.cores);
            }
        } else if request.accelerators.is_some() {
            self.taken.push(UnitId { node: self.node.id(), ..part.unit });
        }
        if request.memory > Memory::ZERO {
            self.memory = Memory::from_bytes(self.memory.bytes().saturating_sub(part.memory.bytes()));
        }
    }

    /// Returns the parts of a chunk of the step, if there is room for it.
    fn chunk(&self, request: &Request) -> Option<Vec<Part>> {
        let name = &self.node.spec().name;
        if !(request.include.is_empty() || request.include.contains(name)) || request.exclude.contains(name) {
            return None;
        }
        let memory = match request.memory {
            Memory::ZERO => self.all_memory,
            asked if asked <= self.memory || self.all_memory == Memory::ZERO => asked,
            _ => return None,
        };
        let mut parts = Vec::new();
        if let Some(free) = self.cores {
            let cores = request.cores.on(free.cores);
            if cores == 0 || cores > free.cores {
                return None;
            }
            parts.push(Part { cores, ..free });
        }
        let free = self.accelerators.iter().filter(|part| !self.taken.contains(&part.unit));
        match request.accelerators {
            Some(count) => {
                let before = parts.len();
                parts.extend(free.take(count.get() as usize));
                if parts.len() - before < count.get() as usize {
                    return None;
                }
            }
            None => parts.extend(&self.accelerators),
        }
        // The memory of a chunk counts once.
        parts.iter_mut().for_each(|part| part.memory = Memory::ZERO);
        parts.first_mut()?.memory = memory;
        Some(parts)
    }
}
