//! Other programs of Limo that a client runs.

use std::path::PathBuf;
use std::process::Command;

use crate::Master;

/// Returns a command for `lrun` with the same master: the one in the directory of this program, else the one in the
/// search path.
pub fn lrun(master: &Master) -> Command {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("lrun"));
    let path: PathBuf = beside.filter(|path| path.exists()).unwrap_or_else(|| "lrun".into());
    let mut command = Command::new(path);
    command.args(master.arguments());
    command
}
