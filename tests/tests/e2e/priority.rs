//! Order of jobs: `--priority`, `--nice`, `lq priority`, `lconf fairshare`.

use limo_tests::{Cluster, Submitter, until};

use super::users::other;

/// Submits a job that holds the whole node until it is cancelled.
fn blocker(submitter: &Submitter) -> u64 {
    let job = submitter.detach(&["-c", "all", "sleep", "1000"]);
    until("it runs", || (submitter.state(job) == "running").then_some(()));
    job
}

/// Submits a job that appends a word to `log`, alone on its node.
fn detach(submitter: &Submitter, options: &[&str], word: &str) -> u64 {
    let script = format!("echo {word} >> log");
    submitter.detach(&[&["-c", "all"], options, &["sh", "-c", &script]].concat())
}

fn cancel(submitter: &Submitter, job: u64) {
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
}

#[test]
fn the_higher_priority_runs_first_also_over_a_crash() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    let first = blocker(&submitter);
    let plain = detach(&submitter, &[], "plain");
    let nice = detach(&submitter, &["--nice=5"], "nice");
    let nicer = detach(&submitter, &["--nice"], "nicer");
    let urgent = detach(&submitter, &["--priority", "7"], "urgent");
    let array = submitter.detach(&["-c", "all", "--array", "1-2", "--priority=3", "sh", "-c", "echo task >> log"]);
    let raised = detach(&submitter, &["--priority=-10000"], "raised");
    let order: Vec<u64> = {
        let text =
            submitter.lq(&["--sort=-priority,jobid", "-o", "jobid,priority", "--noheader", "-t", "PD"]).succeeded();
        text.lines().filter_map(|line| line.split(['_', ' ']).find(|word| !word.is_empty())?.parse().ok()).collect()
    };
    assert_eq!(order, [urgent, array, plain, nice, nicer, raised]);
    submitter.lq(&["priority", &raised.to_string(), "8", "--json"]).succeeded();
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    let priority = |job: u64| submitter.job(job)["priority"].as_i64();
    assert_eq!([plain, nice, nicer, urgent, raised].map(priority), [0, -5, -100, 7, 8].map(Some));
    let shown = submitter.lq(&["show", &urgent.to_string()]).succeeded();
    assert!(shown.contains("priority     7\n"), "{shown}");
    let explained = submitter.lq(&["explain", &nicer.to_string()]).succeeded();
    assert!(explained.contains("priority     -100\n"), "{explained}");
    cancel(&submitter, first);
    assert_eq!(submitter.wait(nicer), Some(0));
    assert_eq!(submitter.read("log"), "raised\nurgent\ntask\ntask\nplain\nnice\nnicer\n");
    submitter.lq(&["priority", &nice.to_string(), "1"]).failed(&format!("there is no waiting or running job {nice}"));
}

#[test]
fn only_a_waiting_job_has_one_and_only_in_its_bounds() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let running = blocker(submitter);
    submitter.lq(&["priority", &running.to_string(), "1"]).failed("does not wait: only a waiting job has a priority");
    submitter.lq(&["priority", &running.to_string(), "x"]).failed("`x` is not a priority");
    submitter.lrun(&["--priority=10001", "true"]).failed("`10001` is not a priority");
    submitter.lrun(&["--nice=no", "true"]).failed("`no` is not a number");
    submitter.lrun(&["--nice=1", "--priority=1", "true"]).failed("cannot be used with");
}

#[test]
fn users_go_behind_others_and_operators_before_them() {
    let cluster = Cluster::of_one_node(1);
    let Some(other) = other(&cluster) else { return };
    let submitter = cluster.submitter();
    blocker(submitter);
    other.run("lrun", &["--priority=1", "true"]).failed("only an operator can submit a job with it");
    other.run("lrun", &["--dry-run", "--priority=1", "true"]).failed("only an operator can submit a job with it");
    let own = other.run("lrun", &["--detach", "--nice=3", "true"]).succeeded();
    let own = own.trim_end();
    other.run("lq", &["priority", own, "-2"]).failed(&format!("job {own} has the priority -3: only an operator"));
    other.run("lq", &["priority", own, "-4"]).succeeded();
    let foreign = detach(submitter, &[], "foreign").to_string();
    other.run("lq", &["priority", &foreign, "-1"]).failed("belongs to");
    submitter.lq(&["priority", own, "5"]).succeeded();
    assert_eq!(submitter.job(own.parse().expect("a number"))["priority"], 5);
}

#[test]
fn less_usage_and_longer_waits_raise_the_priority_also_after_a_crash() {
    let mut cluster = Cluster::of_one_node(1);
    if other(&cluster).is_none() {
        return;
    }
    let submitter = cluster.submitter().clone();
    submitter
        .lconf(&["fairshare", "--weight", "1000", "--by", "core-seconds", "--half-life", "7d", "--rank-every", "1s"])
        .succeeded();
    submitter.lconf(&["fairshare", "daemon", "2"]).succeeded();
    assert_eq!(submitter.lrun(&["sleep", "1"]).code, Some(0));
    let first = blocker(&submitter);
    let heavy = detach(&submitter, &[], "heavy");
    let other = other(&cluster).expect("root");
    let light = other.run("lrun", &["--detach", "-o", "/dev/null", "-c", "all", "true"]).succeeded();
    let light: u64 = light.trim_end().parse().expect("a number");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    let set = submitter.lconf(&["fairshare"]).succeeded();
    assert!(set.starts_with("weight       1000 by core-seconds, half-life 7d\nage          0 after 7d\n"), "{set}");
    assert!(set.lines().any(|line| line.split_whitespace().eq(["daemon", "2", "-"])), "{set}");
    assert!(set.lines().any(|line| line.split_whitespace().eq(["root", "1", "100.0", "%"])), "{set}");
    let share = |job: u64| submitter.job(job)["priority_share"].as_i64().expect("a share");
    // Half of the usage would be a fair share. Root has one share of three, and used everything.
    until("the queue is ranked", || (share(heavy) == 125).then_some(()));
    assert_eq!(share(light), 1000);
    let shown = submitter.lq(&["show", &light.to_string()]).succeeded();
    assert!(shown.contains("priority     1000 (own 0, age 0, share 1000)\n"), "{shown}");
    cancel(&submitter, first);
    assert_eq!(submitter.wait(heavy), Some(0));
    let start = |job: u64| submitter.job(job)["start_unix_ms"].as_i64().expect("it ran");
    assert!(start(light) <= start(heavy));
    submitter
        .lconf(&["fairshare", "--weight", "1000001"])
        .failed("a weight of 1000001 for the use is more than 1000000");
    submitter.lconf(&["fairshare", "--half-life", "0s"]).failed("a half-life of 0s is shorter than 1s");
    submitter.lconf(&["fairshare", "--by", "jobs"]).failed("`jobs` is not a measure of use");
    submitter.lconf(&["fairshare", "daemon"]).failed("`daemon` needs a number of shares");
}
