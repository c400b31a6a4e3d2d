//! The real `lab`, and the crates that it uses, over the traces of other people where these are present.

mod compat;
mod oracles;
mod refusals;
mod traces;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `lab` in that folder to its end.
fn lab(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().expect("lab runs")
}

/// The standard output of a run that succeeds.
fn printed(folder: &Path, arguments: &str) -> String {
    let output = lab(folder, arguments);
    assert!(output.status.success(), "lab {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A refusal with that exit code and error, and nothing on stdout.
fn refused(folder: &Path, arguments: &str, code: i32, stderr: &str) {
    let output = lab(folder, arguments);
    let told = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!((output.status.code(), told), (Some(code), [String::new(), format!("{stderr}\n")]), "{arguments}");
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect(name)
}

/// One column of a CSV file, by its name.
fn column<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let index = header.split(',').position(|column| column == name).expect(name);
    lines.map(|line| line.split(',').nth(index).expect("a cell")).collect()
}
