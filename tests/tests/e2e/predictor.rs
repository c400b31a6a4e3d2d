//! The predictor in a live cluster: finished jobs train a model, and it tells the draw of a job without a profile.

use std::fmt::Write;
use std::fs;

use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

/// Jobs that a training needs.
const NEEDED: usize = 20;

/// A machine on which the applications `a0` to `a19` draw 40 W of 60 W, as `new` does.
fn machine() -> String {
    let mut text = String::from(
        "[[machine]]\nname = \"n1\"\ncores = 8\nmemory = \"16 GiB\"\nidle = \"14 W\"\n\n\
         [[machine.unit]]\nname = \"cpu\"\nhardware = \"xeon\"\nkind = \"cpu\"\nnameplate = \"60 W\"\n",
    );
    let mut add = |name: &str, duration: &str| {
        let application = format!("[machine.unit.application.{name}]");
        writeln!(text, "{application}\npower = \"40 W\"\nduration = \"{duration}\"").expect("a string");
    };
    (0..NEEDED).for_each(|number| add(&format!("a{number}"), "100ms"));
    add("new", "1s");
    text
}

/// Works as long as the application takes on its unit.
const WORK: &str = "exec cat /proc/self/fd/$LIMO_EMULATED_WORK_FD";

/// Runs an application to its end, alone on the node.
fn run(submitter: &Submitter, application: &str) {
    let job = submitter.detach(&["--app", application, "-c", "8", "sh", "-c", WORK]);
    assert_eq!(submitter.wait(job), Some(0));
}

/// Returns the mean draw of a finished job, in watts.
fn drawn(submitter: &Submitter, job: u64) -> f64 {
    let shown = submitter.job(job);
    let of = |key: &str| shown[key].as_f64().unwrap_or_else(|| panic!("no {key}: {shown}"));
    of("energy_j") * 1e3 / (of("end_unix_ms") - of("start_unix_ms"))
}

fn shown(cluster: &Cluster) -> Value {
    let shown = cluster.submitter().lconf(&["predictor", "show", "--json"]).succeeded();
    serde_json::from_str(&shown).expect("JSON")
}

fn number(cluster: &Cluster) -> Option<u64> {
    shown(cluster)["model"]["number"].as_u64()
}

/// Returns the only candidate of a waiting job.
fn candidate(cluster: &Cluster, job: u64) -> Value {
    let explained = cluster.submitter().lq(&["explain", "--json", &job.to_string()]).succeeded();
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    explained["candidates"][0].clone()
}

#[test]
fn jobs_without_a_profile_are_predicted_by_what_others_drew() {
    let dir = tempfile::tempdir().expect("a directory");
    let hardware = dir.path().join("machine.toml");
    fs::write(&hardware, machine()).expect("written");
    let hardware = hardware.to_str().expect("UTF-8");
    let mut cluster = Setup::default().node("n1", &["--hardware", hardware]).start();
    cluster.await_node("n1");
    let hold = |cluster: &Cluster| cluster.submitter().detach(&["--hold", "--app", "new", "-c", "8", "sh", "-c", WORK]);
    let first = hold(&cluster);
    assert_eq!(candidate(&cluster, first)["estimate"]["source"], "nameplate");
    (1..NEEDED).for_each(|number| run(cluster.submitter(), &format!("a{number}")));
    let train = |cluster: &Cluster| cluster.submitter().lconf(&["predictor", "train"]);
    train(&cluster).failed("19 measured jobs have finished: a training needs 20");
    // One more is enough for the master to train by itself.
    run(cluster.submitter(), "a0");
    until("a model is trained", || (number(&cluster) == Some(1)).then_some(()));
    train(&cluster).succeeded();
    let report = shown(&cluster);
    assert_eq!((&report["model"]["number"], &report["model"]["is_used"]), (&Value::from(2), &Value::from(true)));
    // 60 W are half as much again as 40 W.
    assert_eq!(report["model"]["nameplate_error"], 0.5, "{report}");
    // The first job has waited, the second is new.
    let second = hold(&cluster);
    for job in [first, second] {
        let found = candidate(&cluster, job);
        let power = found["estimate"]["power_w"].as_f64().expect("a draw");
        assert_eq!(found["estimate"]["source"], "predicted", "{found}");
        // The quantile: twenty jobs say little of the spread.
        assert!((38.0..55.0).contains(&power), "{power} W: {found}");
    }
    let text = cluster.submitter().lq(&["explain", &second.to_string()]).succeeded();
    assert!(text.contains("predicted by model 2: ") && text.contains("with confidence 90 %"), "{text}");
    // Another master has the same model and the recorded predictions.
    cluster.terminate_master();
    cluster.start_master();
    until("the model is read", || (number(&cluster) == Some(2)).then_some(()));
    cluster.await_node("n1");
    assert_eq!(candidate(&cluster, first)["estimate"]["source"], "predicted");
    let submitter = cluster.submitter();
    submitter.lq(&["release", &first.to_string()]).succeeded();
    assert_eq!(submitter.wait(first), Some(0));
    let watts = drawn(submitter, first);
    assert!((38.0..46.0).contains(&watts), "it drew {watts} W");
}
