//! Unprivileged user of this machine, who runs copies of programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use limo_requirements::{Requirement, skip};
use tempfile::TempDir;

use crate::programs;
use crate::until::until;

/// User id without an account on any machine. It is neither root nor the kernel's overflow user.
pub const STRANGER: u32 = 65_533;

/// Programs that any user can run.
pub struct Stranger {
    programs: TempDir,
}

/// A running `limo-stranger`; killed when dropped.
pub struct Hostile {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Stranger {
    /// Makes the user. If this test cannot become another user, prints the reason and returns `None`.
    pub fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip(Requirement::Root, "only root can become another user");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        Some(Self { programs: directory })
    }

    /// Returns a command that runs a program under test as this user.
    pub fn command(&self, program: &str) -> Command {
        let copied = |name: &str| {
            let copy = self.programs.path().join(name);
            if !copy.exists() {
                fs::copy(programs::path(name), &copy).expect("copied");
            }
            copy
        };
        if program == "lslave" {
            // `lslave` searches its own directory for that program.
            copied("lshepherd");
        }
        let copy = copied(program);
        let mut command = Command::new(copy);
        command.uid(STRANGER).gid(STRANGER).current_dir("/");
        command
    }

    /// Starts `limo-stranger impostor` at this endpoint; returns once it listens.
    pub fn impostor(&self, endpoint: &str) -> Hostile {
        self.hostile(&["impostor", endpoint], "listening")
    }

    /// Starts `limo-stranger crowd` and returns once it has `count` silent connections.
    pub fn crowd(&self, endpoint: &str, count: usize) -> Hostile {
        self.hostile(&["crowd", endpoint, &count.to_string()], "open")
    }

    fn hostile(&self, arguments: &[&str], begun: &str) -> Hostile {
        let mut command = self.command("limo-stranger");
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("executable");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&lines);
        thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| shown.lock().expect("unpoisoned").push(line));
        });
        let mut hostile = Hostile { child, lines };
        until("the stranger has begun", || {
            let ended = hostile.child.try_wait().expect("an own child");
            assert!(ended.is_none(), "the stranger ended: {ended:?}");
            (hostile.count(begun) > 0).then_some(())
        });
        hostile
    }
}

impl Hostile {
    /// Returns the output so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("unpoisoned").clone()
    }

    /// Counts the lines that begin with `begin`.
    pub fn count(&self, begin: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(begin)).count()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
