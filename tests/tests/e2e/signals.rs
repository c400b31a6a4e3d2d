//! Signals to `lrun` reach the job, and no process of a job outlives it.

use std::io::{BufRead, BufReader};
use std::process::Child;

use limo_tests::{Cluster, finish, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a process number")), signal).expect("an own child");
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    line
}

#[test]
fn ctrl_c_ends_a_running_job() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let mut lrun = submitter.spawn_lrun(&["-v", "sleep", "100"]);
    let mut said = BufReader::new(lrun.stderr.take().expect("piped")).lines().map(|line| line.expect("readable"));
    assert_eq!(said.find(|line| line.contains("runs on")).as_deref(), Some("lrun: job 1 runs on n1/cpu"));
    until("sleep runs", || cluster.job_processes().iter().any(|process| process.is_called("sleep")).then_some(()));
    send(&lrun, Signal::SIGINT);
    let ran = finish(lrun);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert_eq!(cluster.job_processes(), []);
    let job = submitter.job(1);
    assert_eq!((&job["signal"], &job["exit_code"]), (&2.into(), &serde_json::Value::Null));
}

#[test]
fn a_job_may_answer_a_signal_itself() {
    let cluster = Cluster::of_one_node(1);
    let script = "trap 'echo got it; exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let mut lrun = cluster.submitter().spawn_lrun(&["sh", "-c", script]);
    let mut lines = BufReader::new(lrun.stdout.take().expect("piped")).lines().map(|line| line.expect("readable"));
    assert_eq!(lines.next().as_deref(), Some("ready"));
    send(&lrun, Signal::SIGUSR1);
    assert_eq!(lines.next().as_deref(), Some("got it"));
    assert_eq!(finish(lrun).code, Some(9));
}

#[test]
fn ctrl_c_takes_a_waiting_job_back() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let mut first = submitter.spawn_lrun(&["sh", "-c", "echo ready; cat"]);
    assert_eq!(first_line(&mut first), "ready\n");
    let second = submitter.spawn_lrun(&["touch", "never"]);
    until("the second job waits", || (submitter.jobs().len() == 2).then_some(()));
    send(&second, Signal::SIGINT);
    assert_eq!(finish(second).code, Some(130));
    assert_eq!(submitter.state(2), "cancelled");
    drop(first.stdin.take());
    finish(first).succeeded();
    assert!(!submitter.path("never").exists());
}

#[test]
fn a_process_that_leaves_its_group_ends_with_the_job() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo begun";
    assert_eq!(submitter.lrun(&["sh", "-c", script]).succeeded(), "begun\n");
    until("nothing of it is left", || cluster.job_processes().is_empty().then_some(()));
}

#[test]
fn a_time_limit_ends_a_job() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let ran = submitter.lrun(&["-t", "200ms", "sleep", "100"]);
    assert_eq!(ran.code, Some(143), "{ran:?}");
    assert!(ran.stderr.contains("time limit"), "{ran:?}");
    assert_eq!(submitter.state(1), "timed_out");
    assert_eq!(cluster.job_processes(), []);
}
