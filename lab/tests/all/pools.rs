//! `lab reproduce htc-sim-2015`, with three days of one seed.

use serde_json::Value;

use super::printed;

#[test]
fn policies_of_a_pool_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = printed(folder.path(), "reproduce htc-sim-2015 --seeds 1 --days 3 --json");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let policies: Vec<&str> =
        report["years"][0].as_array().expect("policies").iter().filter_map(|of| of["policy"].as_str()).collect();
    let windows = ["S6/5", "S6/15", "S6/30", "S6/60", "S6/120", "S6/240"];
    assert_eq!(policies, [&["S1", "S2", "S3a", "S3b", "S4", "S5a", "S5b"][..], &windows[..]].concat());
    let number = |policy: usize, key: &str| report["years"][0][policy][key].as_f64().expect("a number");
    // S2 uses the computers with the least draw.
    assert!((0..13).all(|policy| number(policy, "completed") > 1_000.0), "{report}");
    assert!((0..13).all(|policy| policy == 1 || number(1, "jobs_j") < number(policy, "jobs_j")), "{report}");
    // Some groups are closed to owners at night.
    assert!(number(4, "jobs_j") != number(0, "jobs_j"), "{report}");
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(7));
}
