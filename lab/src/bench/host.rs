//! Properties of the machine and its processes: cores, load, CPU time and memory.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

/// The conditions of a figure besides the program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cores: usize,
    /// Average number of runnable processes in the last minute; `None` if the kernel does not report it.
    pub load_average: Option<f64>,
}

impl Machine {
    pub fn now() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load_average = load.split_whitespace().next().and_then(|first| first.parse().ok());
        Self { cores: std::thread::available_parallelism().map_or(1, usize::from), load_average }
    }
}

/// Resources used by processes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Taken {
    pub wall_s: f64,
    /// CPU time in user mode and in the kernel.
    pub cpu_s: f64,
    /// Largest resident set of any of these processes.
    pub peak_rss_bytes: f64,
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

fn used(who: UsageWho) -> Result<Taken> {
    let usage = getrusage(who).context("the kernel does not report the usage of processes")?;
    Ok(Taken {
        wall_s: 0.0,
        cpu_s: seconds(usage.user_time()) + seconds(usage.system_time()),
        // The kernel counts in KiB.
        peak_rss_bytes: usage.max_rss() as f64 * 1_024.0,
    })
}

/// Measures work in this process.
pub struct Watch {
    begun: Instant,
    before: Taken,
}

impl Watch {
    /// Starts to measure.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn start() -> Result<Self> {
        let before = used(UsageWho::RUSAGE_SELF)?;
        Ok(Self { begun: Instant::now(), before })
    }

    /// Returns the resources used by this process since the start; the peak covers its whole life.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn taken(&self) -> Result<Taken> {
        let now = used(UsageWho::RUSAGE_SELF)?;
        Ok(Taken { wall_s: self.begun.elapsed().as_secs_f64(), cpu_s: now.cpu_s - self.before.cpu_s, ..now })
    }
}

/// Runs this program with `arguments` to its end. The peak is the largest of all children so far.
///
/// # Errors
/// If it cannot be started, or fails; contains its error output.
pub fn child(arguments: &[&str]) -> Result<Taken> {
    let program = std::env::current_exe().context("the program's own file is not known")?;
    let before = used(UsageWho::RUSAGE_CHILDREN)?;
    let begun = Instant::now();
    let run = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let run = run.context("the program cannot be run again")?;
    let wall_s = begun.elapsed().as_secs_f64();
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        bail!("`lab {}` ends with {}: {}", arguments.join(" "), run.status, said.trim());
    }
    let after = used(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Taken { wall_s, cpu_s: after.cpu_s - before.cpu_s, ..after })
}
