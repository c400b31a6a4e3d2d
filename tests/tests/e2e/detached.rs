//! Jobs without an attached client: their numbers, waiting for them, and their output.

use std::fs;
use std::io::{BufRead, BufReader};

use limo_tests::{Cluster, Ran, finish, until};

#[test]
fn waiting_gives_the_number_and_then_the_code() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let ran = submitter.lrun(&["--wait", "sh", "-c", "echo out; exit 3"]);
    assert_eq!(ran, Ran { code: Some(3), stdout: "1\n".into(), stderr: String::new() });
    assert_eq!(submitter.read("limo-1.out"), "out\n");
    let ran = submitter.lrun(&["-W", "-o", "all.txt", "--json", "sh", "-c", "kill -TERM $$"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(143), "{\"schema\":1,\"id\":2}\n"), "{ran:?}");
    assert!(ran.stderr.contains("job 2: n1: "), "{ran:?}");
    let missing = submitter.lrun(&["--wait", "no-such-program"]);
    assert!(missing.code == Some(127) && missing.stderr.contains("command not found"), "{missing:?}");
}

#[test]
fn the_words_of_others_are_understood() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    assert_eq!(submitter.lrun(&["--parsable", "true"]).succeeded(), "1\n");
    assert_eq!(submitter.wait(1), Some(0));
    assert!(submitter.lrun(&["--test-only", "true"]).succeeded().starts_with("would start now on n1/cpu"));
    submitter.lrun(&["--test-only", "--wait", "true"]).failed("cannot be used with");
    submitter.lrun(&["--requeue", "true"]).failed("--requeue is for --detach");
}

#[test]
fn the_output_of_a_job_is_read_from_its_file() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sh", "-c", "echo out; echo err >&2"]).to_string();
    assert_eq!(submitter.wait(1), Some(0));
    assert_eq!(submitter.lq(&["logs", &job]).succeeded(), "out\n");
    assert_eq!(submitter.lq(&["logs", "--stderr", &job]).succeeded(), "err\n");
    assert_eq!(submitter.lq(&["logs", "-f", &job]).succeeded(), "out\n");
    let path = submitter.path("limo-1.out");
    assert!(submitter.lq(&["show", &job]).succeeded().contains(&path.display().to_string()));
    fs::remove_file(&path).expect("there");
    let text = format!("the output of job 1 is not on this machine: on n1 it is {}", path.display());
    submitter.lq(&["logs", &job]).failed(&text);
    submitter.lrun(&["true"]).succeeded();
    submitter.lq(&["logs", "2"]).failed("job 2 has no file: its output went to its lrun");
    submitter.lq(&["logs", "77"]).failed("77");
}

#[test]
fn a_job_is_followed_from_before_its_start_to_its_end() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let blocker = submitter.detach(&["sh", "-c", "until [ -e one ]; do sleep 0.02; done"]);
    let job = submitter.detach(&["sh", "-c", "echo first; until [ -e two ]; do sleep 0.02; done; echo last"]);
    submitter.lq(&["logs", &job.to_string()]).failed("has not started yet");
    let mut follow =
        submitter.command("lq", &["logs", "-f", &job.to_string()]).spawn().expect("a program that is built");
    fs::write(submitter.path("one"), "").expect("written");
    let mut lines = BufReader::new(follow.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("UTF-8"), "first", "while the job runs");
    assert_eq!(submitter.state(job), "running");
    fs::write(submitter.path("two"), "").expect("written");
    assert_eq!(lines.next().expect("a line").expect("UTF-8"), "last");
    assert!(lines.next().is_none());
    finish(follow).succeeded();
    assert_eq!(submitter.wait(blocker), Some(0));
    until("both are over", || submitter.jobs().is_empty().then_some(()));
}
