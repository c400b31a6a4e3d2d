//! VEN of OpenADR 3.1: polls a VTN for the events of a program. Each valid answer is a message. [`events`] interprets
//! the events.
//!
//! The protocol's client has no limits of its own; every exchange goes through [`Fetcher`], which has them. After a
//! failure a new token is requested, since a server may have forgotten the old one before its end.

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
    #[error("{url}: more than {} events", PAGE * PAGES)]
    Many { url: String },
}

/// Polls until the receiver is closed.
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
    // The fault is reported in addition to the limits, which still count.
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
        // A trailing slash makes a relative `events` append to the address.
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
    // The parser's reason would show the secret text.
    let found: Credentials = toml::from_str(&text).map_err(|_| VenError::Credentials { path: path.to_owned() })?;
    let mut credentials = ClientCredentials::new(found.client_id, found.client_secret);
    // The client subtracts this margin from the lifetime of a token, which may be shorter than the default margin.
    credentials.refresh_margin = Duration::ZERO;
    Ok(credentials)
}

/// Result of the last exchange.
#[derive(Debug, Default)]
struct Outcome {
    error: Option<FetchError>,
    skew: Option<Span>,
}

/// HTTP for the protocol's client, with the limits of [`Fetcher`].
#[derive(Debug, Clone)]
struct Guard {
    fetcher: Fetcher,
    outcome: Arc<Mutex<Outcome>>,
    /// Address of the request, without secrets.
    url: String,
}

impl Guard {
    fn is_skewed(&self) -> bool {
        is_skewed(self.outcome.lock().unwrap_or_else(PoisonError::into_inner).skew)
    }

    /// Returns the reason why the client failed: the error of its exchange, if there was one.
    fn reason(&self, error: &openleadr_client::Error) -> VenError {
        let happened = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).error.take();
        match (happened, error) {
            (Some(error), _) => error.into(),
            (None, openleadr_client::Error::Reqwest(error)) => {
                // For unexpected JSON, the cause has the reason.
                let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
                VenError::Protocol { url: self.url.clone(), reason: cause }
            }
            (None, other) => VenError::Protocol { url: self.url.clone(), reason: other.to_string() },
        }
    }

    async fn exchange(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        let request = request.build()?;
        // Secrets are in headers, not in addresses.
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
            // The client must see a failure, but its own error is ignored.
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

/// This has the form that `async_trait` generates.
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
