//! Requests for certificates, and for tokens with which machines join. Each has its own connection, with one request and
//! one answer, both no longer than [`GREETING_LIMIT`](crate::GREETING_LIMIT).

use std::io;
use std::path::Path;
use std::time::Duration;

use limo_identity::JoinToken;
use limo_model::{Span, Time};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::timeout;

use crate::bound::{List, Text};
use crate::connection::{Connection, ConnectionError, connect, connect_to_join};
use crate::credentials::{write_authorities, write_identity};
use crate::encoding::EncodeError;
use crate::endpoint::Endpoint;
use crate::frame::Frame;
use crate::hello::Role;
use crate::message::Reason;
use crate::replace::Replace;
use crate::trust::Trusted;

/// Longest wait for the answer; the master writes to its disk before.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Longest request to sign a key, in bytes of DER; one for ECDSA P-256 has about 200.
const KEY_LIMIT: usize = 1024;

/// Longest certificate in bytes of DER; the usual ones have about 500.
const CERTIFICATE_LIMIT: usize = 1024;

/// A request to sign a key (PKCS #10 in DER). The master uses only its key.
pub type KeyBytes = List<u8, KEY_LIMIT>;

/// A certificate in DER.
pub type CertificateBytes = List<u8, CERTIFICATE_LIMIT>;

/// A request of a caller with [`Role::Enrolment`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum EnrolRequest {
    /// A machine without a certificate wants one of this role and name, and uses up a token.
    Join { token: Text<256>, role: Text<16>, name: Text<64>, key: KeyBytes },
    /// An operator of the master's machine wants a token that is valid for `life`. With a name, it is only for that name.
    MakeToken { role: Text<16>, name: Option<Text<64>>, life: Span },
    /// A user of the master's machine wants a certificate for itself.
    Login { key: KeyBytes, life: Span },
    /// The owner of a certificate wants another one for a new key.
    Renew { key: KeyBytes },
    /// The owner of a certificate asks which authorities the cluster trusts.
    Authorities,
}

/// The answer to an [`EnrolRequest`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum EnrolAnswer {
    /// The request was refused; `hint` is text that the user can type.
    Refused { reason: Reason, hint: Option<Reason> },
    /// The certificate, and those of the authorities that the cluster trusts.
    Issued { certificate: CertificateBytes, authorities: List<CertificateBytes, 2> },
    /// The token, with the time of its end.
    Token { token: Text<256>, until: Time },
    /// The fingerprints of the authorities.
    Authorities(List<Text<64>, 2>),
}

/// A certificate with those of the authorities that the cluster trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCertificate {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// One authority, or two during a rotation.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// Error of a request for a certificate or a token.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum EnrolError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the master did not answer within {} s", ANSWER_TIME.as_secs())]
    Silent,
    #[error("the master closed the connection before it answered")]
    Closed,
    #[error("{reason}")]
    Refused { reason: String, hint: Option<String> },
    #[error("the master's answer does not match the request")]
    Unexpected,
}

impl NewCertificate {
    /// Stores the certificate with its key and the authorities in a directory.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path, key_pem: &str) -> io::Result<()> {
        // The authorities come first: the new certificate may be of a new one.
        write_authorities(directory, &self.authorities)?;
        write_identity(directory, key_pem, &self.certificate)
    }
}

impl EnrolAnswer {
    /// Returns the certificate.
    ///
    /// # Errors
    /// If the answer is another one.
    pub fn certificate(self) -> Result<NewCertificate, EnrolError> {
        let Self::Issued { certificate, authorities } = self else { return Err(EnrolError::Unexpected) };
        let der = |bytes: CertificateBytes| CertificateDer::from(bytes.into_vec());
        let authorities = authorities.into_iter().map(der).collect();
        Ok(NewCertificate { certificate: der(certificate), authorities })
    }

    /// Returns the fingerprints of the authorities.
    ///
    /// # Errors
    /// If the answer is another one.
    pub fn authorities(self) -> Result<Vec<String>, EnrolError> {
        match self {
            Self::Authorities(found) => Ok(found.into_iter().map(Text::into_string).collect()),
            _ => Err(EnrolError::Unexpected),
        }
    }

    /// Returns the token and the time of its end.
    ///
    /// # Errors
    /// If the answer is another one.
    pub fn token(self) -> Result<(String, Time), EnrolError> {
        match self {
            Self::Token { token, until } => Ok((token.into_string(), until)),
            _ => Err(EnrolError::Unexpected),
        }
    }
}

// Every request and answer fits into a frame.
impl Replace for EnrolRequest {
    fn replacement(&self, _: &EncodeError) -> Option<Self> {
        None
    }
}

impl Replace for EnrolAnswer {
    fn replacement(&self, _: &EncodeError) -> Option<Self> {
        None
    }
}

type EnrolConnection = Connection<EnrolAnswer, EnrolRequest>;

/// Sends a request to a master that knows this caller, by the kernel or by a certificate.
///
/// # Errors
/// [`EnrolError`]; `Refused` contains the master's reason.
pub async fn enrol(endpoint: &Endpoint, trusted: &Trusted, request: EnrolRequest) -> Result<EnrolAnswer, EnrolError> {
    exchange(connect(endpoint, Role::Enrolment, trusted).await?, request).await
}

/// Joins the cluster of a token without a certificate. Nothing is sent to a master of another cluster.
///
/// # Errors
/// The same as for [`enrol`].
pub async fn join(
    hosts: &[String],
    token: &JoinToken,
    (role, name): (&str, &str),
    key: KeyBytes,
) -> Result<NewCertificate, EnrolError> {
    let connection = connect_to_join(hosts, token.authority()).await?;
    let request = EnrolRequest::Join { token: token.to_string().into(), role: role.into(), name: name.into(), key };
    exchange(connection, request).await?.certificate()
}

async fn exchange(mut connection: EnrolConnection, request: EnrolRequest) -> Result<EnrolAnswer, EnrolError> {
    connection.writer.send(&Frame::Message(request)).await?;
    match timeout(ANSWER_TIME, connection.reader.next()).await.map_err(|_| EnrolError::Silent)?? {
        Some(Frame::Message(EnrolAnswer::Refused { reason, hint })) => {
            Err(EnrolError::Refused { reason: reason.into_string(), hint: hint.map(Text::into_string) })
        }
        Some(Frame::Message(answer)) => Ok(answer),
        Some(Frame::Data(_)) => Err(EnrolError::Unexpected),
        None => Err(EnrolError::Closed),
    }
}

/// Hides the token.
impl std::fmt::Debug for EnrolRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Join { role, name, .. } => write!(f, "Join {role}/{name}"),
            Self::MakeToken { role, name, life } => write!(f, "MakeToken {role}/{name:?} {life}"),
            Self::Login { life, .. } => write!(f, "Login {life}"),
            Self::Renew { .. } => f.write_str("Renew"),
            Self::Authorities => f.write_str("Authorities"),
        }
    }
}

/// Hides the token.
impl std::fmt::Debug for EnrolAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { reason, .. } => write!(f, "Refused {reason}"),
            Self::Issued { .. } => f.write_str("Issued"),
            Self::Token { until, .. } => write!(f, "Token until {until:?}"),
            Self::Authorities(_) => f.write_str("Authorities"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::GREETING_LIMIT;

    #[test]
    fn the_longest_request_and_answer_fit_into_a_short_frame() {
        let key = List::clipped(vec![7; KEY_LIMIT]);
        let text = |count| "x".repeat(count);
        let request = EnrolRequest::Join { token: text(256).into(), role: text(16).into(), name: text(64).into(), key };
        let size = |length: usize| assert!(length <= GREETING_LIMIT, "{length} bytes");
        size(Frame::Message(request).encode().expect("small").len());
        let certificate = || List::clipped(vec![7; CERTIFICATE_LIMIT]);
        let authorities = List::clipped(vec![certificate(), certificate()]);
        size(
            Frame::Message(EnrolAnswer::Issued { certificate: certificate(), authorities })
                .encode()
                .expect("small")
                .len(),
        );
        let reason = || Reason::new(text(5000));
        size(
            Frame::Message(EnrolAnswer::Refused { reason: reason(), hint: Some(reason()) })
                .encode()
                .expect("small")
                .len(),
        );
    }

    #[test]
    fn tokens_are_not_printed() {
        let request = EnrolRequest::Join {
            token: "limo1.secret".into(),
            role: "node".into(),
            name: "n1".into(),
            key: List::default(),
        };
        assert_eq!(format!("{request:?}"), "Join node/n1");
        let answer = EnrolAnswer::Token { token: "limo1.secret".into(), until: Time::from_unix_ms(0) };
        assert!(!format!("{answer:?}").contains("secret"));
    }
}
