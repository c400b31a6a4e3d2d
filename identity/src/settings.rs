//! TLS settings of both ends: TLS 1.3 only, both ends show a certificate, no resumption.

use std::sync::Arc;

use limo_model::ClusterId;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;

/// Protocol of a connection with certificates at both ends.
pub const ALPN: &[u8] = b"limo/1";

/// The authorities that an end trusts: one, or two during a rotation.
#[derive(Debug, Clone)]
pub struct Roots(Arc<RootCertStore>);

/// Error of TLS settings.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SettingsError {
    #[error("there are {0} authorities: there must be one, or two during a rotation")]
    Roots(usize),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
}

impl Roots {
    /// Makes the roots from the certificates of one or two authorities.
    ///
    /// # Errors
    /// If there are none or more than two, or one cannot be read.
    pub fn new(authorities: &[CertificateDer<'static>]) -> Result<Self, SettingsError> {
        if ![1, 2].contains(&authorities.len()) {
            return Err(SettingsError::Roots(authorities.len()));
        }
        let mut store = RootCertStore::empty();
        authorities.iter().try_for_each(|authority| store.add(authority.clone()))?;
        Ok(Self(Arc::new(store)))
    }
}

/// The certificate of an end, with its key.
type Own = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// Returns the DNS name in the certificates of all masters of a cluster, whatever their addresses.
pub fn server_name(cluster: ClusterId) -> String {
    format!("master.{cluster}.limo.internal")
}

/// Returns the algorithms. The cipher with SHA-256 comes first: processors have instructions for it, but few for SHA-384.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// Returns the settings of a master: the caller must have a certificate of an authority.
///
/// # Errors
/// If the key cannot be used or does not belong to the certificate.
pub fn listener(roots: &Roots, (certificate, key): Own) -> Result<ServerConfig, SettingsError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots.0), provider()).build()?;
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(vec![certificate], key)?;
    // A resumed session would not check the end of the certificate.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Returns the settings of a caller. It accepts only a master of the cluster, by [`server_name`].
///
/// # Errors
/// If the key cannot be used or does not belong to the certificate.
pub fn caller(roots: &Roots, (certificate, key): Own) -> Result<ClientConfig, SettingsError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let builder = builder.with_root_certificates(Arc::clone(&roots.0));
    let mut config = builder.with_client_auth_cert(vec![certificate], key)?;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}
