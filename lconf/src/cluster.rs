//! `lconf cluster`: makes the authority of a cluster, and tokens with which machines join it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use limo_authority::Wish;
use limo_client::{AskError, Clock, Failure, Master, NewKey, answer, exit, tell};
use limo_identity::{CertifiedRole, Fingerprint, JoinToken, Serial};
use limo_model::{ClusterId, Span};
use limo_proto::{EnrolRequest, NewCertificate};

use crate::authority::{AuthorityArg, failure};
use crate::relay::{self, RelayArguments};

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
        /// Id of the cluster [default: that of the running master, if the directory is its default one, else a new one]
        #[arg(long, value_name = "ID", value_parser = cluster_id)]
        cluster: Option<ClusterId>,
    },
    /// Make a token with which a machine joins the cluster once, on the master's machine
    JoinToken {
        /// Role of the machine: node, submit-host for one that acts for its users, or read-only for one that only asks
        #[arg(long, value_name = "ROLE", default_value_t = CertifiedRole::Node)]
        role: CertifiedRole,
        /// Name of the machine [default: chosen by the machine, if no other one has it]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Time for which the token is valid, at most 7d
        #[arg(long, value_name = "SPAN", default_value = "1h")]
        expires: Span,
    },
    /// Join a cluster with a token, as a submit host or a machine that only asks; a node joins with `lslave join`
    Join {
        /// Token, as `lconf cluster join-token --role ROLE` prints it on the machine of the master
        #[arg(value_name = "TOKEN", env = "LIMO_JOIN_TOKEN", hide_env_values = true)]
        token: JoinToken,
        /// Role of the machine, as in the token: submit-host or read-only
        #[arg(long, value_name = "ROLE", default_value_t = CertifiedRole::ReadOnly)]
        role: CertifiedRole,
        /// Name of the machine in the cluster
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Directory for the certificate and its key [default: /etc/limo/tls for root, else ~/.config/limo/tls]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Pass the users of this submit host on to the master, until ended
    Relay(RelayArguments),
}

/// Runs a command.
///
/// # Errors
/// If there is an authority already, a file cannot be written, or the master refuses.
pub async fn run(command: &ClusterCommand, master: &Master) -> Result<u8, Failure> {
    match command {
        ClusterCommand::Init { authority, name, life, cluster } => {
            let cluster = match cluster {
                // The directory may be of another master.
                None if authority.is_default() => {
                    master.connect().await.ok().map(|found| found.identity.journal.cluster)
                }
                given => *given,
            };
            init(authority, (name, *life), cluster)?;
        }
        ClusterCommand::JoinToken { role, name, expires } => {
            let role = role.name();
            let name = name.as_deref().map(Into::into);
            let request = EnrolRequest::MakeToken { role: role.into(), name, life: *expires };
            let (token, until) = master.enrol(request).await?.token().map_err(AskError::from)?;
            answer(&format!("{token}\n"))?;
            let until = Clock::system().show_full(until);
            let join = if role == "node" { "lslave join" } else { "lconf cluster join" };
            tell(&format!("Valid once, until {until}. On the machine: {join} TOKEN --master tls://HOST:PORT\n"));
        }
        ClusterCommand::Join { token, role, name, out } => join(token, (*role, name), out.as_deref(), master).await?,
        ClusterCommand::Relay(arguments) => return relay::run(arguments, master).await,
    }
    Ok(exit::DONE)
}

async fn join(
    token: &JoinToken,
    (role, name): (CertifiedRole, &str),
    out: Option<&Path>,
    master: &Master,
) -> Result<(), Failure> {
    // The token is used up by the answer, so everything that can fail here comes before.
    let new = NewKey::prepare(out.map(Path::to_owned))?;
    let issued = master.join(token, (role.name(), name), new.bytes()?).await?;
    store(&issued, &new)
}

/// Stores a certificate, and says so.
pub fn store(issued: &NewCertificate, new: &NewKey) -> Result<(), Failure> {
    let certificate = new.store(issued)?;
    answer(&format!("{}\nin {}\n", certificate.identity, new.directory().display()))
}

fn cluster_id(text: &str) -> Result<ClusterId, String> {
    let id: Result<Serial, _> = text.parse();
    id.map(|id| ClusterId(id.0))
        .map_err(|_| "an id of a cluster has 32 hexadecimal digits, as lmaster logs it".to_owned())
}

fn init(authority: &AuthorityArg, (name, life): (&str, Span), cluster: Option<ClusterId>) -> Result<(), Failure> {
    let (directory, now) = (authority.directory()?, SystemTime::now());
    let made = directory.init(cluster, now).map_err(failure)?;
    let life = Duration::from_millis(u64::try_from(life.ms()).unwrap_or(0));
    let wish = Wish { role: CertifiedRole::Master, name, life: Some(life) };
    directory.issue(&made, wish, directory.path(), now).map_err(failure)?;
    let fingerprint = Fingerprint::of(made.certificate()).map_err(Failure::new)?;
    let text =
        format!("cluster {}\nauthority in {}\nfingerprint {fingerprint}\n", made.cluster(), directory.path().display());
    answer(&text)
}
