//! TLS: a server with an unknown certificate is refused; one with a configured authority is accepted.

use std::sync::Arc;
use std::time::Duration;

use limo_feeds::fetch::Fetcher;
use limo_feeds::grid::pull::{Pull, run};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::server::{Back, json, request};
use crate::{Ear, POLL};

const TIMEOUT: Duration = Duration::from_secs(10);

fn ask(url: String, authorities: Option<&[u8]>) -> Ear {
    let (teller, ear) = Ear::new();
    let pull = Pull { url, token_file: None, poll: POLL };
    tokio::spawn(run(pull, Fetcher::new(TIMEOUT, authorities).expect("TLS"), teller));
    ear
}

/// Serves a limit of 500 W over TLS; returns its address and its certificate.
async fn serve() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let pem = made.cert.pem();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a key that fits");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let Some(_) = request(&mut stream).await else { continue };
            let Back::Bytes(text) = json("{\"high_w\": 500}") else { continue };
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (format!("https://localhost:{port}/limits"), pem)
}

#[tokio::test]
async fn only_known_authorities_are_believed() {
    let (url, pem) = serve().await;
    let fault = ask(url.clone(), None).fault("https://localhost:").await;
    assert!(fault.to_lowercase().contains("certificate"), "{fault}");
    assert_eq!(ask(url, Some(pem.as_bytes())).watts(1).await, [500.0]);
}

#[tokio::test]
async fn plain_bytes_on_a_port_for_tls_are_a_fault() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    ask(format!("https://{address}/limits"), None).fault("https://127.0.0.1:").await;
}
