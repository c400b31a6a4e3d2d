//! Terminal of `lq top`: the alternate screen and raw keys, restored however the program ends.

use std::io::{self, IsTerminal, Stdout};
use std::thread;

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use tokio::sync::mpsc::{Receiver, channel};

/// Most keys in the queue.
const AHEAD: usize = 64;

/// Restores the terminal on drop, also during a panic.
pub struct Terminal {
    screen: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Terminal {
    pub fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    pub fn open() -> io::Result<Self> {
        let screen = ratatui::Terminal::new(CrosstermBackend::new(io::stdout()))?;
        enable_raw_mode()?;
        // From here on, a drop restores the terminal.
        let terminal = Self { screen };
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(terminal)
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.screen.draw(draw).map(drop)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal no longer exists, there is nothing to restore.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Returns keys and changes of the size. A thread reads them until the process ends, because a read cannot be
/// interrupted.
pub fn keys() -> Receiver<Event> {
    let (typed, keys) = channel(AHEAD);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if typed.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}
