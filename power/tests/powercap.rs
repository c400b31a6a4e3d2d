//! RAPL through powercap, in trees of files as the kernel shows them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use limo_model::Power;
use limo_power::{Meter, Powercap, Reading};
use tempfile::TempDir;

const RANGE: u64 = 262_143_328_850;

/// A sysfs with zones, each with its name, its counter and its range.
struct Tree {
    root: TempDir,
    meter: Powercap,
    now: Duration,
}

impl Tree {
    fn new(zones: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let meter = Powercap::new(root.path());
        let tree = Self { root, meter, now: Duration::from_secs(1000) };
        // Files that every such machine has besides its zones.
        fs::create_dir_all(tree.zone("intel-rapl")).expect("made");
        zones.iter().for_each(|(dir, name)| tree.add(dir, name));
        tree
    }

    fn zone(&self, dir: &str) -> PathBuf {
        self.root.path().join("class/powercap").join(dir)
    }

    fn add(&self, dir: &str, name: &str) {
        fs::create_dir_all(self.zone(dir)).expect("made");
        fs::write(self.zone(dir).join("name"), format!("{name}\n")).expect("written");
        fs::write(self.zone(dir).join("max_energy_range_uj"), format!("{RANGE}\n")).expect("written");
        self.set(dir, 1_000_000);
    }

    fn set(&self, dir: &str, energy_uj: u64) {
        fs::write(self.zone(dir).join("energy_uj"), format!("{energy_uj}\n")).expect("written");
    }

    fn remove(&self, dir: &str) {
        fs::remove_dir_all(self.zone(dir)).expect("removed");
    }

    fn swap(&self, first: &str, second: &str) {
        for (from, to) in [(first, "aside"), (second, first), ("aside", second)] {
            fs::rename(self.zone(from), self.zone(to)).expect("renamed");
        }
    }

    /// Adds joules to counters.
    fn count(&self, joules: &[(&str, u64)]) {
        for (dir, joules) in joules {
            let text = fs::read_to_string(self.zone(dir).join("energy_uj")).expect("readable");
            self.set(dir, text.trim().parse::<u64>().expect("a number") + joules * 1_000_000);
        }
    }

    fn read_after(&mut self, span: Duration) -> Result<Reading, String> {
        self.now += span;
        self.meter.read(self.now).map_err(|error| error.to_string())
    }

    /// Expects this draw one second later.
    fn shows(&mut self, watts: i64) {
        self.shows_since(watts, 1);
    }

    /// Expects this draw, as the mean of `seconds`, one second later. The meter failed in the seconds before.
    fn shows_since(&mut self, watts: i64, seconds: u64) {
        assert_eq!(self.read_after(Duration::from_secs(1)), Ok(mean(watts * 1000, seconds * 1000)));
    }

    fn shows_nothing_yet(&mut self) {
        assert_eq!(self.read_after(Duration::from_secs(1)), Ok(Reading::NotYet));
    }

    /// Expects an error one second later: `start`, the path of `class/powercap` in the tree, `end`.
    fn fails(&mut self, start: &str, end: &str) {
        let error = self.read_after(Duration::from_secs(1)).expect_err("no reading");
        let expected = format!("{start}{}{end}", self.root.path().join("class/powercap").display());
        assert!(error.starts_with(&expected), "`{expected}` begins\n`{error}`");
    }
}

/// Returns a mean over `ms` milliseconds.
fn mean(mw: i64, ms: u64) -> Reading {
    Reading::Mean { draw: Power::from_mw(mw), over: Duration::from_millis(ms) }
}

#[test]
fn one_package_without_its_parts() {
    let mut tree =
        Tree::new(&[("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "uncore")]);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 42), ("intel-rapl:0:0", 30), ("intel-rapl:0:1", 2)]);
    tree.shows(42);
    // The mean covers the actual time, in milliwatts.
    tree.count(&[("intel-rapl:0", 10)]);
    assert_eq!(tree.read_after(Duration::from_millis(1500)), Ok(mean(6_667, 1500)));
    assert_eq!(tree.read_after(Duration::ZERO), Ok(Reading::NotYet), "no time has passed");
}

#[test]
fn packages_and_memory_are_added_for_any_numbers() {
    let zones = [
        ("intel-rapl:0", "package-1"),
        ("intel-rapl:0:0", "dram"),
        ("intel-rapl:1", "package-0"),
        ("intel-rapl:1:0", "core"),
        ("intel-rapl:1:1", "dram"),
    ];
    let mut tree = Tree::new(&zones);
    assert_eq!(
        tree.meter.zones().expect("readable"),
        ["package-0", "package-0/dram", "package-1", "package-1/dram"].map(str::to_owned)
    );
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 100), ("intel-rapl:0:0", 7), ("intel-rapl:1", 90), ("intel-rapl:1:0", 80)]);
    tree.shows(197);
    // After a reload, the module numbers the zones the other way round: the same counters with other numbers.
    tree.swap("intel-rapl:0", "intel-rapl:1");
    tree.swap("intel-rapl:0:0", "intel-rapl:1:1");
    tree.count(&[("intel-rapl:0", 11), ("intel-rapl:1", 12)]);
    tree.shows(23);
}

#[test]
fn psys_replaces_the_other_zones() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram"), ("intel-rapl:1", "psys")]);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 42), ("intel-rapl:0:0", 5), ("intel-rapl:1", 61)]);
    tree.shows(61);
    // The zone still counts under another number.
    tree.swap("intel-rapl:0", "intel-rapl:1");
    tree.count(&[("intel-rapl:0", 62), ("intel-rapl:1", 43)]);
    tree.shows(62);
}

#[test]
fn the_second_view_of_the_same_counters_is_skipped() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0"), ("intel-rapl-mmio:0", "package-0")]);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 42), ("intel-rapl-mmio:0", 42)]);
    tree.shows(42);
    tree.remove("intel-rapl:0");
    tree.fails("", " has no zone `intel-rapl:N` that counts energy: load the kernel module");
}

#[test]
fn a_counter_begins_again() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0")]);
    tree.set("intel-rapl:0", RANGE - 30_000_000);
    tree.shows_nothing_yet();
    tree.set("intel-rapl:0", 12_000_000);
    tree.shows(42);
    // Without the range the difference is unknown: the sample is dropped, and the next one is good.
    tree.set("intel-rapl:0", RANGE - 30_000_000);
    tree.read_after(Duration::from_secs(1)).expect("dropped or not");
    fs::remove_file(tree.zone("intel-rapl:0").join("max_energy_range_uj")).expect("removed");
    tree.set("intel-rapl:0", 12_000_000);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 7)]);
    tree.shows(7);
    // A range below the counter is ignored.
    fs::write(tree.zone("intel-rapl:0").join("max_energy_range_uj"), "1000\n").expect("written");
    tree.set("intel-rapl:0", 1);
    tree.shows_nothing_yet();
}

/// A counter reset by a reloaded module would seem to have counted nearly its whole range in a second.
#[test]
fn a_counter_that_was_set_back_gives_no_reading() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0")]);
    tree.set("intel-rapl:0", RANGE / 2);
    tree.shows_nothing_yet();
    tree.set("intel-rapl:0", 0);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 7)]);
    tree.shows(7);
}

/// A counter may wrap around more than once in a longer gap.
#[test]
fn samples_far_apart_are_not_compared() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0")]);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 42)]);
    assert_eq!(tree.read_after(Duration::from_secs(121)), Ok(Reading::NotYet));
    tree.count(&[("intel-rapl:0", 8)]);
    tree.shows(8);
}

#[test]
fn a_stopped_counter_is_a_failure() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1")]);
    tree.shows_nothing_yet();
    tree.count(&[("intel-rapl:0", 5)]);
    let soon = tree.read_after(Duration::from_millis(999));
    assert_eq!(soon, Ok(Reading::NotYet), "it may be looked at more often than it is renewed");
    tree.fails("", "/intel-rapl:1/energy_uj does not count: no energy was counted in 1999 ms");
    // Memory without a counter of its own is common.
    tree.add("intel-rapl:0:0", "dram");
    tree.fails("", " has a new zone `package-0/dram`");
    tree.count(&[("intel-rapl:0", 5), ("intel-rapl:1", 6)]);
    tree.shows(11);
}

#[test]
fn zones_that_go_are_waited_for_and_zones_that_come_count_from_then_on() {
    let mut tree = Tree::new(&[("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-1")]);
    tree.shows_nothing_yet();
    tree.remove("intel-rapl:1");
    for _ in 0..2 {
        tree.count(&[("intel-rapl:0", 10)]);
        tree.fails("", " no longer has the zone `package-1`");
    }
    tree.add("intel-rapl:1", "package-1");
    tree.count(&[("intel-rapl:0", 10), ("intel-rapl:1", 30)]);
    tree.shows_since(20, 3);
    tree.add("intel-rapl:2", "package-2");
    tree.fails("", " has a new zone `package-2`, which is included from the next reading on");
    tree.count(&[("intel-rapl:0", 10), ("intel-rapl:1", 10), ("intel-rapl:2", 10)]);
    tree.shows(30);
    tree.add("intel-rapl:3", "package-2");
    tree.fails("two zones are both named package-2: ", "/intel-rapl:2 and ");
}

/// A directory replaces the file, so that not even root can read it.
#[test]
fn unreadable_counters_are_named() {
    let mut tree = Tree::new(&[]);
    tree.fails("", " has no zone `intel-rapl:N` that counts energy");
    fs::remove_dir_all(tree.root.path().join("class")).expect("removed");
    tree.fails("", " has no zone `intel-rapl:N` that counts energy");
    tree.add("intel-rapl:0", "package-0");
    tree.shows_nothing_yet();
    let counter = tree.zone("intel-rapl:0").join("energy_uj");
    fs::remove_file(&counter).expect("removed");
    tree.fails("cannot read ", "/intel-rapl:0/energy_uj: No such file");
    fs::create_dir(&counter).expect("made");
    tree.fails("cannot read ", "/intel-rapl:0/energy_uj: Is a directory");
    fs::remove_dir(&counter).expect("removed");
    fs::write(&counter, "lots\n").expect("written");
    tree.fails("", "/intel-rapl:0/energy_uj contains `lots` instead of a whole number");
    tree.set("intel-rapl:0", 1_000_000 + 84_000_000);
    tree.shows_since(21, 4);
    fs::create_dir(tree.zone("intel-rapl:1")).expect("made");
    tree.fails("cannot read ", "/intel-rapl:1/name: No such file");
}
