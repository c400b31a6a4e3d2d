//! An HTTP/1.1 server on its own socket, which sends exactly the bytes that a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Longer than any answer takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

/// A received request. Names of headers are in lower case.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `GET /path`.
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An answer to send.
pub struct Answer {
    pub bytes: Vec<u8>,
    pub then: Then,
}

/// Action after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Read the next request on the same connection.
    Next,
    Close,
    /// Send nothing until the client closes the connection.
    Hang,
}

impl Answer {
    pub fn new(status: &str, headers: &str, body: &str) -> Self {
        let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        Self { bytes: text.into_bytes(), then: Then::Next }
    }

    pub fn json(body: &str) -> Self {
        Self::new("200 OK", "content-type: application/json\r\n", body)
    }

    pub fn status(status: &str) -> Self {
        Self::new(status, "", "")
    }
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    asked: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
}

impl Server {
    pub fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(handler))
    }

    pub fn start_tls(config: ServerConfig, handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(Some(Arc::new(config)), Arc::new(handler))
    }

    fn serve(tls: Option<Arc<ServerConfig>>, handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (asked, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (log, stopped) = (asked.clone(), stop.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (handler, log, tls) = (handler.clone(), log.clone(), tls.clone());
                thread::spawn(move || {
                    stream.set_read_timeout(Some(LONG)).expect("a socket");
                    match tls {
                        Some(config) => {
                            let session = ServerConnection::new(config).expect("a good configuration");
                            converse(StreamOwned::new(session, stream), &log, handler.as_ref());
                        }
                        None => converse(stream, &log, handler.as_ref()),
                    }
                });
            }
        });
        Self { address, scheme, asked, stop }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Returns all requests so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("no panic").clone()
    }

    /// Returns the first lines of all requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|request| request.line).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves until the client closes the connection, or an answer closes it.
fn converse<S: Read + Write>(stream: S, log: &Mutex<Vec<Request>>, handler: &Handler) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream) {
        log.lock().expect("no panic").push(request.clone());
        let answer = handler(&request);
        if stream.get_mut().write_all(&answer.bytes).and_then(|()| stream.get_mut().flush()).is_err() {
            return;
        }
        match answer.then {
            Then::Next => {}
            Then::Close => return,
            Then::Hang => {
                // The read ends when the client closes the connection.
                let _ = stream.read(&mut [0; 16]);
                return;
            }
        }
    }
}

/// Reads a request; `None` if the connection ends or breaks.
fn read(stream: &mut impl BufRead) -> Option<Request> {
    let mut request = Request { line: line(stream)?.replace(" HTTP/1.1", ""), ..Request::default() };
    loop {
        let header = line(stream)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').expect("a header");
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).expect("text");
    Some(request)
}

fn line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    match stream.read_line(&mut line) {
        Ok(count) if count > 0 => Some(line.trim_end().to_owned()),
        _ => None,
    }
}
