//! HTTP server on loopback: each request gets the bytes of the test, or no answer.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Reaction to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Sends these bytes, then closes the connection.
    Bytes(Vec<u8>),
    /// Sends nothing, and keeps the connection.
    Silence,
}

/// Head of a request, and its body.
#[derive(Debug, Clone)]
pub struct Asked {
    pub head: String,
    pub body: String,
}

impl Asked {
    /// Returns `/path?query`, unescaped.
    pub fn target(&self) -> String {
        let target = self.head.split(' ').nth(1).unwrap_or_default();
        target
            .replace("%22", "\"")
            .replace("%7B", "{")
            .replace("%7D", "}")
            .replace("%5B", "[")
            .replace("%5D", "]")
            .replace("%3A", ":")
    }

    pub fn has_header(&self, line: &str) -> bool {
        self.head.lines().any(|found| found.eq_ignore_ascii_case(line))
    }
}

type Script = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

pub struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (script, record): (Script, _) = (Arc::new(script), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&record)));
            }
        });
        Self { port, asked }
    }

    /// Makes a server with the same answer to all requests.
    pub async fn saying(answer: Vec<u8>) -> Self {
        Self::start(move |_| Answer::Bytes(answer.clone())).await
    }

    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    pub fn targets(&self) -> Vec<String> {
        self.asked().iter().map(Asked::target).collect()
    }
}

async fn serve(mut stream: TcpStream, script: Script, record: Arc<Mutex<Vec<Asked>>>) {
    let Some(asked) = read(&mut stream).await else { return };
    record.lock().expect("no panic").push(asked.clone());
    answer(&mut stream, script(&asked)).await;
}

pub async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: Answer) {
    match answer {
        Answer::Bytes(bytes) => {
            // The write fails if the client has closed the connection.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        // Waits until the client closes the connection.
        Answer::Silence => drop(stream.read(&mut [0; 16]).await),
    }
}

/// Reads a request with its body; `None` if the client closed the connection before.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(Asked { head: head.to_owned(), body: body.to_owned() });
        }
    }
}

/// Makes a complete answer.
pub fn reply(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

pub fn json(body: &str) -> Vec<u8> {
    reply("200 OK", "application/json; charset=utf-8", body)
}
