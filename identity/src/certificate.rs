//! Reads a certificate. The TLS library has checked its signature before.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authority::BACKDATING;
use crate::name::{Identity, IdentityError};
use crate::serial::Serial;

/// The owner of a certificate, with its serial and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The owner.
    pub identity: Identity,
    /// The serial number.
    pub serial: Serial,
    /// Time at which it was made.
    pub made: SystemTime,
    /// End of its validity, excluded.
    pub until: SystemTime,
}

/// Error of a certificate that names no identity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CertificateError {
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the certificate has {0} URIs: it must have one")]
    Uris(usize),
    #[error("the serial of the certificate has more than 128 bits")]
    Serial,
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Certificate {
    /// Returns the time from which it should be renewed: two thirds of its life.
    pub fn renewal(&self) -> SystemTime {
        self.made + self.until.duration_since(self.made).unwrap_or_default() * 2 / 3
    }

    /// Reads a certificate. Checks no signature and no time.
    ///
    /// # Errors
    /// If it is not a certificate with exactly one URI, which is an identity.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| CertificateError::Unreadable)?;
        if !rest.is_empty() {
            return Err(CertificateError::Unreadable);
        }
        let names = parsed.subject_alternative_name().map_err(|_| CertificateError::Unreadable)?;
        let uris: Vec<&str> = names.iter().flat_map(|names| &names.value.general_names).filter_map(uri).collect();
        let [uri] = uris[..] else { return Err(CertificateError::Uris(uris.len())) };
        let identity = uri.parse()?;
        let digits = parsed.raw_serial();
        // Leading zeros are not part of the number.
        let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
        let mut serial = [0; 16];
        let start = serial.len().checked_sub(digits.len()).ok_or(CertificateError::Serial)?;
        serial[start..].copy_from_slice(digits);
        // `notAfter` is the last valid second.
        let end = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0).saturating_add(1);
        let until = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(end)).ok_or(CertificateError::Unreadable)?;
        let begin = u64::try_from(parsed.validity().not_before.timestamp()).unwrap_or(0);
        let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(begin) + BACKDATING);
        let made = made.ok_or(CertificateError::Unreadable)?;
        Ok(Self { identity, serial: Serial(serial), made, until })
    }
}

fn uri<'a>(name: &GeneralName<'a>) -> Option<&'a str> {
    match name {
        GeneralName::URI(uri) => Some(uri),
        _ => None,
    }
}
