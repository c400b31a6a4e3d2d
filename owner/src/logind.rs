//! The login manager of systemd, over D-Bus: the owner is there while a session of a user is active and not idle. Remote
//! sessions count, too.
//!
//! Signals of logind cause a question, once a second at most. It sends none when a session on a terminal becomes idle,
//! so it is asked from time to time.

use std::collections::HashMap;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use zbus::connection::Builder;
use zbus::export::futures_core::Stream;
use zbus::message::Type;
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, OwnedVariant};

use crate::error::OwnerError;
use crate::source::{Place, Source};

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";

/// Shortest interval between questions.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest interval between questions.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Most sessions that are looked at.
const MOST_SESSIONS: usize = 256;

/// Classes of sessions in which a person works. Jobs, services and greeters have others.
const PEOPLE: [&str; 3] = ["user", "user-early", "user-light"];

/// The login manager of one bus.
pub struct Logind {
    address: Option<String>,
    /// Runs only while the source waits.
    runtime: Runtime,
    bus: Option<Bus>,
    asked: Option<Instant>,
    told: Option<bool>,
}

/// Connection, with the task that takes signals.
struct Bus {
    connection: Connection,
    changed: Arc<Notify>,
    signals: JoinHandle<()>,
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.signals.abort();
    }
}

impl Logind {
    /// Makes the source; connects when it is first asked.
    ///
    /// # Errors
    /// If the kernel gives no descriptors.
    pub fn new(place: &Place) -> std::io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { address: place.bus.clone(), runtime, bus: None, asked: None, told: None })
    }

    /// Returns an error if the login manager does not answer.
    pub fn check(&mut self) -> Result<(), OwnerError> {
        let address = self.address.clone();
        self.runtime.block_on(async { Bus::connect(address.as_deref()).await?.is_owner_there().await }).map(drop)
    }
}

impl Bus {
    async fn connect(address: Option<&str>) -> Result<Self, OwnerError> {
        let builder = address.map_or_else(Builder::system, Builder::address);
        let connection = builder.method_timeout(LIMIT).build().await?;
        let rule = MatchRule::builder().msg_type(Type::Signal).sender(NAME).path_namespace(PATH).build()?;
        let mut stream = MessageStream::for_match_rule(rule, &connection, Some(NonZeroUsize::MIN)).await?;
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        // Answers wait behind signals that nobody takes.
        let signals = tokio::spawn(async move {
            while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
                notify.notify_one();
            }
            notify.notify_one();
        });
        Ok(Self { connection, changed, signals })
    }

    async fn is_owner_there(&self) -> Result<bool, OwnerError> {
        let interface = Some("org.freedesktop.login1.Manager");
        let answer = self.connection.call_method(Some(NAME), PATH, interface, "ListSessions", &()).await?;
        let body = answer.body();
        let sessions: Vec<(String, u32, String, String, OwnedObjectPath)> = body.deserialize()?;
        for (.., session) in sessions.iter().take(MOST_SESSIONS) {
            if self.is_in_use(session).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn is_in_use(&self, session: &OwnedObjectPath) -> Result<bool, OwnerError> {
        let interface = Some("org.freedesktop.DBus.Properties");
        let of = &"org.freedesktop.login1.Session";
        let answer = match self.connection.call_method(Some(NAME), session, interface, "GetAll", of).await {
            Ok(answer) => answer,
            // The session has ended meanwhile.
            Err(zbus::Error::MethodError(..) | zbus::Error::FDO(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let body = answer.body();
        let mut properties: HashMap<String, OwnedVariant> = body.deserialize()?;
        let mut text =
            |key: &str| properties.remove(key).and_then(|value| String::try_from(value).ok()).unwrap_or_default();
        let (class, state) = (text("Class"), text("State"));
        let is_idle = properties.remove("IdleHint").and_then(|value| bool::try_from(value).ok()).unwrap_or(false);
        Ok(PEOPLE.contains(&class.as_str()) && state == "active" && !is_idle)
    }
}

impl Source for Logind {
    fn next(&mut self) -> Result<bool, OwnerError> {
        let Self { address, runtime, bus, asked, told } = self;
        let result = runtime.block_on(async {
            let bus = match bus.take() {
                Some(known) => bus.insert(known),
                None => bus.insert(Bus::connect(address.as_deref()).await?),
            };
            loop {
                if let Some(asked) = *asked {
                    sleep_until(asked + PAUSE).await;
                }
                *asked = Some(Instant::now());
                let is_there = bus.is_owner_there().await?;
                if told.replace(is_there) != Some(is_there) {
                    return Ok(is_there);
                }
                tokio::select! {
                    () = bus.changed.notified() => {
                        if bus.signals.is_finished() {
                            return Err(OwnerError::Closed);
                        }
                    }
                    () = sleep(INTERVAL) => {}
                }
            }
        });
        if result.is_err() {
            self.bus = None;
        }
        result
    }
}
