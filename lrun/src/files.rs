//! Options for the job's input and output files.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser};
use limo_model::{FileNameError, check_file_name};
use limo_proto::Files;

/// Name of srun for a discarded stream.
const NOWHERE: &str = "none";

/// Word of srun for all tasks.
const EVERYBODY: &str = "all";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Input and output")]
pub struct FileArgs {
    /// Write standard output to FILE on the node, e.g. run-%j.txt
    #[arg(short, long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(file_name))]
    pub output: Option<FileName>,
    /// Write standard error to FILE on the node
    #[arg(short, long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(file_name))]
    pub error: Option<FileName>,
    /// Read standard input from FILE on the node, or pass it to task N only
    #[arg(short, long, value_name = "FILE|N", value_parser = OsStringValueParser::new().try_map(input))]
    pub input: Option<StdinSource>,
    /// Overwrite output files (`truncate`) or append to them (`append`)
    #[arg(long, value_name = "MODE", value_enum, default_value = "truncate", hide_possible_values = true, hide = true)]
    pub open_mode: OpenMode,
    /// Give the job a terminal, and pass the keys of this one to it
    #[arg(long, conflicts_with_all = ["output", "error", "input", "detach", "wait"])]
    pub pty: bool,
}

/// Treatment of an existing output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OpenMode {
    Truncate,
    Append,
}

/// Checked file name, which may contain `%j` and other patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName(Vec<u8>);

fn file_name(text: OsString) -> Result<FileName, FileNameError> {
    if text == NOWHERE {
        return Ok(FileName(b"/dev/null".to_vec()));
    }
    check_file_name(text.as_bytes()).map(|()| FileName(text.into_vec()))
}

/// Source of stdin, and the task that gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinSource {
    /// Standard input of this process, for all tasks.
    All,
    /// Standard input of this process, for one task.
    Task(u32),
    File(FileName),
}

fn input(text: OsString) -> Result<StdinSource, FileNameError> {
    match text.to_str() {
        Some(EVERYBODY) => Ok(StdinSource::All),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => {
            // A number that is too large matches no task and is refused later.
            Ok(StdinSource::Task(number.parse().unwrap_or(u32::MAX)))
        }
        _ => file_name(text).map(StdinSource::File),
    }
}

impl FileArgs {
    pub fn files(&self) -> Files {
        let bytes = |name: &Option<FileName>| name.as_ref().map(|name| name.0.clone());
        Files {
            stdin: self.input.as_ref().and_then(|input| match input {
                StdinSource::File(name) => Some(name.0.clone()),
                StdinSource::All | StdinSource::Task(_) => None,
            }),
            stdout: bytes(&self.output),
            stderr: bytes(&self.error),
            append: self.open_mode == OpenMode::Append,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser;

    fn check(args: &[&str], expected: Result<Files, &str>) {
        let parsed = Args::try_parse_from(["lrun"].iter().chain(args).chain(&["a"])).map(|args| args.files.files());
        match (parsed, expected) {
            (Ok(files), Ok(expected)) => assert_eq!(files, expected, "{args:?}"),
            (Err(error), Err(expected)) => {
                let error = error.to_string();
                assert!(error.contains(expected), "{error}");
            }
            (parsed, _) => panic!("{args:?}: {parsed:?}"),
        }
    }

    #[test]
    fn each_option_names_its_file() {
        let name = |name: &str| Some(name.as_bytes().to_vec());
        check(&[], Ok(Files::default()));
        let all = Files { stdin: name("in"), stdout: name("%x-%5j"), stderr: name("/dev/null"), append: true };
        check(&["-i", "in", "-o", "%x-%5j", "-e", "none", "--open-mode", "append"], Ok(all));
        check(&["--output", "./none"], Ok(Files { stdout: name("./none"), ..Files::default() }));
        check(&["-o", "%A_%a"], Ok(Files { stdout: name("%A_%a"), ..Files::default() }));
        check(&["-o", "%A_%"], Err("invalid value '%A_%' for '--output <FILE>': a `%` is at the end"));
        check(&["-e", "%q"], Err("'--error <FILE>': `%q` is unknown"));
        check(&["-i", "all"], Ok(Files::default()));
        check(&["-i", "7"], Ok(Files::default()));
        check(&["-i", "./7"], Ok(Files { stdin: name("./7"), ..Files::default() }));
        check(&["-i", ""], Err("'--input <FILE|N>': the name is empty"));
        check(&["--open-mode", "x"], Err("invalid value 'x' for '--open-mode <MODE>'"));
    }
}
