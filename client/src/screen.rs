//! Width and colours of the output. Colours only repeat the text.

use std::io::IsTerminal;

/// Properties of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Width of the terminal in columns; `None` for a file or a pipe, which takes whole lines.
    pub width: Option<usize>,
    /// Height of the terminal in lines.
    pub height: Option<usize>,
    /// True if output may be coloured.
    pub colour: bool,
}

impl Screen {
    /// A file or a pipe.
    pub const PLAIN: Self = Self { width: None, height: None, colour: false };

    /// Reads the terminal's size; enables colours if it supports them and `NO_COLOR` is not set.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|value| value == "dumb");
        let size = terminal_size::terminal_size();
        // A terminal of unknown size reports 0.
        let known = |cells: u16| (cells > 0).then_some(usize::from(cells));
        Self {
            width: size.and_then(|(width, _)| known(width.0)),
            height: size.and_then(|(_, height)| known(height.0)),
            colour: !refused && !dumb,
        }
    }

    /// Returns true for a terminal of known width.
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }
}

/// Meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    /// Green: works, or done.
    Good,
    /// Yellow: in progress, or waiting.
    Busy,
    /// Red: failed, or unreachable.
    Bad,
}

impl Tint {
    /// Colours `text` with one of the eight basic colours, which follow the user's theme.
    pub fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Good => 32,
            Self::Busy => 33,
            Self::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
