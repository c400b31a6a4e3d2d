//! TLS settings of a machine that joins a cluster and has no certificate yet, and of the master that it calls. The
//! master shows its authority, too; the machine knows only the fingerprint of the authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{
    CertificateError as Refusal, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::authority::Fingerprint;
use crate::certificate::Certificate;
use crate::settings::{SettingsError, provider, server_name};

/// Protocol of a connection on which the caller has no certificate and may only join.
pub const JOIN_ALPN: &[u8] = b"limo-join/1";

/// Returns the settings of a master for callers that join: they need no certificate. `chain` begins with the master's
/// own certificate; those of its authorities follow.
///
/// # Errors
/// If the key cannot be used or does not belong to the certificate.
pub fn join_listener(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, SettingsError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![JOIN_ALPN.to_vec()];
    Ok(config)
}

/// Returns the settings of a caller that joins. It accepts only a master whose certificate is signed by the authority
/// with this fingerprint, whatever its address.
///
/// # Errors
/// If TLS 1.3 cannot be used.
pub fn joiner(authority: Fingerprint) -> Result<ClientConfig, SettingsError> {
    let provider = provider();
    let verifier = PinnedAuthority { authority, provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = builder.with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.alpn_protocols = vec![JOIN_ALPN.to_vec()];
    Ok(config)
}

/// Accepts a master that shows an authority with the right fingerprint, if that authority is the only root. The usual
/// verifier does the rest.
#[derive(Debug)]
struct PinnedAuthority {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_pinned = |shown: &&CertificateDer<'_>| Fingerprint::of(shown).is_ok_and(|of| of == self.authority);
        let root = intermediates.iter().find(is_pinned).ok_or(Refusal::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(root.clone().into_owned())?;
        // The caller does not know its cluster yet; the authority signs for one cluster only.
        let cluster = Certificate::read(end_entity).map_err(|_| Refusal::BadEncoding)?.identity.cluster();
        let name = ServerName::try_from(server_name(cluster)).map_err(|_| Refusal::BadEncoding)?;
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
        let verifier = builder.build().map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], &name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
