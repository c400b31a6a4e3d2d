//! The terminal of `lrun --pty`: raw while the job has it, and as it was at any end.
//!
//! Raw means that every key is a byte for the job, also those that would be signals. Somebody else's terminal, that of a
//! background process, is left alone.

use std::io;
use std::sync::OnceLock;

use limo_client::Failure;
use limo_proto::WindowSize;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use terminal_size::{Height, Width, terminal_size_of};

use crate::pumps::in_background;

/// How the terminal was. For the handler of signals that end a process at once, which can reach nothing else.
static BEFORE: OnceLock<libc::termios> = OnceLock::new();

/// Signals that nothing catches and that end a process.
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

/// The size of the terminal at stdin.
///
/// # Errors
/// Where stdin is no terminal.
pub fn size() -> Result<WindowSize, Failure> {
    let no_terminal = || {
        Failure::new("--pty gives the job this terminal's keys, but standard input is no terminal")
            .hint("leave --pty away: the job then reads what lrun reads")
    };
    // A terminal may have no size.
    tcgetattr(io::stdin()).map_err(|_| no_terminal())?;
    let (columns, rows) =
        terminal_size_of(io::stdin()).map_or((0, 0), |(Width(columns), Height(rows))| (columns, rows));
    Ok(WindowSize { rows, columns })
}

/// The terminal at stdin. Restored when this is dropped.
pub struct Keys {
    before: Termios,
    raw: bool,
    /// Whether the job has had it.
    given: bool,
}

impl Keys {
    /// # Errors
    /// Where stdin is no terminal any more, or signals cannot be caught.
    pub fn new() -> Result<Self, Failure> {
        let cannot = |error| Failure::new(format_args!("cannot take up the terminal: {error}"));
        let before = tcgetattr(io::stdin()).map_err(cannot)?;
        BEFORE.get_or_init(|| before.clone().into());
        let restore = SigAction::new(SigHandler::Handler(restore), SaFlags::SA_RESETHAND, SigSet::empty());
        for signal in DEADLY {
            // SAFETY: the handler makes only system calls that are allowed in one.
            unsafe { sigaction(signal, &restore) }.map_err(cannot)?;
        }
        Ok(Self { before, raw: false, given: false })
    }

    /// Whether a line has to be ended by hand, as on any raw terminal.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// The job has the keys from here on; nothing new where it has had them.
    pub fn give(&mut self) {
        if !std::mem::replace(&mut self.given, true) {
            self.make_raw();
        }
    }

    /// This process was stopped and goes on: a shell has settings of its own in between.
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

    /// The terminal is as it was.
    pub fn take_back(&mut self) {
        if std::mem::take(&mut self.raw) {
            self.set(&self.before);
        }
    }

    fn set(&self, to: &Termios) -> bool {
        // A change from the background would stop this process.
        !in_background(io::stdin()) && tcsetattr(io::stdin(), SetArg::TCSANOW, to).is_ok()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Restores the terminal, and lets the signal do what it does.
extern "C" fn restore(signal: libc::c_int) {
    if let Some(before) = BEFORE.get() {
        // SAFETY: allowed in a handler; the settings live for ever, and the signal is the one that is handled.
        unsafe {
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before);
            libc::raise(signal);
        }
    }
}
