//! A terminal line on stderr that is redrawn in place. The caller decides if there is a terminal.

use std::io;

use crate::{plain, tell};

/// Width if the terminal does not report one, in columns.
const USUAL_WIDTH: usize = 80;

/// The line.
#[derive(Debug, Default)]
pub struct InPlace {
    /// Length of the text on the line, in characters.
    shown: usize,
}

impl InPlace {
    /// Overwrites the line; pads with spaces, so that no control sequence is needed.
    pub fn show(&mut self, text: &str) {
        let width =
            terminal_size::terminal_size_of(io::stderr()).map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
        let text: String = plain(text).chars().take(width.saturating_sub(1)).collect();
        let length = text.chars().count();
        let cover = self.shown.saturating_sub(length).min(width.saturating_sub(1));
        tell(&format!("\r{text}{}", " ".repeat(cover)));
        self.shown = length;
    }

    /// Clears the line.
    pub fn wipe(&mut self) {
        if self.shown > 0 {
            tell(&format!("\r{}\r", " ".repeat(self.shown)));
            self.shown = 0;
        }
    }
}
