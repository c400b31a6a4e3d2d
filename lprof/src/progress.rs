//! Progress on standard error: one line that changes in place on a terminal, otherwise a line for each run.

use std::io::{IsTerminal, Write};

/// Display of progress.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
}

impl Progress {
    /// Finds out what standard error is.
    pub fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal() }
    }

    /// Shows what happens now; on a terminal only, since it soon changes.
    pub fn show(&self, text: &str) {
        if self.is_terminal {
            self.write(&format!("\r\x1b[K{text}"));
        }
    }

    /// Shows a result of a run: replaced by the next on a terminal.
    pub fn step(&self, text: &str) {
        if self.is_terminal { self.show(text) } else { self.say(text) }
    }

    /// Prints a line that stays.
    pub fn say(&self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{clear}lprof: {text}\n"));
    }

    /// Clears the line that changes.
    pub fn end(&self) {
        if self.is_terminal {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        // A closed standard error has no reader.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
