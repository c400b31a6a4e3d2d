//! Identity of a device over TLS.

use limo_power::{Access, Http, Scheme};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::http::file;
use crate::web::{Answer, Server};

/// Starts a server with a certificate for `name`; returns it and its authority's certificate.
fn server(name: &str) -> (Server, String) {
    let authority_key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).expect("signed").pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let certificate = certificate.signed_by(&key, &issuer).expect("signed");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a good certificate");
    (Server::start_tls(config, |_| Answer::json("41.5")), authority_certificate)
}

fn refused(access: &Access, server: &Server) {
    let error = Http::new(access, Scheme::None).get(&server.url("/")).expect_err("refused").to_string();
    assert!(error.contains("cannot be reached: ") && error.contains("certificate"), "{error}");
}

#[test]
fn certificates_need_a_trusted_signer() {
    let dir = tempfile::tempdir().expect("a directory");
    let (known, authority) = server("127.0.0.1");
    file(&dir, "ca.pem", &authority);
    // The path of the certificate is relative to the file.
    let trusting = Access::read(&file(&dir, "access.toml", "ca = \"ca.pem\"")).expect("good");
    let answer = Http::new(&trusting, Scheme::None).get(&known.url("/")).expect("an answer");
    assert_eq!(answer, serde_json::json!(41.5));
    refused(&Access::default(), &known);
    assert_eq!(known.asked().len(), 1, "nothing was said to whom it did not trust");
    let (unknown, _) = server("127.0.0.1");
    refused(&trusting, &unknown);
}

#[test]
fn a_certificate_is_for_one_host() {
    let dir = tempfile::tempdir().expect("a directory");
    let (other, authority) = server("bmc9.example");
    file(&dir, "ca.pem", &authority);
    refused(&Access::read(&file(&dir, "access.toml", "ca = \"ca.pem\"")).expect("good"), &other);
    let careless = Access::read(&file(&dir, "careless.toml", "insecure = true")).expect("good");
    Http::new(&careless, Scheme::None).get(&other.url("/")).expect("an answer");
}
