//! `--queues`: the queues of a workload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use limo_model::{QueueTable, Queues};
use limo_trace::{Platform, Workload};
use serde::Deserialize;

use crate::engine::node_specs;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFile {
    queue: BTreeMap<String, QueueTable>,
}

/// Reads queues, and checks that the platform has their nodes and that they are those of the jobs.
///
/// # Errors
/// If the file cannot be read, a value is wrong, a node is unknown, or a job is in no queue.
pub fn read(path: &Path, platform: &Platform, workload: &Workload) -> Result<Queues> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("{}: the file cannot be read", shown()))?;
    let file: QueueFile = toml::from_str(&text).with_context(|| format!("{} is not a file of queues", shown()))?;
    let queues = Queues::of_tables(file.queue).with_context(shown)?;
    let nodes: BTreeSet<String> = node_specs(platform).map(|node| node.name).collect();
    for (queue, spec) in queues.iter() {
        if let Some(node) = spec.nodes.iter().find(|node| !nodes.contains(*node)) {
            bail!("{}: queue.{queue}: nodes: the platform has no node `{node}`", shown());
        }
    }
    for (queue, spec) in queues.iter() {
        if let Some((key, _)) = [("users", &spec.users), ("groups", &spec.groups)].iter().find(|(_, of)| !of.is_empty())
        {
            bail!("{}: queue.{queue}: {key}: a workload has only numbers of users", shown());
        }
    }
    let known = || queues.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    for job in &workload.jobs {
        match workload.queue(job) {
            Some(queue) if queues.get(&queue).is_none() => bail!(
                "{}: job {} of the trace is in queue {queue}, which the file does not have (queues: {})",
                shown(),
                job.number,
                known()
            ),
            None if queues.default_name().is_none() => bail!(
                "{}: job {} of the trace names no queue, and none is the default (queues: {})",
                shown(),
                job.number,
                known()
            ),
            _ => {}
        }
    }
    Ok(queues)
}
