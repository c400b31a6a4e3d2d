//! Warnings of a program about what it was asked to do and has done, on stderr.

use nix::unistd::User;

use crate::{plain, tell};

/// Says a warning after the name of the program.
pub fn warn(program: &str, warning: &str) {
    tell(&format!("{program}: warning: {}\n", plain(warning)));
}

/// Returns false if this machine knows for certain that no user has that name.
pub fn may_be_user(name: &str) -> bool {
    !matches!(User::from_name(name), Ok(None))
}
