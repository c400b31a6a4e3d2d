//! Queues of the master's settings, as users and operators see them.

use std::fs;
use std::path::PathBuf;

use limo_tests::{Cluster, Setup, Submitter, until};
use nix::unistd::{Group, getegid};
use serde_json::Value;
use tempfile::TempDir;

/// Two nodes of one core: n1 is in the queue `short`, n2 in the default queue `long`.
struct QueueCluster {
    cluster: Cluster,
    settings: PathBuf,
    _directory: TempDir,
}

/// The name of the group of the user who runs the tests.
fn own_group() -> String {
    Group::from_gid(getegid()).expect("readable").expect("it has a name").name
}

fn text(state: &str) -> String {
    format!(
        "[queue.short]\nnodes = [\"n1\"]\ndefault_time = \"10min\"\nmax_time = \"1h\"\nmax_nodes = 1\nstate = \"{state}\"\n\
         [queue.long]\nnodes = [\"n2\"]\ndefault = true\n[queue.closed]\nusers = [\"nobody-there\"]\n\
         [queue.group]\ngroups = [\"{}\"]\n[queue.others]\ngroups = [\"nobody-is-there\"]\n",
        own_group()
    )
}

impl QueueCluster {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = directory.path().join("lmaster.toml");
        fs::write(&settings, text("up")).expect("written");
        let options = ["--config", settings.to_str().expect("text")];
        let cluster = Setup::nodes(2, 1).master(&options).start();
        Self { cluster, settings, _directory: directory }
    }

    fn configure(&self, text: &str) {
        fs::write(&self.settings, text).expect("written");
        self.cluster.reload_master();
    }
}

fn queues(submitter: &Submitter) -> Vec<Value> {
    let told = submitter.lconf(&["queue", "list", "--json"]).succeeded();
    let mut value: Value = serde_json::from_str(&told).expect("JSON");
    let Value::Array(all) = value["queues"].take() else { panic!("{told}") };
    all
}

/// Waits until the queue `short` has this state.
fn await_state(submitter: &Submitter, state: &str) {
    until(&format!("short is {state}"), || (queues(submitter)[4]["state"] == state).then_some(()));
}

#[test]
fn jobs_run_on_the_nodes_of_their_queue_and_within_its_limits() {
    let queued = QueueCluster::start();
    let submitter = queued.cluster.submitter();
    // n2 is free, but not for them.
    let jobs: Vec<u64> = (0..3).map(|_| submitter.detach(&["-p", "short", "true"])).collect();
    let default = submitter.detach(&["true"]);
    for job in jobs {
        assert_eq!(submitter.wait(job), Some(0));
        let report = submitter.job(job);
        assert_eq!((&report["queue"], &report["nodes"][0]), (&"short".into(), &"n1".into()));
        assert_eq!(report["time_limit_s"], 600.0);
    }
    assert_eq!(submitter.wait(default), Some(0));
    let report = submitter.job(default);
    assert_eq!((&report["queue"], &report["nodes"][0]), (&"long".into(), &"n2".into()));
    assert_eq!(report["time_limit_s"], Value::Null);
    let told = submitter.lq(&["--all", "--format", "jobid,partition", "--noheader"]).succeeded();
    let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec![&*default.to_string(), "long"]), "{told}");
    let listed = submitter.lconf(&["queue", "list"]).succeeded();
    assert!(listed.starts_with("QUEUE") && listed.contains("long*") && listed.contains("1/1"), "{listed}");
    let refused = |options: &[&str], words: &str| submitter.lrun(&[options, &["true"]].concat()).failed(words);
    refused(&["-p", "fast"], "there is no queue `fast` (queues: closed, group, long, others, short)");
    refused(&["-p", "short", "-t", "2h"], "the time limit of 2h is longer than the queue `short` allows: at most 1h");
    refused(&["-p", "short", "-N", "2"], "the job asks for 2 nodes: the queue `short` allows at most 1");
    refused(&["-p", "closed"], "the queue `closed` is not for ");
    refused(&["-p", "others"], ", who is in none of its groups: nobody-is-there");
    refused(&["--test-only", "-p", "others"], ", who is in none of its groups: nobody-is-there");
    let member = submitter.detach(&["-p", "group", "true"]);
    assert_eq!(submitter.wait(member), Some(0));
    let groups: Vec<Value> = queues(submitter).iter().map(|queue| queue["groups"].clone()).collect();
    assert_eq!(groups, [Value::Null, own_group().into(), Value::Null, "nobody-is-there".into(), Value::Null]);
    refused(&["-p", "short", "-w", "n2"], "no known node is in the queue `short` and among the nodes");
    refused(&["--test-only", "-p", "fast"], "there is no queue `fast`");
}

#[test]
fn a_queue_that_is_down_keeps_its_jobs_across_a_crash_until_it_is_up() {
    let mut queued = QueueCluster::start();
    let submitter = queued.cluster.submitter().clone();
    queued.configure(&text("down"));
    await_state(&submitter, "down");
    let job = submitter.detach(&["-p", "short", "true"]);
    let waits = || {
        until("the job waits for its queue", || {
            let report = submitter.job(job);
            (report["wait_kind"] == "queue" && report["wait_reason"] == "queue: short is down").then_some(())
        });
    };
    waits();
    let explained = submitter.lq(&["explain", &job.to_string()]).succeeded();
    assert!(explained.contains("queue: short is down"), "{explained}");
    submitter.lrun(&["-p", "short", "-I", "true"]).failed("the queue `short` is down");
    // The other queue goes on.
    submitter.lrun(&["true"]).succeeded();
    queued.cluster.kill_master();
    queued.cluster.start_master();
    queued.cluster.await_node("n1");
    waits();
    // A file with an error changes nothing.
    let before = queues(&submitter);
    queued.configure(&text("up").replace("[queue.closed]\n", "[queue.closed]\ndefault = true\n"));
    until("the error is logged", || {
        queued.cluster.master_log().contains("queue.closed and queue.long are both the default").then_some(())
    });
    assert_eq!(queues(&submitter), before);
    queued.configure(&text("up"));
    assert_eq!((submitter.wait(job), submitter.job(job)["nodes"][0].as_str()), (Some(0), Some("n1")));
}
