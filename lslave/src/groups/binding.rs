//! The cores to which jobs are bound, each to its own.

use std::collections::BTreeMap;

use anyhow::bail;
use limo_containment::{ContainError, Cores, Group, Subtree};
use limo_shepherd::Handle;

/// The bound jobs of a node.
pub struct Binding {
    /// Cores of all jobs.
    all: Cores,
    bound: BTreeMap<Handle, (Cores, Group)>,
}

impl Binding {
    /// Makes the binding for a node with so many cores for jobs.
    ///
    /// # Errors
    /// If groups cannot be bound, or the machine has fewer cores.
    pub fn new(subtree: Option<&Subtree>, needed: u32) -> anyhow::Result<Self> {
        let cores = subtree.map(Subtree::cores).transpose()?.flatten();
        let Some(all) = cores else { return Err(ContainError::NoBinding.into()) };
        if all.count() < needed as usize {
            bail!("the node has {needed} cores, and its control group has {}: {all}", all.count());
        }
        Ok(Self { all, bound: BTreeMap::new() })
    }

    /// Chooses cores for a job. Those of a job are free when its group has no process, except while it is launched.
    ///
    /// # Errors
    /// If too few are free.
    pub fn choose(&mut self, count: usize, is_launching: impl Fn(Handle) -> bool) -> Result<Cores, ContainError> {
        // A group that cannot be read may have processes.
        self.bound.retain(|handle, (_, group)| is_launching(*handle) || !group.is_empty().unwrap_or(false));
        let mut used = Cores::default();
        self.bound.values().for_each(|(cores, _)| used.add(cores));
        self.all.first_free(count, &used)
    }

    /// Notes the cores of the group of a job.
    pub fn keep(&mut self, handle: Handle, cores: Cores, group: Group) {
        self.bound.insert(handle, (cores, group));
    }
}
