//! The authority of a cluster: its key and certificate, which sign the identities.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use limo_model::ClusterId;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
    SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use sha2::{Digest, Sha256};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::hex;
use crate::name::{CertifiedRole, Identity};
use crate::serial::Serial;
use crate::settings::server_name;

/// Time by which certificates begin before they are made, for clocks that differ.
pub const BACKDATING: Duration = Duration::from_secs(10 * 60);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Time for which an authority is valid: ten years of 365.25 days.
const AUTHORITY_LIFE: Duration = Duration::from_secs(3652 * 24 * 3600 + 12 * 3600);

/// Time for which a certificate is valid after it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life(Duration);

impl Life {
    /// Returns the life of a role: master 90 days, node, read-only and submit-host 30 days, user and operator 24 hours.
    pub fn of(role: CertifiedRole) -> Self {
        Self(match role {
            CertifiedRole::Master => 90 * DAY,
            CertifiedRole::Node | CertifiedRole::ReadOnly | CertifiedRole::SubmitHost => 30 * DAY,
            CertifiedRole::User | CertifiedRole::Operator => DAY,
        })
    }

    /// Returns `life`, but at most the life of the role.
    pub fn at_most(role: CertifiedRole, life: Duration) -> Self {
        Self(life.min(Self::of(role).0))
    }

    /// Returns the time.
    pub fn duration(self) -> Duration {
        self.0
    }
}

/// SHA-256 of the public key of an authority; 64 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        hex::read(text).map(Self).ok_or(FingerprintError)
    }
}

impl Fingerprint {
    /// Returns the fingerprint of the key in a certificate.
    ///
    /// # Errors
    /// If it is not a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, AuthorityError> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| AuthorityError::Unreadable)?;
        Ok(Self(Sha256::digest(parsed.public_key().raw).into()))
    }

    /// Returns the first 16 digits.
    pub fn short(&self) -> String {
        self.to_string().chars().take(16).collect()
    }
}

/// Error of a text that is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a fingerprint has 64 hexadecimal digits")]
pub struct FingerprintError;

/// An authority that can sign.
pub struct Authority {
    cluster: ClusterId,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// Error of an authority.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum AuthorityError {
    #[error("cannot get random numbers from the kernel: {0}")]
    Random(getrandom::Error),
    #[error("cannot sign: {0}")]
    Sign(rcgen::Error),
    #[error("the key of the authority cannot be read: {0}")]
    Key(rcgen::Error),
    #[error("the certificate of the authority cannot be read")]
    Unreadable,
    #[error("the key does not belong to the certificate of the authority")]
    OtherKey,
    #[error("the request to sign a key is not valid: {0}")]
    Request(rcgen::Error),
    #[error("the request is for a key that is not ECDSA P-256")]
    Algorithm,
    #[error("the identity is of cluster {0}, not of this one")]
    OtherCluster(ClusterId),
}

impl Authority {
    /// Makes the authority of a cluster: ECDSA P-256, ten years, path length 0.
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn new(cluster: ClusterId, now: SystemTime) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(AuthorityError::Sign)?;
        let mut params = valid(now, AUTHORITY_LIFE, &format!("Limo {cluster}"));
        params.serial_number = Some(SerialNumber::from_slice(&random_serial()?.0));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).map_err(AuthorityError::Sign)?.der().clone();
        Ok(Self { cluster, issuer: Issuer::new(params, key), certificate })
    }

    /// Makes an authority from its stored key and certificate.
    ///
    /// # Errors
    /// If one of them cannot be read, or they do not belong together.
    pub fn load(
        cluster: ClusterId,
        key_pem: &str,
        certificate: CertificateDer<'static>,
    ) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem_and_sign_algo(key_pem, &PKCS_ECDSA_P256_SHA256).map_err(AuthorityError::Key)?;
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|_| AuthorityError::Unreadable)?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(AuthorityError::OtherKey);
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|_| AuthorityError::Unreadable)?;
        Ok(Self { cluster, issuer, certificate })
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns the certificate, the root of the cluster.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the private key as PEM.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Signs the key of a request for `identity`. Uses nothing else of the request. The certificate begins
    /// [`BACKDATING`] before `now` and ends `life` after it.
    ///
    /// # Errors
    /// If the request is not valid, its key is not ECDSA P-256, or the identity belongs to another cluster.
    pub fn sign(
        &self,
        request: &CertificateSigningRequestDer<'_>,
        identity: &Identity,
        life: Life,
        now: SystemTime,
    ) -> Result<(Serial, CertificateDer<'static>), AuthorityError> {
        if identity.cluster() != self.cluster {
            return Err(AuthorityError::OtherCluster(identity.cluster()));
        }
        let requested = CertificateSigningRequestParams::from_der(request).map_err(AuthorityError::Request)?.public_key;
        if *requested.algorithm() != PKCS_ECDSA_P256_SHA256 {
            return Err(AuthorityError::Algorithm);
        }
        let serial = random_serial()?;
        let mut params = valid(now, life.duration(), identity.name());
        params.serial_number = Some(SerialNumber::from_slice(&serial.0));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.subject_alt_names = vec![SanType::URI(text(&identity.to_string())?)];
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![match identity.role() {
            CertifiedRole::Master => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        if identity.role() == CertifiedRole::Master {
            params.subject_alt_names.push(SanType::DnsName(text(&server_name(self.cluster))?));
        }
        let signed = params.signed_by(&requested, &self.issuer).map_err(AuthorityError::Sign)?;
        Ok((serial, signed.der().clone()))
    }
}

fn text(text: &str) -> Result<rcgen::string::Ia5String, AuthorityError> {
    rcgen::string::Ia5String::try_from(text).map_err(AuthorityError::Sign)
}

/// Returns the parameters of a certificate that is valid from shortly before `now`.
fn valid(now: SystemTime, life: Duration, name: &str) -> CertificateParams {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(BACKDATING);
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(BACKDATING);
    params.not_after = date_time_ymd(1970, 1, 1) + (now + life);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn random_serial() -> Result<Serial, AuthorityError> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).map_err(AuthorityError::Random)?;
    Ok(Serial(serial))
}
