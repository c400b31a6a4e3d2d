//! `lconf cluster`: makes the authority of a cluster, and tokens with which machines join it.

use std::time::{Duration, SystemTime};

use clap::Subcommand;
use limo_authority::Wish;
use limo_client::{AskError, Clock, Failure, Master, answer, exit, tell};
use limo_identity::{CertifiedRole, Fingerprint};
use limo_model::Span;
use limo_proto::EnrolRequest;

use crate::authority::{AuthorityArg, failure};

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make the authority and the certificate of the master, on the master's machine
    Init {
        #[command(flatten)]
        authority: AuthorityArg,
        /// Name of the master in its certificate
        #[arg(long, value_name = "NAME", default_value = "master")]
        name: String,
        /// Life of the certificate of the master, at most 90d; it is renewed at two thirds of its life
        #[arg(long, value_name = "SPAN", default_value = "90d")]
        life: Span,
    },
    /// Make a token with which a machine joins the cluster once, on the master's machine
    JoinToken {
        /// Role of the machine: node
        #[arg(long, value_name = "ROLE", default_value_t = CertifiedRole::Node)]
        role: CertifiedRole,
        /// Name of the machine [default: chosen by the machine, if no other one has it]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Time for which the token is valid, at most 7d
        #[arg(long, value_name = "SPAN", default_value = "1h")]
        expires: Span,
    },
}

/// Runs a command.
///
/// # Errors
/// If there is an authority already, a file cannot be written, or the master refuses.
pub async fn run(command: &ClusterCommand, master: &Master) -> Result<u8, Failure> {
    match command {
        ClusterCommand::Init { authority, name, life } => init(authority, name, *life)?,
        ClusterCommand::JoinToken { role, name, expires } => {
            let (role, name) = (role.name().into(), name.as_deref().map(Into::into));
            let request = EnrolRequest::MakeToken { role, name, life: *expires };
            let (token, until) = master.enrol(request).await?.token().map_err(AskError::from)?;
            answer(&format!("{token}\n"))?;
            let until = Clock::system().show_full(until);
            tell(&format!("Valid once, until {until}. On the machine: lslave join TOKEN --master tls://HOST:PORT\n"));
        }
    }
    Ok(exit::DONE)
}

fn init(authority: &AuthorityArg, name: &str, life: Span) -> Result<(), Failure> {
    let (directory, now) = (authority.directory()?, SystemTime::now());
    let made = directory.init(now).map_err(failure)?;
    let life = Duration::from_millis(u64::try_from(life.ms()).unwrap_or(0));
    let wish = Wish { role: CertifiedRole::Master, name, life: Some(life) };
    directory.issue(&made, wish, directory.path(), now).map_err(failure)?;
    let fingerprint = Fingerprint::of(made.certificate()).map_err(Failure::new)?;
    let text =
        format!("cluster {}\nauthority in {}\nfingerprint {fingerprint}\n", made.cluster(), directory.path().display());
    answer(&text)
}
