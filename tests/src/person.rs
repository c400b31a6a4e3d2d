//! Unprivileged user of this machine, with copies of the clients and a directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use limo_requirements::{Requirement, skip};
use nix::unistd::User;
use tempfile::TempDir;

use crate::programs;
use crate::submitter::{Ran, Submitter, finish};

/// Cheap to clone; the directories are removed with the last clone.
#[derive(Debug, Clone)]
pub struct Person {
    pub user: User,
    /// The user's own submitter, which runs in the person's own directory.
    pub submitter: Submitter,
    programs: Arc<TempDir>,
    _home: Arc<TempDir>,
}

impl Person {
    /// Makes the user `name` for the cluster of `submitter`. Skips with `None` if this process cannot become another
    /// user.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn of(submitter: &Submitter, name: &str, wanted: &[&str]) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip(Requirement::Root, "only root can become another user");
            return None;
        }
        let user = User::from_name(name).expect("readable").expect("a user of every Linux");
        let programs = tempfile::tempdir().expect("a directory");
        fs::set_permissions(programs.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        for name in wanted {
            // Other users may not have access to the build directory.
            fs::copy(programs::path(name), programs.path().join(name)).expect("copied");
        }
        let home = tempfile::tempdir().expect("a directory");
        chown(home.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
        let submitter = Submitter { directory: home.path().to_owned(), ..submitter.clone() };
        Some(Self { user, submitter, programs: Arc::new(programs), _home: Arc::new(home) })
    }

    /// Returns the directory with the programs.
    pub fn programs(&self) -> &Path {
        self.programs.path()
    }

    /// Returns a command that runs a program as this user, with an empty stdin and pipes for stdout and stderr.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.submitter.command_of(&self.programs().join(program), arguments);
        command.uid(self.user.uid.as_raw()).gid(self.user.gid.as_raw());
        command
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        finish(self.command(program, arguments).spawn().expect("executable"))
    }
}
