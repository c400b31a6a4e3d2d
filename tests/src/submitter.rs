//! User of the clients: runs them against one master, in one directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::programs;
use crate::until::LIMIT;

/// Name of the variable that all processes of one cluster have; its value is the cluster's directory.
pub const MARK: &str = "TEST_CLUSTER";

#[derive(Debug, Clone)]
pub struct Submitter {
    pub address: String,
    /// Working directory of the clients, and thus of their jobs.
    pub directory: PathBuf,
    pub mark: String,
}

/// Output of a program, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Returns stdout.
    ///
    /// # Panics
    /// If the program did not succeed.
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Checks that the program failed with Limo's own exit code and `words` on stderr.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn failed(self, words: &str) {
        assert!(self.code == Some(125) && self.stderr.contains(words), "not 125 and `{words}`: {self:?}");
    }
}

/// Sorts lines by their bytes, because the order of lines of several tasks is not defined.
pub fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    lines.concat()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Submitter {
    /// Returns a command for a client with `arguments`, with an empty stdin and pipes for stdout and stderr.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        self.with_surroundings(programs::command(program), arguments)
    }

    /// Makes a command for any program that may call clients.
    pub fn command_of(&self, path: &Path, arguments: &[&str]) -> Command {
        self.with_surroundings(Command::new(path), arguments)
    }

    fn with_surroundings(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).current_dir(&self.directory).env("LIMO_MASTER", &self.address).env(MARK, &self.mark);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a shell in which `$LRUN` is the client's path.
    pub fn shell(&self, script: &str) -> Ran {
        let mut command = self.command_of(Path::new("bash"), &["-c", script]);
        finish(command.env("LRUN", programs::path("lrun")).spawn().expect("bash is there"))
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        finish(self.command(program, arguments).spawn().expect("a program that is built"))
    }

    pub fn lrun(&self, arguments: &[&str]) -> Ran {
        self.run("lrun", arguments)
    }

    pub fn lq(&self, arguments: &[&str]) -> Ran {
        self.run("lq", arguments)
    }

    pub fn lconf(&self, arguments: &[&str]) -> Ran {
        self.run("lconf", arguments)
    }

    /// Runs `lrun` in the background with stdin open.
    pub fn spawn_lrun(&self, arguments: &[&str]) -> Child {
        self.command("lrun", arguments).stdin(Stdio::piped()).spawn().expect("a program that is built")
    }

    /// Submits a detached job and returns its number.
    #[track_caller]
    pub fn detach(&self, arguments: &[&str]) -> u64 {
        let all: Vec<&str> = ["--detach"].iter().chain(arguments).copied().collect();
        let text = self.lrun(&all).succeeded();
        text.trim_end().parse().unwrap_or_else(|_| panic!("not a job's number: {text:?}"))
    }

    /// Returns the jobs that wait or run.
    pub fn jobs(&self) -> Vec<Value> {
        jobs_in(&self.lq(&["--json"]).succeeded())
    }

    /// Returns these jobs as `lq show` prints them.
    pub fn show(&self, ids: &[u64]) -> Vec<Value> {
        let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
        let arguments: Vec<&str> = ["show", "--json"].into_iter().chain(ids.iter().map(String::as_str)).collect();
        jobs_in(&self.lq(&arguments).succeeded())
    }

    /// Returns a job as `lq show` prints it.
    pub fn job(&self, id: u64) -> Value {
        self.show(&[id]).remove(0)
    }

    pub fn state(&self, id: u64) -> String {
        self.job(id)["state"].as_str().expect("a state").to_owned()
    }

    pub fn wait(&self, id: u64) -> Option<i32> {
        self.lq(&["wait", &id.to_string()]).code
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns a file of the directory as text; empty if it does not exist.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }
}

fn jobs_in(json: &str) -> Vec<Value> {
    let mut value: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(value["schema"], 1);
    let Value::Array(jobs) = value["jobs"].take() else { panic!("no jobs in {json}") };
    jobs
}

/// Waits for the end of a child whose stdin is closed or taken.
///
/// # Panics
/// If that takes longer than [`LIMIT`]; the child is killed then.
#[track_caller]
pub fn finish(child: Child) -> Ran {
    finish_within(LIMIT, child)
}

/// Waits until a child ends.
///
/// # Panics
/// If that takes longer than `limit`; the child is killed then.
#[track_caller]
pub fn finish_within(limit: Duration, child: Child) -> Ran {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
    let (sender, receiver) = channel();
    thread::spawn(move || drop(sender.send(child.wait_with_output())));
    match receiver.recv_timeout(limit) {
        Ok(output) => output.expect("an own child").into(),
        Err(_) => {
            // The thread has not collected the child, so its process id is still valid.
            let _ = kill(pid, Signal::SIGKILL);
            panic!("a client did not end within {} s: {:?}", limit.as_secs(), receiver.recv());
        }
    }
}
