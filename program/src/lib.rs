//! The beginning and the end of a daemon or a tool: arguments, completions and manual pages, messages on stderr, the
//! exit code, and messages to the service manager. Clients, which give hints, have `limo-client`.

#![warn(missing_docs)]

pub mod generate;
mod notify;

use std::process::ExitCode;

use limo_model::{WRONG_USAGE, plain_words, with_causes};

pub use notify::Notifier;

/// Runs `body` with the parsed arguments and returns the exit code of the process. Help and version go to stdout, and the
/// code is 0. For a wrong command line it is 125, and for an error of `body` 1; both are printed on stderr.
pub fn run<T>(
    program: &str,
    arguments: Result<T, clap::Error>,
    body: impl FnOnce(T) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            // If help cannot be printed there is nothing left to do.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("{}", plain_words(&error.render().to_string()));
            return ExitCode::from(WRONG_USAGE);
        }
    };
    body(arguments).unwrap_or_else(|error| {
        eprintln!("{program}: {}", with_causes(&*error));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn ends(arguments: Result<u8, clap::Error>) -> String {
        let body = |code| match code {
            0 => Err(anyhow::anyhow!("it does not work")),
            code => Ok(ExitCode::from(code)),
        };
        format!("{:?}", run("a program", arguments, body))
    }

    #[test]
    fn the_exit_code_tells_the_end() {
        let code = |code: u8| format!("{:?}", ExitCode::from(code));
        let error = |kind| clap::Error::raw(kind, "told by a test\n");
        assert_eq!(ends(Ok(7)), code(7));
        assert_eq!(ends(Ok(0)), code(1));
        assert_eq!(ends(Err(error(ErrorKind::DisplayHelp))), code(0));
        assert_eq!(ends(Err(error(ErrorKind::UnknownArgument))), code(125));
    }
}
