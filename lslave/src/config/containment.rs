//! Settings of the control groups of jobs.

use std::num::NonZeroU32;
use std::str::FromStr;

use clap::Args;
use serde::Deserialize;
use thiserror::Error;

/// Default for the most processes and threads of a job: more than usual programs have, and half of the smallest number
/// that a kernel allows in all.
const DEFAULT_PROCESSES: u32 = 16_384;

#[derive(Debug, Clone, Default, Args)]
pub struct ContainmentArguments {
    /// Control groups of jobs: auto, off, or a group as in /proc/PID/cgroup, which exists or can be made [default: auto]
    #[arg(long, env = "LIMO_CGROUP", value_name = "auto|off|PATH")]
    pub cgroup: Option<CgroupChoice>,
    /// Most processes and threads of a job in a control group [default: 16384]
    #[arg(long, env = "LIMO_MAX_PROCESSES", value_name = "N")]
    pub max_processes: Option<NonZeroU32>,
    /// Give each job cores of its own, to which its processes are bound [default: if nothing else limits them]
    #[arg(long, env = "LIMO_BIND_CORES", value_name = "BOOL")]
    pub bind_cores: Option<bool>,
}

/// The table `[containment]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainmentTable {
    cgroup: Option<CgroupChoice>,
    max_processes: Option<NonZeroU32>,
    bind_cores: Option<bool>,
}

/// Settings of a running daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainmentSettings {
    pub cgroup: CgroupChoice,
    /// Most processes and threads of a job.
    pub max_processes: u32,
    /// True if each job has cores of its own. If unset, jobs have them where no control group limits their CPU time.
    pub bind_cores: Option<bool>,
}

/// The place of the control groups.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum CgroupChoice {
    /// The groups of `limo-jobs.service`, or own ones of root, or none.
    Auto,
    /// No groups.
    Off,
    /// Below this group.
    At(String),
}

/// An invalid place.
#[derive(Debug, Error)]
#[error("`{0}` is neither `auto` nor `off` nor a control group: write it as in /proc/PID/cgroup, for example `/limo`")]
pub struct CgroupChoiceError(String);

impl FromStr for CgroupChoice {
    type Err = CgroupChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_place = |below: &str| !below.split('/').any(|part| matches!(part, "" | "." | ".."));
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            place if place.starts_with("/sys/") => Err(CgroupChoiceError(place.to_owned())),
            place if place.strip_prefix('/').is_some_and(is_place) => Ok(Self::At(place.to_owned())),
            other => Err(CgroupChoiceError(other.to_owned())),
        }
    }
}

impl TryFrom<String> for CgroupChoice {
    type Error = CgroupChoiceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl ContainmentTable {
    /// Returns the settings of the file, replaced by those of the command line.
    pub fn with(self, given: ContainmentArguments) -> ContainmentSettings {
        let most = given.max_processes.or(self.max_processes);
        ContainmentSettings {
            cgroup: given.cgroup.or(self.cgroup).unwrap_or(CgroupChoice::Auto),
            max_processes: most.map_or(DEFAULT_PROCESSES, NonZeroU32::get),
            bind_cores: given.bind_cores.or(self.bind_cores),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_groups_and_not_directories() {
        assert_eq!("auto".parse::<CgroupChoice>().expect("a word"), CgroupChoice::Auto);
        let place = "/system.slice/limo-jobs.service";
        assert_eq!(place.parse::<CgroupChoice>().expect("a place"), CgroupChoice::At(place.into()));
        for wrong in ["", "on", "limo", "/", "/a/../b", "/a//b", "/sys/fs/cgroup/limo"] {
            let error = wrong.parse::<CgroupChoice>().expect_err(wrong).to_string();
            assert!(error.starts_with(&format!("`{wrong}` is neither")), "{error}");
        }
    }
}
