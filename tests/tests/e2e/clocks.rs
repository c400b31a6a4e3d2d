//! Wall clocks that jump while jobs run: the master's and the node's, by an hour and by a day, either way.

use limo_tests::{Cluster, MASTER, Setup, Submitter, until};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

fn cluster() -> Cluster {
    Setup::nodes(1, 4).with_clocks().start()
}

/// Starts a job and waits until it runs.
fn running(submitter: &Submitter, options: &[&str]) -> u64 {
    let job = submitter.detach(&[options, &["sleep", "1000"]].concat());
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    job
}

/// Jumps the clock of `daemon` while one job is far from its time limit and another is close to it.
fn check(daemon: &str, seconds: i64) {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let long = running(submitter, &["-t", "30min"]);
    let short = running(submitter, &["-t", "3s"]);
    cluster.clock(daemon).set(seconds);
    assert_eq!(submitter.lrun(&["echo", "served"]).succeeded(), "served\n");
    until("the short job ends", || (submitter.state(short) != "running").then_some(()));
    assert_eq!(submitter.wait(short), Some(143));
    assert_eq!(submitter.state(short), "timed_out");
    assert_eq!(submitter.state(long), "running", "{daemon} jumped by {seconds} s");
    let started = submitter.job(long)["start_unix_ms"].as_i64().expect("a time") / 1_000;
    let true_time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let ago = true_time.as_secs().cast_signed() + cluster.clock(MASTER).offset() - started;
    assert!((0..120).contains(&ago), "started {ago} s ago by the master's clock");
    let logged = daemon == MASTER;
    assert_eq!(cluster.master_log().contains("the wall clock has jumped"), logged);
}

#[test]
fn time_limits_hold_if_the_masters_clock_jumps_an_hour_ahead() {
    check(MASTER, HOUR);
}

#[test]
fn time_limits_hold_if_the_masters_clock_jumps_an_hour_back() {
    check(MASTER, -HOUR);
}

#[test]
fn time_limits_hold_if_the_masters_clock_jumps_a_day() {
    check(MASTER, DAY);
    check(MASTER, -DAY);
}

#[test]
fn time_limits_hold_if_the_nodes_clock_jumps() {
    check("n1", HOUR);
    check("n1", -DAY);
}
