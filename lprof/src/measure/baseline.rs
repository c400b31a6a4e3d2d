//! The state of the machine around a run: the work of other processes, and processors that were too hot.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Ticks of the kernel in a second, in `/proc/stat`: the same on all machines (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// Files of a processor's core that count how often it or its package was too hot.
const THROTTLES: [&str; 2] = ["core_throttle_count", "package_throttle_count"];

/// Counters of this machine; the differences of two snapshots count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings {
    /// Processor time of all processes, and that of `lprof` and its children, in seconds.
    busy_s: f64,
    own_s: f64,
    throttled: u64,
}

impl Surroundings {
    /// Reads the counters. What the kernel does not show counts as zero.
    pub fn read(sysfs: &Path) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].into_iter().filter_map(|who| getrusage(who).ok());
        let own_s = own.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())).sum();
        Self { busy_s: busy_s(&stat), own_s, throttled: throttled(&sysfs.join("devices/system/cpu")) }
    }

    /// Returns the cores that others kept busy between `before` and this snapshot, `span_s` later.
    pub fn other_cores(self, before: Self, span_s: f64) -> f64 {
        let other_s = (self.busy_s - before.busy_s) - (self.own_s - before.own_s);
        if span_s > 0.0 { (other_s / span_s).max(0.0) } else { 0.0 }
    }

    /// Returns how often a core or package became too hot since `before`.
    pub fn throttled(self, before: Self) -> u64 {
        self.throttled.saturating_sub(before.throttled)
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// Returns the processor time in the first line of `/proc/stat`: all but idle time and waits for disks, in seconds.
fn busy_s(stat: &str) -> f64 {
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    // user nice system idle iowait irq softirq steal; guests are part of user.
    let ticks = line.split_whitespace().take(8).enumerate().filter(|(field, _)| ![3, 4].contains(field));
    ticks.filter_map(|(_, ticks)| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

fn throttled(cpus: &Path) -> u64 {
    let directories = fs::read_dir(cpus).into_iter().flatten().flatten().map(|entry| entry.path());
    let counters = directories.flat_map(|cpu: PathBuf| THROTTLES.map(|name| cpu.join("thermal_throttle").join(name)));
    counters.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_others() {
        let stat = "cpu  100 20 30 9000 800 4 5 6 7 8\ncpu0 1 2 3\n";
        assert!((busy_s(stat) - 1.65).abs() < 1e-9);
        let before = Surroundings { busy_s: 10.0, own_s: 3.0, throttled: 1 };
        let after = Surroundings { busy_s: 20.0, own_s: 8.0, throttled: 4 };
        assert!((after.other_cores(before, 10.0) - 0.5).abs() < 1e-9);
        assert_eq!(after.throttled(before), 3);
        // The clocks of both differ by less than a tick.
        assert!(Surroundings { own_s: 14.0, ..after }.other_cores(before, 10.0).abs() < 1e-9);
    }

    #[test]
    fn heat_is_counted_over_all_cores() {
        let dir = tempfile::tempdir().expect("a directory");
        for (cpu, file, count) in
            [("cpu0", THROTTLES[0], "2\n"), ("cpu0", THROTTLES[1], "3\n"), ("cpu1", THROTTLES[0], "4\n")]
        {
            let dir = dir.path().join(cpu).join("thermal_throttle");
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join(file), count).expect("written");
        }
        fs::create_dir(dir.path().join("cpufreq")).expect("made");
        assert_eq!(throttled(dir.path()), 9);
        assert_eq!(throttled(&dir.path().join("missing")), 0);
    }
}
