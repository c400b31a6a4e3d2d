//! `--groups`: groups of the platform's nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use limo_model::{GroupTable, Groups};
use limo_trace::Platform;
use serde::Deserialize;

use crate::engine::node_specs;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    group: BTreeMap<String, GroupTable>,
}

/// Reads groups, and checks that the platform has their nodes.
///
/// # Errors
/// If the file cannot be read, a value is wrong, or a node is unknown.
pub fn read(path: &Path, platform: &Platform) -> Result<Groups> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("{}: the file cannot be read", shown()))?;
    let file: GroupFile = toml::from_str(&text).with_context(|| format!("{} is not a file of groups", shown()))?;
    let groups = Groups::of_tables(file.group).with_context(shown)?;
    let nodes: BTreeSet<String> = node_specs(platform).map(|node| node.name).collect();
    for (group, spec) in groups.iter() {
        if let Some(node) = spec.nodes.iter().find(|node| !nodes.contains(*node)) {
            bail!("{}: group.{group}: nodes: the platform has no node `{node}`", shown());
        }
    }
    Ok(groups)
}

/// Returns a note that names the groups of the file whose reboots are not simulated.
pub fn without_reboots(path: &Path, groups: &Groups) -> Option<String> {
    let names: Vec<&str> = groups.iter().filter(|(_, spec)| spec.reboot.is_some()).map(|(name, _)| name).collect();
    let shown = path.display();
    let why = "only the groups of a pool have reboots in a simulation";
    (!names.is_empty()).then(|| format!("{shown}: reboot of {} has no effect: {why}", names.join(", ")))
}
