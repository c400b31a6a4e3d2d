//! What of this machine can be capped: its GPUs, and each control with its range and what it holds, or why not. What is
//! asked is written with the value that it has, because only that tells whether it can be.

use limo_power::{AccessError, CapChoice, CapError, Gpu, Gpus, HwmonCap, Originals, Site};

use super::line;
use crate::config::{CapArguments, GpuSource};
use crate::hardware::{self, gpu_name};

/// The lines of the report.
pub fn report(site: Result<Site, AccessError>, arguments: &CapArguments) -> String {
    let site = &match site {
        Ok(site) => site,
        Err(error) => return line("cap", &format!("not tried: {error}")),
    };
    let mut text = control("cpu", "rapl", site);
    if hardware::processor().starts_with("amd-") || is_found("hsmp", site) {
        text += &control("cpu", "hsmp", site);
    }
    match HwmonCap::cards(&site.sysfs) {
        Ok(cards) => text.extend(cards.iter().map(|card| control("UNIT", &format!("hwmon:{card}"), site))),
        Err(error) => text += &line("cap", &format!("hwmon: no cap: {error}")),
    }
    if arguments.gpus != Some(GpuSource::None) {
        text += &gpus(site);
    }
    text
}

fn is_found(choice: &str, site: &Site) -> bool {
    choice.parse::<CapChoice>().is_ok_and(|choice| choice.cap(site).capture().is_ok())
}

fn control(unit: &str, choice: &str, site: &Site) -> String {
    let text = match choice.parse::<CapChoice>() {
        Ok(parsed) => described(&parsed, site).map_or_else(
            |error| format!("{choice}: no cap: {error}"),
            |text| format!("{choice}: {text} (use it: --cap {unit}={choice})"),
        ),
        Err(error) => error.to_string(),
    };
    line("cap", &text)
}

fn described(choice: &CapChoice, site: &Site) -> Result<String, CapError> {
    let mut cap = choice.cap(site);
    let ((low, high), held) = (cap.range()?, cap.capture()?);
    Ok(format!("{low} to {high}; now {}", shown(&held)))
}

fn shown(held: &Originals) -> String {
    held.iter().map(|(control, value)| format!("{control} = {value}")).collect::<Vec<_>>().join(", ")
}

fn gpus(site: &Site) -> String {
    match Gpus::new(&site.nvml).list() {
        Ok(found) if found.is_empty() => line("gpus", "the NVIDIA library knows none"),
        Ok(found) => found.iter().map(|gpu| gpu_lines(gpu, site)).collect(),
        Err(error) => line("gpus", &format!("none of NVIDIA: {error}")),
    }
}

fn gpu_lines(gpu: &Gpu, site: &Site) -> String {
    let unit = format!("gpu{}", gpu.index);
    let watts = |power: Option<limo_model::Power>, what: &str| {
        power.map_or_else(|| format!("does not tell its {what}"), |power| format!("{what} {power}"))
    };
    let mut text = line(
        &unit,
        &format!(
            "{}, {}: {}, {}",
            gpu_name(&gpu.name),
            gpu.uuid,
            watts(gpu.draw, "draw"),
            watts(gpu.enforced, "limit")
        ),
    );
    if gpu.limits.is_some() {
        text += &control(&unit, &format!("nvml:{}", gpu.index), site);
    } else {
        let hint = format!("--cap {unit}=nvml-clocks:{},LOW..HIGH", gpu.index);
        text += &line("cap", &format!("nvml:{}: no power limit; its clocks may be locked instead: {hint}", gpu.index));
    }
    if gpu.persistent == Some(false) {
        text += &line(
            &unit,
            &format!(
                "persistence mode is off: a cap ends with the last program that uses the GPU, lslave included; turn it \
                 on with `nvidia-smi -i {} -pm 1`",
                gpu.index
            ),
        );
    }
    text
}
