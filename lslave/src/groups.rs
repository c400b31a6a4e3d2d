//! The control groups of this node's jobs: their place, their limits, and those that an earlier daemon left.

mod binding;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use limo_containment::{
    ContainError, Controller, Cores, Group, Limits, Mounts, Place, Strength, Subtree, Usage, is_held,
};
use limo_model::{Containment, CpuBind, Memory, NodeSpec, Part, Span, UnitKind};
use limo_proto::{DoExec, LiveUsage};
use limo_shepherd::{Claim, Handle};
use tracing::{debug, info, warn};

use crate::config::{CgroupChoice, ContainmentSettings};
use crate::launch::cpu_bind;
use binding::Binding;
pub use binding::SYSTEM;

/// The delegated group of `limo-jobs.service`.
const UNIT: &str = "/system.slice/limo-jobs.service";

/// The group that root makes without that service.
const OWN: &str = "/limo";

/// Longest time for killing all processes that are left in groups of an earlier daemon.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// The groups of this node; none if containment is weak.
pub struct Groups {
    settings: ContainmentSettings,
    /// Name of the directory above the groups, unique on this machine.
    instance: String,
    subtree: Option<Subtree>,
    /// `None` if the machine has fewer cores than the node.
    binding: Option<Binding>,
    /// True if each job with cores is bound to its own; else only those which ask for it.
    binds_all: bool,
    /// CPUs of this machine.
    cpus: u32,
    /// Attempts of an earlier daemon whose cores are not known yet.
    found: BTreeSet<Handle>,
}

/// The hold on the processes of a launch.
pub struct Confinement {
    /// `None` if containment is weak.
    pub group: Option<Group>,
    /// CPUs to which its processes are bound besides.
    pub cores: Vec<u32>,
}

impl Groups {
    /// Prepares the place of the groups. `is_machine` is true if the node has the cores of this machine, as found.
    ///
    /// # Errors
    /// If a group is configured and cannot be used, or jobs are to be bound to cores and cannot be.
    pub fn open(
        settings: ContainmentSettings,
        instance: &str,
        spec: &NodeSpec,
        is_machine: bool,
    ) -> anyhow::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().try_into().unwrap_or(u32::MAX));
        let instance = instance.to_owned();
        let mut groups =
            Self { settings, instance, subtree: None, binding: None, binds_all: false, cpus, found: BTreeSet::new() };
        groups.subtree = groups.find()?;
        let units = spec.units.iter().filter(|unit| unit.kind == UnitKind::Cpu);
        let cores = units.fold(0_u32, |sum, unit| sum.saturating_add(unit.cores));
        let binding = Binding::new(groups.subtree.as_ref(), cores);
        // Nothing else keeps a job to its number of cores.
        groups.binds_all = groups.settings.bind_cores.unwrap_or(is_machine && !groups.containment().cpu);
        groups.binding = match groups.settings.bind_cores {
            Some(true) => Some(binding.context("`bind_cores` of [containment] is not possible")?),
            _ => binding.inspect_err(|error| debug!("jobs are not bound to cores: {error:#}")).ok(),
        };
        info!("{}", groups.containment());
        if let Some(error) = groups.subtree.as_ref().and_then(Subtree::refusal) {
            warn!(%error, "jobs do not have all limits of control groups");
        }
        Ok(groups)
    }

    fn find(&self) -> anyhow::Result<Option<Subtree>> {
        let mounts = Mounts::find()?;
        let controllers =
            if self.settings.bind_cores == Some(true) { &Controller::ALL[..] } else { &Controller::UNBOUND };
        let open = |place| Subtree::open(&mounts, place, &self.instance, controllers);
        match &self.settings.cgroup {
            CgroupChoice::Off => Ok(None),
            CgroupChoice::At(place) => {
                let opened = open(Place::Delegated(place));
                opened.map(Some).with_context(|| format!("cannot use the control group `{place}` of [containment]"))
            }
            CgroupChoice::Auto => {
                let place = match is_held(&mounts, UNIT) {
                    true => Place::Delegated(UNIT),
                    false if nix::unistd::geteuid().is_root() => Place::Own(OWN),
                    false => return Ok(None),
                };
                Ok(open(place).inspect_err(|error| warn!(%error, "jobs have no control groups")).ok())
            }
        }
    }

    /// Returns the hold on the processes of jobs.
    pub fn containment(&self) -> Containment {
        self.subtree.as_ref().map(Subtree::strength).map_or(Containment::default(), |strength| {
            let Strength { memory, cpu, processes } = strength;
            Containment { groups: true, memory, cpu, processes }
        })
    }

    /// Makes the group of a launch, and chooses its cores. Cores of other launches are `in_use` if no shepherd has
    /// answered them, or one holds them.
    ///
    /// # Errors
    /// If the group cannot be made.
    pub fn make(
        &mut self,
        exec: &DoExec,
        handle: Handle,
        spec: &NodeSpec,
        in_use: impl Fn(Handle) -> bool,
    ) -> Result<Confinement, ContainError> {
        let most = self.settings.max_processes;
        let (cores, memory) = asked(exec, spec);
        let mut limits = Limits { memory: Some(memory).filter(|memory| *memory > 0), ..Limits::default() };
        limits.processes = Some(most.into());
        let of = exec.step.map(|of| Claim { job: of.job.0, attempt: of.attempt.0 });
        let of_job = of.and_then(|of| self.of(of));
        let bound = self.choose(exec, (cores, of), in_use)?;
        let by_groups = self.binds_all && self.binding.as_ref().is_some_and(|binding| binding.by_groups);
        match &of_job {
            // The group of a step has the cores of its job, within its number of them.
            Some(of_job) if by_groups => {
                limits.cores = of_job.cores()?;
                limits.cpus = Some(cores).filter(|cores| *cores > 0);
            }
            _ if by_groups && bound.is_some() => limits.cores.clone_from(&bound),
            // A job that may use all CPUs of the machine needs no limit of them.
            _ => limits.cpus = Some(cores).filter(|cores| *cores > 0 && *cores < self.cpus),
        }
        let group = self.make_limited(exec, &limits)?;
        let affinity = bound.as_ref().filter(|_| limits.cores.as_ref() != bound.as_ref());
        let cores = affinity.iter().flat_map(|cores| cores.numbers()).collect();
        if let Some((binding, bound)) = self.binding.as_mut().zip(bound) {
            let claim = Claim { job: exec.job.0, attempt: exec.attempt.0 };
            binding.keep(handle, (claim, of), bound, group.clone());
        }
        Ok(Confinement { group, cores })
    }

    /// Chooses `count` cores for a launch, which may be a step of the attempt `of`. Returns `None` if it is not bound.
    fn choose(
        &mut self,
        exec: &DoExec,
        (count, of): (u32, Option<Claim>),
        in_use: impl Fn(Handle) -> bool,
    ) -> Result<Option<Cores>, ContainError> {
        let is_bound = self.binds_all || cpu_bind(&exec.launch) != CpuBind::None;
        let Some(binding) = self.binding.as_mut().filter(|_| is_bound && count > 0) else { return Ok(None) };
        match binding.choose(count as usize, of, in_use) {
            Ok(cores) => Ok(Some(cores)),
            // Steps may overlap.
            Err(_) if of.is_some() => Ok(of.and_then(|job| binding.of(job)).cloned()),
            Err(error) if binding.by_groups && self.binds_all => Err(error),
            Err(error) => {
                warn!(job = %exec.job, %error, "the job is not bound to cores");
                Ok(None)
            }
        }
    }

    /// Notes the cores of a job that an earlier daemon has launched, by its group.
    pub fn keep(&mut self, handle: Handle, claim: Claim) {
        self.found.insert(handle);
        let Some((group, binding)) = self.of(claim).zip(self.binding.as_mut()) else { return };
        match group.cores() {
            Ok(Some(cores)) => binding.keep(handle, (claim, None), cores, Some(group)),
            Ok(None) => {}
            Err(error) => warn!(%claim, %error, "other jobs may get cores of this one"),
        }
    }

    /// Notes the cores of a job that an earlier daemon has launched, by those of its process, unless its group has told.
    pub fn keep_running(&mut self, handle: Handle, claim: Claim, leader: i32) {
        if !self.found.remove(&handle) {
            return;
        }
        let group = self.of(claim);
        let Some(binding) = self.binding.as_mut().filter(|binding| !binding.has(handle)) else { return };
        match Cores::of_process(leader) {
            Ok(cores) if binding.is_all(&cores) || cores.count() == 0 => {}
            Ok(cores) => binding.keep(handle, (claim, None), cores, group),
            Err(error) => warn!(%claim, %error, "other jobs may get cores of this one"),
        }
    }

    fn make_limited(&mut self, exec: &DoExec, limits: &Limits) -> Result<Option<Group>, ContainError> {
        let Some(subtree) = &self.subtree else { return Ok(None) };
        let name = Claim { job: exec.job.0, attempt: exec.attempt.0 }.to_string();
        let make = |subtree: &Subtree| match exec.step {
            None => subtree.make_job(&name, limits),
            Some(of) => subtree.make_step(&Claim { job: of.job.0, attempt: of.attempt.0 }.to_string(), &name, limits),
        };
        let made = make(subtree);
        if made.is_err()
            && subtree.is_gone()
            && let Ok(Some(again)) = self.find()
        {
            // The service of the groups was started again.
            return make(self.subtree.insert(again)).map(Some);
        }
        made.map(Some)
    }

    /// Returns the existing group of an attempt.
    pub fn of(&self, claim: Claim) -> Option<Group> {
        self.subtree.as_ref()?.find(&claim.to_string())
    }

    /// Kills and removes the groups of attempts that no shepherd holds.
    pub fn clear(&self, is_held: impl Fn(Claim) -> bool) {
        let Some(subtree) = &self.subtree else { return };
        let names = subtree.names().unwrap_or_else(|error| {
            warn!(%error, "control groups of earlier jobs are not found");
            Default::default()
        });
        let end = Instant::now() + LEFTOVERS;
        for claim in names.iter().filter_map(|name| name.parse().ok()).filter(|claim| !is_held(*claim)) {
            if let Some(group) = self.of(claim) {
                remove(&group, claim, end.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// Removes the place of the groups, unless there are some.
    pub fn leave(&self) {
        self.subtree.iter().for_each(Subtree::leave);
    }
}

/// Kills the processes in a group, for up to `patience`, and removes it. Returns the number of remaining processes.
pub fn remove(group: &Group, claim: Claim, patience: Duration) -> usize {
    match group.kill(patience).and_then(|left| if left > 0 { Ok(left) } else { group.close().map(|()| 0) }) {
        Ok(left) => left,
        Err(error) => {
            warn!(%claim, %error, "the control group of the attempt stays");
            0
        }
    }
}

/// Reads the resources that the processes in a group have used so far; those of a job include its steps.
pub fn used(group: &Group, claim: Claim) -> Option<LiveUsage> {
    let read = || {
        let usage = group.usage_with_steps()?;
        let (memory, peak) = (group.present_memory()?.unwrap_or(0), group.peak_memory()?.unwrap_or(0));
        Ok::<_, ContainError>((usage, Memory::from_bytes(memory), Memory::from_bytes(peak)))
    };
    let (usage, memory, peak) = read().inspect_err(|error| warn!(%claim, %error, "the usage cannot be read")).ok()?;
    let ms = |ms: u64| Span::from_ms(i64::try_from(ms).unwrap_or(i64::MAX));
    let Usage { user_cpu, system_cpu } = usage?;
    Some(LiveUsage { user_cpu: ms(user_cpu), system_cpu: ms(system_cpu), memory, peak })
}

/// Returns the cores and the bytes of memory in the request.
pub fn asked(exec: &DoExec, spec: &NodeSpec) -> (u32, u64) {
    let is_cpu = |part: &&Part| {
        let unit = spec.units.get(usize::from(part.unit.unit));
        unit.is_some_and(|unit| unit.kind == UnitKind::Cpu)
    };
    let cores = exec.placement.iter().filter(is_cpu).fold(0_u32, |sum, part| sum.saturating_add(part.cores));
    let memory = exec.placement.iter().fold(0_u64, |sum, part| sum.saturating_add(part.memory.bytes()));
    (cores, memory)
}
