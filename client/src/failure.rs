//! Reports failures and writes answers.
//!
//! stdout is for the answer, stderr for everything else. A failure is printed once, as `lq: error: ...`, with at most
//! one hint that can be typed.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::exit;
use crate::table::plain_lines;

/// Failure that ends a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The failed action and the reason, without the name of the program.
    pub message: String,
    /// Command to type, or thing to change, instead.
    pub hint: Option<String>,
    /// Exit code.
    pub code: u8,
}

impl Failure {
    /// Makes a failure with the code [`exit::FAILED`] and without a hint.
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, code: exit::FAILED }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Formats the lines for stderr, each with its line break.
    pub fn lines(&self, program: &str) -> String {
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("{program}: hint: {hint}\n"));
        // A reason may contain text that another user has chosen.
        plain_lines(&format!("{program}: error: {}\n{hint}", self.message))
    }
}

/// Writes `text` to stderr. Ignores errors: a closed stderr has no reader.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Ends a program: prints the failure, if any, and returns the exit code.
pub fn finish(program: &str, result: Result<u8, Failure>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            tell(&failure.lines(program));
            ExitCode::from(failure.code)
        }
    }
}

/// Runs the work of a client in one thread. Reads of stdin that still block end with the process.
///
/// # Errors
/// That of `work`, or if the system provides no event loop.
pub fn in_runtime(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format_args!("cannot start: {error}")))?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Writes an answer to stdout. A closed pipe (`lq | head -1`) is not an error.
///
/// # Errors
/// If stdout cannot be written for another reason, such as a full disk.
pub fn answer(text: &str) -> Result<(), Failure> {
    answer_screen(&plain_lines(text))
}

/// Writes an answer with colours or cursor movements. The caller has escaped the text of users.
///
/// # Errors
/// The same as for [`answer`].
pub fn answer_screen(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format_args!("cannot write standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a JSON answer to stdout, on one line.
///
/// # Errors
/// The same as for [`answer`].
pub fn answer_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text =
        serde_json::to_string(value).map_err(|error| Failure::new(format_args!("cannot write JSON: {error}")))?;
    answer(&(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_failure_are_escaped() {
        let failure = Failure::new("job 7 is held by \x1b]0;x\x07\u{202e}bob");
        assert_eq!(failure.lines("lq"), "lq: error: job 7 is held by \\u{1b}]0;x\\u{7}\\u{202e}bob\n");
    }

    #[test]
    fn a_failure_is_one_line_and_a_hint() {
        let failure = Failure::new("no job 7");
        assert_eq!(failure.lines("lq"), "lq: error: no job 7\n");
        assert_eq!(failure.hint("lq --all").lines("lq"), "lq: error: no job 7\nlq: hint: lq --all\n");
    }
}
