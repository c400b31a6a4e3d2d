//! Scripts with options: lines `#LIMO --option value` at their head.
//!
//! The head ends at the first line that is neither a comment nor empty. The command line takes precedence over these
//! lines.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::Parser;
use limo_client::{Failure, complaint_of};
use limo_proto::BODY_LIMIT;

use crate::args::Args;

/// Beginning of a line with options.
const MARK: &str = "#LIMO";

/// Script as read at submission.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    /// Path as typed, for messages.
    path: String,
    pub content: Vec<u8>,
    lines: Vec<OptionLine>,
}

/// Line with options.
#[derive(Debug, PartialEq, Eq)]
struct OptionLine {
    /// Number of the line, from 1.
    number: usize,
    words: Vec<OsString>,
}

/// Reads a file that is sent with a job.
///
/// # Errors
/// If it cannot be read, or is too large for one frame.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let limit = BODY_LIMIT as u64;
    let mut content = Vec::new();
    let cannot = |error| Failure::new(format_args!("cannot read {}: {error}", path.display()));
    File::open(path).map_err(cannot)?.take(limit + 1).read_to_end(&mut content).map_err(cannot)?;
    if content.len() as u64 > limit {
        return Err(Failure::new(format_args!(
            "{} has more than {limit} bytes and cannot be sent with a job",
            path.display()
        ))
        .hint("put it where the nodes can read it, and name it as the command"));
    }
    Ok(content)
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// If the file cannot be read or does not look like a script, or a line with options cannot be split into words.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::of(path.display().to_string(), read_file(path)?)
    }

    fn of(path: String, content: Vec<u8>) -> Result<Self, Failure> {
        if !content.starts_with(b"#!") {
            return Err(Failure::new(format_args!("{path} does not begin with `#!` and the path of an interpreter"))
                .hint("for example `#!/bin/sh` as its first line"));
        }
        let mut lines = Vec::new();
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            if line.ends_with(b"\r") {
                return Err(Failure::new(format_args!("{path}:{number}: the line ends with CR LF (DOS format)"))
                    .hint(format_args!("sed -i 's/\\r$//' {path}")));
            }
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                break;
            }
            let Some(rest) = line.strip_prefix(MARK) else { continue };
            if rest.starts_with([' ', '\t']) {
                let words = words(rest).map_err(|error| Failure::new(format_args!("{path}:{number}: {error}")))?;
                lines.push(OptionLine { number, words });
            }
        }
        Ok(Self { path, content, lines })
    }

    /// Merges the options of the script with the command line, which takes precedence.
    ///
    /// # Errors
    /// If a line has something that is not an option for scripts; the error names the line.
    pub fn with_command_line(&self, plain: Args, line: &[OsString]) -> Result<Args, Failure> {
        if self.lines.is_empty() {
            return Ok(plain);
        }
        self.check()?;
        let Some((program, rest)) = line.split_first() else { return Ok(plain) };
        let merged = |count: usize| {
            let words = self.lines[..count].iter().flat_map(|line| &line.words);
            Args::try_parse_from([program].into_iter().chain(words).chain(rest))
        };
        let mut args = merged(self.lines.len()).map_err(|error| {
            // The culprit is the first line that causes an error.
            let culprit = (1..=self.lines.len()).find(|count| merged(*count).is_err()).unwrap_or(self.lines.len());
            self.at(&self.lines[culprit - 1], &complaint_of(&error))
        })?;
        let own = plain.job.variants;
        args.job
            .variants
            .retain(|variant| own.contains(variant) || !own.iter().any(|other| other.hardware == variant.hardware));
        Ok(args)
    }

    /// Checks that each line has nothing but options.
    fn check(&self) -> Result<(), Failure> {
        for line in &self.lines {
            if line.words.iter().any(|word| word == "--") {
                return Err(self
                    .at(line, &Failure::new("`--` cannot be used in a script: arguments belong on the command line")));
            }
            let alone = [OsString::from("lrun"), "--script=x".into()].into_iter().chain(line.words.iter().cloned());
            match Args::try_parse_from(alone) {
                Ok(args) if args.command.is_empty() => {}
                Ok(args) => {
                    let word = args.command[0].display();
                    return Err(self.at(line, &Failure::new(format_args!("`{word}` is not an option"))));
                }
                Err(error) => return Err(self.at(line, &complaint_of(&error))),
            }
            for own in ["--script", "--wrap", "--bcast"] {
                let named = |word: &OsString| word.to_string_lossy().split('=').next() == Some(own);
                if line.words.iter().any(named) {
                    return Err(self.at(line, &Failure::new(format_args!("{own} cannot be used in a script"))));
                }
            }
        }
        Ok(())
    }

    fn at(&self, line: &OptionLine, failure: &Failure) -> Failure {
        let text = format!("{}:{}: {}", self.path, line.number, failure.message);
        Failure { message: text, ..failure.clone() }
    }
}

/// Splits a line as a shell does; a word that begins with `#` begins a comment.
fn words(text: &str) -> Result<Vec<OsString>, shell_words::ParseError> {
    let words = shell_words::split(text)?;
    Ok(words.into_iter().take_while(|word| !word.starts_with('#')).map(OsString::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(script: &str, line: &[&str]) -> Result<Args, String> {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let plain = Args::try_parse_from(&line).expect("a command line");
        let script = Script::of("job.sh".into(), script.into()).map_err(|failure| failure.message)?;
        script.with_command_line(plain, &line).map_err(|failure| failure.message)
    }

    fn check_wrong(script: &str, expected: &str) {
        let error = merged(script, &["lrun", "--script", "job.sh"]).expect_err(script);
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn options_of_the_head_yield_to_the_command_line() {
        let script = "#!/bin/sh\n#LIMO -c 4 -J 'a name' # as it scales\n\n# a comment\n##LIMO -c 9\n#LIMOX -c 9\n\
                      #LIMO --mem=1G --variant gpu=a --variant fpga=b\necho\n#LIMO -c 9\n";
        let args = merged(script, &["lrun", "--script", "job.sh", "x", "-c", "7"]).expect("good");
        assert_eq!(
            (args.tasks.cores(&args.resources).to_string().as_str(), args.job.job_name.as_deref()),
            ("4", Some("a name"))
        );
        assert!(args.resources.mem.is_some() && args.job.variants.len() == 2);
        assert_eq!(args.command, ["x", "-c", "7"], "what follows is the script's own");
        let args = merged(script, &["lrun", "-c", "2", "--variant", "gpu=z", "--script", "job.sh"]).expect("good");
        assert_eq!(args.tasks.cores(&args.resources).to_string(), "2");
        let variants: Vec<_> = args.job.variants.iter().map(|variant| variant.argv.join(" ")).collect();
        assert_eq!(variants, ["b", "z"]);
    }

    #[test]
    fn errors_name_the_line_of_the_script() {
        check_wrong("#!/bin/sh\n#\n#LIMO -c 0\n", "job.sh:3: invalid value '0' for '--cores <N>'");
        check_wrong("#!/bin/sh\n#LIMO --nonsense\n", "job.sh:2: unexpected argument '--nonsense'");
        check_wrong("#!/bin/sh\n#LIMO -c 2 x\n", "job.sh:2: `x` is not an option");
        check_wrong("#!/bin/sh\n#LIMO -c 2 -- \n", "job.sh:2: `--` cannot be used in a script");
        check_wrong("#!/bin/sh\n#LIMO --script=y\n", "job.sh:2: --script cannot be used");
        check_wrong("#!/bin/sh\n#LIMO -J 'x\n", "job.sh:2: missing closing quote");
        check_wrong("#!/bin/sh\n#LIMO --help\n", "job.sh:2: `--help` and `--version` cannot be used in a script");
        check_wrong("echo\n", "job.sh does not begin with `#!`");
        check_wrong("#!/bin/sh\r\n", "job.sh:1: the line ends with CR LF");
    }
}
