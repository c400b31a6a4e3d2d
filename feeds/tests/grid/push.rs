//! Pushed limits: real requests to the real listener, valid and invalid ones.

use limo_feeds::grid::Word;
use limo_feeds::grid::push::{Push, bind, run};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::pull::token;
use crate::{Ear, PATIENCE};

struct Sender {
    address: std::net::SocketAddr,
    ear: Ear,
    _dir: tempfile::TempDir,
}

impl Sender {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = bind("127.0.0.1:0".parse().expect("an address")).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (teller, ear) = Ear::new();
        let push = Push { name: "dso".into(), token_file: token(dir.path(), "s3cret") };
        tokio::spawn(run(push, listener, Vec::new(), teller));
        Self { address, ear, _dir: dir }
    }

    /// Sends raw bytes; returns everything until the listener closes the connection.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        // The listener may answer and close before it has read all.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time");
        if answer.is_empty() {
            read.expect("an answer");
        }
        String::from_utf8(answer).expect("text")
    }

    /// Returns status and body of a request with `headers`.
    async fn send(&self, line: &str, headers: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let text = format!("{line} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}");
        let answer = self.raw(text.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    /// Sends a request with the right token.
    async fn json(&self, line: &str, body: &str) -> (u16, Value) {
        self.send(line, "authorization: Bearer s3cret\r\ncontent-type: application/json\r\n", body).await
    }
}

#[tokio::test]
async fn limits_are_put_shown_and_withdrawn() {
    let mut sender = Sender::new().await;
    let (status, shown) = sender.json("PUT /limits", r#"{"high_w": 500, "until": "2100-01-01T00:00:00Z"}"#).await;
    assert_eq!((status, &shown["limits"][0]["high_w"]), (202, &Value::from(500.0)));
    assert_eq!(sender.ear.watts(1).await, [500.0]);
    let (status, again) = sender.json("GET /limits", "").await;
    assert_eq!((status, &again), (200, &shown));
    assert_eq!((&again["limits"][0]["source"], &again["limits"][0]["low_w"]), (&Value::from("dso"), &Value::Null));
    // Shown limits can be sent again.
    assert_eq!(sender.json("POST /limits", &again.to_string()).await.0, 202);
    assert_eq!(sender.ear.watts(1).await, [500.0]);
    assert_eq!(sender.json("POST /heartbeat", "").await.0, 202);
    assert_eq!(sender.ear.next().await, Word::Heartbeat);
    assert_eq!(sender.json("DELETE /limits", "").await.0, 202);
    assert!(sender.ear.watts(0).await.is_empty());
    assert_eq!(sender.json("GET /limits", "").await, (200, serde_json::json!({"limits": []})));
}

#[tokio::test]
async fn errors_are_reported_and_change_nothing() {
    let mut sender = Sender::new().await;
    let json = "content-type: application/json\r\n";
    for authorization in
        ["", "authorization: Bearer s3cre\r\n", "authorization: Bearer s3cret2\r\n", "authorization: Basic s3cret\r\n"]
    {
        let (status, answer) = sender.send("PUT /limits", &format!("{authorization}{json}"), "{\"high_w\": 1}").await;
        assert_eq!((status, &answer["error"]), (401, &Value::from("the bearer token is missing or wrong")));
    }
    let check = |(status, answer): (u16, Value), expected: u16, part: &str| {
        let error = answer["error"].as_str().expect("a reason").to_owned();
        assert!(status == expected && error.contains(part), "{status} {error}");
    };
    check(sender.json("PUT /limits", "{\"high_w\": ").await, 400, "not JSON");
    check(sender.json("PUT /limits", "{\"high_w\": -1}").await, 400, "high_w is -1 W");
    check(sender.json("PUT /else", "{}").await, 404, "only /limits and /heartbeat exist");
    check(sender.json("PATCH /limits", "{}").await, 405, "GET, PUT, POST, DELETE");
    check(sender.json("GET /heartbeat", "").await, 405, "POST");
    let token = "authorization: bearer s3cret\r\n";
    let text = format!("{token}content-type: text/plain\r\n");
    check(sender.send("PUT /limits", &text, "{}").await, 415, "the content type is `text/plain`");
    check(sender.json("PUT /limits", &format!("\"{}\"", "x".repeat(2 << 20))).await, 413, "longer than 1048576 bytes");
    // None of these requests caused a message: the next message is the heartbeat.
    assert_eq!(sender.json("POST /heartbeat", "").await.0, 202);
    assert_eq!(sender.ear.next().await, Word::Heartbeat);
}

#[tokio::test]
async fn other_protocols_do_not_affect_the_listener() {
    let mut sender = Sender::new().await;
    let answer = sender.raw(b"\x16\x03\x01 this is TLS\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    // The connection ends after half a body.
    let half = "PUT /limits HTTP/1.1\r\nhost: x\r\nauthorization: Bearer s3cret\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{\"high";
    let mut stream = TcpStream::connect(sender.address).await.expect("listening");
    stream.write_all(half.as_bytes()).await.expect("sent");
    drop(stream);
    assert_eq!(sender.json("POST /heartbeat", "").await.0, 202);
    assert_eq!(sender.ear.next().await, Word::Heartbeat);
}
