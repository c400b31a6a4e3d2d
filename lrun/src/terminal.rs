//! Terminal of `lrun --pty`: raw while the job has it, and restored however `lrun` ends.
//!
//! In raw mode every key is a byte for the job, even a key that would send a signal. A background process does not
//! change the terminal.

use std::io;
use std::sync::OnceLock;

use limo_client::Failure;
use limo_proto::WindowSize;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use terminal_size::{Height, Width, terminal_size_of};

use crate::pumps::in_background;

/// Original settings for the handler of fatal signals, which can access nothing else.
static BEFORE: OnceLock<libc::termios> = OnceLock::new();

/// Fatal signals without another handler.
const DEADLY: [Signal; 10] = [
    Signal::SIGABRT,
    Signal::SIGALRM,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGVTALRM,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
];

/// Returns the size of the terminal at stdin.
///
/// # Errors
/// If stdin is not a terminal.
pub fn size() -> Result<WindowSize, Failure> {
    let no_terminal = || {
        Failure::new("--pty needs a terminal, but standard input is not one")
            .hint("omit --pty: the job then reads the standard input of lrun")
    };
    // A terminal may have no size.
    tcgetattr(io::stdin()).map_err(|_| no_terminal())?;
    let (columns, rows) =
        terminal_size_of(io::stdin()).map_or((0, 0), |(Width(columns), Height(rows))| (columns, rows));
    Ok(WindowSize { rows, columns })
}

/// Terminal at stdin. Restored on drop.
pub struct Keys {
    before: Termios,
    raw: bool,
    /// True once the job has used the terminal.
    given: bool,
}

impl Keys {
    /// Prepares the terminal.
    ///
    /// # Errors
    /// If stdin is no longer a terminal, or signals cannot be caught.
    pub fn new() -> Result<Self, Failure> {
        let cannot = |error| Failure::new(format_args!("cannot set up the terminal: {error}"));
        let before = tcgetattr(io::stdin()).map_err(cannot)?;
        BEFORE.get_or_init(|| before.clone().into());
        let restore = SigAction::new(SigHandler::Handler(restore), SaFlags::SA_RESETHAND, SigSet::empty());
        for signal in DEADLY {
            // SAFETY: the handler makes only async-signal-safe system calls.
            unsafe { sigaction(signal, &restore) }.map_err(cannot)?;
        }
        Ok(Self { before, raw: false, given: false })
    }

    /// Returns true if lines need a carriage return, as on any raw terminal.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Gives the keys to the job, if it had them before.
    pub fn give(&mut self) {
        if !std::mem::replace(&mut self.given, true) {
            self.make_raw();
        }
    }

    /// Continues after a stop, during which a shell may have used its own settings.
    pub fn go_on(&mut self) {
        if self.given {
            self.make_raw();
        }
    }

    fn make_raw(&mut self) {
        let mut raw = self.before.clone();
        cfmakeraw(&mut raw);
        self.raw = self.set(&raw);
    }

    /// Restores the settings.
    pub fn take_back(&mut self) {
        if std::mem::take(&mut self.raw) {
            self.set(&self.before);
        }
    }

    fn set(&self, to: &Termios) -> bool {
        // A background process that changes settings would be stopped.
        !in_background(io::stdin()) && tcsetattr(io::stdin(), SetArg::TCSANOW, to).is_ok()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Restores the terminal, and then lets the signal take its default action.
extern "C" fn restore(signal: libc::c_int) {
    if let Some(before) = BEFORE.get() {
        // SAFETY: these calls are async-signal-safe; the settings are static, and the signal is the one being handled.
        unsafe {
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before);
            libc::raise(signal);
        }
    }
}
