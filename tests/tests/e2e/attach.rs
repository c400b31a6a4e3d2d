//! `lq attach`: another terminal becomes the `lrun` of a job.

use std::io::Write;
use std::process::{Child, Stdio};

use limo_tests::{Cluster, Submitter, finish, until};

/// Script that answers each line of input, and ends after the last one.
const ANSWERS: &str =
    "echo begun; while read line; do echo got $line; [ $line = end ] && exit 5; done; echo eof; exit 6";

fn attach(submitter: &Submitter, arguments: &[&str]) -> Child {
    let all = [&["attach"], arguments].concat();
    submitter.command("lq", &all).stdin(Stdio::piped()).spawn().expect("a program that is built")
}

fn types(child: &mut Child, text: &str) {
    child.stdin.as_mut().expect("it is piped").write_all(text.as_bytes()).expect("typed");
}

/// Starts a job, and kills its `lrun` once this much output was shown.
fn orphan(submitter: &Submitter, lines: &str, shown: &str) {
    let output = submitter.path("shown");
    let file = std::fs::File::create(&output).expect("made");
    let mut command = submitter.command("lrun", &["sh", "-c", ANSWERS]);
    let mut lrun = command.stdin(Stdio::piped()).stdout(file).spawn().expect("a program that is built");
    types(&mut lrun, lines);
    until("it has shown that", || (submitter.read("shown") == shown).then_some(()));
    lrun.kill().expect("it is there");
    lrun.wait().expect("an own child");
}

#[test]
fn another_client_continues_at_the_offset_of_the_first_one() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    orphan(&submitter, "one\n", "begun\ngot one\n");
    // A restarted master knows the streams only from the node.
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    let mut client = attach(&submitter, &["1"]);
    types(&mut client, "two\nend\n");
    let ran = finish(client);
    // The output is too short for an acknowledgement, so the node sends it again.
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "begun\ngot one\ngot two\ngot end\n"), "{}", ran.stderr);
}

#[test]
fn the_streams_of_a_client_that_is_there_are_taken_on_request_only() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let mut first = submitter.spawn_lrun(&["sh", "-c", ANSWERS]);
    until("it runs", || submitter.jobs().iter().any(|job| job["state"] == "running").then_some(()));
    submitter.lq(&["attach", "1"]).failed("job 1 has a client: its lrun is connected");
    types(&mut first, "one\n");
    let second = attach(submitter, &["--take", "last"]);
    until("the first one ends", || first.try_wait().expect("an own child"));
    let ended = finish(first);
    assert_eq!(ended.code, Some(125));
    assert!(ended.stderr.contains("another client took over job 1"), "{}", ended.stderr);
    // The job's stdin ends with that of its client.
    let ran = finish(second);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert_eq!(ran.stdout, "begun\ngot one\neof\n", "so little comes again");
    assert!(ran.stdout.starts_with(&ended.stdout), "{}", ended.stdout);
}

#[test]
fn invalid_attachments_are_refused_by_name() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lq(&["attach", "7"]).failed("there is no job 7");
    let detached = submitter.detach(&["sleep", "1000"]);
    let number = detached.to_string();
    submitter.lq(&["attach", &number]).failed(&format!("job {number} is detached: its output goes to files"));
    submitter.detach(&["true"]);
    submitter.lq(&["attach", "1-2"]).failed("can attach only to one job, not to 2");
    submitter.lrun(&["--attach", "99"]).failed("there is no job 99");
    submitter.lrun(&["--attach", "1", "true"]).failed("cannot be used with");
    submitter.lrun(&["--take", "true"]).failed("cannot be used with");
}
