//! Certificates and tokens for callers that ask for them: who may have which, the signature by the authority, and the
//! audit log. Each caller gets one answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use limo_authority::{Admission as Admitted, Directory, DirectoryError, Issued, Wish};
use limo_identity::{Authority, CertifiedRole, Fingerprint, Identity as Owner, JoinToken};
use limo_model::{Span, Time};
use limo_proto::{CertificateBytes, Connection, EnrolAnswer, EnrolRequest, Frame, Greeted, KeyBytes};
use nix::unistd::User;
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
    User { uid: u32, name: String, is_operator: bool },
    /// The owner of a certificate, by its identity and address.
    Member { identity: Box<Owner>, from: String },
}

/// Issues certificates and tokens with the authority of this machine.
#[derive(Debug, Clone)]
pub struct Enroller {
    directory: Directory,
    /// Longest life of certificates, if it is not that of their roles.
    life: Option<Duration>,
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
        Self { directory, life: settings.life, audit, working: Arc::new(Semaphore::new(AT_A_TIME)) }
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
            EnrolRequest::Login { key, life } => self.login(applicant, key, *life, now),
            EnrolRequest::Renew { key } => self.renew(applicant, key, now),
            EnrolRequest::Authorities => self.authorities(applicant),
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
        let wish = Wish { role, name, life: self.life };
        self.sign((&authority, wish), key, now, (applicant, &format!("joined with token {}", token.id())))
    }

    /// Issues a certificate for a user of this machine.
    fn login(
        &self,
        applicant: &Applicant,
        key: &KeyBytes,
        life: Span,
        now: SystemTime,
    ) -> Result<EnrolAnswer, Refusal> {
        let Applicant::User { uid, name, .. } = applicant else {
            return Err(anyhow::anyhow!("users log in on the machine of the master").into());
        };
        if *uid == 0 {
            let reason = "root needs the certificate of an operator, not of a user".to_owned();
            return Err(Refusal { reason, hint: Some("lconf cert issue operator NAME --out DIR".to_owned()) });
        }
        // The certificate names the user, so the name must lead back to the number.
        let found = User::from_name(name).map_err(anyhow::Error::from)?;
        if found.is_none_or(|user| user.uid.as_raw() != *uid) {
            return Err(anyhow::anyhow!("this machine knows no user {name}").into());
        }
        if life < Span::from_secs(1) {
            return Err(anyhow::anyhow!("a certificate cannot be valid for {life}: it must be at least 1s").into());
        }
        // The life is positive.
        let asked = Duration::from_millis(u64::try_from(life.ms()).unwrap_or_default());
        let life = self.life.map_or(asked, |longest| longest.min(asked));
        let authority = self.directory.open().map_err(internal)?;
        let wish = Wish { role: CertifiedRole::User, name, life: Some(life) };
        self.sign((&authority, wish), key, now, (applicant, "logged in"))
    }

    /// Issues a certificate of the same identity. The earlier one stays valid until its end.
    fn renew(&self, applicant: &Applicant, key: &KeyBytes, now: SystemTime) -> Result<EnrolAnswer, Refusal> {
        let Applicant::Member { identity, .. } = applicant else {
            return Err(anyhow::anyhow!("only the owner of a certificate can renew it").into());
        };
        let role = identity.role();
        if !CertifiedRole::JOINING.contains(&role) {
            let reason = format!("the certificate of a {role} cannot be renewed");
            return Err(Refusal { reason, hint: Some("lrun login, on the machine of the master".to_owned()) });
        }
        let authority = self.directory.open().map_err(internal)?;
        let wish = Wish { role, name: identity.name(), life: self.life };
        self.sign((&authority, wish), key, now, (applicant, "renewed"))
    }

    /// Names the trusted authorities, so that machines notice a rotation.
    fn authorities(&self, applicant: &Applicant) -> Result<EnrolAnswer, Refusal> {
        if !matches!(applicant, Applicant::Member { .. }) {
            return Err(anyhow::anyhow!("only the owner of a certificate may ask for the authorities").into());
        }
        let authorities = self.directory.authorities().map_err(internal)?;
        let prints: Result<Vec<_>, _> = authorities.iter().map(Fingerprint::of).collect();
        let prints = prints.map_err(anyhow::Error::from)?.into_iter().map(|print| print.to_string().into());
        let prints = prints.collect::<Vec<_>>().try_into().map_err(anyhow::Error::from)?;
        Ok(EnrolAnswer::Authorities(prints))
    }

    fn sign(
        &self,
        (authority, wish): (&Authority, Wish<'_>),
        key: &KeyBytes,
        now: SystemTime,
        (applicant, text): (&Applicant, &str),
    ) -> Result<EnrolAnswer, Refusal> {
        let request = CertificateSigningRequestDer::from(key.to_vec());
        let (issued, certificate) = self.directory.sign(authority, &request, wish, now).map_err(internal)?;
        self.issued(applicant, &issued, text);
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
            let reason = format!("a {role} does not join with a token: node, submit-host and read-only do");
            return Err(Refusal { reason, hint: Some(format!("lconf cert issue {role} NAME --out DIR")) });
        }
        if life < Span::from_secs(1) || life > TOKEN_LIFE {
            return Err(anyhow::anyhow!("a token cannot be valid for {life}: it must be 1s to {TOKEN_LIFE}").into());
        }
        // The machine checks the certificate of this master.
        let authority = self.directory.open_for_master()?;
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
        Applicant::User { name, is_operator, .. } => {
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

#[cfg(test)]
mod tests {
    use limo_identity::{Certificate, KeyRequest};
    use rustls::pki_types::CertificateDer;

    use super::*;

    struct Site {
        enroller: Enroller,
        authority: Authority,
        dir: tempfile::TempDir,
    }

    fn site(life: Option<Duration>) -> Site {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().join("tls"));
        let authority = directory.init(None, SystemTime::now()).expect("an authority");
        let master = Wish { role: CertifiedRole::Master, name: "m1", life: None };
        directory.issue(&authority, master, directory.path(), SystemTime::now()).expect("issued");
        let audit = Audit::open(dir.path()).expect("a log");
        let working = Arc::new(Semaphore::new(AT_A_TIME));
        Site { enroller: Enroller { directory, life, audit, working }, authority, dir }
    }

    fn key() -> KeyBytes {
        KeyBytes::try_from(KeyRequest::new().expect("a key").request().to_vec()).expect("short")
    }

    impl Site {
        fn member(&self, role: CertifiedRole) -> Applicant {
            let identity = Owner::new(self.authority.cluster(), role, "x1").expect("a name");
            Applicant::Member { identity: Box::new(identity), from: "192.0.2.1:5".to_owned() }
        }

        /// Returns the certificate, or the reason of the refusal, which is audited.
        fn ask(&self, request: &EnrolRequest, applicant: &Applicant) -> Result<Certificate, String> {
            match self.enroller.answer(request, applicant) {
                EnrolAnswer::Issued { certificate, .. } => {
                    Ok(Certificate::read(&CertificateDer::from(certificate.into_vec())).expect("a certificate"))
                }
                EnrolAnswer::Refused { reason, .. } => {
                    let log = std::fs::read_to_string(self.dir.path().join("audit.log")).expect("a log");
                    assert!(log.lines().last().is_some_and(|line| line.contains(&*reason)), "{log}");
                    Err(reason.into_string())
                }
                EnrolAnswer::Token { .. } | EnrolAnswer::Authorities(_) => panic!("another answer"),
            }
        }
    }

    fn user(uid: u32, name: &str) -> Applicant {
        Applicant::User { uid, name: name.to_owned(), is_operator: false }
    }

    #[test]
    fn machines_renew_their_own_identity_for_a_new_key() {
        let site = site(Some(Duration::from_secs(60)));
        let renewed =
            site.ask(&EnrolRequest::Renew { key: key() }, &site.member(CertifiedRole::Node)).expect("renewed");
        assert_eq!((renewed.identity.role(), renewed.identity.name()), (CertifiedRole::Node, "x1"));
        let life = renewed.until.duration_since(renewed.made).expect("later");
        // A certificate is valid in the last second, too.
        assert_eq!(life.as_secs(), 61);
    }

    #[test]
    fn certificates_of_people_and_masters_are_not_renewed() {
        let site = site(None);
        for role in [CertifiedRole::User, CertifiedRole::Operator, CertifiedRole::Master] {
            let refused = site.ask(&EnrolRequest::Renew { key: key() }, &site.member(role)).expect_err("refused");
            assert_eq!(refused, format!("the certificate of a {role} cannot be renewed"));
        }
        let refused = site.ask(&EnrolRequest::Renew { key: key() }, &user(1, "daemon")).expect_err("refused");
        assert_eq!(refused, "only the owner of a certificate can renew it");
    }

    #[test]
    fn a_user_of_this_machine_logs_in_under_its_own_name_only() {
        let site = site(None);
        let login = EnrolRequest::Login { key: key(), life: Span::from_secs(3600) };
        let daemon = User::from_name("daemon").expect("readable").expect("a user of every Linux").uid.as_raw();
        let issued = site.ask(&login, &user(daemon, "daemon")).expect("issued");
        assert_eq!((issued.identity.role(), issued.identity.name()), (CertifiedRole::User, "daemon"));
        assert_eq!(issued.until.duration_since(issued.made).expect("later").as_secs(), 3601);
        let other = site.ask(&login, &user(daemon + 1, "daemon")).expect_err("another number");
        assert_eq!(other, "this machine knows no user daemon");
        let root = site.ask(&login, &user(0, "root")).expect_err("refused");
        assert_eq!(root, "root needs the certificate of an operator, not of a user");
        let member = site.ask(&login, &site.member(CertifiedRole::Operator)).expect_err("refused");
        assert_eq!(member, "users log in on the machine of the master");
    }

    #[test]
    fn a_user_certificate_lives_a_day_at_most() {
        let site = site(None);
        let login = EnrolRequest::Login { key: key(), life: Span::from_secs(10 * 86_400) };
        let daemon = User::from_name("daemon").expect("readable").expect("a user of every Linux").uid.as_raw();
        let issued = site.ask(&login, &user(daemon, "daemon")).expect("issued");
        assert_eq!(issued.until.duration_since(issued.made).expect("later").as_secs(), 86_401);
    }
}
