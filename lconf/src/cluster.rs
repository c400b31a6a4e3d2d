//! `lconf cluster`: makes the authority of a cluster.

use clap::Subcommand;
use limo_client::{Failure, answer, exit};
use limo_identity::{CertifiedRole, Fingerprint};

use crate::authority::AuthorityArg;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make the authority and the certificate of the master, on the master's machine
    Init {
        #[command(flatten)]
        authority: AuthorityArg,
        /// Name of the master in its certificate
        #[arg(long, value_name = "NAME", default_value = "master")]
        name: String,
    },
}

/// Runs a command.
///
/// # Errors
/// If there is an authority already, or a file cannot be written.
pub fn run(command: &ClusterCommand) -> Result<u8, Failure> {
    let ClusterCommand::Init { authority, name } = command;
    let directory = authority.directory()?;
    let made = directory.init()?;
    directory.issue(&made, (CertifiedRole::Master, name), None, directory.path())?;
    let fingerprint = Fingerprint::of(made.certificate()).map_err(Failure::new)?;
    let text =
        format!("cluster {}\nauthority in {}\nfingerprint {fingerprint}\n", made.cluster(), directory.path().display());
    answer(&text)?;
    Ok(exit::DONE)
}
