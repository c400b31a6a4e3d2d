//! Callers with certificates, of any machine: the handshake, and what the certificate allows.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use limo_identity::{Certificate, CertifiedRole};
use limo_model::ClusterId;
use limo_proto::{Credentials, Listening, TlsSocket, turn_away};
use nix::unistd::{User, geteuid};
use tokio::net::{TcpListener, TcpStream};

use super::handshakes::{Handshake, Handshakes};
use super::{Door, Entrant, PAUSE};
use crate::audit::{Audit, AuditEntry, AuditKind};
use crate::config::TlsSettings;
use crate::pass::{Pass, Revoked};

/// Number under which machines that run no jobs of their own are counted. No user can have it: the kernel's numbers end before.
const MACHINE_UID: u32 = u32::MAX;

/// The listener for callers with certificates.
#[derive(Debug)]
pub struct TlsListener {
    listener: TcpListener,
    tls: Tls,
}

/// The data of all handshakes.
#[derive(Debug, Clone)]
struct Tls {
    listening: Arc<Listening>,
    revoked: Revoked,
    audit: Audit,
    handshakes: Handshakes,
}

/// Returns the cluster of this master's certificate.
///
/// # Errors
/// If the certificate is missing or cannot be used.
pub fn certified_cluster(settings: &TlsSettings) -> Result<ClusterId> {
    let credentials = Credentials::read(&settings.dir).context("run `lconf cluster init` first");
    let credentials = credentials.context("cannot listen over TLS")?;
    Ok(credentials.own().identity.cluster())
}

impl TlsListener {
    /// Checks the certificate of this master.
    ///
    /// # Errors
    /// If the certificates or the revoked serials cannot be used.
    pub fn new(listener: TcpListener, dir: PathBuf, audit: Audit) -> Result<Self> {
        let credentials = Credentials::read(&dir).context("run `lconf cluster init` first")?;
        let own = credentials.own().clone();
        ensure!(
            own.identity.role() == CertifiedRole::Master,
            "the certificate in {} is of {}, not of a master",
            dir.display(),
            own.identity
        );
        if own.until <= SystemTime::now() {
            tracing::error!(dir = %dir.display(), "the certificate of this master has expired: nobody can connect over TLS");
        }
        let revoked = Revoked::follow(&dir)?;
        let listening = Arc::new(Listening::new(dir));
        listening.settings()?;
        let tls = Tls { listening, revoked, audit, handshakes: Handshakes::default() };
        Ok(Self { listener, tls })
    }

    pub(super) async fn serve(self, door: &Door) {
        while !door.arrivals.is_closed() {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    // Callers above the limits are closed and call again.
                    let Some(handshake) = self.tls.handshakes.begin(from.ip()) else { continue };
                    let (tls, door) = (self.tls.clone(), door.clone());
                    tokio::spawn(async move { tls.serve(&door, stream, (from, handshake)).await });
                }
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections over TLS");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Tls {
    /// Shakes hands and lets the caller in. A caller that joins counts as one that shakes hands until it has its answer.
    async fn serve(&self, door: &Door, stream: TcpStream, (from, handshake): (SocketAddr, Handshake)) {
        let Some(socket) = self.shake(door, stream, from).await else { return };
        let Some(certificate) = socket.certificate().cloned() else {
            if let Err(error) = door.join(socket.into(), from).await {
                self.refused(None, from, &format!("{error:#}"));
            }
            return;
        };
        let entrant = self.entrant(certificate.clone(), from).await;
        drop(handshake);
        match entrant {
            Ok(entrant) => door.entered(socket.into(), entrant),
            Err(error) => {
                let reason = format!("{error:#}");
                turn_away(socket.into(), reason.clone());
                self.refused(Some(&certificate), from, &reason);
            }
        }
    }

    /// Shakes hands. A caller without a valid certificate that does not join is audited.
    async fn shake(&self, door: &Door, stream: TcpStream, from: SocketAddr) -> Option<TlsSocket> {
        let config = match self.listening.settings() {
            Ok(config) => config,
            Err(error) => {
                tracing::error!(%error, "cannot use the certificate of this master");
                return None;
            }
        };
        let limit = door.admission.limits().greeting_time;
        let accepted = tokio::time::timeout(limit, TlsSocket::accept(stream, &config)).await;
        match accepted.map_err(|_| format!("no handshake within {} s", limit.as_secs())) {
            Ok(Ok(socket)) => return Some(socket),
            Ok(Err(error)) => self.refused(None, from, &error.to_string()),
            Err(reason) => self.refused(None, from, &reason),
        }
        None
    }

    /// Returns the rights of a caller.
    async fn entrant(&self, certificate: Certificate, from: SocketAddr) -> Result<Entrant> {
        let (role, name) = (certificate.identity.role(), certificate.identity.name().to_owned());
        let pass = Pass::new(certificate, from.to_string(), self.revoked.clone());
        if let Some(reason) = pass.over(SystemTime::now()) {
            bail!(reason);
        }
        let uid = match role {
            CertifiedRole::Master => bail!("a master cannot call a master"),
            // Nodes belong to the user of the master, like those of this machine.
            CertifiedRole::Node => geteuid().as_raw(),
            CertifiedRole::ReadOnly | CertifiedRole::SubmitHost => MACHINE_UID,
            CertifiedRole::User | CertifiedRole::Operator => {
                let wanted = name.clone();
                let found = tokio::task::spawn_blocking(move || User::from_name(&wanted)).await?;
                let user = found.ok().flatten().with_context(|| format!("this machine knows no user {name}"))?;
                user.uid.as_raw()
            }
        };
        ensure!(role != CertifiedRole::User || uid != 0, "root needs the certificate of an operator, not of a user");
        let is_operator = matches!(role, CertifiedRole::Node | CertifiedRole::Operator);
        Ok(Entrant { uid, is_operator, via: "tls", pass: Some(Box::new(pass)) })
    }

    fn refused(&self, certificate: Option<&Certificate>, from: SocketAddr, reason: &str) {
        tracing::debug!(%from, reason, "a caller over TLS was refused");
        self.audit.add(&entry(certificate, &from.to_string(), reason));
    }
}

/// Returns the audit entry of a refused caller.
fn entry(certificate: Option<&Certificate>, from: &str, reason: &str) -> AuditEntry {
    AuditEntry {
        what: AuditKind::Refused,
        who: certificate.map(|certificate| certificate.identity.to_string()).unwrap_or_default(),
        from: from.to_owned(),
        serial: certificate.map(|certificate| certificate.serial.to_string()).unwrap_or_default(),
        text: reason.to_owned(),
    }
}

/// Returns the audit entry of a caller that was refused after its handshake.
pub(super) fn refusal(pass: &Pass, reason: &str) -> AuditEntry {
    entry(Some(&pass.certificate), &pass.from, reason)
}
