//! The journal of a live cluster with `lsim`: replay while the master runs, detection of one changed event, and a
//! simulation of the same jobs under another policy with what-if.

use std::path::Path;

use limo_journal::{Batch, Entry, History, HistoryEntry, Journal};
use limo_model::Outcome;
use limo_sched::Event;
use limo_tests::{Cluster, Ran, Setup, Submitter};
use serde_json::Value;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_limo-workload");

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/small.toml");

/// Starts a cluster with seven jobs that run and one that is cancelled while all wait for their node. Prices and limits
/// change meanwhile.
fn live() -> Cluster {
    let cluster = Setup::default().node("n1", &["--hardware", HARDWARE, "--reading-interval", "50ms"]).start();
    let submitter = cluster.submitter();
    let set = |arguments: &[&str]| submitter.lconf(arguments).succeeded();
    std::fs::write(submitter.path("prices.csv"), "time,price\n2026-01-01 00:00,8000 EUR/MWh\n").expect("written");
    set(&["set", "price", "prices.csv"]);
    set(&["set", "limits", "0W", "70W"]);
    set(&["node", "drain", "n1", "--reason", "a test"]);
    let submit =
        |cores: &str| submitter.detach(&["--app", "burn", "--cores", cores, WORKLOAD, "burn", "--duration", "200ms"]);
    let jobs: Vec<u64> = ["2", "4", "1", "2", "1", "3", "1"].iter().map(|cores| submit(cores)).collect();
    let unwanted = submit("4");
    submitter.lq(&["cancel", &unwanted.to_string()]).succeeded();
    set(&["node", "resume", "n1"]);
    jobs.iter().for_each(|job| assert_eq!(submitter.wait(*job), Some(0)));
    set(&["set", "limits", "none", "none"]);
    cluster
}

fn lsim(submitter: &Submitter, arguments: &[&str]) -> Ran {
    submitter.run("lsim", arguments)
}

/// Copies a journal with another end of one job; returns the place of the changed entry.
fn changed_copy(from: &Path, to: &Path) -> i64 {
    let history = History::open(from).expect("a journal");
    let mut entries: Vec<HistoryEntry> = history.collect::<Result<_, _>>().expect("readable");
    let ended = entries.iter_mut().find(|entry| matches!(&entry.entry, Entry::Event(Event::Ended { .. })));
    let HistoryEntry { seq, entry: Entry::Event(Event::Ended { outcome, .. }), .. } = ended.expect("a job has ended")
    else {
        panic!("not an end")
    };
    *outcome = Outcome::Exited(77);
    let place = *seq;
    let entries = entries.into_iter().map(|entry| (entry.at, entry.entry)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (journal, recovered) = Journal::open(to).await.expect("a new journal");
        let batch = Batch { generation: recovered.generation, entries, ..Batch::default() };
        journal.commit(batch).await.expect("written");
        journal.close().await;
    });
    place
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_live_journal_replays_and_can_be_simulated_with_other_settings() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = live();
    let submitter = cluster.submitter();
    let state = cluster.state_dir().to_str().expect("text");

    // The master continues undisturbed.
    let replayed = lsim(submitter, &["replay", state]).succeeded();
    println!("{replayed}");
    assert!(replayed.contains("equal: every round"), "{replayed}");
    let report: Value = serde_json::from_str(&lsim(submitter, &["replay", state, "--json"]).succeeded()).expect("JSON");
    assert!(report["equal"] == true && report["rounds"].as_u64() > Some(20), "{report}");

    let copy = directory.path().join("copy");
    let place = changed_copy(cluster.state_dir(), &copy);
    let ran = lsim(submitter, &["replay", copy.to_str().expect("text")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    // The changed event is possible, but the next round contains an exit with 77, unlike the recorded round.
    let difference = ran.stdout.split_once("different: entry ").expect("a difference").1;
    let (entry, sides) = difference.split_once(" at ").expect("a time");
    assert!((place + 1..place + 10).contains(&entry.parse().expect("a number")), "{place}: {ran:?}");
    let (recorded, now) = sides.split_once("now:").expect("both sides");
    assert!(recorded.contains("\"exited\":0") && now.contains("\"exited\":77"), "{ran:?}");

    what_if(submitter, state);
}

fn what_if(submitter: &Submitter, state: &str) {
    println!("{}", lsim(submitter, &["what-if", "--from", state, "--policy", "easy"]).succeeded());
    let arguments = ["what-if", "--from", state, "--policy", "easy", "--budget", "80%", "--out", "result", "--json"];
    let report: Value = serde_json::from_str(&lsim(submitter, &arguments).succeeded()).expect("JSON");
    let columns = report["columns"].as_array().expect("columns");
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["as it was", "simulated as it was", "easy"]);
    let lived = number(&columns[0]["energy_j"]);
    for column in columns {
        assert_eq!((column["jobs"].as_u64(), column["ended"].as_u64()), (Some(8), Some(7)), "{report:#}");
        let (energy, span) = (number(&column["energy_j"]), number(&column["span_s"]));
        // The same work on the same node takes about the same time. But the believed draw of such short runs partly
        // comes from their nameplate. It never exceeds 50 W plus the noise.
        assert!((energy - lived).abs() < lived * 0.5 && energy < 51.0 * span, "{report:#}");
        // The price is known slightly later than the node.
        let cost = number(&column["cost"]);
        assert!(cost > 0.0 && cost <= energy * 8000.0 / 3.6e9 + 2e-6, "{report:#}");
        assert!(number(&column["mean_wait_s"]) <= number(&column["max_wait_s"]));
        assert!((0.0..=1.0).contains(&number(&column["outside_limits_share"])));
    }
    // Seven runs of 200 ms with 14 cores cannot all run at once on a node of four.
    assert!(number(&columns[1]["max_wait_s"]) > 0.1 && number(&columns[2]["max_wait_s"]) > 0.1, "{report:#}");
    let budget = &columns[2]["budgets"][0];
    let (energy, spent) = (number(&columns[2]["energy_j"]), number(&budget["spent_j"]));
    assert!(spent > 0.0 && spent <= energy + 0.01, "{report:#}");
    // All cores have the same type, so measured times need no profile.
    assert_eq!(report["running_times"]["profiles"], 0, "{report:#}");
    assert_eq!(report["running_times"]["measured"], 7, "{report:#}");
    let rows = std::fs::read_to_string(submitter.path("result/jobs.csv")).expect("a result");
    assert_eq!(rows.lines().count(), 9, "{rows}");
}
