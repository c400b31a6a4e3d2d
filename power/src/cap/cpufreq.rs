//! Highest frequencies of the processor (cpufreq), for machines whose processor has no power limit that can be set.
//!
//! - A policy of `devices/system/cpu/cpufreq` holds for some cores that change their frequency together. The limit is
//!   `scaling_max_freq`: every driver, `intel_pstate` included, and every governor stay below it.
//! - The range is the processor's draw under load with all cores at their lowest frequency, and at their highest. The
//!   frequency for a cap is found as for GPUs, see [`super::clocks`]; for cores of several kinds it is the same
//!   fraction of each one's range.
//! - A driver with a list of frequencies gets one of the list. The value that is read back must not be above the one
//!   that was written.

use std::path::{Path, PathBuf};

use limo_model::Power;

use super::clocks::on_line;
use super::files::{captured, write};
use super::{Cap, CapError, Originals, checked};
use crate::meter::files;

/// Cap on the frequencies of all cores.
#[derive(Debug)]
pub struct CpufreqCap {
    dir: PathBuf,
    range: (Power, Power),
}

#[derive(Debug)]
struct CpufreqPolicy {
    dir: PathBuf,
}

impl CpufreqCap {
    /// Makes a cap. `sysfs` is the mount point of sysfs. The range is the draw of all cores under load at their lowest
    /// and highest frequencies.
    pub fn new(sysfs: &Path, range: (Power, Power)) -> Self {
        Self { dir: sysfs.join("devices/system/cpu/cpufreq"), range }
    }

    /// Returns true if the kernel sets frequencies on this machine. `sysfs` is the mount point of sysfs.
    pub fn is_found(sysfs: &Path) -> bool {
        Self::new(sysfs, (Power::ZERO, Power::ZERO)).policies().is_ok()
    }

    fn policies(&self) -> Result<Vec<CpufreqPolicy>, CapError> {
        let entries = if self.dir.exists() { files::entries(&self.dir)? } else { Vec::new() };
        let policies = entries.into_iter().filter(|dir| files::name(dir).starts_with("policy"));
        let policies: Vec<_> = policies.map(|dir| CpufreqPolicy { dir }).collect();
        if policies.is_empty() { Err(CapError::NoFrequencies { path: self.dir.clone() }) } else { Ok(policies) }
    }
}

impl CpufreqPolicy {
    fn control(&self) -> String {
        format!("{}/scaling_max_freq", files::name(&self.dir))
    }

    fn limit(&self) -> PathBuf {
        self.dir.join("scaling_max_freq")
    }

    /// Returns the frequency for a cap, in kHz.
    fn frequency_for(&self, limit: Power, range: (Power, Power)) -> Result<u32, CapError> {
        let bound = |name: &str| {
            let path = self.dir.join(name);
            let found = files::number(&path)?;
            u32::try_from(found).map_err(|_| CapError::Frequency { path, found })
        };
        let (first, last) = (bound("cpuinfo_min_freq")?, bound("cpuinfo_max_freq")?);
        let highest = on_line(limit, range, (first, last.max(first)));
        let listed = self.dir.join("scaling_available_frequencies");
        if !listed.exists() {
            return Ok(highest);
        }
        let listed = files::text(&listed)?;
        let listed = listed.split_whitespace().filter_map(|frequency| frequency.parse().ok());
        Ok(listed.filter(|frequency| *frequency <= highest).max().unwrap_or(first))
    }

    /// Writes a limit in kHz. With `exactly` it must be kept as it is.
    fn write(&self, wanted: u64, exactly: bool) -> Result<(), CapError> {
        let path = self.limit();
        write(&path, &wanted.to_string())?;
        let found = files::number(&path)?;
        let is_kept = if exactly { found == wanted } else { found <= wanted };
        if is_kept { Ok(()) } else { Err(CapError::FrequencyNotKept { path, wanted, found }) }
    }
}

impl Cap for CpufreqCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        for policy in self.policies()? {
            policy.frequency_for(self.range.0, self.range)?;
            policy.write(files::number(&policy.limit())?, true)?;
        }
        checked(|| format!("the processor in {}", self.dir.display()), self.range)
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let policies = self.policies()?.into_iter();
        policies.map(|policy| Ok((policy.control(), files::number(&policy.limit())?.to_string()))).collect()
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        let set = |policy: &CpufreqPolicy| {
            policy.frequency_for(limit, self.range).and_then(|wanted| policy.write(wanted.into(), false))
        };
        let results: Vec<_> = self.policies()?.iter().map(set).collect();
        results.into_iter().collect()
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        match self.policies()?.into_iter().find(|policy| policy.control() == control) {
            Some(policy) => policy.write(captured(control, value)?, true),
            None => Err(CapError::Gone {
                place: self.dir.display().to_string(),
                control: control.to_owned(),
                value: value.to_owned(),
            }),
        }
    }
}
