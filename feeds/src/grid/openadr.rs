//! A VEN of OpenADR 3.1: asks a VTN for the events of a program again and again. Each answer that can be read is a word.
//! What events mean is in [`events`].
//!
//! The client of the protocol has no limits of its own; every exchange goes through [`Fetcher`], which has them. After a
//! failure the token is asked for again, since a server may have forgotten it before it ended.

mod events;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::http;
use limo_model::{Power, Span};
use openleadr_client::{Client, ClientCredentials, EventClient, Filter, HttpClient, PaginationOptions, VirtualEndNode};
use openleadr_wire::program::ProgramId;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Deserialize;
use thiserror::Error;

use super::limit::Word;
use super::teller::{Deaf, SecretError, Teller, another_clock, pause, private};
use crate::fetch::{FetchError, Fetcher, Reply, Request, is_skewed, now};
use events::Reading;

/// Events that are asked for at once, which is what the specification has for the most.
const PAGE: usize = 50;

/// A program of more events steers no cluster; a server that never ends its list must not be followed.
const PAGES: usize = 20;

/// Where the VTN is, and who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAdr {
    /// Up to and without `/programs` and `/events`.
    pub url: String,
    /// Where tokens are had; without it `/auth/token` of the host of `url`.
    pub token_url: Option<String>,
    /// TOML with `client_id` and `client_secret`; without it nobody is asked for a token.
    pub credentials: Option<PathBuf>,
    /// The program whose events count; without it those of all programs that the VTN shows.
    pub program: Option<String>,
    /// Upper limit during an alert of a grid emergency.
    pub emergency_high: Power,
    /// Between two requests.
    pub poll: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    client_id: String,
    client_secret: String,
}

/// Why there is no word.
#[derive(Debug, Error)]
enum VenError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{} holds no credentials: write the lines `client_id = \"...\"` and `client_secret = \"...\"`", path.display())]
    Credentials { path: PathBuf },
    #[error("`{url}` is no address: {reason}")]
    Address { url: String, reason: String },
    #[error("`{program}` is no id of a program: letters, digits, `-` and `_`, at most 128")]
    Program { program: String },
    #[error("{url}: the answer is not OpenADR 3.1: {reason}")]
    Protocol { url: String, reason: String },
    #[error("{url}: more than {} events", PAGE * PAGES)]
    Many { url: String },
}

/// Asks until nobody listens.
pub async fn run(ven: OpenAdr, fetcher: Fetcher, teller: Teller) {
    let guard = Guard { fetcher, outcome: Arc::default(), url: Request::get(&ven.url).shown() };
    let mut session = None;
    let mut failures = 0;
    loop {
        let rest = match ven.ask(&guard, &mut session).await {
            Ok(events) => {
                failures = 0;
                let reading = events::read(&events, ven.emergency_high, now());
                if told(&teller, reading, guard.is_skewed(), &guard.url).await.is_err() {
                    return;
                }
                ven.poll
            }
            Err(error) => {
                failures += 1;
                session = None;
                if teller.tell(Word::Fault(error.to_string())).await.is_err() {
                    return;
                }
                pause(failures, ven.poll, if let VenError::Fetch(error) = &error { Some(error) } else { None })
            }
        };
        tokio::time::sleep(rest).await;
    }
}

async fn told(teller: &Teller, reading: Reading, skewed: bool, url: &str) -> Result<(), Deaf> {
    teller.tell(Word::Limits(reading.limits)).await?;
    // Beside the limits, which still count.
    if let Some(fault) = reading.faults.first() {
        teller.tell(Word::Fault(format!("{url}: {fault}"))).await?;
    } else if skewed {
        teller.tell(Word::Fault(another_clock(url))).await?;
    }
    Ok(())
}

type Session = Client<VirtualEndNode>;

impl OpenAdr {
    async fn ask(
        &self,
        guard: &Guard,
        session: &mut Option<Session>,
    ) -> Result<Vec<EventClient<VirtualEndNode>>, VenError> {
        let program = match &self.program {
            Some(text) => Some(ProgramId::new(text).ok_or_else(|| VenError::Program { program: text.clone() })?),
            None => None,
        };
        let client = match session {
            Some(client) => client,
            none => none.insert(self.session(guard)?),
        };
        let mut events = Vec::new();
        for page in 0..PAGES {
            let place = PaginationOptions { skip: page * PAGE, limit: PAGE };
            let found = client.get_events(program.as_ref(), Filter::none(), place).await;
            let found = found.map_err(|error| guard.reason(&error))?;
            let last = found.len() < PAGE;
            events.extend(found);
            if last {
                return Ok(events);
            }
        }
        Err(VenError::Many { url: guard.url.clone() })
    }

    fn session(&self, guard: &Guard) -> Result<Session, VenError> {
        let address = |text: &str| {
            let parsed = Url::parse(text).map_err(|error| error.to_string());
            let parsed = parsed
                .and_then(|url| if url.cannot_be_a_base() { Err("it cannot have a path".to_owned()) } else { Ok(url) });
            parsed.map_err(|reason| VenError::Address { url: text.to_owned(), reason })
        };
        // With a slash at its end, so that `events` becomes part of it.
        let base = address(&format!("{}/", self.url.trim_end_matches('/')))?;
        let tokens = match &self.token_url {
            Some(url) => address(url)?,
            None => base
                .join("/auth/token")
                .map_err(|error| VenError::Address { url: self.url.clone(), reason: error.to_string() })?,
        };
        let credentials = self.credentials.as_deref().map(credentials).transpose()?;
        Ok(Client::with_http_client(base, tokens, Box::new(guard.clone()), credentials))
    }
}

fn credentials(path: &Path) -> Result<ClientCredentials, VenError> {
    let text = private(path)?;
    // The reason would show the text.
    let found: Credentials = toml::from_str(&text).map_err(|_| VenError::Credentials { path: path.to_owned() })?;
    let mut credentials = ClientCredentials::new(found.client_id, found.client_secret);
    // The client subtracts the margin from the life of a token, and a life may be shorter than any margin.
    credentials.refresh_margin = Duration::ZERO;
    Ok(credentials)
}

/// What became of the last exchange.
#[derive(Debug, Default)]
struct Outcome {
    error: Option<FetchError>,
    skew: Option<Span>,
}

/// The HTTP of the protocol's client, with the limits of [`Fetcher`].
#[derive(Debug, Clone)]
struct Guard {
    fetcher: Fetcher,
    outcome: Arc<Mutex<Outcome>>,
    /// As it may be shown.
    url: String,
}

impl Guard {
    fn is_skewed(&self) -> bool {
        is_skewed(self.outcome.lock().unwrap_or_else(PoisonError::into_inner).skew)
    }

    /// Why the client failed: what happened to its exchange, where something did.
    fn reason(&self, error: &openleadr_client::Error) -> VenError {
        let happened = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).error.take();
        match (happened, error) {
            (Some(error), _) => error.into(),
            (None, openleadr_client::Error::Reqwest(error)) => {
                // Where the JSON is not what was expected, the cause says so.
                let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
                VenError::Protocol { url: self.url.clone(), reason: cause }
            }
            (None, other) => VenError::Protocol { url: self.url.clone(), reason: other.to_string() },
        }
    }

    async fn exchange(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        let request = request.build()?;
        // The secrets are in headers and in no address.
        let shown = Request::get(request.url().as_str()).accepting(&["application/json"]);
        let sent = now();
        let taken = match self.fetcher.client().execute(request).await {
            Ok(response) => self.fetcher.taken(&shown, sent, response).await,
            Err(error) => Err(self.fetcher.failed(&shown, error)),
        };
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, body) = match taken {
            Ok(Reply { status, body, skew, .. }) => {
                *outcome = Outcome { error: None, skew };
                (status, body)
            }
            // The client must not take it for an answer; what it makes of it is not looked at.
            Err(error) => {
                outcome.error = Some(error);
                (500, Vec::new())
            }
        };
        let mut response = http::Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
        Ok(response.into())
    }
}

/// Written out as `async_trait` would.
impl HttpClient for Guard {
    fn request_builder(&self, method: Method, url: Url) -> RequestBuilder {
        self.fetcher.client().request(method, url)
    }

    fn send<'me, 'all>(
        &'me self,
        request: RequestBuilder,
    ) -> Pin<Box<dyn Future<Output = reqwest::Result<Response>> + Send + 'all>>
    where
        'me: 'all,
        Self: 'all,
    {
        Box::pin(self.exchange(request))
    }
}
