//! Profiles that a node with an energy counter learns from runs that have it alone, without a cap and at caps. The
//! counter and the tasks follow a model, so the true profile is known.

use std::fs;
use std::path::Path;

use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

use crate::meters::Package;

/// Idle draw of the package, in watts.
const IDLE: u64 = 10;
/// A task of 2.5 s that draws 40 W above idle: 100 J at each speed. A cap of 30 W leaves it 20 W, so it takes 5 s.
const TASK: &str = "40 2.5";
const ENERGY: f64 = 100.0;

/// Options of a node of one core with this package as its meter and its cap.
fn options(package: &Path) -> Vec<String> {
    let sysfs = package.to_str().expect("UTF-8");
    let fixed = ["--cpus", "1", "--idle", "10 W", "--nameplate", "60 W", "--reading-interval", "100ms"];
    let own = ["--meter", "powercap", "--cap", "cpu=rapl", "--sysfs", sysfs];
    fixed.into_iter().chain(own).map(str::to_owned).collect()
}

/// A job that does the task on a package and writes the times of its begin and end, in nanoseconds, to `times`.
fn task(package: &Package, times: &Path) -> String {
    let (loads, times) = (package.loads.display(), times.display());
    // The renamed file is never read in part.
    format!(
        "date +%s%N >> {times}; echo {TASK} > {loads}/../$LIMO_JOB_ID; mv {loads}/../$LIMO_JOB_ID {loads}/; \
         while [ -e {loads}/$LIMO_JOB_ID ]; do sleep 0.01; done; date +%s%N >> {times}"
    )
}

/// Submits three runs of the task with `options`.
fn submit(submitter: &Submitter, (package, times): (&Package, &Path), options: &[&str]) -> Vec<u64> {
    let script = task(package, times);
    let run = |_| submitter.detach(&[options, &["--app", "burn", "sh", "-c", &script]].concat());
    (0..3).map(run).collect()
}

/// Returns the median duration of three runs as they noted it, in seconds.
fn noted(times: &Path) -> f64 {
    let noted = fs::read_to_string(times).expect("noted");
    let noted: Vec<f64> = noted.lines().map(|line| line.parse().expect("nanoseconds")).collect();
    let mut runs: Vec<f64> = noted.chunks(2).map(|run| (run[1] - run[0]) / 1e9).collect();
    runs.sort_by(f64::total_cmp);
    assert_eq!(runs.len(), 3, "{runs:?}");
    runs[1]
}

fn profiles(cluster: &Cluster) -> Vec<Value> {
    let listed = cluster.submitter().lconf(&["profile", "list", "--json"]).succeeded();
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    listed["profiles"].as_array().expect("a list").clone()
}

/// Checks that a value is within 2 % of the truth.
fn is_true(profile: &Value, key: &str, truth: f64) {
    let got = profile[key].as_f64().unwrap_or_else(|| panic!("no {key}: {profile}"));
    assert!((got - truth).abs() <= 0.02 * truth, "{key} is {got}, not {truth}: {profile}");
}

/// Returns the estimates of a start at each of the caps, in seconds and watts.
fn estimates(submitter: &Submitter, caps: &[Option<&str>]) -> Vec<(f64, f64)> {
    let estimate = |cap: &Option<&str>| {
        let cap: Vec<&str> = cap.iter().flat_map(|cap| ["--cap", cap]).collect();
        let shown = submitter.lrun(&[&["--dry-run", "--json", "--app", "burn"], &cap[..], &["true"]].concat());
        let shown: Value = serde_json::from_str(&shown.succeeded()).expect("JSON");
        let estimate = &shown["candidates"][0]["estimate"];
        let value = |key: &str| estimate[key].as_f64().unwrap_or_else(|| panic!("no {key}: {shown}"));
        (value("duration_s"), value("power_w"))
    };
    caps.iter().map(estimate).collect()
}

/// Two nodes of the same hardware, of which the second draws a fifth more for the same task.
#[test]
fn nodes_that_differ_are_measured() {
    let mut packages = [Package::new(), Package::new()];
    packages.iter_mut().for_each(|package| package.draw(IDLE));
    let mut setup = Setup::default().node("blind", &["--cpus", "1"]);
    for (name, package) in ["n1", "n2"].iter().zip(&packages) {
        let options = options(package.path());
        setup = setup.node(name, &options.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let cluster = setup.start();
    let submitter = cluster.submitter();
    for name in ["n1", "n2"] {
        until(&format!("{name} is measured"), || (cluster.node_report(name)?["measured"] == true).then_some(()));
    }
    let [one, other] = packages.each_ref().map(|package| package.loads.display().to_string());
    let script = format!(
        "case $LIMO_NODE in n1) to={one} task='40 2.5';; *) to={other} task='48 2.5';; esac; echo $task > $to/../job; \
         mv $to/../job $to/; while [ -e $to/job ]; do sleep 0.01; done"
    );
    let measure = |options: &[&str]| {
        submitter.lconf(&[&["variation", "measure", "burn"], options, &["--", "sh", "-c", &script]].concat())
    };
    measure(&["--nodes", "blind"]).failed("node `blind` has no meter: nothing can be learned of it");
    let shown = measure(&[]).succeeded();
    let factors = submitter.lconf(&["variation", "show", "--json"]).succeeded();
    let factors: Value = serde_json::from_str(&factors).expect("JSON");
    let [one, other] = &factors["factors"].as_array().expect("factors")[..] else { panic!("not two: {shown}") };
    // The profile has the mean of 40 and 48 W or one of them; three of the five runs of each node count 3/7.
    for (factor, node, low, high) in [(one, "n1", 0.90, 1.001), (other, "n2", 0.999, 1.10)] {
        assert_eq!((&factor["application"], &factor["node"]), (&Value::from("burn"), &Value::from(node)));
        let power = factor["power"].as_f64().expect("a factor");
        assert!((low..high).contains(&power), "{shown}");
        assert!((factor["duration"].as_f64().expect("a factor") - 1.0).abs() < 0.02, "{shown}");
    }
    let ratio = other["power"].as_f64().expect("a factor") / one["power"].as_f64().expect("a factor");
    assert!(ratio > 1.05, "{shown}");
}

/// One node runs without a cap and another one, at the same time, at 30 W.
#[test]
fn three_runs_alone_on_a_metered_node_teach_a_profile_within_2_percent_at_each_cap() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut packages = [Package::new(), Package::new()];
    packages.iter_mut().for_each(|package| package.draw(IDLE));
    let mut setup = Setup::default();
    for (name, package) in ["n1", "n2"].iter().zip(&packages) {
        let options = options(package.path());
        setup = setup.node(name, &options.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let cluster = setup.start();
    let submitter = cluster.submitter();
    for name in ["n1", "n2"] {
        until(&format!("{name} is measured"), || (cluster.node_report(name)?["measured"] == true).then_some(()));
    }
    let times = ["free", "capped"].map(|name| dir.path().join(name));
    let free = submit(submitter, (&packages[0], &times[0]), &["-w", "n1", "--exclusive"]);
    let capped = submit(submitter, (&packages[1], &times[1]), &["-w", "n2", "--cap", "30W"]);
    for job in free.iter().chain(&capped) {
        assert_eq!(submitter.wait(*job), Some(0));
    }
    let learned = profiles(&cluster);
    let [free, capped] = &learned[..] else { panic!("not two profiles: {learned:?}") };
    assert_eq!((&free["cap_w"], capped["cap_w"].as_f64()), (&Value::Null, Some(30.0)));
    for (profile, times) in [(free, &times[0]), (capped, &times[1])] {
        assert_eq!((&profile["application"], &profile["runs"]), (&Value::from("burn"), &Value::from(3)), "{profile}");
        is_true(profile, "energy_j", ENERGY);
        is_true(profile, "duration_s", noted(times));
    }
    // The model slows the capped runs down by half.
    assert!(noted(&times[0]) >= 2.5 && noted(&times[1]) >= 5.0, "{learned:?}");
    // Between the measured caps, the lowest ineffective one being 40 W, estimates lie between their neighbours.
    let estimates = estimates(submitter, &[Some("30W"), Some("33W"), Some("36W"), None]);
    for pair in estimates.windows(2) {
        assert!(pair[0].0 > pair[1].0 && pair[0].1 < pair[1].1, "{estimates:?}");
    }
}
