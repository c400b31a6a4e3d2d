//! HTTP client for devices, JSON in and out, for meters and caps. Bounded: the time of an exchange, the length of an
//! answer, the number of redirects, which must stay on the same host. Uses no proxy. Keeps only connections and the
//! answer to a digest challenge.

use std::io;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use limo_model::with_causes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, Url};
use serde_json::Value;
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

use crate::access::Access;
use crate::digest::Challenge;

/// Time limit of an exchange: long for any device, and half the age at which the master ignores a reading.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest answers are Redfish's, about 100 KiB.
const LONGEST_ANSWER: usize = 1 << 20;

/// Most redirects: one for `http` to `https`, and one for a trailing slash.
const REDIRECTS: usize = 3;

/// Drives the connections of all devices in one thread, which notices at once that a device closes one. Callers wait for
/// it, because every meter is read in a thread that may wait.
static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("devices").enable_all().build());

/// Form of the credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// No authentication.
    None,
    /// Credentials with each request.
    Basic,
    /// Credentials in the answer to a challenge.
    Digest,
}

/// Reason why a device did not answer. `url` is shown without its query, which may contain a password.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum HttpError {
    #[error("`{url}` is not an address of a device: {reason}; write for example `https://bmc1/redfish/v1/Chassis/1`")]
    Url { url: String, reason: &'static str },
    #[error("{url} cannot be reached: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{url} did not answer within {} ms", limit.as_millis())]
    Late { url: String, limit: Duration },
    #[error(
        "{url} asks for a user and a password, or does not accept those it was given (HTTP {status}): check the file of \
         `--meter-access`"
    )]
    Denied { url: String, status: u16 },
    #[error("{url} requires `{challenge}`: only digest with SHA-256 is supported")]
    Challenge { url: String, challenge: String },
    #[error(
        "{url} would get the password in the clear: write `https`, or `insecure = true` in the file of `--meter-access`"
    )]
    Clear { url: String },
    #[error("{url} answers HTTP {status}{}", advice(*status))]
    Status { url: String, status: u16 },
    #[error("{url} redirects to `{to}`, which is not on the same host: write the final address")]
    Elsewhere { url: String, to: String },
    #[error("{url} has too many redirects: {REDIRECTS} were followed")]
    Circle { url: String },
    #[error("{url} answers with {found} instead of application/json")]
    ContentType { url: String, found: String },
    #[error("{url} answers with more than {LONGEST_ANSWER} bytes")]
    Long { url: String },
    #[error("{url} answers with invalid JSON: {source}")]
    Json { url: String, source: serde_json::Error },
}

impl HttpError {
    /// Returns true if the address does not exist on the device.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status: 404, .. })
    }
}

/// Returns a remedy for a status, as the end of a sentence.
fn advice(status: u16) -> &'static str {
    match status {
        404 => ": the address does not exist",
        429 | 503 => ": too many requests; raise `--meter-interval`",
        _ => "",
    }
}

/// Client for a device, or several with the same credentials.
#[derive(Debug)]
pub struct Http {
    /// Made for the first exchange: reading the certificates of the machine takes a while.
    client: Option<Client>,
    access: Access,
    scheme: Scheme,
    limit: Duration,
    challenge: Option<Challenge>,
}

/// Request.
struct Asked<'a> {
    method: Method,
    url: &'a Url,
    body: Option<&'a Value>,
}

impl Http {
    /// Makes a client; opens nothing. An exchange may take 5 s.
    pub fn new(access: &Access, scheme: Scheme) -> Self {
        Self { client: None, access: access.clone(), scheme, limit: LIMIT, challenge: None }
    }

    fn client(&mut self) -> reqwest::Result<Client> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        // Redirects are followed here, because the host must be checked.
        let builder = Client::builder().no_proxy().http1_only().redirect(Policy::none()).user_agent("limo");
        let builder = match self.access.authorities.as_slice() {
            [] => builder,
            some => builder.tls_certs_only(some.iter().cloned()),
        };
        let client = builder.tls_danger_accept_invalid_certs(self.access.insecure).build()?;
        Ok(self.client.insert(client).clone())
    }

    /// Sets another time limit.
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Gets the JSON at `url`, which begins with `http://` or `https://`.
    ///
    /// # Errors
    /// [`HttpError`], naming the address.
    pub fn get(&mut self, url: &str) -> Result<Value, HttpError> {
        let end = Instant::now() + self.limit;
        let mut url = parse(url)?;
        for _ in 0..=REDIRECTS {
            let response = self.exchange(&Asked { method: Method::GET, url: &url, body: None }, end)?;
            match response.status().as_u16() {
                301 | 302 | 303 | 307 | 308 => url = redirected(&url, response.headers())?,
                200..=299 => return self.json(&url, response),
                status => return Err(HttpError::Status { url: shown(&url), status }),
            }
        }
        Err(HttpError::Circle { url: shown(&url) })
    }

    /// Changes the resource at `url`; ignores the body of the answer.
    ///
    /// # Errors
    /// [`HttpError`], naming the address. Redirects are not followed.
    pub fn patch(&mut self, url: &str, body: &Value) -> Result<(), HttpError> {
        let end = Instant::now() + self.limit;
        let url = parse(url)?;
        let response = self.exchange(&Asked { method: Method::PATCH, url: &url, body: Some(body) }, end)?;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(HttpError::Status { url: shown(&url), status }),
        }
    }

    /// Sends a request, and repeats it if the device requires credentials.
    fn exchange(&mut self, asked: &Asked, end: Instant) -> Result<Response, HttpError> {
        let authorization = self.authorization(asked)?;
        let mut response = self.send(asked, authorization, end)?;
        if response.status() == 401 && self.scheme == Scheme::Digest && self.access.login.is_some() {
            self.challenge = Some(challenge(asked.url, response.headers())?);
            let authorization = self.authorization(asked)?;
            response = self.send(asked, authorization, end)?;
        }
        match response.status().as_u16() {
            status @ (401 | 403) => Err(HttpError::Denied { url: shown(asked.url), status }),
            _ => Ok(response),
        }
    }

    /// Returns the header with the credentials.
    fn authorization(&mut self, asked: &Asked) -> Result<Option<String>, HttpError> {
        let Some(login) = &self.access.login else { return Ok(None) };
        match (self.scheme, &mut self.challenge) {
            (Scheme::Basic, _) if asked.url.scheme() != "https" && !self.access.insecure => {
                Err(HttpError::Clear { url: shown(asked.url) })
            }
            (Scheme::Basic, _) => {
                let text = BASE64_STANDARD.encode(format!("{}:{}", login.user, login.password));
                Ok(Some(format!("Basic {text}")))
            }
            (Scheme::Digest, Some(challenge)) => {
                let query = asked.url.query().map_or_else(String::new, |query| format!("?{query}"));
                let path = format!("{}{query}", asked.url.path());
                let mut random = [0; 16];
                let unreachable = |error: getrandom::Error| HttpError::Unreachable {
                    url: shown(asked.url),
                    reason: format!("cannot get random numbers: {error}"),
                };
                getrandom::fill(&mut random).map_err(unreachable)?;
                let cnonce = format!("{:032x}", u128::from_ne_bytes(random));
                Ok(Some(challenge.answer(login, (asked.method.as_str(), &path), &cnonce)))
            }
            _ => Ok(None),
        }
    }

    fn send(&mut self, asked: &Asked, authorization: Option<String>, end: Instant) -> Result<Response, HttpError> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HttpError::Late { url: shown(asked.url), limit: self.limit });
        }
        let client = self.client().map_err(|error| self.failed(asked.url, error))?;
        // The time limit includes reading the body.
        let mut request = client.request(asked.method.clone(), asked.url.clone()).timeout(left);
        request = request.header(ACCEPT, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(body) = asked.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        runtime(asked.url)?.block_on(async { request.send().await }).map_err(|error| self.failed(asked.url, error))
    }

    fn json(&self, url: &Url, mut response: Response) -> Result<Value, HttpError> {
        let kind = header(response.headers(), &CONTENT_TYPE);
        let media = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media != "application/json" && !(media.starts_with("application/") && media.ends_with("+json")) {
            let found = kind.map_or("no content type".to_owned(), |kind| format!("`{kind}`"));
            return Err(HttpError::ContentType { url: shown(url), found });
        }
        let body = runtime(url)?.block_on(async {
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(|error| self.failed(url, error))? {
                if body.len() + piece.len() > LONGEST_ANSWER {
                    return Err(HttpError::Long { url: shown(url) });
                }
                body.extend_from_slice(&piece);
            }
            Ok(body)
        })?;
        serde_json::from_slice(&body).map_err(|source| HttpError::Json { url: shown(url), source })
    }

    fn failed(&self, url: &Url, error: reqwest::Error) -> HttpError {
        let url = shown(url);
        if error.is_timeout() {
            return HttpError::Late { url, limit: self.limit };
        }
        // The address may contain a password.
        HttpError::Unreachable { url, reason: with_causes(&error.without_url()) }
    }
}

fn runtime(url: &Url) -> Result<&'static Runtime, HttpError> {
    let failed = |error: &io::Error| HttpError::Unreachable { url: shown(url), reason: error.to_string() };
    RUNTIME.as_ref().map_err(failed)
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Checks the address of a device.
///
/// # Errors
/// [`HttpError::Url`], saying what is missing. A password in an address is refused: all users can see `argv`.
pub fn check_url(url: &str) -> Result<(), HttpError> {
    parse(url).map(drop)
}

fn parse(text: &str) -> Result<Url, HttpError> {
    // Omits the part that may be a password.
    let url = text.rsplit('@').next().unwrap_or_default().to_owned();
    let wrong = |reason| Err(HttpError::Url { url: url.clone(), reason });
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return wrong("it must begin `http://` or `https://`");
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return wrong("a user and a password belong in the file of `--meter-access`");
    }
    if host.is_empty() || host.starts_with(':') {
        return wrong("it has no host");
    }
    text.parse().or_else(|_| wrong("it is not a valid URL"))
}

/// Returns the target of a redirect, if it is on the same host.
fn redirected(url: &Url, headers: &HeaderMap) -> Result<Url, HttpError> {
    let to = header(headers, &LOCATION).unwrap_or_default();
    let elsewhere =
        || HttpError::Elsewhere { url: shown(url), to: to.split('?').next().unwrap_or_default().to_owned() };
    let new = match to.strip_prefix('/') {
        Some(path) if path.starts_with('/') => return Err(elsewhere()),
        Some(_) => url.join(to).map_err(|_| elsewhere())?,
        None => parse(to).map_err(|_| elsewhere())?,
    };
    // Without TLS any machine on the network could pretend to be that host.
    let is_same = new.host() == url.host()
        && (new.scheme() == url.scheme() && new.port() == url.port()
            || url.scheme() == "http" && new.scheme() == "https");
    if is_same { Ok(new) } else { Err(elsewhere()) }
}

fn challenge(url: &Url, headers: &HeaderMap) -> Result<Challenge, HttpError> {
    let all: Vec<&str> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    all.iter().find_map(|header| Challenge::parse(header)).ok_or_else(|| {
        let challenge = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
        HttpError::Challenge { url: shown(url), challenge }
    })
}

/// Removes the query.
fn shown(url: &Url) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}
