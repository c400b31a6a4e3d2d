//! Finished jobs: their list and their energy.

use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

/// Runs three jobs one after the other; the second fails.
fn three(submitter: &Submitter) -> Vec<u64> {
    let jobs = [("first", "exit 0"), ("second", "exit 4"), ("third", "exit 0")];
    jobs.iter()
        .map(|(name, script)| {
            let job = submitter.detach(&["-J", name, "--app", "three", "sh", "-c", script]);
            submitter.wait(job);
            job
        })
        .collect()
}

fn listed(submitter: &Submitter, arguments: &[&str]) -> Vec<u64> {
    let all: Vec<&str> = ["history", "--json"].iter().chain(arguments).copied().collect();
    let json: Value = serde_json::from_str(&submitter.lq(&all).succeeded()).expect("JSON");
    json["jobs"].as_array().expect("jobs").iter().map(|job| job["id"].as_u64().expect("a number")).collect()
}

#[test]
fn history_by_filters_also_after_a_restart() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    assert_eq!(listed(&submitter, &[]), Vec::<u64>::new());
    let jobs = three(&submitter);
    let newest: Vec<u64> = jobs.iter().rev().copied().collect();
    assert_eq!(listed(&submitter, &[]), newest);
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(listed(&submitter, &[]), newest);
    assert_eq!(listed(&submitter, &["-n", "2"]), newest[..2]);
    assert_eq!(listed(&submitter, &["-t", "failed"]), [jobs[1]]);
    assert_eq!(listed(&submitter, &["--name", "first,third", "--sort", "jobid"]), [jobs[0], jobs[2]]);
    assert_eq!(listed(&submitter, &["-w", "n1", "-n", "1"]), [jobs[2]]);
    assert_eq!(listed(&submitter, &["-w", "n2"]), Vec::<u64>::new());
    assert_eq!(listed(&submitter, &["-u", "nobody"]), Vec::<u64>::new());
    assert_eq!(listed(&submitter, &["--since", "now-1h"]), newest);
    assert_eq!(listed(&submitter, &["--until", "now-1h"]), Vec::<u64>::new());
    submitter.lq(&["history", "--since", "now", "--until", "now-1h"]).failed("--until is not after --since");
    let table = submitter.lq(&["history", "-o", "jobid:5,name:8,st"]).succeeded();
    let expected = "JOBID  NAME      ST\n    3  third     CD\n    2  second    F\n    1  first     CD\n";
    assert_eq!(table, expected);
    // The table of all jobs also filters finished ones.
    let failed = submitter.lq(&["-a", "-n", "1", "-t", "F", "--noheader", "-o", "jobid"]).succeeded();
    assert_eq!(failed.trim(), jobs[1].to_string());
}

#[test]
fn energy_as_sums() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lconf(&["set", "price", &prices(submitter)]).succeeded();
    three(submitter);
    let json = |arguments: &[&str]| -> Value {
        let all: Vec<&str> = ["energy", "--json"].iter().chain(arguments).copied().collect();
        serde_json::from_str(&submitter.lq(&all).succeeded()).expect("JSON")
    };
    let user = submitter.job(1)["user"].clone();
    let energy: f64 = (1..=3).map(|job| submitter.job(job)["energy_j"].as_f64().expect("joules")).sum();
    let report = json(&[]);
    let sum = &report["sums"][0];
    assert_eq!((&report["by"], &sum["key"], &sum["jobs"]), (&"user".into(), &user, &3.into()), "{report}");
    assert!((sum["energy_j"].as_f64().expect("joules") - energy).abs() < 0.01, "{report} is not {energy} J");
    assert_eq!(report["total"]["energy_j"], sum["energy_j"]);
    let [cost, at_once, saved] = ["cost", "start_now_cost", "saved"].map(|key| sum[key].as_f64().expect(key));
    assert!((at_once - cost - saved).abs() < 1e-5, "{sum}");
    assert_eq!(json(&["--by", "job", "-n", "2"])["sums"].as_array().map(Vec::len), Some(2));
    assert_eq!(json(&["--by", "application"])["sums"][0]["key"], "three");
    assert_eq!(json(&["--by", "application", "-t", "failed"])["sums"][0]["jobs"], 1);
    let days = json(&["--by", "day"]);
    let day = days["sums"].as_array().expect("days").last().expect("today").clone();
    assert!(day["begin_unix_ms"].is_i64() && day["key"].as_str().is_some_and(|key| key.len() == 10), "{days}");
    assert_eq!(json(&["--until", "now-1h"])["total"]["jobs"], 0);
    let text = submitter.lq(&["energy"]).succeeded();
    assert!(text.starts_with("USER") && text.contains("\ntotal") && text.contains("Above idle"), "{text}");
}

/// Writes a price without an end.
fn prices(submitter: &Submitter) -> String {
    let path = submitter.path("prices.csv");
    std::fs::write(&path, "time,price\n2026-01-01 00:00,80 EUR/MWh\n2100-01-01 00:00,80 EUR/MWh\n").expect("written");
    path.display().to_string()
}

#[test]
fn the_energy_of_nodes_is_a_sum() {
    let options = ["--cpus", "1", "--meter", "command:echo 40", "--reading-interval", "200ms"];
    let mut cluster = Setup::default().node("n1", &options).start();
    until("the meter is read", || (cluster.node_report("n1")?["measured"] == true).then_some(()));
    until("the node has used energy", || (cluster.node_report("n1")?["energy_j"].as_f64()? > 1.0).then_some(()));
    // Readings are written every minute, and when the master ends.
    assert!(cluster.terminate_master().success());
    cluster.start_master();
    let text = cluster.submitter().lq(&["energy", "--by", "node", "--json"]).succeeded();
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let sum = &report["sums"][0];
    assert_eq!((&sum["key"], &sum["measured_j"], &sum["jobs"]), (&"n1".into(), &sum["energy_j"], &Value::Null));
    let [energy, seen] = ["energy_j", "seen_s"].map(|key| sum[key].as_f64().expect(key));
    assert!(seen > 0.0 && (energy / seen - 40.0).abs() < 1.0, "40 W: {report}");
    // The node is in no group. Its energy belongs to its states; those of the last second may be missing.
    let sums = |options: &[&str]| -> Value {
        let text = cluster.submitter().lq(&[&["energy", "--json"], options].concat()).succeeded();
        serde_json::from_str::<Value>(&text).expect("JSON")["sums"].clone()
    };
    let groups = sums(&["--by", "group"]);
    assert_eq!((&groups[0]["key"], &groups[0]["energy_j"]), (&"".into(), &sum["energy_j"]));
    let states = sums(&["--by", "state", "-w", "n1"]);
    let [energy, seen, span] = ["energy_j", "seen_s", "span_s"].map(|key| states[0][key].as_f64().expect(key));
    assert_eq!(states[0]["key"], "idle");
    assert!(span > 0.0 && seen > 0.0 && (energy / seen - 40.0).abs() < 1.0, "40 W: {states}");
    assert_eq!(sums(&["--by", "state", "-w", "n2"]), Value::Array(Vec::new()));
    let table = cluster.submitter().lq(&["energy", "--by", "node"]).succeeded();
    assert!(table.starts_with("NODE") && table.contains("\ncluster") && table.contains("  measured\n"), "{table}");
}
