//! Parses a command line with clap and formats its errors as the clients do.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use limo_model::plain_words;
use limo_program::generate::{self, GenerateArgs, Section};

use crate::{Failure, exit, failure};

/// Returns the text to type instead of an unknown option.
pub type Instead = fn(&str) -> Option<String>;

/// Parses the program's arguments. A first argument `--generate` makes a completion or a manual page. `Err` is the
/// exit code after help, a version or an error was printed.
///
/// Hidden options are those that `-h` omits to fit a screen; `--help` shows all. `instead` gives the hint for an
/// unknown option.
pub fn parse<T: Parser>(program: &str, instead: Instead) -> Result<T, ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if generate::is_asked(&arguments) {
        let form = complained((program, instead), &arguments, GenerateArgs::try_parse())?.generate;
        let text = generate::generate(form, whole(T::command()), (program, Section::Commands));
        let text = String::from_utf8_lossy(&text);
        return Err(failure::finish(program, failure::answer(&text).map(|()| exit::DONE)));
    }
    let parsed = T::try_parse();
    let is_help = parsed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DisplayHelp);
    if is_help && T::command().get_arguments().any(clap::Arg::is_hide_set) {
        let asked = arguments.iter().find(|word| *word == "-h" || *word == "--help");
        let text = match asked {
            Some(word) if word == "--help" => whole(T::command()).render_help().to_string(),
            _ => format!("{}--help shows all options.\n", T::command().render_help()),
        };
        return Err(failure::finish(program, failure::answer(&text).map(|()| exit::DONE)));
    }
    complained((program, instead), &arguments, parsed)
}

/// Unhides all options.
fn whole(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.hide(false))
}

fn complained<T>(
    (program, instead): (&str, Instead),
    arguments: &[OsString],
    parsed: Result<T, clap::Error>,
) -> Result<T, ExitCode> {
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // If help cannot be printed, nothing remains to be done.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            failure::tell(&complaint(program, &Wrong::of(&error, (arguments, instead))));
            ExitCode::from(exit::FAILED)
        }
    })
}

/// Describes an error in words that do not come from the command line, such as those of a script.
pub fn complaint_of(error: &clap::Error) -> Failure {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Failure::new("`--help` and `--version` cannot be used in a script");
    }
    let Wrong { message, hints } = Wrong::of(error, (&[], |_| None));
    Failure { hint: hints.into_iter().next(), ..Failure::new(message) }
}

fn complaint(program: &str, wrong: &Wrong) -> String {
    let Wrong { message, mut hints } = wrong.clone();
    if hints.is_empty() {
        hints.push(format!("try `{program} --help`"));
    }
    let hints: String = hints.iter().map(|hint| format!("{program}: hint: {hint}\n")).collect();
    format!("{program}: error: {message}\n{hints}")
}

/// Complaint about a command line.
#[derive(Debug, Clone)]
struct Wrong {
    message: String,
    hints: Vec<String>,
}

impl Wrong {
    fn of(error: &clap::Error, (arguments, instead): (&[OsString], Instead)) -> Self {
        let (message, hints) = parts(&error.render().to_string());
        let unknown = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => option.as_str(),
            _ => return Self { message: plain_words(&message), hints },
        };
        if let Some(advice) = instead(unknown) {
            return Self { message: format!("unknown option `{unknown}`"), hints: vec![advice] };
        }
        // clap takes the first digit of a negative value for a short option.
        let is_negative =
            |word: &&str| word.starts_with(unknown) && word[1..].starts_with(|c: char| c.is_ascii_digit());
        match arguments.iter().filter_map(|word| word.to_str()).find(is_negative) {
            Some(value) => Self { message: format!("`{value}`: the value cannot be negative"), hints },
            None => Self { message, hints },
        }
    }
}

/// Splits clap's text into its message and its suggestions, without its usage text.
fn parts(rendered: &str) -> (String, Vec<String>) {
    let said = rendered.split("\n\nUsage:").next().unwrap_or(rendered);
    let said = said.split("\n\nFor more information").next().unwrap_or(said).trim_end();
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut text = lines.next().unwrap_or("the command line is wrong").to_owned();
    let mut hints = Vec::new();
    for line in lines {
        match line.strip_prefix("tip: ") {
            // This tip is meant for values that look like options, and not for a mistyped option.
            Some(tip) if tip.starts_with("to pass ") => {}
            Some(tip) => hints.push(tip.to_owned()),
            None => text += &format!(" {line}"),
        }
    }
    (text, hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[arg(long)]
        color: Option<u32>,
        #[arg(required = true)]
        name: String,
    }

    fn check(args: &[&str], expected: &str) {
        let error = Args::try_parse_from(args).expect_err("a wrong command line");
        let arguments: Vec<OsString> = args.iter().map(OsString::from).collect();
        let instead = |option: &str| (option == "--licenses").then(|| "there are none".to_owned());
        assert_eq!(complaint("lq", &Wrong::of(&error, (&arguments, instead))), expected);
    }

    #[test]
    fn complaints_name_the_option_and_a_hint() {
        check(
            &["lq", "--colour", "x"],
            "lq: error: unexpected argument '--colour' found\nlq: hint: a similar argument exists: '--color'\n",
        );
        check(
            &["lq"],
            "lq: error: the following required arguments were not provided: <NAME>\nlq: hint: try `lq --help`\n",
        );
        check(
            &["lq", "--color", "x"],
            "lq: error: invalid value 'x' for '--color <COLOR>': it is not a whole number\n\
             lq: hint: try `lq --help`\n",
        );
        check(&["lq", "-5min"], "lq: error: `-5min`: the value cannot be negative\nlq: hint: try `lq --help`\n");
        check(&["lq", "--licenses=2"], "lq: error: unknown option `--licenses`\nlq: hint: there are none\n");
    }
}
