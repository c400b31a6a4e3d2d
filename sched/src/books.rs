//! Books of the checker: taken resources and draw, counted apart from the index and by simpler means.
//!
//! Events and plans update the books like the index, but the two share no code. A debug build compares the books with
//! a recount before each plan of a small cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use limo_model::{JobId, Memory, NodeId, Part, Power, Request, Time, UnitId, UnitSpec};

use crate::state::{Assignment, Job, Node, Sleep, State};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// Kind of each node.
    kinds: Vec<u32>,
    /// All kinds.
    units: Vec<Kind>,
    /// First index of each node's units in `taken`; empty while all nodes have the same number.
    first: Option<Vec<u32>>,
    /// Cores taken by jobs, by unit.
    taken: Vec<u32>,
    /// Memory taken by jobs, for nodes with such jobs.
    memory: BTreeMap<NodeId, Memory>,
    reach: Vec<Reach>,
    /// Number of nodes on which no job can start at once.
    out_of_reach: u32,
    /// Nodes with a capped unit.
    pub capped: BTreeSet<NodeId>,
    /// Idle draw of all nodes.
    pub idle: Power,
    /// Sum of the estimates of all active jobs except those that persons or owners suspended, and of the held draw of lost nodes.
    pub active: Power,
    /// Licences of active jobs, by name.
    pub licences: BTreeMap<String, u64>,
    /// Active jobs that have an account or a QOS, and their cores.
    pub owned: BTreeMap<Ownership, OwnedSums>,
    /// True if the draw of a group of nodes is limited.
    pub limits_groups: bool,
    /// Latest ends and expected draws of running jobs, for policies that plan with them.
    pub sure: Option<BTreeMap<(Time, JobId), Power>>,
}

/// The account, the QOS and the user of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ownership {
    pub account: Option<String>,
    pub qos: Option<String>,
    pub user: String,
}

/// Sums of the active jobs that have the same owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnedSums {
    pub jobs: u64,
    pub cores: u64,
}

impl Ownership {
    /// Returns `None` for a job without an account and a QOS.
    pub fn of(request: &Request) -> Option<Self> {
        let (account, qos) = (request.account.clone(), request.qos.clone());
        (account.is_some() || qos.is_some()).then(|| Self { account, qos, user: request.user.clone() })
    }
}

/// Returns the cores of a placement on all of its nodes.
pub(crate) fn cores_of(placement: &[Part]) -> u64 {
    placement.iter().map(|part| u64::from(part.cores) * u64::from(part.count)).sum()
}

/// Common properties of equal nodes: resources, and the jobs that may have them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    units: Vec<UnitSpec>,
    memory: Memory,
    closed_to: Vec<String>,
    evicts: bool,
}

/// Returns true if a job can be put on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    Away,
    AtOnce,
    /// The node can be woken for a job and has none.
    Asleep,
}

impl Books {
    /// Counts the books from the record alone.
    pub fn of(state: &State, now: Time) -> Self {
        let mut books = Self { limits_groups: state.settings.groups.are_limited(), ..Self::default() };
        for node in &state.nodes {
            books.enter(node, now);
            books.active += node.held_draw();
        }
        let active = || state.active.iter().filter_map(|id| state.jobs.get(id));
        active().filter_map(|job| job.assignment()).for_each(|assignment| books.take(assignment));
        let paused = active().filter(|job| job.is_paused()).filter_map(|job| job.assignment());
        books.active -= paused.map(|assignment| assignment.estimate.power).sum::<Power>();
        active().for_each(|job| books.take_licences(&job.request));
        for job in active() {
            if let Some(assignment) = job.assignment() {
                books.take_owned(&job.request, &assignment.placement);
            }
        }
        books.count_ends(state);
        books
    }

    /// Adds a new node, which has the next number.
    pub fn enter(&mut self, node: &Node, now: Time) {
        let spec = &node.spec;
        let own = Kind {
            units: spec.units.clone(),
            memory: spec.memory,
            closed_to: node.closed_to.clone(),
            evicts: node.owner.evicts(),
        };
        let kind = self.units.iter().position(|kind| *kind == own).unwrap_or_else(|| {
            self.units.push(own);
            self.units.len() - 1
        });
        let others = self.units.first().map_or(0, |kind| kind.units.len());
        if self.first.is_none() && others != spec.units.len() {
            self.first = Some((0..self.kinds.len()).map(|node| (node * others) as u32).collect());
        }
        if let Some(first) = &mut self.first {
            first.push(self.taken.len() as u32);
        }
        self.taken.resize(self.taken.len() + spec.units.len(), 0);
        self.kinds.push(kind as u32);
        self.reach.push(Reach::Away);
        self.out_of_reach += 1;
        self.idle += spec.idle;
        self.look_at(node, now);
    }

    /// Updates a node after a change other than one of its jobs.
    pub fn look_at(&mut self, node: &Node, now: Time) {
        let Some(reach) = self.reach.get_mut(node.id.0 as usize) else { return };
        self.out_of_reach -= u32::from(*reach != Reach::AtOnce);
        *reach = match node.sleep {
            _ if !node.is_available(now) => Reach::Away,
            Sleep::Awake => Reach::AtOnce,
            Sleep::Asleep => Reach::Asleep,
            Sleep::GoingDown | Sleep::Waking => Reach::Away,
        };
        self.out_of_reach += u32::from(*reach != Reach::AtOnce);
        match node.caps.limits.iter().any(Option::is_some) {
            true => self.capped.insert(node.id),
            false => self.capped.remove(&node.id),
        };
    }

    /// Takes the resources of an assignment for a job.
    pub fn take(&mut self, assignment: &Assignment) {
        self.active += assignment.estimate.power;
        self.change(assignment, u32::saturating_add, Memory::saturating_add);
    }

    /// Returns the resources of an assignment.
    pub fn give(&mut self, assignment: &Assignment) {
        self.active -= assignment.estimate.power;
        self.change(assignment, u32::saturating_sub, Memory::saturating_sub);
    }

    /// Takes the licences of a job that becomes active.
    pub fn take_licences(&mut self, request: &Request) {
        for own in &request.licences {
            *self.licences.entry(own.name.clone()).or_default() += u64::from(own.count.get());
        }
    }

    /// Returns the licences of a job that is no longer active.
    pub fn give_licences(&mut self, request: &Request) {
        for own in &request.licences {
            let held = self.licences.entry(own.name.clone()).or_default();
            *held = held.saturating_sub(own.count.get().into());
            if *held == 0 {
                self.licences.remove(&own.name);
            }
        }
    }

    /// Adds the cores of a job that becomes active, to those of its account and its QOS.
    pub fn take_owned(&mut self, request: &Request, placement: &[Part]) {
        if let Some(owner) = Ownership::of(request) {
            let sums = self.owned.entry(owner).or_default();
            (sums.jobs, sums.cores) = (sums.jobs + 1, sums.cores + cores_of(placement));
        }
    }

    /// Subtracts the cores of a job that stops being active.
    pub fn give_owned(&mut self, request: &Request, placement: &[Part]) {
        let Some(owner) = Ownership::of(request) else { return };
        let Some(sums) = self.owned.get_mut(&owner) else { return };
        (sums.jobs, sums.cores) = (sums.jobs.saturating_sub(1), sums.cores.saturating_sub(cores_of(placement)));
        if sums.jobs == 0 {
            self.owned.remove(&owner);
        }
    }

    fn change(&mut self, of: &Assignment, cores: fn(u32, u32) -> u32, memory: fn(Memory, Memory) -> Memory) {
        for part in &of.placement {
            if part.memory > Memory::ZERO {
                for node in part.nodes() {
                    let used = memory(self.memory_used(node), part.memory);
                    match used > Memory::ZERO {
                        true => self.memory.insert(node, used),
                        false => self.memory.remove(&node),
                    };
                }
            }
            let (unit, nodes) = (usize::from(part.unit.unit), self.nodes(part));
            match self.stride() {
                _ if of.alone => {}
                // Equal units in a row: the compiler vectorizes the loop.
                Some(1) if unit == 0 => {
                    self.taken[nodes].iter_mut().for_each(|taken| *taken = cores(*taken, part.cores));
                }
                _ => nodes.for_each(|node| {
                    let units = self.units(node);
                    if let Some(taken) = self.taken[units].get_mut(unit) {
                        *taken = cores(*taken, part.cores);
                    }
                }),
            }
        }
        if of.alone {
            // Takes all cores of all units, once for each node.
            for node in
                limo_model::nodes(&of.placement).map(|node| node.0 as usize).filter(|node| *node < self.kinds.len())
            {
                let (all, units) = (&self.units[self.kinds[node] as usize].units, self.units(node));
                self.taken[units].iter_mut().zip(all).for_each(|(taken, unit)| *taken = cores(*taken, unit.cores));
            }
        }
    }

    /// Starts or stops recording the ends of jobs, which depends on the policy.
    pub fn count_ends(&mut self, state: &State) {
        self.sure = state.settings.parts().keeps_budget().then(BTreeMap::new);
        if self.sure.is_some() {
            let active = state.active.iter().filter_map(|id| Some((id, state.jobs.get(id)?)));
            active.for_each(|(id, job)| self.note_end(id, job));
        }
    }

    /// Notes the time at which a job is ended if it does not end by itself.
    pub fn note_end(&mut self, id: JobId, job: &Job) {
        if let (Some(sure), Some((end, power))) = (&mut self.sure, sure_end(job)) {
            sure.insert((end, id), power);
        }
    }

    /// Removes the noted end of a job that is over, or ends at another time.
    pub fn forget_end(&mut self, id: JobId, job: &Job) {
        if let (Some(sure), Some((end, _))) = (&mut self.sure, sure_end(job)) {
            sure.remove(&(end, id));
        }
    }

    /// Returns the nodes of a part, clamped to existing ones.
    fn nodes(&self, part: &Part) -> Range<usize> {
        let (first, all) = (part.unit.node.0 as usize, self.kinds.len());
        first.min(all)..first.saturating_add(part.count as usize).min(all)
    }

    /// Returns the number of units per node, if it is equal for all nodes.
    fn stride(&self) -> Option<usize> {
        if self.first.is_some() { None } else { self.units.first().map(|kind| kind.units.len()) }
    }

    /// Returns the units of a node; empty if the node does not exist.
    fn units(&self, node: usize) -> Range<usize> {
        if node >= self.kinds.len() {
            return 0..0;
        }
        let Some(first) = &self.first else {
            let stride = self.stride().unwrap_or(0);
            return node * stride..(node + 1) * stride;
        };
        let at = |node: usize| first.get(node).map_or(self.taken.len(), |first| *first as usize);
        at(node)..at(node + 1)
    }

    /// Returns true if the nodes of a part exist, their units and memory are equal, and they are for the same queues.
    pub fn are_alike(&self, part: &Part) -> bool {
        let nodes = self.nodes(part);
        let kinds = &self.kinds[nodes.clone()];
        nodes.len() == part.count as usize && (self.units.len() == 1 || kinds.iter().all(|kind| *kind == kinds[0]))
    }

    /// Returns true if jobs can be put on all nodes of a part, at once or after waking them.
    pub fn can_be_reached(&self, part: &Part) -> bool {
        let nodes = self.nodes(part);
        let can_be = |node: usize| match self.reach[node] {
            Reach::Away => false,
            Reach::AtOnce => true,
            Reach::Asleep => self.is_free(NodeId(node as u32)),
        };
        nodes.len() == part.count as usize && (self.out_of_reach == 0 || nodes.into_iter().all(can_be))
    }

    /// Returns true if the cores of a part are free on all of its nodes.
    pub fn has_room(&self, part: &Part) -> bool {
        let (unit, nodes) = (usize::from(part.unit.unit), self.nodes(part));
        let cores = |kind: u32| self.units[kind as usize].units.get(unit).map(|unit| unit.cores);
        if nodes.len() != part.count as usize {
            return false;
        }
        if let (Some(1), 1, 0) = (self.stride(), self.units.len(), unit) {
            let most = cores(0).and_then(|cores| cores.checked_sub(part.cores));
            return most.is_some_and(|most| self.taken[nodes].iter().all(|taken| *taken <= most));
        }
        nodes.into_iter().all(|node| {
            let taken = self.taken[self.units(node)].get(unit).copied().unwrap_or(0);
            cores(self.kinds[node]).is_some_and(|cores| taken.saturating_add(part.cores) <= cores)
        })
    }

    /// Returns true if no job is on a node.
    pub fn is_free(&self, node: NodeId) -> bool {
        self.taken[self.units(node.0 as usize)].iter().all(|taken| *taken == 0)
    }

    /// Returns the cores of a unit that jobs have.
    pub fn used(&self, unit: UnitId) -> u32 {
        let units = &self.taken[self.units(unit.node.0 as usize)];
        units.get(usize::from(unit.unit)).copied().unwrap_or(0)
    }

    /// Returns the memory of a node that jobs have.
    pub fn memory_used(&self, node: NodeId) -> Memory {
        self.memory.get(&node).copied().unwrap_or_default()
    }

    /// Returns the estimated draw: idle nodes, active jobs, and the held draw of lost nodes.
    pub fn draw(&self) -> Power {
        self.idle + self.active
    }
}

/// Returns the latest end of an active job, and its expected draw until then.
fn sure_end(job: &Job) -> Option<(Time, Power)> {
    let assignment = job.assignment()?;
    let is_sure = job.request.time_limit.is_some_and(|limit| limit <= assignment.estimate.duration);
    job.estimated_end().filter(|_| is_sure).map(|end| (end, assignment.estimate.power))
}
