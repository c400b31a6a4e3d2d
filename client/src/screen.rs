//! Where an answer is shown: how wide that is, and whether it takes colour. Colour repeats what the text says.

use std::io::IsTerminal;

/// What standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns of a terminal; `None` where a reader may want all of a line.
    pub width: Option<usize>,
    /// Lines of a terminal.
    pub height: Option<usize>,
    /// Returns true if output may be coloured; words say the same.
    pub colour: bool,
}

impl Screen {
    /// A file or a pipe.
    pub const PLAIN: Self = Self { width: None, height: None, colour: false };

    /// Colour where it is a terminal that can show it, and `NO_COLOR` is not set.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|value| value == "dumb");
        let size = terminal_size::terminal_size();
        // A terminal that does not know its size says 0.
        let known = |cells: u16| (cells > 0).then_some(usize::from(cells));
        Self {
            width: size.and_then(|(width, _)| known(width.0)),
            height: size.and_then(|(_, height)| known(height.0)),
            colour: !refused && !dumb,
        }
    }

    /// Returns true if somebody looks at the output: it is a terminal whose width is known.
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }
}

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    /// Green: works, or done.
    Good,
    /// Yellow: under way, or waiting for something.
    Busy,
    /// Red: failed, or unreachable.
    Bad,
}

impl Tint {
    /// `text` in its colour: one of the eight that every terminal has, as its owner has chosen them.
    pub fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Good => 32,
            Self::Busy => 33,
            Self::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
