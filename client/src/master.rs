//! Talking to a master: where it is, one question, one change. Keeps no connection between questions.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use limo_model::{Drawn, JobId, Profile, ProfileKey, Request, Reservation, Time};
use limo_proto::{
    Answer, Change, ChangeReport, ChangesQuery, ClientToMaster, Connection, ConnectionError, DryRun, MasterToClient,
    NodeDetail, NodeReport, Query, Role, Selection, Status, Undo, UndoReport, UsersReport,
};
use thiserror::Error;

use crate::backoff::{Backoff, Patience};
use crate::failure::Failure;

/// Where a master listens unless it is told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:6817";

/// A master that was just started listens within this time; one that is not there is said to be so soon.
const FIRST_PATIENCE: Patience = Patience(Duration::from_secs(1));

/// What a client receives and sends.
pub type ClientConnection = Connection<MasterToClient, ClientToMaster>;

/// The option by which each client names its master.
#[derive(Debug, Clone, clap::Args)]
pub struct MasterArg {
    /// Where the master listens
    #[arg(long, env = "LIMO_MASTER", value_name = "HOST:PORT", default_value = DEFAULT_ADDRESS, hide_env_values = true)]
    #[arg(global = true, help_heading = "General")]
    pub master: Master,
}

/// A master by its address, `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    address: String,
}

/// Why a text is no address of a master.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not an address: write HOST:PORT, for example {DEFAULT_ADDRESS}")]
pub struct AddressError {
    text: String,
}

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum AskError {
    #[error("cannot find the master at {address}: {source}")]
    Lookup { address: String, source: std::io::Error },
    #[error(
        "the master at {address} ({found}) is not on this machine: without certificates Limo speaks only over loopback"
    )]
    NotLoopback { address: String, found: SocketAddr },
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the master closed the connection before it answered")]
    Closed,
    #[error("{reason}")]
    Refused { reason: String, hint: Option<String> },
    #[error("the master answered something else than was asked: {0}")]
    Unexpected(String),
}

impl AskError {
    /// Whether the master could not be reached or went away, so that asking again later may help.
    pub fn is_absence(&self) -> bool {
        use ConnectionError::{Closed, Connect, Io, Silent};
        matches!(self, Self::Closed | Self::Connection(Connect { .. } | Io(_) | Closed | Silent))
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        let failure = Self::new(&error);
        match error {
            AskError::Refused { hint: Some(hint), .. } => failure.hint(hint),
            AskError::Connection(ConnectionError::Connect { .. }) => {
                failure.hint("is lmaster running there? LIMO_MASTER or --master names another address")
            }
            AskError::Lookup { .. } | AskError::NotLoopback { .. } => {
                failure.hint(format_args!("LIMO_MASTER or --master names it, for example {DEFAULT_ADDRESS}"))
            }
            _ => failure,
        }
    }
}

impl FromStr for Master {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts = text.rsplit_once(':');
        match parts.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)) {
            Some(_) => Ok(Self { address: text.to_owned() }),
            None => Err(AddressError { text: text.to_owned() }),
        }
    }
}

impl Master {
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A connection as a client.
    ///
    /// # Errors
    /// [`AskError`] where the master is not on this machine, cannot be reached, or speaks another version.
    pub async fn connect(&self) -> Result<ClientConnection, AskError> {
        let found = tokio::net::lookup_host(&self.address)
            .await
            .map_err(|source| AskError::Lookup { address: self.address.clone(), source })?;
        let mut last = Err(AskError::Closed);
        for address in found {
            if !address.ip().is_loopback() {
                return Err(AskError::NotLoopback { address: self.address.clone(), found: address });
            }
            last = limo_proto::connect(&address.to_string(), Role::Client).await.map_err(AskError::from);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// The first connection of a program: for a moment it is tried again, so that a master that is just being started
    /// or restarted is not missed.
    ///
    /// # Errors
    /// As [`Master::connect`], after that moment.
    pub async fn first_connect(&self) -> Result<ClientConnection, AskError> {
        let mut backoff = Backoff::new(FIRST_PATIENCE);
        let mut pause = Duration::ZERO;
        loop {
            match self.connect().await {
                Err(error) if error.is_absence() => match backoff.pause(pause) {
                    Some(next) => pause = next,
                    None => return Err(error),
                },
                result => return result,
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// One question and its answer.
    ///
    /// # Errors
    /// [`AskError`]; `Refused` carries the master's reason.
    pub async fn ask(&self, query: Query) -> Result<Answer, AskError> {
        self.exchange(ClientToMaster::Ask(Box::new(query))).await
    }

    /// One change, which is on disk and in force when this returns.
    ///
    /// # Errors
    /// As [`Master::ask`].
    pub async fn change(&self, change: Change) -> Result<(), AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(change))).await? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends jobs, or sends them a signal; returns which. On disk and in force as [`Master::change`].
    ///
    /// # Errors
    /// As [`Master::ask`].
    pub async fn cancel(&self, selection: Selection, signal: Option<i32>) -> Result<Vec<JobId>, AskError> {
        let change = Change::CancelSelected { selection, signal };
        match self.exchange(ClientToMaster::ChangeConf(Box::new(change))).await? {
            Answer::Selected(jobs) => Ok(jobs),
            other => Err(unexpected(&other)),
        }
    }

    async fn exchange(&self, message: ClientToMaster) -> Result<Answer, AskError> {
        self.session().await?.exchange(message).await
    }
}

/// A list of which the master sent several pieces.
pub(crate) fn joined(pieces: Vec<Answer>, mut last: Answer) -> Answer {
    for piece in pieces.into_iter().rev() {
        match (piece, &mut last) {
            (Answer::Jobs(before), Answer::Jobs(after)) => drop(after.splice(0..0, before)),
            (Answer::JobsUpTo { jobs: before, .. }, Answer::JobsUpTo { jobs: after, .. }) => {
                drop(after.splice(0..0, before));
            }
            (Answer::Profiles(before), Answer::Profiles(after)) => drop(after.splice(0..0, before)),
            (Answer::Nodes(before), Answer::Nodes(after)) => drop(after.splice(0..0, before)),
            (Answer::Selected(before), Answer::Selected(after)) => drop(after.splice(0..0, before)),
            (Answer::History { jobs: before, .. }, Answer::History { jobs: after, .. }) => {
                drop(after.splice(0..0, before));
            }
            (Answer::Changes { changes: before, .. }, Answer::Changes { changes: after, .. }) => {
                drop(after.splice(0..0, before));
            }
            (Answer::Readings { intervals: before, .. }, Answer::Readings { intervals: after, .. }) => {
                drop(after.splice(0..0, before));
            }
            // Nothing else is sent in pieces.
            _ => {}
        }
    }
    last
}

/// The questions, each with the type of its answer. Errors as [`Master::ask`].
impl Master {
    pub async fn nodes(&self) -> Result<Vec<NodeReport>, AskError> {
        match self.ask(Query::Nodes).await? {
            Answer::Nodes(nodes) => Ok(nodes),
            other => Err(unexpected(&other)),
        }
    }

    /// Reservations that are not over, by name.
    pub async fn reservations(&self) -> Result<Vec<(String, Reservation)>, AskError> {
        match self.ask(Query::Reservations).await? {
            Answer::Reservations(reservations) => Ok(reservations),
            other => Err(unexpected(&other)),
        }
    }

    /// What operators changed, newest first, and whether there is more.
    pub async fn changes(&self, query: ChangesQuery) -> Result<(Vec<ChangeReport>, bool), AskError> {
        match self.ask(Query::Changes(query)).await? {
            Answer::Changes { changes, more } => Ok((changes, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets back what an operator changed.
    pub async fn undo(&self, undo: Undo) -> Result<UndoReport, AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(Change::Undo(undo)))).await? {
            Answer::Undone(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    /// One node, with what it says of itself.
    pub async fn node(&self, name: String) -> Result<NodeDetail, AskError> {
        match self.ask(Query::Node(name)).await? {
            Answer::Node(detail) => Ok(*detail),
            other => Err(unexpected(&other)),
        }
    }

    /// What a node drew, or the cluster, in the intervals that begin in `[from, until)`, and whether that is emulated.
    pub async fn readings(
        &self,
        node: Option<String>,
        (from, until): (Time, Time),
    ) -> Result<(bool, Vec<Drawn>), AskError> {
        match self.ask(Query::Readings { node, from, until }).await? {
            Answer::Readings { emulated, intervals } => Ok((emulated, intervals)),
            other => Err(unexpected(&other)),
        }
    }

    pub async fn status(&self) -> Result<Status, AskError> {
        match self.ask(Query::Status).await? {
            Answer::Status(status) => Ok(*status),
            other => Err(unexpected(&other)),
        }
    }

    pub async fn profiles(&self) -> Result<Vec<(ProfileKey, Profile)>, AskError> {
        match self.ask(Query::Profiles).await? {
            Answer::Profiles(profiles) => Ok(profiles),
            other => Err(unexpected(&other)),
        }
    }

    /// What is known of users.
    ///
    /// # Errors
    /// As [`Master::ask`].
    pub async fn users(&self) -> Result<UsersReport, AskError> {
        match self.ask(Query::Users).await? {
            Answer::Users(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    pub async fn dry_run(&self, request: Request) -> Result<DryRun, AskError> {
        match self.ask(Query::DryRun(Box::new(request))).await? {
            Answer::DryRun(result) => Ok(*result),
            other => Err(unexpected(&other)),
        }
    }
}

/// Long answers are cut: the first words say which kind it is.
pub(crate) fn unexpected(found: &impl std::fmt::Debug) -> AskError {
    AskError::Unexpected(format!("{found:?}").chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order() {
        let key =
            |name: &str| ProfileKey { application: name.into(), size: String::new(), hardware: "x".into(), cap: None };
        let (duration, power) = (limo_model::Span::from_secs(1), limo_model::Power::from_watts(1));
        let source = limo_model::EstimateSource::Imported;
        let profile = Profile { duration, power, energy: power * duration, spread_permille: 0, runs: 1, source };
        let piece = |names: &[&str]| Answer::Profiles(names.iter().map(|name| (key(name), profile)).collect());
        assert_eq!(joined(vec![piece(&["a", "b"]), piece(&["c"])], piece(&["d"])), piece(&["a", "b", "c", "d"]));
    }

    #[test]
    fn addresses() {
        for good in ["127.0.0.1:6817", "localhost:1", "[::1]:6817"] {
            assert_eq!(good.parse::<Master>().map(|master| master.address), Ok(good.to_owned()));
        }
        for bad in ["", "localhost", ":6817", "host:", "host:0", "host:65536"] {
            let error = bad.parse::<Master>().expect_err(bad).to_string();
            assert_eq!(error, format!("`{bad}` is not an address: write HOST:PORT, for example 127.0.0.1:6817"));
        }
    }

    #[tokio::test]
    async fn a_master_elsewhere_is_refused_before_anything_is_sent() {
        let master: Master = "192.0.2.1:6817".parse().expect("an address");
        let Err(error) = master.connect().await else { panic!("connected to a documentation address") };
        assert_eq!(
            error.to_string(),
            "the master at 192.0.2.1:6817 (192.0.2.1:6817) is not on this machine: without certificates Limo speaks only \
             over loopback"
        );
        assert!(!error.is_absence(), "trying again does not help");
    }
}
