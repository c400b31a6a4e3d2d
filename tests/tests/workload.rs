//! `limo-workload`, the application of other tests and of the demo.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limo-workload"));
    command.args(arguments).env_remove("LIMO_EMULATED_WORK_FD");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts the program like a job on emulated hardware, with an additional inherited descriptor.
fn inherit(command: &mut Command, fd: RawFd) {
    command.env("LIMO_EMULATED_WORK_FD", fd.to_string());
    // SAFETY: the closure makes one system call.
    unsafe {
        command.pre_exec(move || match nix::libc::fcntl(fd, nix::libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

fn run(mut command: Command, stdin: &[u8]) -> Output {
    let mut child = command.spawn().expect("the program starts");
    // A program that refuses to run has closed stdin.
    let _ = child.stdin.take().expect("piped").write_all(stdin);
    child.wait_with_output().expect("it ends")
}

fn check(command: Command, stdin: &[u8], expected: &str, least: Duration) {
    let begin = Instant::now();
    let output = run(command, stdin);
    assert_eq!(String::from_utf8(output.stdout).expect("text"), expected);
    assert_eq!(output.status.code(), Some(0));
    assert!(begin.elapsed() >= least, "{:?}", begin.elapsed());
}

#[test]
fn the_workload_runs_for_its_time_and_reads_stdin() {
    let empty = "workload begins, for 50ms\nworkload ends: 0 bytes of stdin, checksum cbf29ce484222325\n";
    check(command(&["--duration", "50ms"]), b"", empty, Duration::from_millis(50));
    // FNV-1a of "a", as published.
    let one = "cg begins, for 80ms\ncg ends: 1 bytes of stdin, checksum af63dc4c8601ec8c\n";
    check(command(&["cg", "--duration", "80ms"]), b"a", one, Duration::from_millis(80));
    let output = run(command(&["--duration", "1ms"]), &vec![0; 1_000_000]);
    assert!(String::from_utf8(output.stdout).expect("text").contains("ends: 1000000 bytes of stdin"));
}

#[test]
fn runs_until_its_work_is_done() {
    let (end, work) = io::pipe().expect("a pipe");
    let mut workload = command(&["cg"]);
    inherit(&mut workload, end.as_raw_fd());
    let mut child = workload.spawn().expect("the program starts");
    drop((end, child.stdin.take()));
    let mut said = child.stdout.take().expect("piped");
    let mut line = [0; 10];
    io::Read::read_exact(&mut said, &mut line).expect("it says that it begins");
    assert_eq!(&line, b"cg begins\n");
    assert_eq!(child.try_wait().expect("a child"), None, "stdin has ended, its work has not");
    drop(work);
    let rest = io::read_to_string(said).expect("it says the end");
    assert_eq!(rest, "cg ends: 0 bytes of stdin, checksum cbf29ce484222325\n");
    assert_eq!(child.wait().expect("a child").code(), Some(0));
    // A given duration takes precedence.
    let (end, _work) = io::pipe().expect("a pipe");
    let mut workload = command(&["cg", "--duration", "1ms"]);
    inherit(&mut workload, end.as_raw_fd());
    assert!(run(workload, b"").status.success());
}

#[test]
fn a_workload_without_an_end_is_refused() {
    let refused = |command| {
        let output = run(command, b"");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).expect("text")
    };
    let stderr = refused(command(&[]));
    assert!(stderr.contains("not in the node's hardware file; give `--duration 2s`"), "{stderr}");
    for fd in ["777", "-3"] {
        let mut closed = command(&[]);
        closed.env("LIMO_EMULATED_WORK_FD", fd);
        let stderr = refused(closed);
        assert!(stderr.contains(&format!("is {fd}, and no such descriptor is open")), "{stderr}");
    }
}
