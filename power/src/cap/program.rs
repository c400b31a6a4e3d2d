//! Runs the programs that set limits, and converts their errors. Does not interpret their output.

use std::io;
use std::path::Path;
use std::process::Command;

use thiserror::Error;

use super::CapError;
use crate::meter::MeterError;
use crate::meter::run::{LIMIT, Ran, succeeded};

/// Reason why a program failed. `command` is the command line.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error("cannot find `{program}`: {remedy}")]
    Missing { program: String, remedy: &'static str },
    #[error("cannot run `{command}`: {source}")]
    Run { command: String, source: io::Error },
    #[error("`{command}` did not end within 5 s and was killed; it printed {printed}")]
    Late { command: String, printed: String },
    /// `status` is the operating system's text, such as `exit status: 1`.
    #[error("`{command}` failed with {status}; it printed {printed}")]
    Failed { command: String, status: String, printed: String },
    #[error("`{command}` printed {printed}: {expected}")]
    Nonsense { command: String, printed: String, expected: &'static str },
}

/// Program, and the remedy if it is missing.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    pub path: &'a Path,
    pub remedy: &'static str,
}

impl Program<'_> {
    /// Returns the output and the name of the command for errors, if the program ended well and in time.
    pub fn run(&self, arguments: &[&str]) -> Result<(Ran, String), CapError> {
        let shown = format!("{} {}", self.path.display(), arguments.join(" "));
        let mut command = Command::new(self.path);
        command.args(arguments);
        match succeeded(command, &shown, LIMIT) {
            Ok(ran) => Ok((ran, shown)),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: MeterError) -> CapError {
        let program = match error {
            MeterError::Run { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ProgramError::Missing { program: self.path.display().to_string(), remedy: self.remedy }
            }
            MeterError::Run { command, source } => ProgramError::Run { command, source },
            MeterError::Late { command, printed, .. } => ProgramError::Late { command, printed },
            MeterError::Failed { command, status, printed } => ProgramError::Failed { command, status, printed },
            other => return other.into(),
        };
        program.into()
    }
}
