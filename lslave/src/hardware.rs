//! Describes this node's hardware: the real machine as the kernel shows it, or an emulated one from a file.

use std::fs;
use std::sync::Arc;

use anyhow::Context;
use limo_model::{Memory, Meter, NodeSpec, Power, UnitKind, UnitSpec};
use limo_power::{Gpu, Gpus, Hardware, Machine, MeterChoice, cores, gpu_name, processor};
use tracing::warn;

use crate::config::{GpuSource, Settings};

/// Draw above idle for each core. The Xeon E3-1275 v5 of limo-2018 is rated 80 W for 8 cores, which is a plausible
/// default for a server's core.
const NAMEPLATE_PER_CORE: Power = Power::from_watts(10);

/// Draw of an accelerator that does not report its limit: the power of a slot without cables, which is also the rating
/// of the Quadro P2000 of limo-2018.
const ACCELERATOR_NAMEPLATE: Power = Power::from_watts(75);

/// Describes the node.
///
/// # Errors
/// If the hardware file cannot be used, the machine's memory cannot be read, or requested GPUs do not answer.
pub fn describe(settings: &Settings) -> anyhow::Result<(NodeSpec, Option<Machine>)> {
    let Some(path) = &settings.hardware else {
        let spec = discover(settings)?;
        spec.check()?;
        return Ok((spec, None));
    };
    let hardware = Hardware::read(path)?;
    let machine = match &settings.machine {
        Some(name) => hardware.machine(name)?,
        None => hardware.machine_for_node(&settings.name)?,
    };
    let mut machine = machine.clone();
    if let Some(cores) = settings.cpus {
        machine = machine.with_cores(cores.get());
    }
    let rest = settings.sleep.as_ref().map(|sleep| Arc::new(sleep.rest(machine.spec.idle)));
    let spec = NodeSpec { name: settings.name.clone(), rest, ..machine.spec.clone() };
    spec.check()?;
    Ok((spec, Some(machine)))
}

fn discover(settings: &Settings) -> anyhow::Result<NodeSpec> {
    let cores = settings.cpus.map_or_else(cores, |count| count.get());
    let cpu = UnitSpec {
        name: "cpu".to_owned(),
        hardware: processor(),
        kind: UnitKind::Cpu,
        cores,
        nameplate: settings.nameplate.unwrap_or(NAMEPLATE_PER_CORE.scaled(cores.into(), 1)),
        caps: None,
    };
    let mut units = vec![cpu];
    if settings.gpus != GpuSource::None {
        match Gpus::new(&settings.nvml).list() {
            // GPUs are in the driver's order.
            Ok(found) => units.extend(found.iter().map(accelerator)),
            Err(error) if settings.gpus == GpuSource::Nvml => return Err(error.into()),
            // Without the library there are no GPUs; other errors are reported.
            Err(error) if error.is_absence() => {}
            Err(error) => warn!(%error, "the node has no GPUs"),
        }
    }
    // A guess of the idle draw could be wrong by a factor of ten, and the idle draw does not depend on jobs.
    let idle = settings.idle.unwrap_or(Power::ZERO);
    Ok(NodeSpec {
        name: settings.name.clone(),
        units,
        memory: memory()?,
        idle,
        meter: settings.meter.as_ref().map_or(Meter::None, MeterChoice::kind),
        rest: settings.sleep.as_ref().map(|sleep| Arc::new(sleep.rest(idle))),
    })
}

fn accelerator(gpu: &Gpu) -> UnitSpec {
    let nameplate = gpu.default_limit.or(gpu.limits.map(|(_, high)| high));
    UnitSpec {
        name: format!("gpu{}", gpu.index),
        hardware: gpu_name(&gpu.name),
        kind: UnitKind::Accelerator,
        cores: 1,
        nameplate: nameplate.unwrap_or(ACCELERATOR_NAMEPLATE),
        caps: None,
    }
}

/// Returns the memory of this machine.
///
/// # Errors
/// If the kernel does not report it.
pub fn memory() -> anyhow::Result<Memory> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    memory_total(&text).context("/proc/meminfo has no line `MemTotal: ... kB`")
}

fn memory_total(meminfo: &str) -> Option<Memory> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Memory::from_bytes(kibibytes.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_machine() {
        assert_eq!(memory_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(Memory::from_bytes(16 << 20)));
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
    }
}
