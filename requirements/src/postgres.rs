//! A private PostgreSQL server of the packages of Debian, on a Unix socket in a directory. It takes no port and needs
//! no rights; for root, which PostgreSQL refuses, it runs as the user `postgres`.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

use crate::{Requirement, skip};

/// Variable with the address of a PostgreSQL server for tests: a user who can create databases.
pub const POSTGRES: &str = "LIMO_POSTGRES";

/// Directory of the packages of Debian, with a directory for each version.
const PACKAGES: &str = "/usr/lib/postgresql";

/// Returns the address of the server for tests, the value of [`POSTGRES`]. Skips the rest of the test if it is not set.
///
/// # Panics
/// The same as for [`skip`].
pub fn postgres() -> Option<String> {
    let address = env::var(POSTGRES).ok().filter(|address| !address.is_empty());
    if address.is_none() {
        skip(Requirement::Postgres, &format!("{POSTGRES} is not set: see `cargo xtask postgres`"));
    }
    address
}

/// A server in a directory: its data is in `data`, its log in `log`. It runs until [`Self::stop`].
pub struct PostgresServer {
    dir: PathBuf,
    programs: PathBuf,
    /// User who runs the server for root.
    user: Option<User>,
}

impl PostgresServer {
    /// Returns the server in `dir`, which may not run and may not exist.
    ///
    /// # Errors
    /// If the packages are not installed, or root has no user `postgres`.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let versions = fs::read_dir(PACKAGES).into_iter().flatten().flatten();
        let programs =
            versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max();
        let missing = || io::Error::new(io::ErrorKind::NotFound, "install the package postgresql");
        let programs = programs.ok_or_else(missing)?;
        let user = if geteuid().is_root() { Some(User::from_name("postgres")?.ok_or_else(missing)?) } else { None };
        Ok(Self { dir: dir.to_owned(), programs, user })
    }

    /// Returns the server in `dir` after its start. Skips the rest of the test if the packages are missing.
    ///
    /// # Panics
    /// The same as for [`skip`], and if the server does not start.
    pub fn for_test(dir: &Path) -> Option<Self> {
        let server = match Self::of(dir) {
            Ok(server) => server,
            Err(error) => {
                skip(Requirement::Postgres, &format!("PostgreSQL is missing: {error}"));
                return None;
            }
        };
        // This is part of a test, which fails without it.
        server.start().expect("the server starts");
        Some(server)
    }

    /// Creates the data if it is missing, and starts the server. Without `fsync`, since tests do not cut the power.
    ///
    /// # Errors
    /// If a program fails.
    pub fn start(&self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        if let Some(user) = &self.user {
            chown(&self.dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        if !self.data().exists() {
            let mut command = self.command("initdb");
            command.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]);
            run(command.arg("--pgdata").arg(self.data()))?;
        }
        let options = format!("-c listen_addresses= -c fsync=off -k {}", self.dir.display());
        let mut command = self.control("start");
        run(command.arg("--log").arg(self.dir.join("log")).args(["--options", &options]))
    }

    /// Stops the server after a checkpoint: connections end at once.
    ///
    /// # Errors
    /// If it does not run.
    pub fn stop(&self) -> io::Result<()> {
        run(self.control("stop").args(["--mode", "fast"]))
    }

    /// Stops the server without a checkpoint, as after an order to stop immediately: the next start recovers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn stop_immediately(&self) -> io::Result<()> {
        run(self.control("stop").args(["--mode", "immediate"]))
    }

    /// Sends SIGKILL, SIGSTOP or SIGCONT to the first process of the server and to those that it has started, such as
    /// one for each connection.
    ///
    /// # Errors
    /// If it does not run.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let text = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let first = text.lines().next().and_then(|line| line.trim().parse().ok());
        let first: i32 = first.ok_or_else(|| io::Error::other("postmaster.pid has no process number"))?;
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"))?;
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        // The first process would end or replace the others.
        for pid in std::iter::once(first).chain(children) {
            // A connection may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid), signal);
        }
        Ok(())
    }

    /// Returns the address of a database of the server.
    pub fn address(&self, database: &str) -> String {
        format!("postgres://postgres@localhost/{database}?host={}", self.dir.display())
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn control(&self, action: &str) -> Command {
        let mut command = self.command("pg_ctl");
        command.arg(action).arg("--wait").arg("--pgdata").arg(self.data());
        command
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match &self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={}", user.uid)).arg(format!("--regid={}", user.gid));
                command.arg("--clear-groups").arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(&self.dir);
        command
    }
}

/// Runs a program. The server inherits the output of `pg_ctl`, so it is not captured.
fn run(command: &mut Command) -> io::Result<()> {
    use std::process::Stdio;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?} failed: {status}"))) }
}
