//! `lconf journal`: maintenance of the master's journal.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Subcommand;
use limo_client::{Failure, Master, answer, exit, program};
use limo_model::Memory;

/// Prefix of a state directory; it may be omitted.
const FILE_PREFIX: &str = "sqlite:";

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Return unused space to the file system while the master runs
    Compact,
    /// Move the journal to another place while no master runs: a state directory, sqlite:DIR, or a database,
    /// postgres://USER@HOST/DATABASE
    Move {
        /// Present place of the journal
        from: String,
        /// New place, without a journal
        to: String,
    },
}

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked or refuses, or `lmaster`, which moves journals, cannot be run.
pub async fn run(command: JournalCommand, master: &Master) -> Result<u8, Failure> {
    match command {
        JournalCommand::Compact => {
            let sizes = master.session().await?.compact_journal().await?;
            let [before, after] = [sizes.before, sizes.after].map(Memory::from_bytes);
            answer(&format!("journal: {before} before, {after} after\n"))?;
            Ok(exit::DONE)
        }
        JournalCommand::Move { from, to } => {
            let error = moving(&from, &to).exec();
            Err(Failure::new(format_args!("cannot run lmaster, which moves journals: {error}")))
        }
    }
}

/// Returns the command that moves a journal. Only the places count, and no settings of a master.
fn moving(from: &str, to: &str) -> Command {
    let mut command = Command::new(program("lmaster"));
    command.args(["--config", "/dev/null", "--import-journal", from.strip_prefix(FILE_PREFIX).unwrap_or(from)]);
    for (variable, _) in std::env::vars_os().filter(|(variable, _)| variable.as_encoded_bytes().starts_with(b"LIMO_")) {
        command.env_remove(variable);
    }
    if to.starts_with("postgres:") || to.starts_with("postgresql:") {
        // It may contain a password, which others could read among the arguments.
        command.env("LIMO_JOURNAL", to);
    } else {
        command.arg("--state-dir").arg(OsString::from(to.strip_prefix(FILE_PREFIX).unwrap_or(to)));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_a_database() {
        let arguments = |from: &str, to: &str| {
            let command = moving(from, to);
            let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
            let arguments = command.get_args().map(text).collect::<Vec<_>>().join(" ");
            let journal = command.get_envs().find(|(name, _)| *name == "LIMO_JOURNAL").and_then(|(_, value)| value);
            (arguments, journal.map(text))
        };
        let database = "postgres://limo:secret@db/limo";
        let expected = "--config /dev/null --import-journal /old".to_owned();
        assert_eq!(arguments("sqlite:/old", database), (expected, Some(database.to_owned())));
        let expected = format!("--config /dev/null --import-journal {database} --state-dir /new");
        assert_eq!(arguments(database, "sqlite:/new"), (expected, None));
    }
}
