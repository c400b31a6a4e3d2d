//! `limo-workload`, which stands for an application in every other test and in the demo.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn run(arguments: &[&str], milliseconds: Option<&str>, stdin: &[u8]) -> (Output, Duration) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limo-workload"));
    command.args(arguments).env_remove("LIMO_EMULATED_DURATION_MS");
    command.envs(milliseconds.map(|value| ("LIMO_EMULATED_DURATION_MS", value)));
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that refuses to run has closed it.
    let _ = child.stdin.take().expect("piped").write_all(stdin);
    (child.wait_with_output().expect("it ends"), begin.elapsed())
}

fn check(arguments: &[&str], milliseconds: Option<&str>, stdin: &[u8], expected: &str, least: u64) {
    let (output, elapsed) = run(arguments, milliseconds, stdin);
    assert_eq!(String::from_utf8(output.stdout).expect("text"), expected);
    assert_eq!(output.status.code(), Some(0));
    assert!(elapsed >= Duration::from_millis(least), "{elapsed:?}");
}

#[test]
fn runs_as_long_as_it_is_told_and_reads_its_stdin() {
    let empty = "workload begins, for 50ms\nworkload ends: 0 bytes of stdin, checksum cbf29ce484222325\n";
    check(&[], Some("50"), b"", empty, 50);
    // FNV-1a of "a", as published.
    let one = "cg begins, for 80ms\ncg ends: 1 bytes of stdin, checksum af63dc4c8601ec8c\n";
    check(&["cg", "--duration", "80ms"], Some("50000"), b"a", one, 80);
    let much = vec![0; 1_000_000];
    let (output, _) = run(&["--duration", "1ms"], None, &much);
    assert!(String::from_utf8(output.stdout).expect("text").contains("ends: 1000000 bytes of stdin"));
}

#[test]
fn without_a_duration_it_says_what_to_do() {
    let (output, _) = run(&[], None, b"");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.contains("not in the node's hardware file; give `--duration 2s`"), "{stderr}");
}
