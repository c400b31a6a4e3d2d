//! SIGTERM ends the daemons in an orderly way.

use std::io::{BufRead, BufReader, Write};

use limo_tests::{Cluster, finish, until};

#[test]
fn a_restarted_master_keeps_running_jobs() {
    let mut cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter().clone();
    let mut lrun = submitter.spawn_lrun(&["sh", "-c", "echo one; read word; echo two $word; exit 4"]);
    let mut lines = BufReader::new(lrun.stdout.take().expect("piped")).lines().map(|line| line.expect("readable"));
    assert_eq!(lines.next().as_deref(), Some("one"));
    let mut stdin = lrun.stdin.take().expect("piped");
    let waits = submitter.command("lq", &["wait", "1"]).spawn().expect("a program that is built");
    assert_eq!(cluster.terminate_master().code(), Some(0));
    stdin.write_all(b"more\n").expect("lrun is there");
    cluster.start_master();
    assert_eq!(lines.next().as_deref(), Some("two more"));
    let ran = finish(lrun);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("the master went away"), "{ran:?}");
    assert_eq!(finish(waits).code, Some(4));
    assert_eq!(submitter.job(1)["exit_code"], 4);
}

#[test]
fn a_job_may_end_without_the_master() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["sh", "-c", "until [ -e go ]; do sleep 0.02; done; touch done; exit 6"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    assert_eq!(cluster.terminate_master().code(), Some(0));
    std::fs::write(submitter.path("go"), "").expect("written");
    until("the job is done", || submitter.path("done").exists().then_some(()));
    cluster.start_master();
    assert_eq!((submitter.wait(job), submitter.state(job).as_str()), (Some(6), "failed"));
}

#[test]
fn an_interrupted_node_stops_its_jobs() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    let mut lrun = submitter.spawn_lrun(&[
        "sh",
        "-c",
        "trap 'echo farewell; exit 3' TERM; echo ready; while :; do sleep 0.02; done",
    ]);
    let mut lines = BufReader::new(lrun.stdout.take().expect("piped")).lines().map(|line| line.expect("readable"));
    assert_eq!(lines.next().as_deref(), Some("ready"));
    assert_eq!(cluster.interrupt_node("n1").code(), Some(0));
    assert_eq!(lines.next().as_deref(), Some("farewell"));
    assert_eq!(finish(lrun).code, Some(3));
    assert_eq!(cluster.job_processes(), []);
    let waiting = submitter.detach(&["true"]);
    cluster.start_node("n1");
    assert_eq!(submitter.wait(waiting), Some(0));
}

#[test]
fn a_node_ends_without_a_master() {
    let mut cluster = Cluster::of_one_node(1);
    cluster.kill_master();
    assert_eq!(cluster.terminate_node("n1").code(), Some(0));
}
