//! Makes shell completions and a manual page from the command line: `--generate bash|zsh|fish|man`, as the only
//! argument. `--help` does not show it, because it is for packagers.

use std::ffi::OsString;

use clap::Command;
use clap::builder::PossibleValue;
use clap_complete::Shell;
use clap_mangen::Man;

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Completion(Shell),
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
#[derive(Debug, clap::Parser)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
pub(crate) struct GenerateArgs {
    #[arg(long, value_name = "FORM", required = true)]
    pub(crate) generate: Form,
}

/// Returns true if these arguments, without the program's name, request a page.
pub(crate) fn is_asked(arguments: &[OsString]) -> bool {
    let first = arguments.first().map(|first| first.to_string_lossy());
    first.is_some_and(|first| first == "--generate" || first.starts_with("--generate="))
}

/// Returns the text of the completion or the page.
pub(crate) fn generate(form: Form, mut command: Command, program: &str) -> Vec<u8> {
    let mut text = Vec::new();
    match form {
        Form::Completion(shell) => clap_complete::generate(shell, &mut command, program, &mut text),
        Form::Manual => text = manual(command),
    }
    text
}

/// Makes one page: the program, and a section for each of its commands.
fn manual(mut command: Command) -> Vec<u8> {
    command.build();
    let mut page = rendered(|man, text| man.render(text), &command);
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
