//! One HTTP exchange with a server: limits on its time and on the size of the answer, and a check of its type. Proxies
//! come from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
//!
//! Does not retry. Errors contain no secrets: headers are never shown, and the secrets of a request are removed from
//! its address and from the server's text.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limo_model::{Backoff, Span, Time, with_causes};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use reqwest::header::{AGE, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, IF_NONE_MATCH, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, StatusCode, Url};
use thiserror::Error;

use crate::template::escaped;

/// Most bytes of an answer; a year of quarter hours of the most verbose feed has about 3 MiB.
pub const BODY_LIMIT: usize = 4 << 20;

/// Limit of an exchange; slow servers of grid operators answer within 20 s.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Tolerated difference of clocks. Clocks set by the network differ by less than a second; at a minute, prices could
/// belong to the wrong slot.
pub(crate) const SKEW_LIMIT: Span = Span::from_secs(60);

/// Returns true if a server's clock, ahead by `skew`, differs too much from this machine's.
pub fn is_skewed(skew: Option<Span>) -> bool {
    skew.is_some_and(|skew| skew.ms().abs() > SKEW_LIMIT.ms())
}

/// Longest pause that a server can request.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// Most redirects: enough for `http` to `https` and a trailing slash.
const REDIRECT_LIMIT: usize = 5;

/// Most characters of a server's text in an error.
const SHOWN: usize = 200;

/// Request.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// `http` or `https`.
    pub url: String,
    /// Headers; never shown.
    pub headers: Vec<(String, String)>,
    /// Body of a POST; `None` for a GET.
    pub post: Option<Post>,
    /// Accepted media types, such as `application/json`; empty for any.
    pub accepts: &'static [&'static str],
    /// Texts that are removed from shown addresses and answers.
    pub secrets: Vec<String>,
    /// Statuses besides 2xx whose body is an answer.
    pub tolerates: &'static [u16],
}

/// Body of a POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Post {
    /// JSON.
    Json(String),
    /// Pairs of a form, in URL encoding.
    Form(String),
}

/// Answer: a status of 2xx, one that the request tolerates, or 304 to a request with `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Body of at most [`BODY_LIMIT`] bytes; empty with 304.
    pub body: Vec<u8>,
    /// Value for the next `If-None-Match`.
    pub etag: Option<String>,
    /// Time by which the server's clock is ahead of this machine's, from its `Date`; accurate to a second plus half of
    /// the exchange's time.
    pub skew: Option<Span>,
}

/// Reason why there is no answer. Every message names the address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum FetchError {
    #[error("{url}: the request cannot be sent: {reason}")]
    Request { url: String, reason: String },
    #[error("{url}: no complete answer within {} s", limit.as_secs_f32())]
    Timeout { url: String, limit: Duration },
    /// No connection, no TLS, or an incomplete answer.
    #[error("{url}: {reason}")]
    Transport { url: String, reason: String },
    #[error("{url}: status {status}{}", pause_in_words(*retry_after))]
    Busy { url: String, status: u16, retry_after: Option<Duration> },
    #[error("{url}: status {status}: the server said {said}")]
    Server { url: String, status: u16, said: String },
    #[error("{url}: status {status}: the server said {said}{}", remedy(*status))]
    Refused { url: String, status: u16, said: String },
    #[error("{url}: the answer is {found} instead of {expected}")]
    Type { url: String, found: String, expected: String },
    #[error("{url}: the answer is longer than {limit} bytes")]
    TooLarge { url: String, limit: usize },
    #[error("cannot speak TLS: {reason}")]
    Tls { reason: String },
}

impl FetchError {
    /// Returns the pause that the server requested.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Busy { retry_after, .. } = self { *retry_after } else { None }
    }
}

fn pause_in_words(pause: Option<Duration>) -> String {
    pause.map_or_else(String::new, |pause| format!(": the server requests a pause of {} s", pause.as_secs()))
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "; check the token",
        404 => "; check the address",
        _ => "",
    }
}

/// Omits secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("url", &self.shown()).finish_non_exhaustive()
    }
}

impl Request {
    /// Makes a GET that accepts any answer.
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), post: None, accepts: &[], secrets: Vec::new(), tolerates: &[] }
    }

    /// Refuses answers of other media types.
    #[must_use]
    pub fn accepting(self, accepts: &'static [&'static str]) -> Self {
        Self { accepts, ..self }
    }

    /// Also accepts answers with one of these statuses.
    #[must_use]
    pub fn tolerating(self, tolerates: &'static [u16]) -> Self {
        Self { tolerates, ..self }
    }

    /// Adds a header, whose value is never shown.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Makes it a POST.
    #[must_use]
    pub fn posting(self, post: Post) -> Self {
        Self { post: Some(post), ..self }
    }

    /// Hides `text` wherever it would be shown, in plain and in URL encoding.
    #[must_use]
    pub fn hiding(mut self, text: &str) -> Self {
        if !text.is_empty() {
            self.secrets.push(text.to_owned());
            self.secrets.push(escaped(text));
        }
        self
    }

    /// Returns the address without user, password and secrets.
    pub fn shown(&self) -> String {
        let text = match Url::parse(&self.url) {
            Ok(mut url) => {
                // This only fails for addresses that can have neither.
                let _ = url.set_username("").and_then(|()| url.set_password(None));
                url.to_string()
            }
            Err(_) => self.url.clone(),
        };
        self.censored(&text)
    }

    fn censored(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    /// Formats a server's text on one line, in quotes.
    fn quoted(&self, body: &[u8]) -> String {
        let text = self.censored(&String::from_utf8_lossy(body));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.chars().count() {
            0 => "nothing".to_owned(),
            count if count <= SHOWN => format!("`{text}`"),
            _ => format!("`{}…`", text.chars().take(SHOWN).collect::<String>()),
        }
    }
}

/// HTTP client. Cheap to clone; connections are kept.
#[derive(Debug, Clone)]
pub struct Fetcher {
    client: Client,
    timeout: Duration,
}

impl Fetcher {
    /// Makes a client that trusts the certificate authorities of this machine, and those of `authorities` (PEM).
    ///
    /// # Errors
    /// [`FetchError::Tls`] if `authorities` has no certificates, or TLS cannot be set up.
    pub fn new(timeout: Duration, authorities: Option<&[u8]>) -> Result<Self, FetchError> {
        let tls = |error: reqwest::Error| FetchError::Tls { reason: with_causes(&error) };
        let mut builder = Client::builder()
            .timeout(timeout)
            .redirect(Policy::custom(same_host))
            .user_agent(concat!("limo/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = authorities {
            let certificates = Certificate::from_pem_bundle(pem).map_err(tls)?;
            if certificates.is_empty() {
                return Err(FetchError::Tls { reason: "the file of authorities has no certificate".into() });
            }
            builder = builder.tls_certs_merge(certificates);
        }
        Ok(Self { client: builder.build().map_err(tls)?, timeout })
    }

    /// Makes one exchange.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(&self, request: &Request) -> Result<Reply, FetchError> {
        let sent = now();
        let response = self.send(request).await?;
        self.taken(request, sent, response).await
    }

    /// Checks `response` to a request that was sent at `sent`.
    async fn taken(&self, request: &Request, sent: Time, response: Response) -> Result<Reply, FetchError> {
        let headers = response.headers();
        let middle = Time::from_unix_ms(sent.unix_ms().midpoint(now().unix_ms()));
        let skew = header(headers, &DATE).and_then(|date| skew(date, header(headers, &AGE), middle));
        let status = response.status();
        let etag = header(headers, &ETAG).map(str::to_owned);
        let retry_after = header(headers, &RETRY_AFTER).and_then(|text| pause_asked(text, middle));
        let found = header(headers, &CONTENT_TYPE).map(str::to_owned);
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return Err(FetchError::Busy { url: request.shown(), status: status.as_u16(), retry_after });
        }
        let body = self.body(request, response).await?;
        let (url, code) = (request.shown(), status.as_u16());
        let tolerated = request.tolerates.contains(&code);
        if status.is_server_error() && !tolerated {
            return Err(FetchError::Server { url, status: code, said: request.quoted(&body) });
        }
        let asked = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IF_NONE_MATCH.as_str()));
        let unchanged = status == StatusCode::NOT_MODIFIED && asked;
        if !status.is_success() && !unchanged && !tolerated {
            return Err(FetchError::Refused { url, status: code, said: request.quoted(&body) });
        }
        match found.filter(|found| !body.is_empty() && !is_accepted(found, request.accepts)) {
            Some(found) => {
                let (found, expected) = (request.quoted(found.as_bytes()), request.accepts.join(" or "));
                Err(FetchError::Type { url, found, expected })
            }
            None => Ok(Reply { status: code, body, etag, skew }),
        }
    }

    async fn send(&self, request: &Request) -> Result<Response, FetchError> {
        let url = Url::parse(&request.url).map_err(|error| unusable(request, &error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unusable(request, &format!("`{}` is neither http nor https", url.scheme())));
        }
        let mut built = match &request.post {
            None => self.client.get(url),
            Some(post) => {
                let (kind, body) = match post {
                    Post::Json(text) => ("application/json", text),
                    Post::Form(text) => ("application/x-www-form-urlencoded", text),
                };
                self.client.post(url).header(CONTENT_TYPE, kind).body(body.clone())
            }
        };
        if !request.accepts.is_empty() {
            built = built.header(reqwest::header::ACCEPT, request.accepts.join(", "));
        }
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        built.send().await.map_err(|error| self.failed(request, error))
    }

    async fn body(&self, request: &Request, mut response: Response) -> Result<Vec<u8>, FetchError> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.failed(request, error))? {
            if body.len() + piece.len() > BODY_LIMIT {
                return Err(FetchError::TooLarge { url: request.shown(), limit: BODY_LIMIT });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    fn failed(&self, request: &Request, error: reqwest::Error) -> FetchError {
        let url = request.shown();
        // The address may contain secrets, and comes before the reason anyway.
        let error = error.without_url();
        if error.is_timeout() {
            FetchError::Timeout { url, limit: self.timeout }
        } else if error.is_builder() {
            FetchError::Request { url, reason: request.censored(&with_causes(&error)) }
        } else {
            FetchError::Transport { url, reason: request.censored(&with_causes(&error)) }
        }
    }
}

fn unusable(request: &Request, reason: &str) -> FetchError {
    FetchError::Request { url: request.shown(), reason: reason.to_owned() }
}

/// Allows redirects on the same host only, so that a token goes to no other host, and never from TLS to plain text.
fn same_host(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    let before = attempt.previous();
    let next = attempt.url();
    let elsewhere = before.last().is_none_or(|last| {
        last.host_str() != next.host_str() || (last.scheme() == "https" && next.scheme() != "https")
    });
    if elsewhere {
        return attempt.error("it redirects to another host: set that host as the base");
    }
    if before.len() > REDIRECT_LIMIT {
        return attempt.error("it redirects in a loop");
    }
    attempt.follow()
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn is_accepted(found: &str, accepts: &[&str]) -> bool {
    let media = found.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let alike = |wanted: &&str| {
        // `application/problem+json` is JSON, and `text/xml` is XML.
        let (_, kind) = wanted.split_once('/').unwrap_or(("", wanted));
        media == **wanted || media.ends_with(&format!("+{kind}")) || media == format!("text/{kind}")
    };
    accepts.is_empty() || accepts.iter().any(alike)
}

pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Parses the date of HTTP, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
fn http_date(text: &str) -> Option<Time> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Time::from_unix_ms(zoned.timestamp().as_millisecond()))
}

/// Returns the difference of clocks; `age` is the time for which the answer was in a cache.
fn skew(date: &str, age: Option<&str>, now: Time) -> Option<Span> {
    let age = age.and_then(|age| age.trim().parse::<u32>().ok()).unwrap_or(0);
    Some(http_date(date)? + Span::from_secs(i64::from(age)) - now)
}

/// Parses seconds or a date (RFC 9110, section 10.2.3).
fn pause_asked(text: &str, now: Time) -> Option<Duration> {
    let pause = match text.trim().parse::<u64>() {
        Ok(secs) => Duration::from_secs(secs),
        Err(_) => Duration::from_millis(u64::try_from((http_date(text)? - now).ms()).unwrap_or(0)),
    };
    Some(pause.min(LONGEST_PAUSE))
}

/// Returns the pause after `failures` failures in a row, 1 or more, randomized by `seed`.
pub fn pause_after(failures: u32, backoff: Backoff, seed: u64) -> Duration {
    backoff.scattered(failures, SplitMix64::seed_from_u64(seed).next_u64())
}

#[cfg(test)]
mod tests;
