//! Launch on a node that a job only holds for its steps: its process there waits for the end.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::process::ExitCode;

use limo_proto::DoExec;
use nix::sys::signal::{SigSet, Signal};

/// Name of this program when it holds a node.
pub const NAME: &str = "limo-hold";

/// Returns true if the job runs no command on this node.
pub(super) fn is_held(exec: &DoExec) -> bool {
    exec.launch.hold.covers(exec.share.as_ref().map_or(0, |share| share.index))
}

/// Returns this program's path, whose descriptor is `fd`, and arguments.
pub(super) fn program(fd: RawFd) -> (OsString, [OsString; 1]) {
    (format!("/proc/self/fd/{fd}").into(), [NAME.into()])
}

/// Waits for TERM. Other signals are for the command on the first node. All signals are blocked from the start, so that
/// none is missed.
pub fn main() -> ExitCode {
    let mut all = SigSet::empty();
    all.add(Signal::SIGTERM);
    match all.wait() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limo: cannot wait for the end of the job: {error}");
            ExitCode::from(126)
        }
    }
}
