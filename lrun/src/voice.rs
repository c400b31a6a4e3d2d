//! Messages of `lrun` on stderr while its job waits and runs.
//!
//! On a terminal the reason for waiting is shown on one line, in place, and cleared when the job starts. Elsewhere it
//! is printed only with `-v`, one line for each change.

use std::io::{self, IsTerminal};

use limo_client::{Clock, InPlace, plain, tell};
use limo_proto::Channel;

use crate::args::HowArgs;
use crate::pumps::in_background;
use crate::session::News;

pub struct Voice {
    quiet: bool,
    verbose: bool,
    on_terminal: bool,
    place: InPlace,
    last_reason: String,
    /// True if lines need a carriage return.
    raw: bool,
}

impl Voice {
    pub fn new(how: &HowArgs) -> Self {
        let on_terminal = io::stderr().is_terminal();
        Self {
            quiet: how.quiet,
            verbose: how.verbose,
            on_terminal,
            place: InPlace::default(),
            last_reason: String::new(),
            raw: false,
        }
    }

    /// Notes if the terminal is raw now.
    pub fn on_raw(&mut self, raw: bool) {
        self.raw = raw;
    }

    pub fn say(&mut self, news: &News, patience: std::time::Duration) {
        match news {
            News::Accepted(job) if self.verbose => self.line(&format!("job {job} accepted")),
            News::Accepted(_) => {}
            News::Waiting(job, wait) => {
                let clock = Clock::system();
                self.wait(format!("job {job} waits: {}", wait.shown(|time| clock.show(time))));
            }
            News::Running { job, node, unit } if self.verbose => self.line(&format!("job {job} runs on {node}/{unit}")),
            News::Running { .. } => self.wipe(),
            News::Away if !self.quiet => {
                let seconds = patience.as_secs();
                self.line(&format!("the master went away; retrying for {seconds} s"));
            }
            News::Back if self.verbose => self.line("the master is back"),
            News::Away | News::Back => {}
            News::Asked { tasks, node } => {
                let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
                self.line(&format!("{tasks} tasks run{on}: interrupt again within 1 s to signal them"));
            }
            News::NotCancelled { job, reason } => self.line(&format!("error: cannot cancel job {job}: {reason}")),
            News::CannotWrite(channel, error) => {
                self.line(&format!("error: cannot write {}: {}", stream_name(*channel), error.desc()));
            }
            News::UsedUp(job, used_up) => self.line(&format!("warning: job {job}: {used_up}")),
            News::Notice(text) if !self.quiet => self.line(&format!("warning: {text}")),
            News::Notice(_) => {}
            News::OutputMissing => {
                let seconds = patience.as_secs();
                self.line(&format!("error: the end of the job's output did not arrive within {seconds} s"));
            }
        }
    }

    fn wait(&mut self, reason: String) {
        if self.quiet || reason == self.last_reason {
            return;
        }
        if self.on_terminal && !self.verbose {
            if !in_background(io::stderr()) {
                self.place.show(&format!("lrun: {reason}"));
            }
        } else if self.verbose {
            self.line(&reason);
        }
        self.last_reason = reason;
    }

    /// Clears the line that is shown in place.
    pub fn wipe(&mut self) {
        self.place.wipe();
        self.last_reason.clear();
    }

    /// Prints a line.
    pub fn line(&mut self, text: &str) {
        self.wipe();
        let edge = if self.raw && self.on_terminal { "\r" } else { "" };
        tell(&format!("{edge}lrun: {}{edge}\n", plain(text)));
    }
}

fn stream_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Stdin => "standard input",
        Channel::Stdout => "standard output",
        Channel::Stderr => "standard error",
    }
}
