//! Finds the programs under test, which cargo builds beside the test.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of a program.
///
/// # Panics
/// If it is not built.
pub fn path(name: &str) -> PathBuf {
    // The path of a test is target/PROFILE/deps/TEST.
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps");
    let path = profile.join(name);
    assert!(path.is_file(), "{} is not there: build it with `cargo build --workspace --bins`", path.display());
    path
}

/// Returns a command for a program, without this shell's settings for a real cluster.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(path(name));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("LIMO_") {
            command.env_remove(variable);
        }
    }
    if name == "lslave" {
        // A node that is killed leaves its control groups, so a test that wants them also removes them.
        command.env("LIMO_CGROUP", "off");
    }
    command
}
