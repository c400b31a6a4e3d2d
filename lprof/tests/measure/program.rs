//! Runs `lprof`, and reads its answers.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::unistd::gettid;
use serde_json::Value;

/// Lets this thread and the programs that it starts run before the rest of the machine, which may have other load. Without
/// the right to do this, they wait, and measurements differ.
pub fn prefer() {
    let _ = Command::new("renice").args(["-n", "-15", "-p", &gettid().to_string()]).output();
}

pub fn lprof(arguments: &[&str]) -> Command {
    prefer();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lprof"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LIMO_")) {
        command.env_remove(name);
    }
    command
}

/// What a program printed, and its exit code.
#[derive(Debug)]
pub struct Printed {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Printed {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Printed {
    /// Returns the answer of a command that ended with `code`.
    pub fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:#?}");
        serde_json::from_str(&self.stdout).expect("JSON")
    }
}

pub fn run(arguments: &[&str]) -> Printed {
    lprof(arguments).output().expect("it runs").into()
}

/// Writes a file that other processes read meanwhile.
pub fn replace(path: &Path, text: &str) {
    let aside = path.with_added_extension("new");
    fs::File::create(&aside).and_then(|mut file| file.write_all(text.as_bytes())).expect("written");
    fs::rename(aside, path).expect("renamed");
}

/// Returns a number of the only measurement.
pub fn figure(answer: &Value, name: &str) -> f64 {
    answer["measurements"][0][name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer:#}"))
}

/// Returns the path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
