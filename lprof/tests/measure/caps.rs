//! Caps on a fake powercap tree: with effect or without, and restored after any end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::plant::Plant;
use crate::program::{Printed, figure, lprof, replace, run, text};
use crate::tree::Tree;

/// Zones of one package through two interfaces. The second has its own limit, and is not enabled.
const ZONES: [&str; 2] = ["intel-rapl:0", "intel-rapl-mmio:0"];

/// Longest wait for a cap.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine with a meter of the whole platform, whose draw depends on the cap.
pub struct CappedMachine {
    /// Stops before the tree is removed.
    _plant: Plant,
    pub tree: Tree,
    /// The limits of both interfaces after each change, in microwatts.
    limits: Receiver<[u64; 2]>,
}

/// Returns the draw at work under a limit, in microwatts.
pub type Draws = Box<dyn Fn(u64) -> f64 + Send>;

impl CappedMachine {
    /// Makes a machine that draws `idle_w` without a command. The file `busy` in the tree says when one is at work.
    pub fn new(idle_w: f64, draws: Draws) -> Self {
        let tree = Tree::new();
        tree.zone(ZONES[0], "package-0", 95_000_000);
        tree.zone(ZONES[1], "package-0", 80_000_000);
        tree.write("class/powercap/intel-rapl-mmio:0/enabled", "0");
        tree.write("class/powercap/intel-rapl:1/name", "psys");
        tree.write("class/powercap/intel-rapl:1/max_energy_range_uj", "262143328850");
        let counter = tree.path().join("class/powercap/intel-rapl:1/energy_uj");
        let paths = ZONES.map(|zone| tree.path().join(Tree::limit(zone)));
        let ((set, limits), mut held) = (mpsc::channel(), [95_000_000, 80_000_000]);
        let law = Box::new(move |_, is_busy: bool| {
            let before = held;
            for (path, held) in paths.iter().zip(&mut held) {
                // The file is empty while it is written.
                *held = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(*held);
            }
            if held != before {
                // The test may be over.
                let _ = set.send(held);
            }
            (idle_w, if is_busy { draws(held[0]) } else { idle_w })
        });
        let show = Box::new(move |drawn: &crate::plant::Drawn| {
            replace(&counter, &format!("{}\n", 1_000_000 + (drawn.total_j() * 1e6).round() as u64));
        });
        let plant = Plant::start(tree.path().join("busy"), law, show);
        Self { _plant: plant, tree, limits }
    }

    /// Waits until both interfaces have this cap.
    fn wait(&self, uw: u64) {
        while self.limits.recv_timeout(PATIENCE).expect("the cap is set in time") != [uw; 2] {}
    }

    /// Returns all files but the counter. A kernel shows a value with a line break, even if it was written without.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut dirs = vec![self.tree.path().join("class")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
                if entry.is_dir() {
                    dirs.push(entry);
                } else if !entry.ends_with("energy_uj") && !entry.ends_with("energy_uj.new") {
                    let content = fs::read_to_string(&entry).expect("readable");
                    files.insert(entry, content.trim().to_owned());
                }
            }
        }
        files
    }

    /// Returns the options for this machine, with this idle time.
    pub fn options(&self, idle: &str) -> Vec<String> {
        let path = |name: &str| self.tree.path().join(name).display().to_string();
        let named = [
            ("--meter", "powercap".to_owned()),
            ("--unit", "cpu=rapl,8W..95W".to_owned()),
            ("--sysfs", self.tree.path().display().to_string()),
            ("--state-dir", path("state")),
            ("--interval", "20ms".to_owned()),
            ("--idle", idle.to_owned()),
            ("--other-load", limo_power::cores().to_string()),
        ];
        named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// Starts a measurement at 40 W of a command that is at work for 300 ms.
    fn start(&self, more: &[&str]) -> Child {
        let options = self.options("300ms");
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let (busy, out) = (self.tree.path().join("busy"), self.tree.path().join("results"));
        let line = format!(": > {0}; sleep 0.3; rm {0}", busy.display());
        let out = ["--out", text(&out), "--at-least", "100ms", "--app", "burn", "--json"];
        let command = ["--", "sh", "-c", &line];
        lprof(&[&["measure"], &options[..], &out, more, &command].concat()).spawn().expect("it runs")
    }

    fn measure(&self, more: &[&str]) -> Printed {
        ended(self.start(more)).into()
    }
}

fn ended(child: Child) -> Output {
    child.wait_with_output().expect("it ends")
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), signal).expect("it runs");
}

/// Returns a machine that draws 60 W, and its limit above the 15 W of its other parts if that is less.
fn obedient() -> CappedMachine {
    CappedMachine::new(14.0, Box::new(|limit_uw| (15.0 + limit_uw as f64 / 1e6).min(60.0)))
}

#[test]
fn a_cap_has_its_effect_and_is_restored_at_the_end() {
    let machine = obedient();
    let before = machine.files();
    let printed = machine.measure(&["--cap", "40W"]);
    let answer = printed.json(0);
    // 15 W and the cap, less 14 W of idle draw.
    assert!((figure(&answer, "power_w") / 41.0 - 1.0).abs() < 0.05, "{printed:#?}");
    assert_eq!(figure(&answer, "cap_w"), 40.0, "{printed:#?}");
    machine.wait(40_000_000);
    assert_eq!(machine.files(), before);
    assert!(!machine.tree.path().join("state/caps.json").exists());
    let exported = run(&["export", text(&machine.tree.path().join("results"))]);
    let profiles = limo_profiles::text::read(exported.stdout.as_bytes()).expect("profiles");
    let keys: Vec<_> = profiles.iter().map(|(key, _)| (key.application.as_str(), key.cap)).collect();
    assert_eq!(keys, [("burn", Some(crate::tree::watts(40)))], "{exported:#?}");
}

#[test]
fn caps_are_restored_after_a_signal() {
    for (number, name) in [(15, Signal::SIGTERM), (2, Signal::SIGINT)] {
        let machine = obedient();
        let before = machine.files();
        let child = machine.start(&["--cap", "40W"]);
        machine.wait(40_000_000);
        signal(&child, name);
        let printed: Printed = ended(child).into();
        assert_eq!(printed.code, Some(128 + number), "{printed:#?}");
        assert!(printed.stderr.contains(&format!("interrupted by signal {number}")), "{printed:#?}");
        assert_eq!(machine.files(), before, "{name}");
    }
}

#[test]
fn the_next_start_restores_caps_after_a_kill() {
    let machine = obedient();
    let before = machine.files();
    let child = machine.start(&["--cap", "40W"]);
    machine.wait(40_000_000);
    signal(&child, Signal::SIGKILL);
    ended(child);
    assert_eq!(machine.tree.limit_of(ZONES[0]), "40000000", "nobody is left to restore it");
    let options = machine.options("300ms");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    // It ends at once, because the command fails.
    let printed = run(&[&["measure"], &options[..], &["--", "false"]].concat());
    assert_eq!(printed.code, Some(1), "{printed:#?}");
    assert_eq!(machine.files(), before);
}

#[test]
fn a_cap_that_the_hardware_ignores_gives_no_profile() {
    let machine = CappedMachine::new(14.0, Box::new(|_| 60.0));
    let before = machine.files();
    let printed = machine.measure(&["--cap", "40W"]);
    let answer = printed.json(3);
    let reasons = answer["measurements"][0]["reasons"].to_string();
    assert!(reasons.contains("the cap of 40.0 W has no effect"), "{printed:#?}");
    assert_eq!(machine.files(), before);
    let exported = run(&["export", text(&machine.tree.path().join("results"))]);
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(3), ""), "{exported:#?}");
}

/// `lslave` holds this lock while it runs.
#[test]
fn nothing_is_measured_beside_a_running_daemon() {
    let machine = obedient();
    let state = machine.tree.path().join("state");
    fs::create_dir(&state).expect("made");
    fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("own");
    let lock = File::create(state.join("lock")).expect("made");
    let held = Flock::lock(lock, FlockArg::LockExclusiveNonblock).expect("free");
    let printed = machine.measure(&[]);
    assert_eq!(printed.code, Some(1), "{printed:#?}");
    let expected = format!("{} is in use: lslave or another lprof runs on this machine", Path::new(&state).display());
    assert!(printed.stderr.contains(&expected), "{printed:#?}");
    drop(held);
}
