//! Reads the instances and the nodes of the published program (FORMAT.md), and refuses what it refuses.

use std::path::{Path, PathBuf};

use limo_trace::log_crypt::{self, LineError, LogCryptError, LoggedJob, number, split};

use super::job::Job;
use super::resources::{NodeList, Resources};

const MOST_NODES: usize = 10_000;
/// The program refuses jobs whose units ask for more, in the mean.
const UNIT_LIMITS: [(&str, u64); 4] = [("cores", 16), ("GPUs", 2), ("MICs", 2), ("KiB of memory", 33_554_432)];

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Name of the file without folder and ending.
    pub name: String,
    /// Jobs in the order of the file.
    pub jobs: Vec<Job>,
}

/// Reason why an instance cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    #[error(transparent)]
    File(#[from] LogCryptError),
    #[error("{}:{line}: a unit asks for {value} {what}: the published program accepts at most {limit}", file.display())]
    Unit { file: PathBuf, line: usize, what: &'static str, value: u64, limit: u64 },
    #[error("{}:{line}: a unit asks for GPUs and MICs: the published program accepts either", file.display())]
    Accelerators { file: PathBuf, line: usize },
}

/// Reads an instance.
///
/// # Errors
/// If the file cannot be read, a line is invalid, the published program refuses a job, or the name of the file says another
/// number of jobs.
pub fn read(path: &Path) -> Result<Instance, InstanceError> {
    let logged = log_crypt::read(path)?;
    for (line, job) in (1..).zip(&logged) {
        check_units(job, path, line)?;
    }
    let name = log_crypt::name(path).unwrap_or_else(|| path.display().to_string());
    let first_s = logged.iter().map(|job| job.arrival_s).min().unwrap_or(0);
    Ok(Instance { name, jobs: logged.iter().map(|job| Job::new(job, first_s)).collect() })
}

/// Reads the file of nodes: number, cores, GPUs, MICs, memory in KiB and a mark, separated by spaces.
///
/// # Errors
/// If the file cannot be read, or a line is invalid.
pub fn read_nodes(path: &Path) -> Result<NodeList, LogCryptError> {
    log_crypt::lines(path, (MOST_NODES, "nodes"), node).map(NodeList::new)
}

/// Checks what the published program checks, for the mean unit.
fn check_units(job: &LoggedJob, path: &Path, line: usize) -> Result<(), InstanceError> {
    let file = || path.to_owned();
    let asked = [job.cores, job.gpus, job.mics, job.memory_kib].map(|total| total / u64::from(job.units.get()));
    for (value, (what, limit)) in asked.into_iter().zip(UNIT_LIMITS) {
        if value > limit {
            return Err(InstanceError::Unit { file: file(), line, what, value, limit });
        }
    }
    if asked[1] > 0 && asked[2] > 0 { Err(InstanceError::Accelerators { file: file(), line }) } else { Ok(()) }
}

fn node(line: &str, index: usize) -> Result<Resources, LineError> {
    // One line of the published file has a space at its end.
    let [node, cores, gpus, mics, memory, _] = split::<6>(line.trim_end(), " ", "a node")?;
    let found = number("the number of the node", node)?;
    if usize::try_from(found) != Ok(index) {
        return Err(LineError::Node { found, wanted: index });
    }
    let amounts = [
        number("the number of cores", cores)?,
        number("the number of GPUs", gpus)?,
        number("the number of MICs", mics)?,
        number("the memory in KiB", memory)? / 1024,
    ];
    // The numbers are limited.
    Ok(Resources(amounts.map(|amount| amount as i64)))
}

#[cfg(test)]
mod tests;
