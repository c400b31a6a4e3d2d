//! `lrun login`: gets a certificate for this user, with which other machines run jobs in the user's name for a day. Must
//! run on the machine of the master, where the kernel names the user.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use limo_client::{AskError, Clock, Failure, MasterArg, NewKey, answer, exit};
use limo_model::{Span, Time};
use limo_proto::EnrolRequest;

/// Word that is not a command of a job, if it is the first argument.
pub const LOGIN: &str = "login";

/// The end of the manual page of `lrun`.
pub const LONG_HELP: &str = "\
Exit code: that of the command, 128+n for signal n; 125 if Limo failed, refused or lost the job.

lrun login [--out DIR] [--life SPAN], on the machine of the master, gets a certificate with which other machines run jobs for \
its user. A job with a command of this name is `lrun -- login`.";

/// Command line of `lrun login`, which is not that of a job.
#[derive(Debug, Parser)]
#[command(name = "lrun", version, disable_help_subcommand = true)]
pub struct LoginLine {
    #[command(subcommand)]
    pub command: LoginCommand,
}

#[derive(Debug, Subcommand)]
pub enum LoginCommand {
    /// Get a certificate for this user, to run jobs from other machines
    Login(LoginArguments),
}

#[derive(Debug, clap::Args)]
pub struct LoginArguments {
    /// Directory for the certificate and its key [default: ~/.config/limo/tls]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Life of the certificate, at most 24h
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    life: Span,
    #[command(flatten)]
    master: MasterArg,
}

/// Runs the command.
///
/// # Errors
/// If the master is not on this machine or refuses, or the certificate cannot be stored.
pub async fn run(LoginLine { command: LoginCommand::Login(arguments) }: LoginLine) -> Result<u8, Failure> {
    let new = NewKey::prepare(arguments.out)?;
    let key = new.bytes()?;
    let asked = EnrolRequest::Login { key, life: arguments.life };
    let issued = arguments.master.master().enrol(asked).await?.certificate().map_err(AskError::from)?;
    let certificate = new.store(&issued)?;
    let until = certificate.until.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let until = Clock::system().show_full(Time::from_unix_ms(i64::try_from(until).unwrap_or(i64::MAX)));
    answer(&format!("{}\nin {}\nvalid until {until}\n", certificate.identity, new.directory().display()))?;
    Ok(exit::DONE)
}
