//! One daemon: its command line, its log, its process.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::programs;
use crate::until::until;

/// Number of log lines that a failure shows.
const TAIL: usize = 60;

pub struct Daemon {
    program: &'static str,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    pub log: PathBuf,
    child: Option<Child>,
}

impl Daemon {
    pub fn new(program: &'static str, arguments: Vec<String>, variables: Vec<(String, String)>, log: PathBuf) -> Self {
        Self { program, arguments, variables, log, child: None }
    }

    pub fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.program);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        let mut command: Command = programs::command(self.program);
        command.args(&self.arguments).envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second descriptor")).stderr(log);
        self.child = Some(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program)));
    }

    pub fn replace_argument(&mut self, option: &str, value: &str) {
        let at = self.arguments.iter().position(|argument| argument == option).expect("the option is there");
        value.clone_into(&mut self.arguments[at + 1]);
    }

    /// Returns the exit status if the daemon has ended. It can be started again afterwards.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().expect("an own child")?;
        self.child = None;
        Some(status)
    }

    /// Returns the process id.
    ///
    /// # Panics
    /// If the daemon does not run.
    pub fn pid(&self) -> i32 {
        self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok()).expect("the daemon runs")
    }

    /// Returns the peak memory of the process, in bytes; 0 if it has ended by itself.
    ///
    /// # Panics
    /// If the daemon was not started.
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("an own child");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024)
    }

    /// Returns true if the daemon was started and has not been seen to end.
    pub fn is_started(&self) -> bool {
        self.child.is_some()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("an own child");
    }

    /// Kills the daemon with SIGKILL, and waits until the process is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("an own child");
            child.wait().expect("an own child");
        }
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.end(Signal::SIGTERM)
    }

    /// Sends the signal, and waits for the end.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        until(&format!("the daemon ends after {signal}"), || self.ended())
    }

    /// Returns the last lines of the log.
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
