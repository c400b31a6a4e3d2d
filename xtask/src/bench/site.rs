//! Where the parts of the benchmark run: programs, directories, clusters, and what the kernel counts of a process.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

use super::slurm::Slurm;
use crate::demo::{Cluster, Programs};

/// What the parts share.
pub struct Site {
    pub programs: Programs,
    /// Less of each, enough to see that it works.
    pub quick: bool,
    /// Where one was asked for.
    pub slurm: Option<Slurm>,
    /// Policy of the part about rounds.
    pub policy: String,
}

impl Site {
    /// `full` of something, or a tenth of it.
    pub fn so_many(&self, full: usize) -> usize {
        if self.quick { (full / 10).max(1) } else { full }
    }

    /// A cluster below `dir`: a master with these lines in its configuration, and a node for each list of options.
    ///
    /// # Errors
    /// Where it does not come up.
    pub async fn cluster(&self, dir: &Path, config: &str, nodes: &[&[&str]]) -> Result<Cluster<'_>> {
        let file = dir.join("lmaster.toml");
        let text = if config.contains("log = ") { config.to_owned() } else { format!("log = \"warn\"\n{config}") };
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut cluster = Cluster::start(&self.programs, dir, &file).await?;
        for (index, options) in nodes.iter().enumerate() {
            let options: Vec<&str> = ["--log", "warn", "--gpus", "none"].iter().chain(*options).copied().collect();
            cluster.add_node(&format!("n{}", index + 1), &options)?;
        }
        cluster.registered(nodes.len()).await?;
        Ok(cluster)
    }
}

/// A directory for one part; it goes with what is returned.
///
/// # Errors
/// Where it cannot be made.
pub fn place() -> Result<TempDir> {
    tempfile::Builder::new().prefix("limo-bench-").tempdir().context("cannot make a directory")
}

/// How long a command takes, in milliseconds. What it prints is thrown away.
///
/// # Errors
/// Where it cannot be run, or fails.
pub fn took_ms(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let took = begin.elapsed().as_secs_f64() * 1000.0;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(took)
}

/// What of a process lies in memory, in bytes.
///
/// # Errors
/// Where the kernel does not tell.
pub fn resident_bytes(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().context("VmRSS is no number")?;
    Ok(kib * 1024.0)
}

/// What a process has used of processors so far, in seconds.
///
/// # Errors
/// Where the kernel does not tell.
pub fn cpu_s(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    let fields: Vec<&str> = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    // User and system time are fields 14 and 15; the first after the name is field 3.
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    let per_s = sysconf(SysconfVar::CLK_TCK)?.context("no clock ticks")?;
    Ok(ticks / per_s as f64)
}

/// The size of all files of a directory, in bytes.
///
/// # Errors
/// Where it cannot be read.
pub fn dir_bytes(dir: &Path) -> Result<f64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        // The ballast of a journal only takes up room.
        if entry.file_name() != "ballast" {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum as f64)
}

/// Lets this process and its children have as many files open as the system allows; how many that are.
///
/// # Errors
/// Where the kernel refuses.
pub fn raise_open_files() -> Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")?;
    Ok(hard)
}
