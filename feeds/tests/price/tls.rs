//! TLS with a server whose certificate is unknown, and with a server without TLS.

use std::sync::Arc;
use std::time::Duration;

use limo_feeds::fetch::{FetchError, Fetcher, Request};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::server::{Answer, answer, json, read};

/// Starts a server for `localhost` with a self-signed certificate; returns the certificate as PEM, and the port.
async fn serve_tls() -> (String, u16) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let pem = made.cert.pem();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).expect("good");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust the certificate closes the connection.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            if read(&mut stream).await.is_some() {
                answer(&mut stream, Answer::Bytes(json("{}"))).await;
            }
        }
    });
    (pem, port)
}

#[tokio::test]
async fn a_certificate_is_trusted_where_the_operator_says_so() {
    let (pem, port) = serve_tls().await;
    let request = Request::get(format!("https://localhost:{port}/"));
    let stranger = Fetcher::new(Duration::from_secs(30), None).expect("TLS");
    let error = stranger.fetch(&request).await.expect_err("unknown").to_string();
    assert!(error.contains("certificate"), "{error}");
    let friend = Fetcher::new(Duration::from_secs(30), Some(pem.as_bytes())).expect("TLS");
    assert_eq!(friend.fetch(&request).await.expect("trusted").body, b"{}");
    // The certificate is for another name.
    let other = Request::get(format!("https://127.0.0.1:{port}/"));
    assert!(matches!(friend.fetch(&other).await, Err(FetchError::Transport { .. })));
    assert!(matches!(Fetcher::new(Duration::from_secs(30), Some(b"no PEM")), Err(FetchError::Tls { .. })));
}

#[tokio::test]
async fn plain_text_on_a_port_of_tls() {
    let fetcher = Fetcher::new(Duration::from_secs(30), None).expect("TLS");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}/", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        answer(&mut stream, Answer::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())).await;
    });
    let error = fetcher.fetch(&Request::get(url)).await.expect_err("no TLS");
    assert!(matches!(error, FetchError::Transport { .. }), "{error}");
    assert!(error.to_string().contains("InvalidContentType"), "{error}");
}
