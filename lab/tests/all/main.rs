//! The real `lab`, and the crates that it uses, over published traces if these are present.

mod capping;
mod compat;
mod compat_2018;
mod heterogeneity;
mod oracles;
mod pools;
mod predictor;
mod refusals;
mod traces;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `lab` in `folder` to its end.
fn lab(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().expect("lab runs")
}

/// Returns the standard output of a successful run.
fn printed(folder: &Path, arguments: &str) -> String {
    let output = lab(folder, arguments);
    assert!(output.status.success(), "lab {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Checks a refusal: its exit code, its error, and an empty stdout.
fn refused(folder: &Path, arguments: &str, code: i32, stderr: &str) {
    let output = lab(folder, arguments);
    let told = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!((output.status.code(), told), (Some(code), [String::new(), format!("{stderr}\n")]), "{arguments}");
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect(name)
}

/// Returns a column of a CSV file by its name.
fn column<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let index = header.split(',').position(|column| column == name).expect(name);
    lines.map(|line| line.split(',').nth(index).expect("a cell")).collect()
}
