//! HTTP client for devices, JSON in and out, for meters and caps. Bounded: the time of an exchange, the length of an
//! answer, the number of redirects, which must stay on the same host. Uses no proxy. Keeps only connections and the
//! answer to a digest challenge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use thiserror::Error;
use ureq::http::{HeaderMap, Request, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::access::Access;
use crate::digest::Challenge;

/// Time limit of an exchange: long for any device, and half the age at which the master ignores a reading.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest answers are Redfish's, about 100 KiB.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Most redirects: one for `http` to `https`, and one for a trailing slash.
const REDIRECTS: usize = 3;

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
    agent: Agent,
    access: Access,
    scheme: Scheme,
    limit: Duration,
    challenge: Option<Challenge>,
}

/// Headers and status, with an unread body.
type Response = ureq::http::Response<Body>;

/// Request.
struct Asked<'a> {
    method: &'a str,
    url: &'a Uri,
    body: Option<&'a Value>,
}

impl Http {
    /// Makes a client; opens nothing. An exchange may take 5 s.
    pub fn new(access: &Access, scheme: Scheme) -> Self {
        let roots = match access.authorities.as_slice() {
            [] => RootCerts::PlatformVerifier,
            some => RootCerts::new_with_certs(some),
        };
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .disable_verification(access.insecure)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        // Redirects are followed here, because the host must be checked.
        let config = Agent::config_builder().tls_config(tls.build()).proxy(None).max_redirects(0);
        let config = config.http_status_as_error(false).user_agent("limo").accept("application/json");
        let agent = config.build().into();
        Self { agent, access: access.clone(), scheme, limit: LIMIT, challenge: None }
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
            let mut response = self.exchange(&Asked { method: "GET", url: &url, body: None }, end)?;
            match response.status().as_u16() {
                301 | 302 | 303 | 307 | 308 => url = redirected(&url, response.headers())?,
                200..=299 => return self.json(&url, &mut response),
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
        let response = self.exchange(&Asked { method: "PATCH", url: &url, body: Some(body) }, end)?;
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
            (Scheme::Basic, _) if asked.url.scheme_str() != Some("https") && !self.access.insecure => {
                Err(HttpError::Clear { url: shown(asked.url) })
            }
            (Scheme::Basic, _) => {
                let text = BASE64_STANDARD.encode(format!("{}:{}", login.user, login.password));
                Ok(Some(format!("Basic {text}")))
            }
            (Scheme::Digest, Some(challenge)) => {
                let path = asked.url.path_and_query().map_or("/", |path| path.as_str());
                let mut random = [0; 16];
                let unreachable = |error: getrandom::Error| HttpError::Unreachable {
                    url: shown(asked.url),
                    reason: format!("cannot get random numbers: {error}"),
                };
                getrandom::fill(&mut random).map_err(unreachable)?;
                let cnonce = format!("{:032x}", u128::from_ne_bytes(random));
                Ok(Some(challenge.answer(login, (asked.method, path), &cnonce)))
            }
            _ => Ok(None),
        }
    }

    fn send(&self, asked: &Asked, authorization: Option<String>, end: Instant) -> Result<Response, HttpError> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HttpError::Late { url: shown(asked.url), limit: self.limit });
        }
        let mut request = Request::builder().method(asked.method).uri(asked.url);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let bad = |error: ureq::http::Error| self.failed(asked.url, error.into());
        let sent = match asked.body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string()).map_err(bad)?;
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(left)).build())
            }
            None => {
                let request = request.body(()).map_err(bad)?;
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(left)).build())
            }
        };
        sent.map_err(|error| self.failed(asked.url, error))
    }

    fn json(&self, url: &Uri, response: &mut Response) -> Result<Value, HttpError> {
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let media = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media != "application/json" && !(media.starts_with("application/") && media.ends_with("+json")) {
            let found = kind.map_or("no content type".to_owned(), |kind| format!("`{kind}`"));
            return Err(HttpError::ContentType { url: shown(url), found });
        }
        let body = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
        let body = body.map_err(|error| self.failed(url, error))?;
        serde_json::from_slice(&body).map_err(|source| HttpError::Json { url: shown(url), source })
    }

    fn failed(&self, url: &Uri, error: ureq::Error) -> HttpError {
        let url = shown(url);
        match error {
            ureq::Error::Timeout(_) => HttpError::Late { url, limit: self.limit },
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                HttpError::Late { url, limit: self.limit }
            }
            ureq::Error::BodyExceedsLimit(_) => HttpError::Long { url },
            error => HttpError::Unreachable { url, reason: error.to_string() },
        }
    }
}

/// Checks the address of a device.
///
/// # Errors
/// [`HttpError::Url`], saying what is missing. A password in an address is refused: all users can see `argv`.
pub fn check_url(url: &str) -> Result<(), HttpError> {
    parse(url).map(drop)
}

fn parse(text: &str) -> Result<Uri, HttpError> {
    // Omits the part that may be a password.
    let url = text.rsplit('@').next().unwrap_or_default().to_owned();
    let wrong = |reason| Err(HttpError::Url { url: url.clone(), reason });
    let Ok(uri) = text.parse::<Uri>() else { return wrong("it is not a valid URL") };
    match (uri.scheme_str(), uri.authority()) {
        (_, Some(host)) if host.as_str().contains('@') => {
            wrong("a user and a password belong in the file of `--meter-access`")
        }
        (Some("http" | "https"), Some(host)) if !host.host().is_empty() => Ok(uri),
        (Some("http" | "https"), _) => wrong("it has no host"),
        _ => wrong("it must begin `http://` or `https://`"),
    }
}

/// Returns the target of a redirect, if it is on the same host.
fn redirected(url: &Uri, headers: &HeaderMap) -> Result<Uri, HttpError> {
    let to = headers.get("location").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let elsewhere =
        || HttpError::Elsewhere { url: shown(url), to: to.split('?').next().unwrap_or_default().to_owned() };
    let absolute = match (to.strip_prefix('/'), url.scheme_str(), url.authority()) {
        (Some(path), ..) if path.starts_with('/') => return Err(elsewhere()),
        (Some(_), Some(scheme), Some(host)) => format!("{scheme}://{host}{to}"),
        _ => to.to_owned(),
    };
    let new = parse(&absolute).map_err(|_| elsewhere())?;
    // Without TLS any machine on the network could pretend to be that host.
    let is_same = new.host() == url.host()
        && (new.scheme() == url.scheme() && new.port_u16() == url.port_u16()
            || url.scheme_str() == Some("http") && new.scheme_str() == Some("https"));
    if is_same { Ok(new) } else { Err(elsewhere()) }
}

fn challenge(url: &Uri, headers: &HeaderMap) -> Result<Challenge, HttpError> {
    let all: Vec<&str> = headers.get_all("www-authenticate").iter().filter_map(|value| value.to_str().ok()).collect();
    all.iter().find_map(|header| Challenge::parse(header)).ok_or_else(|| {
        let challenge = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
        HttpError::Challenge { url: shown(url), challenge }
    })
}

/// Removes the query.
fn shown(url: &Uri) -> String {
    let (scheme, host) = (url.scheme_str().unwrap_or_default(), url.authority().map_or("", |host| host.as_str()));
    format!("{scheme}://{host}{}", url.path())
}
