//! A line of a terminal that changes in place, on stderr. Decides neither whether there is a terminal nor what to say.

use std::io;

use crate::{plain, tell};

/// Where the terminal does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// What stands on the line.
#[derive(Debug, Default)]
pub struct InPlace {
    /// Characters.
    shown: usize,
}

impl InPlace {
    /// Writes over what stands there; spaces cover what was longer, so that no control sequence is needed.
    pub fn show(&mut self, text: &str) {
        let width =
            terminal_size::terminal_size_of(io::stderr()).map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
        let text: String = plain(text).chars().take(width.saturating_sub(1)).collect();
        let length = text.chars().count();
        let cover = self.shown.saturating_sub(length).min(width.saturating_sub(1));
        tell(&format!("\r{text}{}", " ".repeat(cover)));
        self.shown = length;
    }

    /// Takes the line away, where something stands on it.
    pub fn wipe(&mut self) {
        if self.shown > 0 {
            tell(&format!("\r{}\r", " ".repeat(self.shown)));
            self.shown = 0;
        }
    }
}
