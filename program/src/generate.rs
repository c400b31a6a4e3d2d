//! Makes shell completions and a manual page from the command line: `--generate bash|zsh|fish|man`, as the only
//! argument. `--help` does not show it, because it is for packagers.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::PossibleValue;
use clap::{Command, Parser};
use clap_complete::Shell;
use clap_mangen::Man;

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Completion for a shell.
    Completion(Shell),
    /// Manual page.
    Manual,
}

impl clap::ValueEnum for Form {
    fn value_variants<'a>() -> &'a [Self] {
        const SHELLS: [Form; 4] =
            [Form::Completion(Shell::Bash), Form::Completion(Shell::Zsh), Form::Completion(Shell::Fish), Form::Manual];
        &SHELLS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Completion(shell) => shell.to_possible_value(),
            Self::Manual => Some(PossibleValue::new("man")),
        }
    }
}

/// Command line for a page. It is parsed separately from the program's own, because it needs none of the program's
/// arguments.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
pub struct GenerateArgs {
    /// Form of the output.
    #[arg(long, value_name = "FORM", required = true)]
    pub generate: Form,
}

/// Returns true if these arguments, without the program's name, request a page.
pub fn is_asked(arguments: &[OsString]) -> bool {
    let first = arguments.first().map(|first| first.to_string_lossy());
    first.is_some_and(|first| first == "--generate" || first.starts_with("--generate="))
}

/// Section of the manual for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Commands of users: 1.
    Commands,
    /// Daemons: 8.
    Daemons,
}

/// Prints the completion or the page if the arguments of this process request one, and returns the exit code.
pub fn requested(program: &str, section: Section, command: Command) -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    is_asked(&arguments).then(|| {
        crate::run(program, GenerateArgs::try_parse(), |arguments| {
            std::io::stdout().write_all(&generate(arguments.generate, command, (program, section)))?;
            Ok(ExitCode::SUCCESS)
        })
    })
}

/// Returns the text of the completion or the page.
pub fn generate(form: Form, mut command: Command, (program, section): (&str, Section)) -> Vec<u8> {
    let mut text = Vec::new();
    match form {
        Form::Completion(shell) => clap_complete::generate(shell, &mut command, program, &mut text),
        Form::Manual => text = manual(command, section),
    }
    text
}

/// Makes one page: the program, and a section for each of its commands.
fn manual(mut command: Command, section: Section) -> Vec<u8> {
    command.build();
    let number = match section {
        Section::Commands => "1",
        Section::Daemons => "8",
    };
    let whole = Man::new(command.clone()).section(number);
    let mut page = rendered(|_, text| whole.render(text), &command);
    sections(&command, command.get_name(), &mut page);
    page.into_bytes()
}

fn sections(command: &Command, path: &str, page: &mut String) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        *page += &format!(".SH \"{}\"\n{about}\n", path.to_uppercase());
        if sub.get_subcommands().next().is_some() {
            sections(sub, &path, page);
            continue;
        }
        let part = rendered(|man, text| man.render_synopsis_section(text), sub);
        let options = rendered(|man, text| man.render_options_section(text), sub);
        // The sections of the program become subsections of its command's section.
        *page += &(part + &options).replace(".SH ", ".SS ");
    }
}

fn rendered(render: impl Fn(&Man, &mut Vec<u8>) -> std::io::Result<()>, command: &Command) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = render(&Man::new(command.clone()), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_section_and_the_options_of_each_command() {
        let show = Command::new("show").about("Show something").arg(clap::Arg::new("all").long("all"));
        let command = Command::new("thing").about("Does things").subcommand(show);
        let page = generate(Form::Manual, command.clone(), ("thing", Section::Daemons));
        let page = String::from_utf8(page).expect("text");
        assert!(page.contains(".TH thing 8"), "{page}");
        assert!(page.contains(".SH \"THING SHOW\"\nShow something\n") && page.contains("all"), "{page}");
        let page = generate(Form::Manual, command, ("thing", Section::Commands));
        assert!(String::from_utf8(page).expect("text").contains(".TH thing 1"));
    }
}
