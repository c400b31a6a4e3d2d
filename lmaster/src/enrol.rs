//! Certificates and tokens for callers that ask for them: who may have which, the signature by the authority, and the
//! audit log. Each caller gets one answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use limo_authority::{Admission as Admitted, Directory, DirectoryError, Issued, Wish};
use limo_identity::{CertifiedRole, Fingerprint, Identity as Owner, JoinToken};
use limo_model::{Span, Time};
use limo_proto::{CertificateBytes, Connection, EnrolAnswer, EnrolRequest, Frame, Greeted, KeyBytes};
use rustls::pki_types::CertificateSigningRequestDer;
use tokio::sync::Semaphore;

use crate::audit::{Audit, AuditEntry, AuditKind};
use crate::config::TlsSettings;

/// Most requests that are worked on at a time; each writes to the disk.
const AT_A_TIME: usize = 4;

/// Longest life of a token.
const TOKEN_LIFE: Span = Span::from_secs(7 * 86_400);

/// A caller that wants a certificate or a token.
#[derive(Debug, Clone)]
pub enum Applicant {
    /// A machine without a certificate, by its address.
    Stranger(SocketAddr),
    /// A user of this machine.
    User { name: String, is_operator: bool },
    /// The owner of a certificate, by its identity and address.
    Member { identity: Box<Owner>, from: String },
}

/// Issues certificates and tokens with the authority of this machine.
#[derive(Debug, Clone)]
pub struct Enroller {
    directory: Directory,
    audit: Audit,
    working: Arc<Semaphore>,
}

/// A refusal, for the caller.
struct Refusal {
    reason: String,
    hint: Option<String>,
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self { reason: format!("{error:#}"), hint: None }
    }
}

impl From<DirectoryError> for Refusal {
    fn from(error: DirectoryError) -> Self {
        let hint = match &error {
            DirectoryError::NameInUse { role, name } => {
                Some(format!("lconf cert revoke {role}/{name}, or lconf cluster join-token --name {name}"))
            }
            DirectoryError::UnknownToken | DirectoryError::ExpiredToken => {
                Some("lconf cluster join-token, on the machine of the master".to_owned())
            }
            _ => None,
        };
        Self { reason: error.to_string(), hint }
    }
}

impl Enroller {
    pub fn new(settings: &TlsSettings, audit: Audit) -> Self {
        let directory = Directory::new(settings.dir.clone());
        Self { directory, audit, working: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Reads a request within `limit`, and answers it.
    ///
    /// # Errors
    /// If the caller sends no request in time, or the connection breaks.
    pub async fn serve(&self, greeted: Greeted, applicant: Applicant, limit: Duration) -> Result<()> {
        let mut connection: Connection<EnrolRequest, EnrolAnswer> = greeted.into_brief_connection();
        let read = tokio::time::timeout(limit, connection.reader.next()).await;
        let read = read.with_context(|| format!("no request for a certificate within {} s", limit.as_secs()))?;
        let Some(Frame::Message(request)) = read? else { bail!("the connection ended without a request") };
        let _turn = self.working.acquire().await?;
        let enroller = self.clone();
        let answer = tokio::task::spawn_blocking(move || enroller.answer(&request, &applicant)).await?;
        let sent = tokio::time::timeout(limit, connection.writer.send(&Frame::Message(answer))).await;
        Ok(sent.context("the answer was not read")??)
    }

    fn answer(&self, request: &EnrolRequest, applicant: &Applicant) -> EnrolAnswer {
        let now = SystemTime::now();
        let answer = match request {
            EnrolRequest::Join { token, role, name, key } => self.join(applicant, token, (role, name), (key, now)),
            EnrolRequest::MakeToken { role, name, life } => {
                self.make_token(applicant, (role, name.as_deref()), *life, now)
            }
        };
        answer.unwrap_or_else(|Refusal { reason, hint }| {
            self.audit.add(&entry(AuditKind::Refused, applicant, &format!("{request:?}: {reason}")));
            EnrolAnswer::Refused { reason: reason.into(), hint: hint.map(Into::into) }
        })
    }

    /// Issues a certificate for a token.
    fn join(
        &self,
        applicant: &Applicant,
        token: &str,
        (role, name): (&str, &str),
        (key, now): (&KeyBytes, SystemTime),
    ) -> Result<EnrolAnswer, Refusal> {
        if !matches!(applicant, Applicant::Stranger(_)) {
            return Err(anyhow::anyhow!("a token is for a machine without a certificate").into());
        }
        let token: JoinToken = token.parse().map_err(anyhow::Error::from)?;
        let role: CertifiedRole = role.parse().map_err(anyhow::Error::from)?;
        let authority = self.directory.open().map_err(internal)?;
        // A wrong name must not use up the token.
        Owner::new(authority.cluster(), role, name).map_err(anyhow::Error::from)?;
        self.directory.use_token(&token, (role, name), now).map_err(internal)?;
        let request = CertificateSigningRequestDer::from(key.to_vec());
        let wish = Wish { role, name, life: None };
        let (issued, certificate) = self.directory.sign(&authority, &request, wish, now).map_err(internal)?;
        self.issued(applicant, &issued, &format!("joined with token {}", token.id()));
        self.certificate(&certificate)
    }

    fn make_token(
        &self,
        applicant: &Applicant,
        (role, name): (&str, Option<&str>),
        life: Span,
        now: SystemTime,
    ) -> Result<EnrolAnswer, Refusal> {
        ensure_local_operator(applicant)?;
        let role: CertifiedRole = role.parse().map_err(anyhow::Error::from)?;
        let admitted = Admitted { role, name: name.map(str::to_owned) };
        if !CertifiedRole::JOINING.contains(&role) {
            let reason = format!("a {role} does not join with a token");
            return Err(Refusal { reason, hint: Some(format!("lconf cert issue {role} NAME --out DIR")) });
        }
        if life < Span::from_secs(1) || life > TOKEN_LIFE {
            return Err(anyhow::anyhow!("a token cannot be valid for {life}: it must be 1s to {TOKEN_LIFE}").into());
        }
        let authority = self.directory.open()?;
        if let Some(name) = name {
            Owner::new(authority.cluster(), role, name).map_err(anyhow::Error::from)?;
        }
        let fingerprint = Fingerprint::of(authority.certificate()).map_err(anyhow::Error::from)?;
        // The life is positive.
        let life = Duration::from_millis(u64::try_from(life.ms()).unwrap_or_default());
        let token = self.directory.make_token(fingerprint, admitted, (life, now))?;
        let text = format!("made token {} for {role} {}", token.id(), name.unwrap_or("of any name"));
        self.audit.add(&entry(AuditKind::Asked, applicant, &text));
        let until = (now + life).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let until = Time::from_unix_ms(i64::try_from(until).unwrap_or(i64::MAX));
        Ok(EnrolAnswer::Token { token: token.to_string().into(), until })
    }

    fn certificate(&self, certificate: &[u8]) -> Result<EnrolAnswer, Refusal> {
        let bytes = |der: &[u8]| CertificateBytes::try_from(der.to_vec()).map_err(anyhow::Error::from);
        let authorities = self.directory.authorities().map_err(internal)?;
        let authorities: Result<Vec<_>> = authorities.iter().map(|authority| bytes(authority)).collect();
        let authorities = authorities?.try_into().map_err(anyhow::Error::from)?;
        Ok(EnrolAnswer::Issued { certificate: bytes(certificate)?, authorities })
    }

    fn issued(&self, applicant: &Applicant, issued: &Issued, text: &str) {
        let entry = entry(AuditKind::Issued, applicant, text);
        let (who, serial) = (issued.identity.to_string(), issued.serial.to_string());
        tracing::info!(identity = who, serial, text, "issued a certificate");
        self.audit.add(&AuditEntry { who, serial, ..entry });
    }
}

/// Hides the details of a failure of this machine from callers of other machines.
fn internal(error: DirectoryError) -> Refusal {
    match error {
        DirectoryError::File { .. }
        | DirectoryError::NoAuthority(_)
        | DirectoryError::Count { .. }
        | DirectoryError::Pem { .. }
        | DirectoryError::Line { .. } => {
            tracing::error!(%error, "cannot issue a certificate");
            Refusal { reason: "the master cannot issue certificates: its log has the reason".to_owned(), hint: None }
        }
        error => error.into(),
    }
}

fn ensure_local_operator(applicant: &Applicant) -> Result<()> {
    match applicant {
        Applicant::User { name, is_operator } => {
            ensure!(is_operator, "only an operator may make tokens, not {name}");
            Ok(())
        }
        Applicant::Member { .. } | Applicant::Stranger(_) => {
            bail!("tokens are made on the machine of the master")
        }
    }
}

/// Returns the audit entry of a caller.
fn entry(what: AuditKind, applicant: &Applicant, text: &str) -> AuditEntry {
    let (who, from) = match applicant {
        Applicant::Stranger(from) => (String::new(), from.to_string()),
        Applicant::User { name, .. } => (name.clone(), String::new()),
        Applicant::Member { identity, from } => (identity.to_string(), from.clone()),
    };
    AuditEntry { from, ..AuditEntry::of(what, &who, text) }
}
