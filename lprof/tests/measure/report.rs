//! Reports of commands about themselves, and the page about results.

use std::fs;

use lprof::results;

use crate::program::{run, text};
use crate::replay;

/// An emulated machine on which a command takes 100 ms.
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
    [machine.unit.application.ft]
    power = "45 W"
    duration = "100ms"
"#;

/// Table 4.4: cap in watts, duration in seconds, mean draw in watts, energy in joules.
const TABLE_4_4: [(Option<f64>, f64, f64, f64); 8] = [
    (Some(8.0), 88.71, 38.07, 3377.0),
    (Some(12.0), 67.44, 38.70, 2610.0),
    (Some(16.0), 67.42, 41.24, 2780.0),
    (Some(22.0), 67.40, 42.89, 2891.0),
    (Some(30.0), 67.39, 46.15, 3110.0),
    (Some(40.0), 67.39, 50.05, 3373.0),
    (Some(60.0), 67.39, 51.99, 3503.0),
    (None, 67.40, 52.29, 3524.0),
];

#[test]
fn the_replay_has_table_4_4_and_its_page_all_figures() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, page) = (dir.path().join("results"), dir.path().join("report.html"));
    replay::write(&out).expect("written");
    let all = results::read(&out).expect("results");
    // 290 pairs of clocks, and twenty workloads on five targets at eight caps.
    assert_eq!(all.len(), 290 + 800);
    for (cap_w, duration_s, mean_w, energy_j) in TABLE_4_4 {
        let is_row = |of: &&results::Measurement| {
            let key = [of.application.as_str(), of.hardware.as_str(), of.size.as_str()];
            key == ["lud-opencl", "xeon-e3-1275v5", "m4096_i200"] && of.cap_w == cap_w
        };
        let summary = all.values().find(is_row).expect("a row").summary.as_ref().expect("runs");
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.01, "{cap_w:?}: {summary:?}");
        near(summary.duration_s, duration_s);
        near(summary.node_j, energy_j);
        near(summary.node_j / summary.duration_s, mean_w);
    }
    let printed = run(&["report", text(&out), "-o", text(&page)]);
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(0), ""), "{printed:#?}");
    let html = fs::read_to_string(&page).expect("a page");
    let figures = (2..=7).map(|number| format!("Figure 4.{number} of limo-2018"));
    let others = ["Figures 4.8 and 4.9 of", "Figure 4.10 of", "Table 4.3 of", "Table 4.4 of", "Table 4.5 of"];
    for part in figures.chain(others.map(str::to_owned)) {
        assert!(html.contains(&part), "{part}");
    }
    assert!(!html.contains("Left out"), "{html}");
    // 21 W * 67.4 s + 30.08 s * 2.1 * 19 W = 2616 J of 3524 J; by the energies of the table it is 25.9 %.
    assert!(html.contains("at 12.0 W, 25.8 % less than without a cap"), "{html}");
    // All graphics clocks of both higher memory clocks: 126, and 38 of the lowest.
    assert_eq!(html.matches("<title>whole run, memory 810 MHz").count(), 126);
    assert_eq!(html.matches("<title>whole run, memory 405 MHz").count(), 38);
}

#[test]
fn commands_report_their_kernel_and_their_work() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (hardware, out, workload) = (path("machine.toml"), path("results"), path("m16_i0.workload"));
    fs::write(&hardware, MACHINE).expect("written");
    // Two matrices of 16 and 32 rows: 2600 and 64,336 operations.
    let package = |bytes: usize| [format!("0:{bytes}\n").into_bytes(), vec![0; bytes]].concat();
    fs::write(&workload, [package(4 * 16 * 16), package(4 * 32 * 32)].concat()).expect("written");
    let measure = |command: &[&str]| {
        let options = ["measure", "--hardware", &hardware, "--out", &out, "--idle", "100ms", "--interval", "20ms"];
        // Two runs in each measured one.
        run(&[&options[..], &["--at-least", "150ms"], command].concat())
    };
    let line = "echo kernel_s=0.04 >> /proc/self/fd/$LPROF_REPORT_FD; exec cat /proc/self/fd/$LIMO_EMULATED_WORK_FD";
    let printed = measure(&["--app", "ft", "--", "sh", "-c", line]);
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    let lprof = env!("CARGO_BIN_EXE_lprof");
    let serve = format!("{lprof} serve --stdio");
    // How long it really takes decides whether its figures are precise enough.
    let printed = measure(&["--", lprof, "workload", "run", &workload, "--app", "dummy", "--stdio", &serve]);
    assert!(matches!(printed.code, Some(0 | 3)), "{printed:#?}");
    let all = results::read(out.as_ref()).expect("results");
    let reported = |application: &str, size: &str| {
        let found = all.values().find(|of| (of.application.as_str(), of.size.as_str()) == (application, size));
        found.unwrap_or_else(|| panic!("no {application}/{size}")).runs[0].reported
    };
    let kernel_s = reported("ft", "").kernel_s.expect("reported");
    assert!((kernel_s - 0.04).abs() < 1e-9, "{kernel_s}");
    let work = reported("dummy", "m16_i0");
    assert_eq!((work.jobs, work.operations, work.rows), (Some(2.0), Some(66_936.0), Some(48.0)));
    assert!(work.kernel_s.is_some(), "{work:?}");
    let html = run(&["report", &out]).stdout;
    assert!(html.contains("<th scope=\"row\">m16_i0</th><td>24 × 24</td><td>2</td><td>33.5 kOp</td>"), "{html}");
}
