//! The control groups of this node's jobs: their place, their limits, and those that an earlier daemon left.

mod binding;

use std::time::{Duration, Instant};

use anyhow::Context;
use limo_containment::{ContainError, Controller, Group, Limits, Mounts, Place, Strength, Subtree, Usage, is_held};
use limo_model::{Containment, Memory, NodeSpec, Part, Span, UnitKind};
use limo_proto::{DoExec, LiveUsage};
use limo_shepherd::{Claim, Handle};
use tracing::{info, warn};

use crate::config::{CgroupChoice, ContainmentSettings};
use binding::Binding;

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
    /// `None` if jobs are not bound to cores.
    binding: Option<Binding>,
    /// CPUs of this machine.
    cpus: u32,
}

impl Groups {
    /// Prepares the place of the groups.
    ///
    /// # Errors
    /// If a group is configured and cannot be used, or jobs are to be bound to cores and cannot be.
    pub fn open(settings: ContainmentSettings, instance: &str, spec: &NodeSpec) -> anyhow::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().try_into().unwrap_or(u32::MAX));
        let mut groups = Self { settings, instance: instance.to_owned(), subtree: None, binding: None, cpus };
        groups.subtree = groups.find()?;
        if groups.settings.bind_cores {
            let units = spec.units.iter().filter(|unit| unit.kind == UnitKind::Cpu);
            let cores = units.fold(0_u32, |sum, unit| sum.saturating_add(unit.cores));
            let binding = Binding::new(groups.subtree.as_ref(), cores);
            groups.binding = Some(binding.context("`bind_cores` of [containment] is not possible")?);
        }
        info!("{}", groups.containment());
        if let Some(error) = groups.subtree.as_ref().and_then(Subtree::refusal) {
            warn!(%error, "jobs do not have all limits of control groups");
        }
        Ok(groups)
    }

    fn find(&self) -> anyhow::Result<Option<Subtree>> {
        let mounts = Mounts::find()?;
        let controllers = if self.settings.bind_cores { &Controller::ALL[..] } else { &Controller::UNBOUND };
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

    /// Makes the group of a launch; `None` if containment is weak. Other launches that no shepherd has answered are
    /// `launching`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(
        &mut self,
        exec: &DoExec,
        handle: Handle,
        spec: &NodeSpec,
        is_launching: impl Fn(Handle) -> bool,
    ) -> Result<Option<Group>, ContainError> {
        let most = self.settings.max_processes;
        let (cores, memory) = asked(exec, spec);
        let mut limits = Limits { memory: Some(memory).filter(|memory| *memory > 0), ..Limits::default() };
        limits.processes = Some(most.into());
        let of_job = exec.step.and_then(|of| self.of(Claim { job: of.job.0, attempt: of.attempt.0 }));
        match (&mut self.binding, &of_job) {
            // A step shares the cores of its job with the other steps, within its number of them.
            (Some(_), Some(of_job)) => {
                limits.cores = of_job.cores()?;
                limits.cpus = Some(cores).filter(|cores| *cores > 0);
            }
            (Some(binding), None) if cores > 0 => {
                limits.cores = Some(binding.choose(cores as usize, is_launching)?);
            }
            // A job that may use all CPUs of the machine needs no limit of them.
            _ => limits.cpus = Some(cores).filter(|cores| *cores > 0 && *cores < self.cpus),
        }
        let group = self.make_limited(exec, &limits)?;
        if let (Some(binding), Some(cores), Some(group), None) = (&mut self.binding, limits.cores, &group, of_job) {
            binding.keep(handle, cores, group.clone());
        }
        Ok(group)
    }

    /// Notes the group of a job that an earlier daemon has launched.
    pub fn keep(&mut self, handle: Handle, claim: Claim) {
        let Some((group, binding)) = self.of(claim).zip(self.binding.as_mut()) else { return };
        match group.cores() {
            Ok(cores) => drop(cores.map(|cores| binding.keep(handle, cores, group))),
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
fn asked(exec: &DoExec, spec: &NodeSpec) -> (u32, u64) {
    let is_cpu = |part: &&Part| {
        let unit = spec.units.get(usize::from(part.unit.unit));
        unit.is_some_and(|unit| unit.kind == UnitKind::Cpu)
    };
    let cores = exec.placement.iter().filter(is_cpu).fold(0_u32, |sum, part| sum.saturating_add(part.cores));
    let memory = exec.placement.iter().fold(0_u64, |sum, part| sum.saturating_add(part.memory.bytes()));
    (cores, memory)
}
