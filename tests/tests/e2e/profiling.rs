//! From a measurement to a decision: `lprof` finds a cap on an emulated machine, and `limo` starts jobs at it.

use std::fs;

use limo_tests::{Setup, Submitter, until};
use serde_json::Value;

/// `ft` draws 45 W above idle without a cap, and its best cap is 0.75 * 45 W = 33.75 W.
const MACHINE: &str = r#"
[[machine]]
name = "n1"
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

[machine.unit.application]
ft = { power = "45 W", duration = "200ms" }
"#;

/// Starts a job and returns the cap of its node's unit.
fn cap_of_start(submitter: &Submitter, node: impl Fn() -> Option<Value>) -> Option<f64> {
    let job = submitter.detach(&["--app", "ft", "-c", "8", "sleep", "1000"]);
    until("it runs", || (submitter.state(job) == "running").then_some(()));
    let cap = until("the node draws its power", || {
        let node = node()?;
        (node["draw_w"].as_f64()? > 40.0).then(|| node["units"][0]["cap_w"].as_f64())
    });
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    until("it is over", || (submitter.state(job) == "cancelled").then_some(()));
    cap
}

#[test]
fn a_job_starts_at_the_cap_that_a_sweep_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let hardware = dir.path().join("machine.toml");
    fs::write(&hardware, MACHINE).expect("written");
    let hardware = hardware.to_str().expect("UTF-8");
    let cluster = Setup::default().node("n1", &["--hardware", hardware, "--reading-interval", "100ms"]).start();
    let submitter = cluster.submitter();
    // In the low mode `limo` chooses the cap with the least energy, whatever the duration.
    submitter.lconf(&["set", "mode", "low"]).succeeded();
    assert_eq!(cap_of_start(submitter, || cluster.node_report("n1")), None, "nothing is known yet");
    let work = "exec cat /proc/self/fd/$LIMO_EMULATED_WORK_FD";
    let times = ["--idle", "100ms", "--interval", "20ms", "--at-least", "0s"];
    let options = ["sweep", "--hardware", hardware, "--grid", "34W", "--app", "ft", "--out", "results"];
    let swept = submitter.run("lprof", &[&options[..], &times, &["--", "sh", "-c", work]].concat());
    // Other load of this machine may make the durations imprecise.
    assert!(matches!(swept.code, Some(0 | 3)), "{swept:?}");
    let exported =
        submitter.shell("$(dirname $LRUN)/lprof export --force results | $(dirname $LRUN)/lconf profile import -");
    exported.succeeded();
    assert_eq!(cap_of_start(submitter, || cluster.node_report("n1")), Some(34.0), "{swept:?}");
}
