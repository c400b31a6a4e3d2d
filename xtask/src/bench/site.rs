//! The surroundings of the benchmark's parts: programs, directories, clusters, and the kernel's counters of a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

use super::slurm::Slurm;
use crate::demo::{Cluster, Programs};

/// Data shared by all parts.
pub struct Site {
    pub programs: Programs,
    /// True for a smaller measurement, enough to see that it works.
    pub quick: bool,
    /// A Slurm to compare with, if requested.
    pub slurm: Option<Slurm>,
    /// Directory of this process's certificate, if the clusters use TLS.
    pub tls: Option<PathBuf>,
    /// Policy of the parts about rounds and the page.
    pub policy: String,
}

impl Site {
    /// Returns `full`, or a tenth of it for a quick run.
    pub fn so_many(&self, full: usize) -> usize {
        if self.quick { (full / 10).max(1) } else { full }
    }

    /// Starts a cluster below `dir`: a master with these lines in its configuration, and a node for each list of
    /// options.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn cluster(&self, dir: &Path, config: &str, nodes: &[&[&str]]) -> Result<Cluster<'_>> {
        let file = dir.join("lmaster.toml");
        let text = if config.contains("log = ") { config.to_owned() } else { format!("log = \"warn\"\n{config}") };
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut cluster = match &self.tls {
            Some(client) => Cluster::start_over_tls(&self.programs, dir, &file, client).await?,
            None => Cluster::start(&self.programs, dir, &file).await?,
        };
        for (index, options) in nodes.iter().enumerate() {
            let options: Vec<&str> = ["--log", "warn", "--gpus", "none"].iter().chain(*options).copied().collect();
            cluster.add_node(&format!("n{}", index + 1), &options)?;
        }
        cluster.registered(nodes.len()).await?;
        Ok(cluster)
    }
}

/// Makes a directory for one part, which is removed when the result is dropped.
///
/// # Errors
/// If it cannot be made.
pub fn place() -> Result<TempDir> {
    tempfile::Builder::new().prefix("limo-bench-").tempdir().context("cannot make a directory")
}

/// Returns the duration of a command in milliseconds. Its output is discarded.
///
/// # Errors
/// If it cannot be run, or fails.
pub fn took_ms(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let took = begin.elapsed().as_secs_f64() * 1000.0;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(took)
}

/// Returns the resident memory of a process, in bytes.
///
/// # Errors
/// If the kernel does not answer.
pub fn resident_bytes(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().context("VmRSS is not a number")?;
    Ok(kib * 1024.0)
}

/// Returns the CPU time of a process so far, in seconds.
///
/// # Errors
/// If the kernel does not answer.
pub fn cpu_s(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    let fields: Vec<&str> = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    // User and system time are fields 14 and 15; the first field after the name is field 3.
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    let per_s = sysconf(SysconfVar::CLK_TCK)?.context("no clock ticks")?;
    Ok(ticks / per_s as f64)
}

/// Returns the size of all files of a directory, in bytes.
///
/// # Errors
/// If it cannot be read.
pub fn dir_bytes(dir: &Path) -> Result<f64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        // The ballast of a journal contains no data.
        if entry.file_name() != "ballast" {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum as f64)
}

/// Raises the limit of open files for this process and its children to the most that the system allows; returns it.
///
/// # Errors
/// If the kernel refuses.
pub fn raise_open_files() -> Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")?;
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;

    use super::*;

    #[test]
    fn usage_of_a_process_is_counted_by_the_kernel() {
        let used_ms = || {
            let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own");
            (usage.user_time().num_milliseconds(), usage.system_time().num_milliseconds())
        };
        let (mut zero, mut buffer) = (fs::File::open("/dev/zero").expect("there"), vec![1; 1 << 20]);
        while used_ms().0 < 250 {
            assert!((0..1 << 16).fold(0_u32, |sum, at| sum.wrapping_mul(31) ^ at) != 1);
        }
        while used_ms().1 < 250 {
            zero.read_exact(&mut buffer).expect("endless");
        }
        let (user, system) = used_ms();
        let difference = cpu_s(std::process::id()).expect("own") - (user + system) as f64 / 1e3;
        assert!((-0.1..10.0).contains(&difference), "{difference} s beside {user} ms and {system} ms");
        let resident = resident_bytes(std::process::id()).expect("own");
        assert!(resident > buffer.len() as f64 && resident < 4e9, "{resident} bytes");
        assert!(resident_bytes(u32::MAX).is_err() && cpu_s(u32::MAX).is_err());
    }

    #[test]
    fn the_ballast_of_a_journal_is_not_counted() {
        let dir = place().expect("a directory");
        for (name, bytes) in [("journal.db", 10), ("journal.db-wal", 20), ("ballast", 1_000)] {
            fs::write(dir.path().join(name), vec![0; bytes]).expect("written");
        }
        assert_eq!(dir_bytes(dir.path()).expect("readable"), 30.0);
    }

    #[test]
    fn a_command_that_fails_took_no_time() {
        assert!(took_ms(Command::new("sleep").arg("0.01")).expect("it succeeds") >= 10.0);
        assert!(took_ms(&mut Command::new("false")).is_err());
    }
}
