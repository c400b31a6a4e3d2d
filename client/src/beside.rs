//! Other programs of Limo that a client runs.

use std::path::PathBuf;
use std::process::Command;

use crate::Master;

/// Returns the path of a program: the one in the directory of this program, else the one in the search path.
pub fn program(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    beside.filter(|path| path.exists()).unwrap_or_else(|| name.into())
}

/// Returns a command for `lrun` with the same master.
pub fn lrun(master: &Master) -> Command {
    let mut command = Command::new(program("lrun"));
    command.args(master.arguments());
    command
}
