//! Emulated hardware: a search finds the best cap, and the output says that the watts are emulated.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::program::{run, text};

/// A machine on which `ft` takes 200 ms and draws 45 W above 14 W. The best cap is F P = 0.75 * 45 W = 33.75 W, with an
/// energy of (14 W + 33.75 W) * 200 ms = 9.55 J.
const MACHINE: &str = r#"
    [[machine]]
    name = "xeon1"
    cores = 8
    memory = "16 GiB"
    idle = "14 W"
    [[machine.unit]]
    name = "cpu"
    hardware = "xeon"
    kind = "cpu"
    nameplate = "60 W"
    caps = ["8 W", "60 W"]
    cap_factor = 0.75
    [machine.unit.application.ft]
    power = "45 W"
    duration = "200ms"
"#;

/// A command that ends when its work is done.
const WORK: &str = "exec cat /proc/self/fd/$LIMO_EMULATED_WORK_FD";

struct Files {
    dir: TempDir,
    hardware: PathBuf,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let hardware = dir.path().join("machine.toml");
        fs::write(&hardware, MACHINE).expect("written");
        Self { dir, hardware }
    }

    fn out(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn options(&self) -> [&str; 10] {
        let hardware = text(&self.hardware);
        ["--hardware", hardware, "--idle", "100ms", "--interval", "20ms", "--at-least", "0s", "--app", "ft"]
    }
}

#[test]
fn a_search_finds_the_best_cap_and_its_profiles_are_imported() {
    let files = Files::new();
    let out = files.out("results");
    let own = ["--search", "energy", "--json", "--out", &out];
    let printed = run(&[&["sweep"], &files.options()[..], &own, &["--", "sh", "-c", WORK]].concat());
    let answer = printed.json(0);
    let best_w = answer["best"]["cap_w"].as_f64().expect("a cap");
    assert!((30.0..37.0).contains(&best_w), "{best_w} W: {printed:#?}");
    let measurements = answer["measurements"].as_array().expect("a list");
    let of_best = measurements.iter().find(|one| one["cap_w"].as_f64() == Some(best_w)).expect("the best");
    let node_j = of_best["node_j"].as_f64().expect("a figure");
    assert!(node_j < 9.55 * 1.06, "{node_j} J: {printed:#?}");
    assert!(measurements.iter().all(|one| one["emulated"] == true), "{printed:#?}");
    let exported = run(&["export", &out]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    assert!(exported.stdout.starts_with("# ft on xeon, 8 cores, cap none: emulated, lprof "), "{exported:#?}");
    let profiles = limo_profiles::text::read(exported.stdout.as_bytes()).expect("profiles");
    assert_eq!(profiles.len(), measurements.len());
    let (key, profile) = &profiles[0];
    assert_eq!((key.application.as_str(), key.hardware.as_str(), key.cores, key.cap), ("ft", "xeon", Some(8), None));
    assert!((profile.power.watts() / 45.0 - 1.0).abs() < 0.03, "{profile:?}");
    assert!((profile.energy.joules() / 9.0 - 1.0).abs() < 0.03, "{profile:?}");
}

#[test]
fn results_that_differ_are_found() {
    let files = Files::new();
    let measure = |out: &str, cap: &[&str]| {
        let own = ["--json", "--out", out];
        let printed = run(&[&["measure"], &files.options()[..], &own, cap, &["--", "sh", "-c", WORK]].concat());
        printed.json(0);
    };
    let (before, after) = (files.out("before"), files.out("after"));
    measure(&before, &[]);
    fs::write(&files.hardware, MACHINE.replace("45 W", "50 W")).expect("written");
    measure(&after, &[]);
    let same = run(&["diff", &before, &before]);
    assert_eq!(same.code, Some(0), "{same:#?}");
    assert!(same.stdout.contains("within the intervals") && !same.stdout.contains("differs"), "{same:#?}");
    let differs = run(&["diff", "--json", &before, &after]);
    let found = &differs.json(3)["differences"][0];
    // 50 W instead of 45 W.
    assert!((found["energy_j"]["relative"].as_f64().expect("a figure") - 0.111).abs() < 0.03, "{differs:#?}");
    assert_eq!(found["energy_j"]["differs"], true, "{differs:#?}");
}

#[test]
fn wrong_options_are_named() {
    let files = Files::new();
    let hardware = text(&files.hardware);
    let refused = |options: &[&str]| {
        let printed = run(options);
        assert_ne!(printed.code, Some(0), "{printed:#?}");
        printed.stderr
    };
    let grid = refused(&["sweep", "--hardware", hardware, "--grid", "70W", "--", "true"]);
    assert!(grid.contains("the cap 70.0 W is not possible: the unit can be capped at 8.0 W to 60.0 W"), "{grid}");
    let interval = refused(&["measure", "--hardware", hardware, "--interval", "5ms", "--", "true"]);
    assert!(interval.contains("the interval is 5ms: it must be 20ms to 1min"), "{interval}");
    let idle = refused(&["measure", "--hardware", hardware, "--idle", "250ms", "--", "true"]);
    assert!(idle.contains("the idle time is 250ms: it must be at least 0.4"), "{idle}");
    let neither = refused(&["sweep", "--hardware", hardware, "--", "true"]);
    assert!(neither.contains("--grid"), "{neither}");
    let nameless = refused(&["measure", "--hardware", hardware, "--", "bash"]);
    assert!(nameless.contains("the command has no name for its profile: add `--app NAME`"), "{nameless}");
    let unit = refused(&["measure", "--hardware", hardware, "--unit", "gpu0", "--", "true"]);
    assert!(unit.contains("the machine has no unit `gpu0`: it has cpu"), "{unit}");
}
