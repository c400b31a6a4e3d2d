//! Report of possible caps: GPUs, and each control with its range and value, or the reason why it cannot be used. The
//! report writes to each control its own value, because only a write shows that it can be written. It does not write
//! the controls of a daemon.

use limo_power::{CapChoice, CapError, CpufreqCap, Gpu, Gpus, HwmonCap, Kept, Originals, Site, gpu_name, processor};

use limo_node::line;

/// Returns the lines of the report, except for controls in `kept`.
pub fn report(site: &Site, with_gpus: bool, kept: &[Kept]) -> String {
    let free = |choice: &str| !kept.iter().any(|kept| kept.choice.as_str().split(',').next() == Some(choice));
    let mut text = if free("rapl") { control("cpu", "rapl", site) } else { String::new() };
    if free("cpufreq") && CpufreqCap::is_found(&site.sysfs) {
        let hint = "--cap cpu=cpufreq,LOW..HIGH";
        text += &line(
            "cap",
            &format!("cpufreq: the processor's frequencies can be limited, if it has no other cap: {hint}"),
        );
    }
    if free("hsmp") && (processor().starts_with("amd-") || is_found("hsmp", site)) {
        text += &control("cpu", "hsmp", site);
    }
    match HwmonCap::cards(&site.sysfs) {
        Ok(cards) => {
            let cards = cards.iter().map(|card| format!("hwmon:{card}")).filter(|card| free(card));
            text.extend(cards.map(|card| control("UNIT", &card, site)));
        }
        Err(error) => text += &line("cap", &format!("hwmon: no cap: {error}")),
    }
    if with_gpus {
        text += &gpus(site, kept);
    }
    text
}

/// Reports the controls of a daemon.
pub fn kept(units: &[Kept]) -> String {
    let one = |kept: &Kept| {
        let range = kept.range.map_or_else(|| "cannot be capped".to_owned(), |(low, high)| format!("{low} to {high}"));
        let held = match &kept.held {
            Ok(held) => format!("now {}", shown(held)),
            Err(error) => format!("its value cannot be read: {error}"),
        };
        let by = if kept.capped { ", by the master" } else { "" };
        line("cap", &format!("{}={}: {range}; {held}{by}", kept.unit, kept.choice.as_str()))
    };
    units.iter().map(one).collect()
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

fn gpus(site: &Site, kept: &[Kept]) -> String {
    match Gpus::new(&site.nvml).list() {
        Ok(found) if found.is_empty() => line("gpus", "the NVIDIA library knows none"),
        Ok(found) => found.iter().map(|gpu| gpu_lines(gpu, site, kept)).collect(),
        Err(error) => line("gpus", &format!("none of NVIDIA: {error}")),
    }
}

fn gpu_lines(gpu: &Gpu, site: &Site, kept: &[Kept]) -> String {
    let unit = format!("gpu{}", gpu.index);
    let watts = |power: Option<limo_model::Power>, what: &str| {
        power.map_or_else(|| format!("does not report its {what}"), |power| format!("{what} {power}"))
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
    if kept.iter().any(|kept| kept.unit == unit) {
        // The GPU's limit is reported with the kept controls.
    } else if gpu.limits.is_some() {
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
