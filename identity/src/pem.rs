//! Certificates and keys as PEM text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

/// Bytes of a line of base64.
const LINE: usize = 64;

/// Most certificates that are read from one text.
const CERTIFICATES: usize = 16;

/// Error of a PEM text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PemError {
    #[error("it is not PEM: {0}")]
    Syntax(String),
    #[error("it has more than {CERTIFICATES} certificates")]
    TooMany,
}

/// Returns the text of a certificate.
pub fn certificate_pem(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII.
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// Returns the certificates in a text, in order. Skips other items.
///
/// # Errors
/// If the text is not PEM or has more than 16 certificates.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        if found.len() == CERTIFICATES {
            return Err(PemError::TooMany);
        }
        found.push(certificate.map_err(|error| PemError::Syntax(error.to_string()))?);
    }
    Ok(found)
}

/// Returns the first private key in a text. Skips other items.
///
/// # Errors
/// If there is none.
pub fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| PemError::Syntax(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_read_as_they_are_written() {
        // 49 bytes are 68 characters of base64: one line and 4 characters.
        let certificate = CertificateDer::from(vec![0; 49]);
        let text = certificate_pem(&certificate);
        let zeros = "A".repeat(64);
        assert_eq!(text, format!("-----BEGIN CERTIFICATE-----\n{zeros}\nAA==\n-----END CERTIFICATE-----\n"));
        assert_eq!(certificates(text.repeat(16).as_bytes()).map(|found| found.len()), Ok(16));
        assert_eq!(certificates(text.as_bytes()), Ok(vec![certificate]));
        assert_eq!(certificates(text.repeat(17).as_bytes()), Err(PemError::TooMany));
        assert!(private_key(text.as_bytes()).is_err());
    }
}
