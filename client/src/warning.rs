//! Prints warnings to stderr.

use nix::unistd::User;

use crate::{plain, tell};

/// Prints a warning after the name of the program.
pub fn warn(program: &str, warning: &str) {
    tell(&format!("{program}: warning: {}\n", plain(warning)));
}

/// Returns false only if this machine certainly has no user of that name.
pub fn may_be_user(name: &str) -> bool {
    !matches!(User::from_name(name), Ok(None))
}
