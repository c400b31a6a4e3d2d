//! A key and the request to sign it. The key never leaves its owner.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::{CertificateSigningRequestDer, PrivateKeyDer};
use thiserror::Error;

/// A new private key (ECDSA P-256) with the request for its certificate.
pub struct KeyRequest {
    key: KeyPair,
    request: CertificateSigningRequestDer<'static>,
}

/// Error of making a key or a request.
#[derive(Debug, Error)]
#[error("cannot make a key: {0}")]
pub struct RequestError(#[from] rcgen::Error);

impl KeyRequest {
    /// Makes a key and a request without a name: the authority decides the name.
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn new() -> Result<Self, RequestError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let request = CertificateParams::default().serialize_request(&key)?.der().clone();
        Ok(Self { key, request })
    }

    /// Returns the request, which contains only the public key.
    pub fn request(&self) -> &CertificateSigningRequestDer<'static> {
        &self.request
    }

    /// Returns the private key as PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns the private key for a TLS configuration.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.serialize_der().into())
    }
}
