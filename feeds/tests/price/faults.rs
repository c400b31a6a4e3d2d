//! Failing servers, and the errors and retries that follow.

use std::time::Duration;

use limo_feeds::error::FeedError;
use limo_feeds::fetch::{BODY_LIMIT, FetchError, Fetcher, Request, is_skewed};
use limo_model::Span;

use crate::server::{Answer, Server, json, reply};
use crate::{is_unpublished, look, rows};

const TABLE: &str = "[[price]]\nsource = \"energy-charts\"\nzone = \"DE-LU\"\nbase = \"BASE\"\n";
const GOOD: &str = r#"{"unix_seconds":[1761429600,1761433200],"price":[1,2],"unit":"EUR / MWh"}"#;

fn fetcher() -> Fetcher {
    Fetcher::new(Duration::from_secs(30), None).expect("TLS")
}

/// Returns the error of a request.
async fn failure(answer: Vec<u8>) -> FeedError {
    let server = Server::saying(answer).await;
    let loaded = look(&server, TABLE, &fetcher()).await;
    assert!(loaded.slots.is_empty(), "{:?}", loaded.slots);
    loaded.failure.expect("a failure")
}

#[tokio::test]
async fn a_silent_server_is_a_failure() {
    let server = Server::start(|_| Answer::Silence).await;
    let hasty = Fetcher::new(Duration::from_millis(300), None).expect("TLS");
    let failure = look(&server, TABLE, &hasty).await.failure.expect("too late");
    assert!(matches!(failure, FeedError::Fetch(FetchError::Timeout { .. })), "{failure}");
    assert!(failure.to_string().ends_with(": no complete answer within 0.3 s"), "{failure}");
}

#[tokio::test]
async fn a_slow_body_is_a_failure() {
    // The server sends the head and a part of the body, then nothing.
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/p", server.local_addr().expect("bound"));
    let serving = tokio::spawn(async move {
        let (mut stream, _) = server.accept().await.expect("a client");
        crate::server::read(&mut stream).await.expect("a request");
        let half = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{".to_vec();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &half).await.expect("sent");
        crate::server::answer(&mut stream, Answer::Silence).await;
    });
    let hasty = Fetcher::new(Duration::from_millis(300), None).expect("TLS");
    let error = hasty.fetch(&Request::get(url)).await.expect_err("too slow");
    assert!(matches!(error, FetchError::Timeout { .. }), "{error}");
    serving.await.expect("no panic");
}

#[tokio::test]
async fn busy_servers_say_for_how_long() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let head = format!("HTTP/1.1 {status}\r\nretry-after: 120\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let FeedError::Fetch(error) = failure(head.into_bytes()).await else { panic!("{status}") };
        assert_eq!(error.retry_after(), Some(Duration::from_secs(120)), "{status}");
        assert!(error.to_string().ends_with("the server requests a pause of 120 s"), "{error}");
    }
}

#[tokio::test]
async fn errors_contain_the_message_of_the_server() {
    let error = failure(reply("500 Internal Server Error", "text/html", "<h1>oops</h1>")).await;
    assert!(error.to_string().ends_with("status 500: the server said `<h1>oops</h1>`"), "{error}");
    let error = failure(reply("403 Forbidden", "application/json", "{\"detail\":\"no\"}")).await;
    assert!(error.to_string().ends_with("the server said `{\"detail\":\"no\"}`; check the token"));
}

#[tokio::test]
async fn broken_answers() {
    let mut half = json(GOOD);
    half.truncate(half.len() - 20);
    let error = failure(half).await;
    assert!(matches!(error, FeedError::Fetch(FetchError::Transport { .. })), "{error}");
    let error = failure(reply("200 OK", "text/html", "<html>maintenance</html>")).await;
    assert!(error.to_string().ends_with("the answer is `text/html` instead of application/json"), "{error}");
    let error = failure(json("{\"unix_seconds\": [1,")).await;
    assert!(error.to_string().starts_with("the answer is not JSON: EOF while parsing"), "{error}");
    let error = failure(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()).await;
    assert!(matches!(error, FeedError::Fetch(FetchError::Transport { .. })), "{error}");
    let error = failure(json(&"x".repeat(BODY_LIMIT + 1))).await;
    assert!(matches!(error, FeedError::Fetch(FetchError::TooLarge { limit: BODY_LIMIT, .. })), "{error}");
}

#[tokio::test]
async fn an_unreachable_server_is_a_failure() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/p?key=s3cret", server.local_addr().expect("bound"));
    drop(server);
    let error = fetcher().fetch(&Request::get(url).hiding("s3cret")).await.expect_err("refused").to_string();
    assert!(error.contains("onnection refused") && error.contains("key=***") && !error.contains("s3cret"), "{error}");
    for wrong in ["no address", "ftp://example.org/", "http://"] {
        let error = fetcher().fetch(&Request::get(wrong)).await.expect_err("refused");
        assert!(matches!(error, FetchError::Request { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_seen() {
    let answer = |date: &str| {
        let length = GOOD.len();
        format!(
            "HTTP/1.1 200 OK\r\ndate: {date}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{GOOD}"
        )
    };
    let server = Server::saying(answer("Sun, 06 Nov 1994 08:49:37 GMT").into_bytes()).await;
    let loaded = look(&server, TABLE, &fetcher()).await;
    let skew = loaded.skew.expect("a date");
    assert!(skew < Span::ZERO && is_skewed(Some(skew)) && loaded.slots.len() == 2, "{skew}");
    let now = jiff::fmt::rfc2822::DateTimePrinter::new();
    let now = now.timestamp_to_rfc9110_string(&jiff::Timestamp::now()).expect("a date");
    let server = Server::saying(answer(&now).into_bytes()).await;
    let skew = look(&server, TABLE, &fetcher()).await.skew.expect("a date");
    assert!(skew.ms().abs() < 30_000, "{skew}");
}

#[tokio::test]
async fn late_values_are_requested_again() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| {
        Answer::Bytes(match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => reply("404 Not Found", "application/json", "{}"),
            1 => reply("200 OK", "application/json", ""),
            2 => json(r#"{"unix_seconds":null,"price":null,"unit":null}"#),
            _ => json(GOOD),
        })
    })
    .await;
    for _ in 0..3 {
        assert!(is_unpublished(&look(&server, TABLE, &fetcher()).await));
    }
    assert_eq!(rows(&look(&server, TABLE, &fetcher()).await).len(), 2);
}

#[tokio::test]
async fn redirects_stay_at_home() {
    let server = Server::start(|asked| {
        let to = |place: &str| {
            format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        };
        Answer::Bytes(match asked.target().as_str() {
            "/here" => to("/there").into_bytes(),
            "/there" => json("{}"),
            "/round" => to("/round").into_bytes(),
            _ => to("http://localhost:1/").into_bytes(),
        })
    })
    .await;
    let fetch = async |path: &str| fetcher().fetch(&Request::get(format!("{}{path}", server.base()))).await;
    assert_eq!(fetch("/here").await.expect("followed").body, b"{}");
    let error = fetch("/round").await.expect_err("a circle").to_string();
    assert!(error.contains("it redirects in a loop"), "{error}");
    let error = fetch("/away").await.expect_err("elsewhere").to_string();
    assert!(error.contains("it redirects to another host"), "{error}");
}

#[tokio::test]
async fn an_answer_that_has_not_changed() {
    let server = Server::start(|asked| {
        let same = asked.has_header("if-none-match: \"v1\"");
        Answer::Bytes(match same {
            true => b"HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\nconnection: close\r\n\r\n".to_vec(),
            false => b"HTTP/1.1 200 OK\r\netag: \"v1\"\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}".to_vec(),
        })
    })
    .await;
    let request = Request::get(server.base());
    let first = fetcher().fetch(&request).await.expect("an answer");
    assert_eq!((first.status, first.etag.as_deref()), (200, Some("\"v1\"")));
    let second = fetcher().fetch(&request.with_header("if-none-match", "\"v1\"")).await.expect("an answer");
    assert_eq!((second.status, second.body.len()), (304, 0));
}

#[tokio::test]
async fn an_address_of_a_next_page_may_not_be_of_any_length() {
    const OCTOPUS: &str = "[[price]]\nsource = \"octopus\"\nproduct = \"P\"\nzone = \"A\"\nbase = \"BASE\"\n";
    let base = std::sync::Arc::new(std::sync::OnceLock::new());
    let known = base.clone();
    let server = Server::start(move |_| {
        let next = format!("{}/{}", known.get().expect("known"), "x".repeat(1 << 20));
        let row = r#"{"value_exc_vat":1,"valid_from":"2025-10-26T00:00:00Z","valid_to":"2025-10-26T00:30:00Z"}"#;
        Answer::Bytes(json(&format!("{{\"next\":\"{next}\",\"results\":[{row}]}}")))
    })
    .await;
    base.set(server.base()).expect("set once");
    let loaded = look(&server, OCTOPUS, &fetcher()).await;
    let failure = loaded.failure.expect("a failure").to_string();
    assert!(failure.len() < 1_000, "{} bytes: {:.200}", failure.len(), failure);
    assert_eq!(loaded.slots.len(), 1, "what came before counts");
}

#[tokio::test]
async fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("prices.csv");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let server = Server::start(|_| Answer::Silence).await;
    let table = format!("[[price]]\nsource = \"csv\"\nfile = \"{}\"\n", pipe.display());
    let failure = look(&server, &table, &fetcher()).await.failure.expect("a failure").to_string();
    assert!(failure.ends_with("prices.csv is not a regular file"), "{failure}");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("prices.csv").display().to_string();
    let server = Server::start(|_| Answer::Silence).await;
    let table = format!("[[price]]\nsource = \"csv\"\nfile = \"{missing}\"\n");
    let failure = look(&server, &table, &fetcher()).await.failure.expect("a failure").to_string();
    assert_eq!(failure, format!("cannot read {missing}: No such file or directory (os error 2)"));
}
