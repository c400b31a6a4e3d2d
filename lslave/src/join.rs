//! `lslave join`: makes a key, gets a certificate for a token, and stores both.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use limo_identity::{CertifiedRole, JoinToken, KeyRequest};
use limo_proto::{AUTHORITIES_FILE, Endpoint, EnrolError, IDENTITY_FILE, KeyBytes, make_directory, tls_directory};

use crate::config::host_name;

#[derive(Debug, Clone, clap::Subcommand)]
pub enum LslaveCommand {
    /// Join a cluster: get a certificate for this node with a token, and exit
    Join(JoinArguments),
}

#[derive(Debug, Clone, clap::Args)]
pub struct JoinArguments {
    /// Token, as `lconf cluster join-token` prints it on the machine of the master
    #[arg(value_name = "TOKEN", env = "LIMO_JOIN_TOKEN", hide_env_values = true)]
    token: String,
    /// The master, as it is called over TLS
    #[arg(long, env = "LIMO_MASTER", value_name = "tls://HOST:PORT")]
    master: Endpoint,
    /// Name of the node in the cluster [default: the host name up to its first dot]
    #[arg(long, env = "LIMO_NAME", value_name = "NAME")]
    name: Option<String>,
}

/// Joins a cluster.
///
/// # Errors
/// If this machine has a certificate, the master refuses, or the certificate cannot be stored.
pub fn run(arguments: &JoinArguments) -> Result<()> {
    let token: JoinToken = arguments.token.parse()?;
    let Endpoint::Tls(hosts) = &arguments.master else {
        bail!("the master {} is on this machine: a node joins a master at tls://HOST:PORT", arguments.master);
    };
    let name = arguments.name.clone().map_or_else(host_name, Ok)?;
    let directory = tls_directory().context("this user has no home: name a directory with LIMO_TLS_DIR")?;
    let identity = directory.join(IDENTITY_FILE);
    ensure!(
        !identity.exists(),
        "{} exists: this machine has joined a cluster; remove the file to join again",
        identity.display()
    );
    // The token is used up by the answer, so everything that can fail here comes before.
    make_directory(&directory, 0o700).context("the directory of the certificate is not safe")?;
    let request = KeyRequest::new()?;
    let key = KeyBytes::try_from(request.request().to_vec())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let role = CertifiedRole::Node.name();
    let joined = runtime.block_on(limo_proto::join(hosts, &token, (role, &name), key));
    let joined = joined.map_err(|error| match error {
        EnrolError::Refused { reason, hint: Some(hint) } => anyhow::anyhow!("the master refused: {reason} ({hint})"),
        error => error.into(),
    })?;
    joined
        .write(&directory, &request.key_pem())
        .with_context(|| format!("cannot store the certificate in {}; the token is used up", directory.display()))?;
    println!("{}", said(&name, &directory, &arguments.master));
    Ok(())
}

fn said(name: &str, directory: &Path, master: &Endpoint) -> String {
    let directory = directory.display();
    format!(
        "node {name} joined: {directory}/{IDENTITY_FILE} and {directory}/{AUTHORITIES_FILE}\n\
         next: write master = \"{master}\" and name = \"{name}\" into /etc/limo/lslave.toml, then systemctl enable --now \
         lslave; or run lslave --master {master} --name {name}"
    )
}
