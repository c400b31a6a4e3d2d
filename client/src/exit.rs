//! Exit codes of the clients; `docs/exit-codes.md` has the table for users.

use limo_model::{JobEnd, Outcome};

/// The command succeeded.
pub const DONE: u8 = 0;
/// Limo failed, refused the request, lost the job, or the requested object does not exist. env(1) and timeout(1) use
/// the same number; few other programs do.
pub const FAILED: u8 = limo_model::WRONG_USAGE;
/// The command exists and cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist.
pub const NOT_FOUND: u8 = 127;
/// Base of the exit codes for signals: the number of the signal is added.
pub const SIGNAL_BASE: u8 = 128;

/// Returns the exit code for an end by `signal`.
pub fn of_signal(signal: i32) -> u8 {
    u8::try_from(signal).ok().and_then(|signal| SIGNAL_BASE.checked_add(signal)).unwrap_or(u8::MAX)
}

/// Returns the exit code for the end of a job.
pub fn of_end(end: &JobEnd) -> u8 {
    match end {
        JobEnd::Ran { outcome: Outcome::Signaled(signal), .. } => of_signal(*signal),
        JobEnd::Ran { outcome, .. } => outcome.exit_code(),
        JobEnd::Cancelled { .. } | JobEnd::Refused { .. } | JobEnd::Unmet { .. } => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_exit_code() {
        let check = |outcome, code| assert_eq!(of_end(&JobEnd::Ran { outcome, stopped: None }), code);
        check(Outcome::Exited(7), 7);
        check(Outcome::Signaled(2), 130);
        check(Outcome::Signaled(1000), 255);
        check(Outcome::NotStarted { code: NOT_FOUND, reason: String::new() }, 127);
        check(Outcome::Lost { reason: String::new() }, FAILED);
        assert_eq!(of_end(&JobEnd::Cancelled { by: "ada".into() }), FAILED);
    }
}
