//! Energy by meters with a window and a lag: a wattmeter on a serial line, and a command that shows the past.

use limo_power::Chip;
use tempfile::TempDir;

use crate::chip::Emulated;
use crate::fake::FakeGpus;
use crate::plant::{Display, Law, Plant};
use crate::program::{Printed, figure, replace, run, text};

/// Returns a machine that draws 14 W, and 60 W while a command is at work.
fn steady() -> Law {
    Box::new(|_, is_busy| (14.0, if is_busy { 60.0 } else { 14.0 }))
}

/// Meter under test, with the machine behind it.
struct Bench {
    dir: TempDir,
    plant: Plant,
    meter: String,
}

impl Bench {
    fn new(law: Law, meter: impl FnOnce(&TempDir) -> (String, Display)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (meter, display) = meter(&dir);
        let plant = Plant::start(dir.path().join("busy"), law, display);
        Self { dir, plant, meter }
    }

    /// Measures a command that is at work for a time. The machine of the test has other load.
    fn measure(&self, seconds: &str, options: &[&str]) -> Printed {
        let busy = self.dir.path().join("busy");
        let line = format!(": > {0}; sleep {seconds}; rm {0}", busy.display());
        let (state, out) = (self.dir.path().join("state"), self.dir.path().join("results"));
        let fixed = ["measure", "--json", "--meter", &self.meter, "--state-dir", text(&state), "--out", text(&out)];
        let load = limo_power::cores().to_string();
        let own = ["--other-load", &load, "--app", "burn", "--at-least", "100ms"];
        run(&[&fixed[..], &own, options, &["--", "sh", "-c", &line]].concat())
    }
}

/// Shows the mean over 40 ms on the pty, in 10 mW.
fn wattmeter(dir: &TempDir) -> (String, Display) {
    let chip = Emulated::new(Chip::One);
    // A number at the end of a path is a channel.
    let line = dir.path().join("ttyACM0");
    std::os::unix::fs::symlink(&chip.path, &line).expect("linked");
    let meter = format!("mcp39f511:{}", line.display());
    (meter, Box::new(move |drawn| chip.set_power(0, (drawn.mean_w(0.04, 0.0) * 100.0).round() as u32)))
}

/// Shows the mean over 100 ms, 100 ms ago, in a file.
fn plug(dir: &TempDir) -> (String, Display) {
    let path = dir.path().join("watts");
    let meter = format!("command:cat {}", path.display());
    (meter, Box::new(move |drawn| replace(&path, &format!("{:.3} W\n", drawn.mean_w(0.1, 0.1)))))
}

fn check(bench: &Bench, printed: &Printed, within: f64) {
    let answer = printed.json(0);
    let (found_j, drawn_j) = (figure(&answer, "energy_j"), bench.plant.work_j());
    assert!((found_j / drawn_j - 1.0).abs() < within, "{found_j} J measured, {drawn_j} J drawn: {printed:#?}");
    // 46 W above idle, for the time of the command and of the processes around it.
    assert!((found_j / 46.0 - 1.0).abs() < 0.05, "{found_j} J: {printed:#?}");
    assert!((figure(&answer, "duration_s") - 1.0).abs() < 0.05, "{printed:#?}");
}

#[test]
fn a_wattmeter_shows_the_energy_of_a_command() {
    let bench = Bench::new(steady(), wattmeter);
    check(&bench, &bench.measure("1", &["--interval", "40ms", "--window", "40ms", "--idle", "500ms"]), 0.01);
}

#[test]
fn a_late_meter_shows_the_energy_of_a_command() {
    let bench = Bench::new(steady(), plug);
    let times = ["--interval", "50ms", "--window", "100ms", "--lag", "100ms", "--idle", "500ms"];
    check(&bench, &bench.measure("1", &times), 0.01);
}

/// The idle draw rises from 14 W to 16 W within 20 s, which is about the time of the test.
#[test]
fn a_drift_of_the_idle_draw_does_not_count() {
    let law: Law = Box::new(|at_s, is_busy| {
        let idle_w = 14.0 + (at_s / 10.0).min(2.0);
        (idle_w, if is_busy { idle_w + 46.0 } else { idle_w })
    });
    let bench = Bench::new(law, wattmeter);
    check(&bench, &bench.measure("1", &["--interval", "40ms", "--window", "40ms", "--idle", "500ms"]), 0.02);
}

/// Without a command, the machine draws 14 W and 40 W in turn, for 170 ms each.
#[test]
fn an_unstable_idle_draw_is_not_trusted() {
    let law: Law = Box::new(|at_s, is_busy| {
        let idle_w = if ((at_s / 0.17) as u64).is_multiple_of(2) { 14.0 } else { 40.0 };
        (idle_w, if is_busy { 60.0 } else { idle_w })
    });
    let bench = Bench::new(law, wattmeter);
    let printed = bench.measure("0.15", &["--interval", "40ms", "--window", "40ms", "--idle", "300ms"]);
    let answer = printed.json(3);
    let reasons = answer["measurements"][0]["reasons"].to_string();
    assert!(reasons.contains("idle unstable"), "{printed:#?}");
    let out = bench.dir.path().join("results");
    let exported = run(&["export", text(&out)]);
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(3), ""), "{exported:#?}");
    assert!(exported.stderr.contains("burn on"), "{exported:#?}");
    let forced = run(&["export", "--force", text(&out)]);
    assert_eq!(forced.code, Some(0), "{forced:#?}");
    assert!(forced.stdout.contains("#   NOT TRUSTED: idle unstable"), "{forced:#?}");
    assert_eq!(limo_profiles::text::read(forced.stdout.as_bytes()).expect("profiles").len(), 1);
}

/// A process that is busy all the time is other load, unless that is allowed.
#[test]
fn other_load_is_not_trusted() {
    let bench = Bench::new(steady(), wattmeter);
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("it runs");
    let times = ["--interval", "40ms", "--window", "40ms", "--idle", "300ms"];
    let busy_file = bench.dir.path().join("busy");
    let line = format!(": > {0}; sleep 0.3; rm {0}", busy_file.display());
    let (state, out) = (bench.dir.path().join("state"), bench.dir.path().join("results"));
    let fixed = ["measure", "--json", "--meter", &bench.meter, "--state-dir", text(&state), "--out", text(&out)];
    let printed = run(&[&fixed[..], &times, &["--at-least", "0s", "--", "sh", "-c", &line]].concat());
    busy.kill().and_then(|()| busy.wait()).expect("it ends");
    let reasons = printed.json(3)["measurements"][0]["reasons"].to_string();
    assert!(reasons.contains("other load: other processes use"), "{printed:#?}");
}

#[test]
fn a_meter_that_fails_ends_the_measurement() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let start = |meter: &str| run(&["measure", "--meter", meter, "--state-dir", text(&state), "--", "true"]);
    let printed = start("command:echo none");
    assert_eq!(printed.code, Some(1), "{printed:#?}");
    assert!(printed.stderr.contains("lprof: the meter fails: "), "{printed:#?}");
    let printed = run(&["measure", "--meter", "command:echo 5", "--state-dir", text(&state), "--", "false"]);
    assert_eq!(printed.code, Some(1), "{printed:#?}");
    assert!(printed.stderr.contains("`false` failed with exit status: 1"), "{printed:#?}");
}

/// The energy counter of a GPU runs 10 % too fast, compared with the draw that its driver shows.
#[test]
fn a_counter_that_differs_from_the_draw_is_not_trusted() {
    let Some(gpus) = FakeGpus::new() else { return };
    let library = gpus.library().display().to_string();
    gpus.set(1, "power_mw", "1000");
    let bench = Bench::new(steady(), |_| {
        let display: Display = Box::new(move |drawn| {
            gpus.set(0, "power_mw", &format!("{:.0}", drawn.mean_w(0.01, 0.0) * 1000.0));
            gpus.set(0, "energy_mj", &format!("{:.0}", 1e6 + drawn.total_j() * 1100.0));
            gpus.set(1, "energy_mj", "1000");
        });
        ("nvml".to_owned(), display)
    });
    let times = ["--interval", "520ms", "--window", "0s", "--idle", "2100ms", "--nvml", &library, "--unit", "gpu0"];
    let printed = bench.measure("1", &times);
    let reasons = printed.json(3)["measurements"][0]["reasons"].to_string();
    assert!(reasons.contains("counter and draw differ: "), "{printed:#?}");
    assert_eq!(printed.json(3)["measurements"][0]["hardware"], "nvidia-h200", "{printed:#?}");
}
