//! VEN of OpenADR 3.1: polls a VTN for the events of a program. Each valid answer is a message. [`wire`] has the parts
//! of an event that count, and [`events`] interprets them.
//!
//! Every exchange goes through [`Fetcher`], which has limits. After a failure a new token is requested, since a server
//! may have forgotten the old one before its end.

mod events;
mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limo_model::{Power, Time};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::limit::Word;
use super::teller::{Deaf, SecretError, Teller, another_clock, pause, private};
use crate::fetch::{FetchError, Fetcher, Post, Reply, Request, is_skewed, now};
pub use events::{EventError, Reading};
use wire::Event;

/// Events in a request; the maximum of the specification.
const PAGE: usize = 50;

/// Most pages. A program with more events steers no cluster, and a server's list may never end.
const PAGES: usize = 20;

/// VTN and credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAdr {
    /// Address of the API, without `/programs` or `/events`.
    pub url: String,
    /// Address for tokens; `/auth/token` on the host of `url` by default.
    pub token_url: Option<String>,
    /// TOML file with `client_id` and `client_secret`; without it no token is requested.
    pub credentials: Option<PathBuf>,
    /// Program whose events count; by default those of all programs that the VTN shows.
    pub program: Option<String>,
    /// Upper limit during an alert of a grid emergency.
    pub emergency_high: Power,
    /// Interval between requests.
    pub poll: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    client_id: String,
    client_secret: String,
}

/// Reason why there is no message.
#[derive(Debug, Error)]
enum VenError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{} has no credentials: write the lines `client_id = \"...\"` and `client_secret = \"...\"`", path.display())]
    Credentials { path: PathBuf },
    #[error("`{url}` is not an address: {reason}")]
    Address { url: String, reason: String },
    #[error("`{program}` is not the id of a program: use at most 128 letters, digits, `-` and `_`")]
    Program { program: String },
    #[error("{url}: the answer is not OpenADR 3.1: {reason}")]
    Protocol { url: String, reason: String },
    #[error("{url}: the token has the type `{kind}` instead of Bearer")]
    TokenType { url: String, kind: String },
    #[error("{url}: more than {} events", PAGE * PAGES)]
    Many { url: String },
}

/// Lifetime of a token whose server states none.
const TOKEN_LIFE: Duration = Duration::from_secs(3_600);

/// Most characters of a server's word in a fault.
const SHOWN: usize = 80;

/// Polls until the receiver is closed.
pub async fn run(ven: OpenAdr, fetcher: Fetcher, teller: Teller) {
    let url = Request::get(&ven.url).shown();
    let mut session = Session { ven: &ven, fetcher, token: None, skewed: false };
    let mut failures = 0;
    loop {
        let rest = match session.events().await {
            Ok(events) => {
                failures = 0;
                let reading = events::read(&events, ven.emergency_high, now());
                if told(&teller, reading, session.skewed, &url).await.is_err() {
                    return;
                }
                ven.poll
            }
            Err(error) => {
                failures += 1;
                session.token = None;
                if teller.tell(Word::Fault(error.to_string())).await.is_err() {
                    return;
                }
                pause(failures, ven.poll, if let VenError::Fetch(error) = &error { Some(error) } else { None })
            }
        };
        tokio::time::sleep(rest).await;
    }
}

/// Reads an answer of a VTN with events; `emergency` is the upper limit during an alert.
///
/// # Errors
/// If the answer is not a list of events of OpenADR 3.1.
pub fn read(answer: &[u8], emergency: Power, now: Time) -> Result<Reading, serde_json::Error> {
    Ok(events::read(&serde_json::from_slice::<Vec<Event>>(answer)?, emergency, now))
}

async fn told(teller: &Teller, reading: Reading, skewed: bool, url: &str) -> Result<(), Deaf> {
    teller.tell(Word::Limits(reading.limits)).await?;
    // The fault is reported in addition to the limits, which still count.
    if let Some(fault) = reading.faults.first() {
        teller.tell(Word::Fault(format!("{url}: {fault}"))).await?;
    } else if skewed {
        teller.tell(Word::Fault(another_clock(url))).await?;
    }
    Ok(())
}

/// Answer to the request for a token (RFC 6749, section 5.1).
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    expires_in: Option<u32>,
}

struct BearerToken {
    text: String,
    until: Instant,
}

/// Exchanges with the VTN.
struct Session<'a> {
    ven: &'a OpenAdr,
    fetcher: Fetcher,
    token: Option<BearerToken>,
    /// The clock of the VTN differs too much from this machine's.
    skewed: bool,
}

impl Session<'_> {
    async fn events(&mut self) -> Result<Vec<Event>, VenError> {
        let base = address(&self.ven.url)?;
        let filter = match &self.ven.program {
            Some(program) if is_program(program) => format!("&programID={program}"),
            Some(program) => return Err(VenError::Program { program: program.clone() }),
            None => String::new(),
        };
        self.authenticate(&base).await?;
        let mut events = Vec::new();
        for page in 0..PAGES {
            let place = format!("skip={}&limit={PAGE}", page * PAGE);
            let url = format!("{}/events?{place}{filter}", self.ven.url.trim_end_matches('/'));
            let mut request = Request::get(url);
            if let Some(token) = &self.token {
                request = request.with_header("authorization", format!("Bearer {}", token.text)).hiding(&token.text);
            }
            let found: Vec<Event> = self.ask(request).await?;
            let last = found.len() < PAGE;
            events.extend(found);
            if last {
                return Ok(events);
            }
        }
        Err(VenError::Many { url: Request::get(&self.ven.url).shown() })
    }

    /// Requests a token unless there is a valid one or none is needed.
    async fn authenticate(&mut self, base: &Url) -> Result<(), VenError> {
        let Some(path) = &self.ven.credentials else { return Ok(()) };
        if self.token.as_ref().is_some_and(|token| Instant::now() < token.until) {
            return Ok(());
        }
        let url = match &self.ven.token_url {
            Some(url) => address(url)?,
            None => base
                .join("/auth/token")
                .map_err(|error| VenError::Address { url: self.ven.url.clone(), reason: error.to_string() })?,
        };
        let Credentials { client_id, client_secret } = credentials(path)?;
        let basic = STANDARD.encode(format!("{client_id}:{client_secret}"));
        let request = Request::get(url)
            .with_header("authorization", format!("Basic {basic}"))
            .hiding(&client_secret)
            .hiding(&basic)
            .posting(Post::Form("grant_type=client_credentials".into()));
        let shown = request.shown();
        let asked = Instant::now();
        let Granted { access_token, token_type, expires_in } = self.ask(request).await?;
        if !token_type.eq_ignore_ascii_case("bearer") {
            return Err(VenError::TokenType { url: shown, kind: token_type.chars().take(SHOWN).collect() });
        }
        let life = expires_in.map_or(TOKEN_LIFE, |secs| Duration::from_secs(u64::from(secs)));
        self.token = Some(BearerToken { text: access_token, until: asked + life });
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, VenError> {
        let request = request.accepting(&["application/json"]);
        let Reply { body, skew, .. } = self.fetcher.fetch(&request).await?;
        self.skewed = is_skewed(skew);
        // The reason has a position, and never more of the answer than the name or the value of one member.
        let unreadable =
            |error: serde_json::Error| VenError::Protocol { url: request.shown(), reason: error.to_string() };
        serde_json::from_slice(&body).map_err(unreadable)
    }
}

/// Parses the address of an API.
fn address(text: &str) -> Result<Url, VenError> {
    let refused = |reason: String| VenError::Address { url: text.to_owned(), reason };
    let url = Url::parse(text).map_err(|error| refused(error.to_string()))?;
    if url.cannot_be_a_base() { Err(refused("it cannot have a path".into())) } else { Ok(url) }
}

/// Returns true for an id as the specification allows it.
fn is_program(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&text.len()) && text.bytes().all(allowed)
}

fn credentials(path: &Path) -> Result<Credentials, VenError> {
    let text = private(path)?;
    // The parser's reason would show the secret text.
    toml::from_str(&text).map_err(|_| VenError::Credentials { path: path.to_owned() })
}
