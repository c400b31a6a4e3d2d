//! CPU time that is not of jobs, by the rule of HTCondor's pools: more than half a core for two minutes means that somebody uses the
//! machine, until it is less than 0.3 cores.
//!
//! The time of jobs is that of this daemon, of the shepherds that hold jobs, and of all their descendants, with the children
//! that have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};

use crate::error::OwnerError;
use crate::source::{Place, Source};

/// Interval between looks, which read the state of all processes.
const INTERVAL: Duration = Duration::from_secs(15);

/// Looks above [`BUSY`] in a row after which somebody is there: two minutes.
const LOOKS: u32 = 8;

/// Foreign load of a machine in use, in thousandths of a core.
const BUSY: u64 = 500;

/// Foreign load below which nobody is there.
const QUIET: u64 = 300;

/// Program that holds jobs, also those of an earlier daemon.
const SHEPHERD: &str = "lshepherd";

/// CPU time since the machine was started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    all: u64,
    jobs: u64,
}

/// Judges the load of a machine that is not of jobs.
#[derive(Debug, Default)]
struct Foreign {
    above: u32,
    is_there: bool,
}

impl Foreign {
    /// Takes the mean load between two looks, in thousandths of a core. Returns true if the owner is there.
    fn take(&mut self, load: u64) -> bool {
        self.above = if load > BUSY { self.above.saturating_add(1) } else { 0 };
        self.is_there = self.above >= LOOKS || (self.is_there && load >= QUIET);
        self.is_there
    }
}

/// Load of one machine.
pub struct Load {
    proc: PathBuf,
    /// The process whose descendants are jobs.
    daemon: u32,
    last: Option<(Instant, Ticks)>,
    foreign: Foreign,
    told: bool,
}

impl Load {
    pub fn new(place: &Place) -> Self {
        let (last, foreign, told) = (None, Foreign::default(), false);
        Self { proc: place.proc.clone(), daemon: std::process::id(), last, foreign, told }
    }
}

impl Source for Load {
    fn next(&mut self) -> Result<bool, OwnerError> {
        // Linux has always reported times in hundredths of a second.
        let rate = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|rate| u64::try_from(rate).ok()).unwrap_or(100);
        loop {
            let (now, ticks) = (Instant::now(), ticks(&self.proc, self.daemon)?);
            let Some((before, older)) = self.last.replace((now, ticks)) else { return Ok(false) };
            let is_there = self.foreign.take(foreign_load(older, ticks, now - before, rate));
            if std::mem::replace(&mut self.told, is_there) != is_there {
                return Ok(is_there);
            }
            thread::sleep(INTERVAL);
        }
    }
}

/// Returns the mean load between two looks without that of jobs, in thousandths of a core.
fn foreign_load(before: Ticks, after: Ticks, between: Duration, rate: u64) -> u64 {
    // The time of a shepherd of an earlier daemon disappears when it ends.
    let jobs = after.jobs.saturating_sub(before.jobs);
    let foreign = after.all.saturating_sub(before.all).saturating_sub(jobs);
    let ms = u64::try_from(between.as_millis()).unwrap_or(u64::MAX).max(1);
    foreign.saturating_mul(1_000_000) / ms.saturating_mul(rate.max(1))
}

/// Reads the times of the machine and of jobs.
fn ticks(proc: &Path, daemon: u32) -> Result<Ticks, OwnerError> {
    let path = proc.join("stat");
    let stat = fs::read_to_string(&path).map_err(|source| OwnerError::Read { path: path.clone(), source })?;
    let line = stat.lines().next().unwrap_or_default();
    let all = used(line).ok_or_else(|| OwnerError::Times { path, line: line.chars().take(200).collect() })?;
    let entries = fs::read_dir(proc).map_err(|source| OwnerError::Read { path: proc.into(), source })?;
    let processes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // A process that has ended meanwhile is counted by its parent.
        Some((pid, process(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
    });
    Ok(Ticks { all, jobs: of_jobs(&processes.collect(), daemon) })
}

/// Returns the used ticks of the first line of `/proc/stat`: user, nice, system, irq, softirq; without idle times, and without
/// those of guests, which are contained.
fn used(line: &str) -> Option<u64> {
    let mut words = line.strip_prefix("cpu ")?.split_whitespace().map(|word| word.parse::<u64>().ok());
    let (user, nice, system) = (words.next()??, words.next()??, words.next()??);
    let mut later = words.skip(2);
    let interrupts = [later.next(), later.next()].into_iter().flatten().flatten();
    Some(interrupts.fold(user.saturating_add(nice).saturating_add(system), u64::saturating_add))
}

struct Process {
    parent: u32,
    is_shepherd: bool,
    /// Its own ticks, and those of its children that have ended.
    ticks: u64,
}

/// Parses `/proc/PID/stat`. The name of a process may contain blanks and parentheses.
fn process(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut words = after.split_whitespace().skip(1);
    let parent = words.next()?.parse().ok()?;
    let times: Option<Vec<u64>> = words.skip(9).take(4).map(|word| word.parse().ok()).collect();
    let ticks = times.filter(|times| times.len() == 4)?.into_iter().fold(0, u64::saturating_add);
    Some(Process { parent, is_shepherd: name == SHEPHERD, ticks })
}

/// Adds up the times of the daemon, of shepherds, and of their descendants.
fn of_jobs(processes: &BTreeMap<u32, Process>, daemon: u32) -> u64 {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&pid, process) in processes {
        children.entry(process.parent).or_default().push(pid);
    }
    let roots = processes.iter().filter(|(pid, process)| **pid == daemon || process.is_shepherd);
    let mut waiting: Vec<u32> = roots.map(|(&pid, _)| pid).collect();
    let mut seen = BTreeSet::new();
    let mut sum = 0_u64;
    while let Some(pid) = waiting.pop() {
        if seen.insert(pid) {
            sum = sum.saturating_add(processes.get(&pid).map_or(0, |process| process.ticks));
            waiting.extend(children.get(&pid).into_iter().flatten());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, name: &str, parent: u32, times: [u64; 4]) -> String {
        let [user, system, children_user, children_system] = times;
        format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 4194560 9 8 7 6 {user} {system} {children_user} {children_system} 20 0 1"
        )
    }

    #[test]
    fn times_of_jobs_are_those_of_the_daemon_and_the_shepherds() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |pid: u32, text: String| {
            fs::create_dir(root.path().join(pid.to_string())).expect("a directory");
            fs::write(root.path().join(format!("{pid}/stat")), text).expect("a file");
        };
        // Steal and guest times, the last three, are not of this machine's processes or already in `user`.
        fs::write(root.path().join("stat"), "cpu  1000 200 300 90000 50 6 7 8 900 10\ncpu0 1\n").expect("a file");
        fs::write(root.path().join("uptime"), "1 1").expect("a file");
        write(1, stat(1, "systemd", 0, [5, 5, 500, 500]));
        write(10, stat(10, "lslave", 1, [1, 2, 3, 4]));
        write(11, stat(11, "lshepherd", 10, [10, 0, 0, 0]));
        write(12, stat(12, "a) S 1 (b", 11, [100, 0, 0, 0]));
        write(13, stat(13, "lshepherd", 1, [0, 0, 0, 20]));
        write(14, stat(14, "sh", 13, [0, 0, 40, 0]));
        write(15, stat(15, "firefox", 1, [400, 0, 0, 0]));
        write(16, "16 (half".to_owned());
        let found = ticks(root.path(), 10).expect("good");
        assert_eq!(found, Ticks { all: 1513, jobs: 10 + 10 + 100 + 20 + 40 });
        fs::write(root.path().join("stat"), "intr 1\n").expect("a file");
        let error = ticks(root.path(), 10).expect_err("no times").to_string();
        assert!(error.contains("the line is `intr 1`"), "{error}");
    }

    #[test]
    fn foreign_load_is_that_without_jobs() {
        let ticks = |all, jobs| Ticks { all, jobs };
        let load = |before, after| foreign_load(before, after, Duration::from_secs(10), 100);
        // 700 of 1000 ticks of a core in 10 s.
        assert_eq!(load(ticks(100, 50), ticks(2100, 1350)), 700);
        assert_eq!(load(ticks(100, 50), ticks(200, 0)), 100, "a shepherd has ended");
        assert_eq!(load(ticks(100, 50), ticks(200, 300)), 0);
    }

    #[test]
    fn load_counts_after_two_minutes_until_it_is_low() {
        let mut foreign = Foreign::default();
        let mut take = |loads: &[u64]| loads.iter().map(|load| foreign.take(*load)).collect::<Vec<_>>();
        assert_eq!(take(&[900; 7]), [false; 7]);
        assert_eq!(take(&[500]), [false], "not more than half a core");
        assert_eq!(take(&[501; 8]), [false, false, false, false, false, false, false, true]);
        assert_eq!(take(&[300, 299, 400]), [true, false, false]);
    }
}
