//! What `lrun` says on stderr while its job waits and runs.
//!
//! On a terminal the reason for waiting stands on one line, in place, and is wiped off when the job starts. Elsewhere it
//! is said only with `-v`, a line each time it changes.

use std::io::{self, IsTerminal};

use limo_client::{Clock, plain, tell};
use limo_proto::Channel;

use crate::args::HowArgs;
use crate::pumps::in_background;
use crate::session::News;

/// Where the terminal does not say how wide it is.
const USUAL_WIDTH: usize = 80;

pub struct Voice {
    quiet: bool,
    verbose: bool,
    on_terminal: bool,
    /// Characters that stand on the line in place.
    shown: usize,
    last_reason: String,
    /// Whether the terminal does not begin a line at its left edge by itself.
    raw: bool,
}

impl Voice {
    pub fn new(how: &HowArgs) -> Self {
        let on_terminal = io::stderr().is_terminal();
        Self { quiet: how.quiet, verbose: how.verbose, on_terminal, shown: 0, last_reason: String::new(), raw: false }
    }

    /// Whether the terminal is raw now.
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
                self.line(&format!("the master went away; trying to reach it again for {seconds} s"));
            }
            News::Back if self.verbose => self.line("the master is back"),
            News::Away | News::Back => {}
            News::Asked { tasks, node } => {
                let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
                self.line(&format!("{tasks} tasks run{on}: interrupt again within 1 s to reach them"));
            }
            News::NotCancelled { job, reason } => self.line(&format!("error: cannot cancel job {job}: {reason}")),
            News::CannotWrite(channel, error) => {
                self.line(&format!("error: cannot write {}: {}", stream_name(*channel), error.desc()));
            }
            News::OutputMissing => {
                let seconds = patience.as_secs();
                self.line(&format!("error: the end of the job's output did not come within {seconds} s"));
            }
        }
    }

    fn wait(&mut self, reason: String) {
        if self.quiet || reason == self.last_reason {
            return;
        }
        if self.on_terminal && !self.verbose {
            if !in_background(io::stderr()) {
                self.in_place(&reason);
            }
        } else if self.verbose {
            self.line(&reason);
        }
        self.last_reason = reason;
    }

    /// Writes over what stands there; spaces cover what was longer, so that no control sequence is needed.
    fn in_place(&mut self, text: &str) {
        let width =
            terminal_size::terminal_size_of(io::stderr()).map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
        let text: String = plain(&format!("lrun: {text}")).chars().take(width.saturating_sub(1)).collect();
        let length = text.chars().count();
        let cover = self.shown.saturating_sub(length).min(width.saturating_sub(1));
        tell(&format!("\r{text}{}", " ".repeat(cover)));
        self.shown = length;
    }

    /// Takes the line in place away.
    pub fn wipe(&mut self) {
        if self.shown > 0 {
            tell(&format!("\r{}\r", " ".repeat(self.shown)));
            self.shown = 0;
        }
        self.last_reason.clear();
    }

    /// A line of its own.
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
