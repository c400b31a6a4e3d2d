//! Table 4.4 of limo-2018: a machine with its draws and slowdowns is swept, and the table comes out.

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::caps::CappedMachine;
use crate::program::{run, text};

/// The goal of the workload, in seconds.
const GOAL_S: f64 = 67.4;

/// Parts of a second of the table that are a second of the test.
const FASTER: f64 = 100.0;

/// Idle draw, in watts. The paper does not give it; with this one, the peaks and the slowdowns give the energies.
const IDLE_W: f64 = 21.0;

/// Time at work without a cap: (3524 J - 21 W * 67.4 s) / (91.1 W - 21 W).
const WORK_S: f64 = 30.08;

/// Cap in watts (none is the highest), draw of a peak in watts, slowdown, and energy of the table in joules. The
/// slowdown at 8 W fills the whole duration there.
const ROWS: [(f64, f64, f64, f64); 8] = [
    (8.0, 38.2, 2.926, 3377.0),
    (12.0, 40.0, 2.1, 2610.0),
    (16.0, 48.3, 1.67, 2780.0),
    (22.0, 56.6, 1.37, 2891.0),
    (30.0, 67.8, 1.20, 3110.0),
    (40.0, 81.4, 1.08, 3373.0),
    (60.0, 90.8, 1.0, 3503.0),
    (95.0, 91.1, 1.0, 3524.0),
];

/// Duration at 8 W, where the work takes longer than the goal.
const LONGEST_S: f64 = 88.71;

fn row(limit_uw: u64) -> (f64, f64, f64, f64) {
    *ROWS.iter().find(|(cap_w, ..)| cap_w * 1e6 >= limit_uw as f64 - 1e5).expect("a cap of the table")
}

/// Does the work of the commands: each opens two pipes, and ends when the second one does.
fn work(machine: &CappedMachine) -> impl Drop + use<> {
    let root = machine.tree.path().to_owned();
    for pipe in ["begin", "end"] {
        nix::unistd::mkfifo(&root.join(pipe), nix::sys::stat::Mode::S_IRWXU).expect("made");
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let dir = root.clone();
    let worker = thread::spawn(move || {
        loop {
            // Opening waits for a command.
            let begun = fs::read_to_string(dir.join("begin")).expect("a command");
            if begun.trim() == "stop" {
                return;
            }
            let begin = Instant::now();
            let limit = dir.join(crate::tree::Tree::limit("intel-rapl:0"));
            let (_, _, slowdown, _) = row(fs::read_to_string(limit).expect("it").trim().parse().expect("a number"));
            let at_work_s = WORK_S * slowdown;
            fs::write(dir.join("busy"), "").expect("written");
            let until = |seconds: f64| {
                let end = begin + Duration::from_secs_f64(seconds / FASTER);
                let _ = stopped.recv_timeout(end.saturating_duration_since(Instant::now()));
            };
            until(at_work_s);
            fs::remove_file(dir.join("busy")).expect("removed");
            until(if at_work_s > GOAL_S { LONGEST_S } else { GOAL_S });
            // Opening and closing it ends the command.
            fs::write(dir.join("end"), "").expect("a command");
        }
    });
    Stop { root, worker: Some(worker), _stop: stop }
}

struct Stop {
    root: std::path::PathBuf,
    worker: Option<thread::JoinHandle<()>>,
    _stop: mpsc::Sender<()>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        if !thread::panicking() {
            fs::write(self.root.join("begin"), "stop").expect("the worker waits");
            self.worker.take().expect("once").join().expect("it ends");
        }
    }
}

#[test]
fn table_4_4_comes_out_and_12_w_are_chosen() {
    let machine = CappedMachine::new(IDLE_W, Box::new(|limit_uw| row(limit_uw).1));
    let _work = work(&machine);
    let options = machine.options("250ms");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (root, out) = (machine.tree.path(), machine.tree.path().join("results"));
    let line = format!("echo go > {0}/begin; exec cat {0}/end", root.display());
    let own =
        ["--grid", "8W,12W,16W,22W,30W,40W,60W", "--seed", "1", "--json", "--out", text(&out), "--at-least", "0s"];
    let printed = run(&[&["sweep"], &options[..], &own, &["--app", "lud", "--", "sh", "-c", &line]].concat());
    let answer = printed.json(0);
    let measurements = answer["measurements"].as_array().expect("a list");
    assert_eq!(measurements.len(), ROWS.len(), "{printed:#?}");
    for (measured, (cap_w, _, _, energy_j)) in measurements.iter().zip(ROWS) {
        assert_eq!(measured["cap_w"].as_f64().unwrap_or(95.0), cap_w, "{printed:#?}");
        let figure = |key: &str| measured[key].as_f64().expect("a figure") * FASTER;
        // The start of a command and the news of its end take milliseconds, in which the machine is idle.
        let around_s = figure("duration_s") - if cap_w == 8.0 { LONGEST_S } else { GOAL_S };
        assert!((0.0..0.1 * GOAL_S).contains(&around_s), "{cap_w} W: {measured}");
        let found_j = figure("node_j") - around_s * IDLE_W;
        assert!((found_j / energy_j - 1.0).abs() < 0.01, "{cap_w} W: {found_j} J, {energy_j} J in the table");
    }
    let best = &answer["best"];
    assert_eq!(best["cap_w"].as_f64(), Some(12.0), "{best}");
    assert!((best["saved"].as_f64().expect("a figure") - 0.259).abs() < 0.01, "{best}");
}
