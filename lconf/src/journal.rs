//! `lconf journal`: maintenance of the master's journal.

use clap::Subcommand;
use limo_client::{Failure, Master, answer, exit};
use limo_model::Memory;

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Return unused space to the file system while the master runs
    Compact,
}

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked or refuses.
pub async fn run(command: JournalCommand, master: &Master) -> Result<u8, Failure> {
    let JournalCommand::Compact = command;
    let sizes = master.session().await?.compact_journal().await?;
    let [before, after] = [sizes.before, sizes.after].map(Memory::from_bytes);
    answer(&format!("journal: {before} before, {after} after\n"))?;
    Ok(exit::DONE)
}
