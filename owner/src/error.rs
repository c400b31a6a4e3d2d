//! Errors of sources.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Reason why a source cannot tell if the owner is there.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum OwnerError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot watch {}: {source}", path.display())]
    Watch { path: PathBuf, source: io::Error },
    #[error("none of the {count} input devices in {} can be opened: {source}", path.display())]
    Devices { path: PathBuf, count: usize, source: io::Error },
    #[error("the times of the processors in {} cannot be read: the line is `{line}`", path.display())]
    Times { path: PathBuf, line: String },
    #[error("cannot ask logind: {0}")]
    Logind(#[from] zbus::Error),
    #[error("the connection to the system bus ended")]
    Closed,
    #[error("cannot run the command `{command}`: {source}")]
    Run { command: String, source: io::Error },
    #[error("the command `{command}` did not end within {} s", limit.as_secs())]
    Late { command: String, limit: Duration },
    #[error(
        "the command `{command}` failed: {status}; it must exit with 0 if the owner is there, with 1 to 125 if not"
    )]
    Failed { command: String, status: ExitStatus },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
