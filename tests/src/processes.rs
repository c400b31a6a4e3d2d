//! The processes of this machine, found by their environment.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::submitter::MARK;

/// Variable of the daemon of a node for [`kill_machine`].
pub const MACHINE: &str = "TEST_MACHINE";

/// A process with its original environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    environment: Vec<String>,
}

impl Process {
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns true if `ps` shows the process as `name`.
    pub fn is_called(&self, name: &str) -> bool {
        fs::read_to_string(format!("/proc/{}/comm", self.pid)).is_ok_and(|comm| comm.trim_end() == name)
    }

    /// Returns the number of its parent.
    pub fn parent(&self) -> Option<i32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    }

    /// Returns true if a signal has stopped it.
    pub fn is_stopped(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
        status.is_ok_and(|status| status.lines().any(|line| line.starts_with("State:\tT")))
    }

    pub fn kill(&self) {
        // The process may have ended by itself.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

/// Returns all processes with `NAME=VALUE` in their environment, except this one. A zombie has no environment.
pub fn processes(name: &str, value: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = |one: &[u8]| String::from_utf8_lossy(one).into_owned();
        Some(Process { pid, environment: environment.split(|byte| *byte == 0).map(text).collect() })
    };
    let own = i32::try_from(std::process::id()).expect("a process number");
    pids.filter(|pid| *pid != own).filter_map(read).filter(|process| process.variable(name) == Some(value)).collect()
}

/// Returns the living processes of jobs of the cluster with this mark.
pub fn job_processes(mark: &str) -> Vec<Process> {
    processes(MARK, mark).into_iter().filter(|process| process.variable("LIMO_ATTEMPT").is_some()).collect()
}

/// Kills the shepherds of all jobs on a node of the cluster with this mark. Their jobs are lost.
pub fn kill_shepherds(mark: &str, node: &str) {
    let all = processes(MARK, mark);
    let here = all.iter().filter(|process| process.variable("LIMO_NODE") == Some(node));
    let parents: Vec<i32> = here.filter_map(Process::parent).collect();
    let shepherds = all.iter().filter(|process| parents.contains(&process.pid) && process.is_called("lshepherd"));
    shepherds.for_each(Process::kill);
}

/// Kills all processes of the cluster with this mark, whose daemons have ended.
pub fn kill_all(mark: &str) {
    kill_until_none(|| processes(MARK, mark));
}

/// Kills all jobs and shepherds of a node of the cluster with this mark, whose daemon has ended. That daemon has the name of the
/// node in its environment as [`MACHINE`], which its shepherds inherit.
pub fn kill_machine(mark: &str, node: &str) {
    let is_here = |process: &Process| [MACHINE, "LIMO_NODE"].iter().any(|name| process.variable(name) == Some(node));
    kill_until_none(|| processes(MARK, mark).into_iter().filter(is_here).collect());
}

fn kill_until_none(left: impl Fn() -> Vec<Process>) {
    // Without daemons no job starts, but a killed process may have forked before.
    while let left = left()
        && !left.is_empty()
    {
        left.iter().for_each(Process::kill);
        std::thread::yield_now();
    }
}
