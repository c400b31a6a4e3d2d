//! HTTP server over raw TCP for tests: complete answers, incomplete ones, or none. One request for each connection.
//! Also makes the bytes of requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Request: its first line, its headers in lower case, its body.
#[derive(Debug, Clone)]
pub struct Asked {
    pub line: String,
    pub head: String,
    pub body: String,
}

/// Reaction to a request.
#[derive(Debug, Clone)]
pub enum Back {
    /// Sends these bytes, then closes the connection.
    Bytes(String),
    /// Sends nothing, and keeps the connection open.
    Silence,
}

type Script = Arc<Mutex<Box<dyn FnMut(&Asked) -> Back + Send>>>;

/// Running server; it ends with the runtime of the test.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    script: Script,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub async fn start(script: impl FnMut(&Asked) -> Back + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = Self { address, script: Arc::new(Mutex::new(Box::new(script))), asked: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        server
    }

    /// Changes the answers from now on.
    pub fn now(&self, script: impl FnMut(&Asked) -> Back + Send + 'static) {
        *self.script.lock().expect("whole") = Box::new(script);
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("whole").clone()
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some(asked) = request(&mut stream).await else { return };
        self.asked.lock().expect("whole").push(asked.clone());
        let back = (self.script.lock().expect("whole"))(&asked);
        match back {
            Back::Bytes(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
            Back::Silence => std::future::pending().await,
        }
    }
}

/// Reads one request.
pub async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_owned();
            let lower = head.to_lowercase();
            let length =
                lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                let line = head.lines().next().unwrap_or_default().to_owned();
                return Some(Asked { line, head: lower, body: body.to_owned() });
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

/// Makes an answer with further headers, each on a line that ends in `\r\n`.
pub fn answer(status: &str, headers: &str, body: &str) -> Back {
    Back::Bytes(format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

pub fn json(body: &str) -> Back {
    answer("200 OK", "content-type: application/json\r\n", body)
}
