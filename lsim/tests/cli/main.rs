//! The real `lsim` in its own folder: exit code, stdout, stderr and files of each command.

mod capping;
mod compare;
mod equal;
mod groups;
mod owners;
mod pools;
mod predict;
mod queues;
mod refusals;
mod replay;
mod run;
mod solve;
mod steer;
mod sweep;
mod variation;
mod workloads;

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A machine of four processors. Job 3 is backfilled, job 4 is ended at its requested time, and job 5 is larger than
/// the machine.
const SMALL: &str = "; MaxProcs: 4\n\
    1 0 -1 100 2 -1 -1 2 200 -1 1 1 -1 1 -1 -1 -1 -1\n\
    2 10 -1 100 4 -1 -1 4 100 -1 1 2 -1 1 -1 -1 -1 -1\n\
    3 20 -1 50 2 -1 -1 2 60 -1 1 1 -1 1 -1 -1 -1 -1\n\
    4 30 -1 500 1 -1 -1 1 300 -1 1 1 -1 1 -1 -1 -1 -1\n\
    5 40 -1 10 8 -1 -1 8 300 -1 1 1 -1 1 -1 -1 -1 -1\n";

/// Makes a folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

/// Returns exit code, stdout and stderr of `lsim` in that folder, with `TIME` for the duration of a simulation.
fn lsim(folder: &Path, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lsim"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    let output = command.output().expect("lsim runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let timeless = |line: &str| match line.strip_prefix("lsim: simulated in ").and_then(|line| line.split_once(';')) {
        Some((_, rest)) => format!("lsim: simulated in TIME;{rest}\n"),
        None => format!("{line}\n"),
    };
    let code = output.status.code().map_or_else(|| format!("{:?}", output.status), |code| code.to_string());
    let stderr: String = text(&output.stderr).lines().map(timeless).collect();
    format!("exit {code}\n--- stdout\n{}--- stderr\n{stderr}", text(&output.stdout))
}

/// Checks a refusal: the exit code, the text on stderr, and nothing on stdout.
fn refused(folder: &Path, arguments: &str, code: i32, stderr: &str) {
    assert_eq!(lsim(folder, arguments), format!("exit {code}\n--- stdout\n--- stderr\n{stderr}\n"), "{arguments}");
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect(name)
}

/// Returns one column of a CSV file, by its name.
fn column<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let index = header.split(',').position(|column| column == name).expect(name);
    lines.map(|line| line.split(',').nth(index).expect("a cell")).collect()
}
