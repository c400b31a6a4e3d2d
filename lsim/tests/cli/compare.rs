//! `lsim compare`: figures and starts of two results, and refused folders.

use tempfile::TempDir;

use super::{SMALL, folder, lsim, read, refused};

const NODE: &str = "[[nodes]]\nname = \"n\"\ncount = 1\ncores = 4\nidle = \"95 W\"\nbusy = \"190 W\"\n";

/// Runs `small.swf` under `easy` into `a`, and another simulation into `b`.
fn results(b: &str) -> TempDir {
    let folder = folder(&[("small.swf", SMALL), ("other.swf", &SMALL.replace("3 20 ", "3 25 "))]);
    for run in ["run --trace small.swf --policy easy --out a", b] {
        let printed = lsim(folder.path(), run);
        assert!(printed.starts_with("exit 0"), "{printed}");
    }
    folder
}

/// Uses one node of four cores. Without backfilling, job 3 waits from 20 s for the end of job 2 at 200 s; job 4
/// starts then in both results.
#[test]
fn two_policies() {
    let folder = results("run --trace small.swf --policy easy --first 1 --out b");
    std::fs::write(folder.path().join("p.toml"), NODE).expect("written");
    for (policy, out) in [("easy", "a"), ("fifo", "b")] {
        let run = format!("run --trace small.swf --policy {policy} --platform p.toml --first 4 --out {out} --replace");
        assert!(lsim(folder.path(), &run).starts_with("exit 0"));
    }
    let printed = lsim(folder.path(), "compare a b");
    let starts = "\njobs in B: 0 start earlier, 3 at the same time, 1 later\n\
        \nthe largest differences:\n\
        job  submitted s  start A s  start B s  difference s\n\
        3             20         20        200          +180\n";
    assert!(printed.starts_with("exit 0\n--- stdout\nA  a (easy)\nB  b (fifo)\n\nmetric "), "{printed}");
    assert!(printed.contains(starts), "{printed}");
    // The waits are 260 s and 440 s over four jobs.
    let line = printed.lines().find(|line| line.starts_with("mean_wait_s ")).expect("a line");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["mean_wait_s", "65", "110", "+45", "+69.23"]);
    assert!(!printed.contains("wall_s") && !printed.contains("peak_rss"), "{printed}");
    // The comparison also works in the other order.
    let printed = lsim(folder.path(), "compare b a --json");
    let json = printed.split("--- stdout\n").nth(1).and_then(|text| text.split("--- stderr").next()).expect("stdout");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(
        json["starts"],
        serde_json::json!({"earlier": 1, "equal": 3, "later": 0, "only_a": 0, "only_b": 0, "neither": 0})
    );
    assert_eq!(json["largest"][0]["difference_s"], serde_json::json!(-180));
    let metrics = json["metrics"].as_array().expect("a list");
    let wait = metrics.iter().find(|metric| metric["name"] == "mean_wait_s").expect("a metric");
    assert_eq!(wait["percent"], serde_json::json!(-40.909091));
}

#[test]
fn equal_results() {
    let folder = results("run --trace small.swf --policy easy --out b");
    let printed = lsim(folder.path(), "compare a b");
    assert!(
        printed.contains(
            "\njobs in B: 0 start earlier, 4 at the same time, 0 later\n0 start only in A, 0 only in B, 1 in neither\n"
        ),
        "{printed}"
    );
    assert!(!printed.contains("largest") && !printed.contains('+'), "{printed}");
}

/// Checks that both results do the same work: 700 of the processors' seconds. `easy` ends at 200 s. `fifo`, under
/// which job 3 waits for job 2, ends at 250 s. Until then 4 x 250 s minus 700 s are idle in both: 300 x 95 W and 700
/// x 190.738 W are 162,016.6 J.
#[test]
fn energy_is_of_the_same_time() {
    let folder = results("run --trace small.swf --policy fifo --first 3 --out b");
    assert!(
        lsim(folder.path(), "run --trace small.swf --policy easy --first 3 --out a --replace").starts_with("exit 0")
    );
    let printed = lsim(folder.path(), "compare a b");
    let line = printed.lines().find(|line| line.starts_with("energy_j ")).expect("a line");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["energy_j", "162016.6", "162016.6", "0", "0.00"]);
    let note = "lsim: note: the simulations end at 200 s and 250 s: energy_j counts until 250 s in both; left out: energy_by_state_j\n";
    assert!(printed.ends_with(note) && !printed.contains("energy_by_state_j."), "{printed}");
    // Over the same window, all figures are compared.
    for (policy, out) in [("easy", "a"), ("fifo", "b")] {
        let run = format!("run --trace small.swf --policy {policy} --first 3 --measure 0s..300s --out {out} --replace");
        assert!(lsim(folder.path(), &run).starts_with("exit 0"));
    }
    let printed = lsim(folder.path(), "compare a b");
    // Four idle processors for another 50 s make the difference.
    assert!(printed.contains("\nwindow.energy_j") && printed.contains("181016.6"), "{printed}");
    assert!(printed.contains("energy_by_state_j.idle") && printed.ends_with("--- stderr\n"), "{printed}");
}

/// Checks the notes about unfinished jobs. Job 2 is believed to draw 812.48 W on all four processors, so it never
/// starts below 700 W.
#[test]
fn unfinished_jobs_are_reported() {
    let folder = results("run --trace small.swf --policy easy --first 3 --out b");
    std::fs::write(folder.path().join("l.csv"), "time,low_w,high_w\n0,,700\n").expect("written");
    let run = "run --trace small.swf --policy powercap --limits l.csv --first 3 --out a --replace";
    let printed = lsim(folder.path(), run);
    assert!(printed.contains("\njobs            3 (2 completed, 1 unfinished)\n"), "{printed}");
    let printed = lsim(folder.path(), "compare a b");
    let note = "lsim: note: a left 1 of 3 jobs unfinished: its figures are for less work\n";
    assert!(printed.contains(note) && !printed.contains("b left"), "{printed}");
}

#[test]
fn different_workloads() {
    let folder = results("run --trace other.swf --policy easy --out b");
    let told = "1 job has another number, submission, size or requested time (the first is job 3); the workloads are small.swf and other.swf";
    let refusal = format!("lsim: a and b have different workloads: {told} (--force compares them nevertheless)");
    refused(folder.path(), "compare a b", 1, &refusal);
    let printed = lsim(folder.path(), "compare a b --force");
    let notes = "--- stderr\nlsim: note: 1 job has another number, submission, size or requested time (the first is job 3)\nlsim: note: the workloads are small.swf and other.swf\n";
    assert!(printed.starts_with("exit 0") && printed.ends_with(notes), "{printed}");
    // Job 3 starts at once in both.
    assert!(printed.contains("\n3             20         20         25            +5\n"), "{printed}");
}

#[test]
fn folders_that_are_no_results() {
    let folder = results("run --trace small.swf --policy easy --first 2 --out b");
    let path = folder.path();
    refused(path, "compare a .", 1, "lsim: . is not a result of `lsim run`: it has no schedule.json");
    let told = "lsim: a and b have different workloads: 5 and 2 jobs (--force compares them nevertheless)";
    refused(path, "compare a b", 1, told);
    let jobs = read(path, "b/jobs.csv");
    std::fs::write(path.join("b/jobs.csv"), jobs.replacen("\n1,", "\nx,", 1)).expect("written");
    refused(path, "compare a b", 1, "lsim: b/jobs.csv:2: this line is not a job");
    std::fs::write(path.join("b/jobs.csv"), jobs.replacen("job_id", "job", 1)).expect("written");
    refused(path, "compare a b", 1, "lsim: b/jobs.csv:1: there is no column `job_id`");
    std::fs::write(path.join("b/schedule.json"), "{\"schema\": 2}").expect("written");
    refused(path, "compare a b", 1, "lsim: b/schedule.json: this is not a schedule of this version of lsim (schema 1)");
}
