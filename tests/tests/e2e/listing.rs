//! `lq` shows and controls jobs.

use limo_tests::{Cluster, Submitter, until};
use serde_json::Value;

/// Name and type of a key that programs rely on.
type Key = (&'static str, fn(&Value) -> bool);

const CONTRACT: [Key; 15] = [
    ("id", Value::is_u64),
    ("state", Value::is_string),
    ("user", Value::is_string),
    ("name", Value::is_string),
    ("command", Value::is_string),
    ("nodes", is_texts),
    ("units", is_texts),
    ("submit_unix_ms", Value::is_i64),
    ("start_unix_ms", |value| value.is_null() || value.is_i64()),
    ("end_unix_ms", |value| value.is_null() || value.is_i64()),
    ("exit_code", |value| value.is_null() || value.is_u64()),
    ("signal", |value| value.is_null() || value.is_i64()),
    ("wait_reason", |value| value.is_null() || value.is_string()),
    ("energy_j", |value| value.is_null() || value.is_number()),
    ("cost", |value| value.is_null() || value.is_number()),
];

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

fn check_contract(job: &Value) {
    for (key, is_right) in CONTRACT {
        let value = job.get(key).unwrap_or_else(|| panic!("no {key} in {job}"));
        assert!(is_right(value), "{key} is {value} in {job}");
    }
}

/// Submits a job that runs on the only core until it is cancelled.
fn blocker(submitter: &Submitter) -> u64 {
    let job = submitter.detach(&["-J", "blocker", "sleep", "1000"]);
    until("the blocker runs", || (submitter.state(job) == "running").then_some(job))
}

#[test]
fn json_keeps_the_keys_for_programs() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    assert_eq!(submitter.jobs(), Vec::<Value>::new());
    let failed = submitter.detach(&["sh", "-c", "exit 4"]);
    assert_eq!(submitter.wait(failed), Some(4));
    let running = blocker(submitter);
    let waiting = submitter.detach(&["true"]);
    until("the last job has a reason", || submitter.job(waiting)["wait_reason"].is_string().then_some(()));
    let jobs = submitter.jobs();
    assert_eq!(jobs.iter().map(|job| job["id"].as_u64().expect("a number")).collect::<Vec<_>>(), [running, waiting]);
    jobs.iter().for_each(check_contract);
    assert_eq!(
        (&jobs[0]["name"], &jobs[0]["nodes"], &jobs[0]["units"]),
        (&"blocker".into(), &["n1"][..].into(), &["n1/cpu"][..].into())
    );
    assert!(jobs[0]["start_unix_ms"].is_i64() && jobs[1]["start_unix_ms"].is_null());
    assert_eq!(jobs[0]["command"], "sleep 1000");
    let over = submitter.job(failed);
    check_contract(&over);
    assert_eq!((&over["state"], &over["exit_code"], &over["signal"]), (&"failed".into(), &4.into(), &Value::Null));
    let order = ["submit_unix_ms", "start_unix_ms", "end_unix_ms"].map(|key| over[key].as_i64().expect("a time"));
    assert!(order.is_sorted(), "{over}");
    let all: Value = serde_json::from_str(&submitter.lq(&["--all", "--json"]).succeeded()).expect("JSON");
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_table_and_the_nodes_are_for_people() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    blocker(submitter);
    let table = submitter.lq(&[]).succeeded();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("JOBID") && lines[1].contains("blocker") && lines[1].contains("n1(cpu)"), "{table}");
    let nodes = submitter.lq(&["nodes"]).succeeded();
    assert!(nodes.contains("n1") && nodes.contains("up"), "{nodes}");
}

#[test]
fn explain_says_why_a_job_waits() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    blocker(submitter);
    let waiting = submitter.detach(&["true"]);
    let text = until("a reason is known", || {
        let text = submitter.lq(&["explain", &waiting.to_string()]).succeeded();
        text.starts_with(&format!("job {waiting} waits: resources")).then_some(text)
    });
    assert!(text.contains("n1"), "{text}");
    let json: Value =
        serde_json::from_str(&submitter.lq(&["explain", &waiting.to_string(), "--json"]).succeeded()).expect("JSON");
    check_contract(&json["job"]);
    assert_eq!(json["candidates"][0]["node"], "n1");
    submitter.lq(&["explain", "99"]).failed("99");
}

#[test]
fn cancel_ends_waiting_and_running_jobs_and_wait_reports_it() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let running = blocker(submitter);
    let waiting = submitter.detach(&["touch", "never"]);
    submitter.lq(&["cancel", &waiting.to_string()]).succeeded();
    assert_eq!((submitter.wait(waiting), submitter.state(waiting).as_str()), (Some(125), "cancelled"));
    submitter.lq(&["cancel", &running.to_string()]).succeeded();
    assert_eq!((submitter.wait(running), submitter.state(running).as_str()), (Some(143), "cancelled"));
    assert_eq!(cluster.job_processes(), []);
    assert!(!submitter.path("never").exists());
    submitter.lq(&["cancel", &running.to_string()]).failed("no waiting or running job 1");
}
