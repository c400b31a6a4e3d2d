//! The file with settings.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context;
use limo_model::{Power, Span};
use limo_owner::OwnerChoice;
use limo_power::MeterChoice;
use serde::Deserialize;

use super::caps::{GpuSource, Written};
use super::containment::ContainmentTable;
use super::idle::Idle;
use super::reboot::RebootTable;
use super::scripts::ScriptTable;
use super::users::UserTable;
use crate::log::LogFormat;

const DEFAULT_FILE: &str = "/etc/limo/lslave.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFile {
    pub(super) state_dir: Option<PathBuf>,
    pub(super) master: Option<String>,
    pub(super) master_user: Option<String>,
    pub(super) name: Option<String>,
    pub(super) hardware: Option<PathBuf>,
    pub(super) machine: Option<String>,
    pub(super) cpus: Option<NonZeroU32>,
    #[serde(default)]
    pub(super) idle: Idle,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) nameplate: Option<Power>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) meter: Option<MeterChoice>,
    pub(super) meter_access: Option<PathBuf>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) meter_interval: Option<Span>,
    pub(super) sysfs: Option<PathBuf>,
    pub(super) dev: Option<PathBuf>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) reading_interval: Option<Span>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) heartbeat: Option<Span>,
    #[serde(default)]
    pub(super) containment: ContainmentTable,
    #[serde(default)]
    pub(super) users: UserTable,
    pub(super) reboot: Option<RebootTable>,
    pub(super) prolog: Option<ScriptTable>,
    pub(super) epilog: Option<ScriptTable>,
    /// Caps by unit.
    #[serde(default)]
    pub(super) caps: BTreeMap<String, Written>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) cap_lease: Option<Span>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) owner: Option<OwnerChoice>,
    #[serde(default, deserialize_with = "limo_model::as_text::option::deserialize")]
    pub(super) owner_away_after: Option<Span>,
    pub(super) gpus: Option<GpuSource>,
    pub(super) nvml: Option<PathBuf>,
    pub(super) nvidia_smi: Option<PathBuf>,
    pub(super) log: Option<String>,
    pub(super) log_format: Option<LogFormat>,
}

impl ConfigFile {
    pub(super) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let text = match path {
            Some(path) => std::fs::read_to_string(path),
            None => std::fs::read_to_string(DEFAULT_FILE),
        };
        let path = path.unwrap_or(Path::new(DEFAULT_FILE));
        match text {
            Ok(text) => toml::from_str(&text).map_err(|error: toml::de::Error| {
                let start = error.span().map_or(0, |span| span.start);
                let line = 1 + text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count();
                anyhow::anyhow!("{}:{line}: {}", path.display(), error.message())
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path == Path::new(DEFAULT_FILE) => {
                Ok(Self::default())
            }
            Err(error) => Err(error).with_context(|| format!("cannot read the settings {}", path.display())),
        }
    }
}
