//! The cores to which jobs are bound, each to its own, by their control groups or else by the affinity of their processes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use limo_containment::{ContainError, Cores, Group, Subtree, Topology};
use limo_shepherd::{Claim, Handle};

/// The part of sysfs with the topology of the machine.
pub const SYSTEM: &str = "/sys/devices/system";

/// The bound jobs of a node.
pub struct Binding {
    /// Cores of all jobs.
    all: Cores,
    topology: Topology,
    /// True if control groups bind jobs, which their processes cannot change.
    pub by_groups: bool,
    bound: BTreeMap<Handle, Bound>,
}

/// A bound attempt.
struct Bound {
    claim: Claim,
    /// The attempt in whose cores it is, if it is a step.
    of: Option<Claim>,
    cores: Cores,
    group: Option<Group>,
}

impl Binding {
    /// Makes the binding for a node with `needed` cores for jobs; by control groups if that is possible.
    ///
    /// # Errors
    /// If the machine has fewer cores.
    pub fn new(subtree: Option<&Subtree>, needed: u32) -> anyhow::Result<Self> {
        let in_groups = subtree.map(Subtree::cores).transpose()?.flatten();
        let by_groups = in_groups.is_some();
        let all = in_groups.map_or_else(|| Cores::of_process(0), Ok)?;
        if all.count() < needed as usize {
            bail!("the node has {needed} cores, and its jobs may run on {}: {all}", all.count());
        }
        let topology = Topology::read(Path::new(SYSTEM), &all);
        Ok(Self { all, topology, by_groups, bound: BTreeMap::new() })
    }

    /// Chooses cores for a job, or for a step among those of its job. Those of an attempt are free when it is not `in_use`
    /// and its group has no process.
    ///
    /// # Errors
    /// If too few are free.
    pub fn choose(
        &mut self,
        count: usize,
        of: Option<Claim>,
        in_use: impl Fn(Handle) -> bool,
    ) -> Result<Cores, ContainError> {
        // A group that cannot be read may have processes.
        let has_processes = |group: &Group| !group.is_empty().unwrap_or(false);
        self.bound.retain(|handle, bound| in_use(*handle) || bound.group.as_ref().is_some_and(has_processes));
        // A job that is not bound has no cores of its own for its steps.
        let own = |of: Option<Claim>| of.and_then(|job| self.of(job));
        let within = own(of);
        let is_beside = |bound: &&Bound| within.map_or(own(bound.of).is_none(), |_| bound.of == of);
        let mut used = Cores::default();
        self.bound.values().filter(is_beside).for_each(|bound| used.add(&bound.cores));
        self.topology.choose(count, &within.unwrap_or(&self.all).without(&used))
    }

    /// Returns the cores of an attempt.
    pub fn of(&self, claim: Claim) -> Option<&Cores> {
        self.bound.values().find(|bound| bound.claim == claim).map(|bound| &bound.cores)
    }

    /// Returns true if the cores of this attempt are known.
    pub fn has(&self, handle: Handle) -> bool {
        self.bound.contains_key(&handle)
    }

    /// Returns true if these are all cores of jobs, as those of an unbound process.
    pub fn is_all(&self, cores: &Cores) -> bool {
        self.all.without(cores).count() == 0
    }

    /// Notes the cores of an attempt.
    pub fn keep(&mut self, handle: Handle, (claim, of): (Claim, Option<Claim>), cores: Cores, group: Option<Group>) {
        self.bound.insert(handle, Bound { claim, of, cores, group });
    }
}
