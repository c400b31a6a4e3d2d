//! Polling of a server: its document, a 304 for an unchanged document, and each fault.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use limo_feeds::fetch::Fetcher;
use limo_feeds::grid::Word;
use limo_feeds::grid::pull::{Pull, run};

use crate::server::{Asked, Back, Server, answer, json};
use crate::{Ear, POLL};

/// Shorter than a test's longest wait, but longer than an exchange.
const TIMEOUT: Duration = Duration::from_secs(3);

/// An incomplete answer.
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"h";

fn ask(server: &Server, token: Option<&Path>) -> Ear {
    let (teller, ear) = Ear::new();
    let pull = Pull { url: server.url("/limits"), token_file: token.map(Path::to_owned), poll: POLL };
    tokio::spawn(run(pull, Fetcher::new(TIMEOUT, None).expect("TLS"), teller));
    ear
}

pub fn token(dir: &Path, text: &str) -> std::path::PathBuf {
    let path = dir.join("token");
    std::fs::write(&path, text).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("allowed");
    path
}

#[tokio::test]
async fn a_document_and_each_304_are_signs_of_life() {
    let server = Server::start(|asked| {
        if asked.head.contains("if-none-match: \"v1\"") {
            answer("304 Not Modified", "etag: \"v1\"\r\n", "")
        } else {
            answer("200 OK", "content-type: application/json\r\netag: \"v1\"\r\n", r#"{"high_w":500}"#)
        }
    })
    .await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut ear = ask(&server, Some(&token(dir.path(), "s3cret\n")));
    let first = ear.next().await;
    assert!(matches!(&first, Word::Limits(limits) if limits[0].high.watts() == 500.0), "{first:?}");
    assert_eq!(ear.next().await, first, "a limit without a beginning began when it was first read");
    let asked = server.asked();
    assert!(
        asked[0].line.starts_with("GET /limits HTTP/1.1") && asked[0].head.contains("authorization: bearer s3cret")
    );
    assert!(!asked[0].head.contains("if-none-match") && asked[1].head.contains("if-none-match: \"v1\""));
    server.now(|_| json("[]"));
    assert!(ear.watts(0).await.is_empty());
}

#[tokio::test]
async fn an_unexpected_304_keeps_the_limits() {
    let server = Server::start(|_| answer("304 Not Modified", "", "")).await;
    let first = ask(&server, None).next().await;
    assert!(matches!(&first, Word::Fault(fault) if fault.contains("status 304")), "{first:?}");
}

#[tokio::test]
async fn the_newest_tag_is_sent_back() {
    let mut count = 0;
    let server = Server::start(move |_| {
        count += 1;
        let headers = format!("content-type: application/json\r\netag: \"v{count}\"\r\n");
        answer("200 OK", &headers, r#"{"high_w":500}"#)
    })
    .await;
    let mut ear = ask(&server, None);
    for _ in 0..4 {
        ear.watts(1).await;
    }
    assert!(server.asked()[2].head.contains("if-none-match: \"v2\""), "{:?}", server.asked()[2]);
}

#[tokio::test]
async fn a_fault_is_never_long() {
    let server =
        Server::start(|_| answer("200 OK", &format!("content-type: text/{}\r\n", "x".repeat(50_000)), "<html>")).await;
    let fault = ask(&server, None).fault("instead of application/json").await;
    assert!(fault.chars().count() <= 500, "{} characters", fault.chars().count());
}

#[tokio::test]
async fn faults_are_reported_and_the_next_answer_counts() {
    let server = Server::start(|_| json("[]")).await;
    let mut ear = ask(&server, None);
    // After each fault the server works for a moment, so that the pauses stay short.
    let mut check = async |script: fn(&Asked) -> Back, part: &str| {
        server.now(script);
        ear.fault(part).await;
        server.now(|_| json("[]"));
        ear.watts(0).await;
    };
    let oh_no = |_: &Asked| answer("500 Internal Server Error", "content-type: text/plain\r\n", "oh no");
    check(oh_no, "/limits: status 500: the server said `oh no`").await;
    check(|_| answer("429 Too Many Requests", "retry-after: 0\r\n", ""), "status 429").await;
    let html = |_: &Asked| answer("200 OK", "content-type: text/html\r\n", "<html>");
    check(html, "the answer is `text/html` instead of application/json").await;
    check(|_| Back::Bytes(HALF.into()), "end of file before message length reached").await;
    check(|_| json("{\"high_w\": \"much\"}"), "the limit: invalid type: string \"much\"").await;
    check(|_| Back::Silence, "no complete answer within 3 s").await;
    server.now(|_| json("{\"high_w\": 7}"));
    assert_eq!(ear.watts(1).await, [7.0]);
}

#[tokio::test]
async fn a_differing_clock_is_reported_with_the_limits() {
    let server = Server::start(|_| {
        let headers = "content-type: application/json\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        answer("200 OK", headers, "{\"high_w\": 7}")
    })
    .await;
    let url = format!("http://user:word@{}/limits", server.address);
    let (teller, mut ear) = Ear::new();
    let pull = Pull { url, token_file: None, poll: POLL };
    tokio::spawn(run(pull, Fetcher::new(TIMEOUT, None).expect("TLS"), teller));
    assert_eq!(ear.watts(1).await, [7.0]);
    let fault = ear.fault("its clock and this machine's differ by more than 60 s").await;
    assert!(!fault.contains("word"), "{fault}");
}

#[tokio::test]
async fn a_token_that_everybody_can_read_is_not_used() {
    let server = Server::start(|_| json("[]")).await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = token(dir.path(), "s3cret");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("allowed");
    let fault = ask(&server, Some(&path)).fault("can be read by every user").await;
    assert!(!fault.contains("s3cret") && server.asked().is_empty());
}
