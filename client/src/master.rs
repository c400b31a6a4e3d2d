//! Talking to a master: where it is, one question, one change. Keeps no connection between questions.

use std::net::SocketAddr;
use std::time::Duration;

use limo_model::{Drawn, JobId, Profile, ProfileKey, Request, Reservation, Time};
use limo_proto::{
    Answer, Asking, Change, ClientToMaster, Connection, ConnectionError, DryRun, DryRunQuery, EndpointError,
    MasterToClient, NodeDetail, NodeQuery, NodeReport, NodesQuery, ProfilesQuery, ReadingsQuery, ReadingsReport,
    ReservationsQuery, Role, Selection, Status, StatusQuery, TooLarge, Undo, UndoReport, UsersQuery, UsersReport,
};
use thiserror::Error;

use crate::backoff::{Patience, Retries};
use crate::failure::Failure;
use crate::hosts::in_order;
use crate::location::{EXAMPLE_ADDRESS, Master};
use crate::table::plain;

/// A master that was just started listens within this time; one that is not there is said to be so soon.
const FIRST_PATIENCE: Patience = Patience(Duration::from_secs(1));

/// What a client receives and sends.
pub type ClientConnection = Connection<MasterToClient, ClientToMaster>;

/// Why a question has no answer.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum AskError {
    #[error("cannot find the master at {address}: {source}")]
    Lookup { address: String, source: std::io::Error },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(
        "the master at {address} ({found}) is not on this machine: without certificates Limo speaks only over loopback"
    )]
    NotLoopback { address: String, found: SocketAddr },
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("that is too much for one request: {0}")]
    TooLarge(#[from] TooLarge),
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
        matches!(self, Self::Closed | Self::Connection(Connect { .. } | Io(_) | Closed | Silent(_)))
    }

    /// Returns whether somebody else listens where the master was expected. Nothing but a greeting was sent there.
    pub fn is_impostor(&self) -> bool {
        use ConnectionError::{Impostor, Place, Unidentified};
        matches!(self, Self::Connection(Impostor { .. } | Place { .. } | Unidentified { .. }))
    }

    /// Returns whether a master that was there before may answer later: it is away, or somebody took its place meanwhile.
    pub fn may_pass(&self) -> bool {
        self.is_absence() || self.is_impostor()
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        // A reason may contain text that another user has chosen. It stays on one line.
        let failure = Self::new(plain(&error.to_string()));
        match error {
            AskError::Refused { hint: Some(hint), .. } => failure.hint(plain(&hint)),
            AskError::Connection(ConnectionError::Connect { .. }) => {
                failure.hint("is lmaster running there? LIMO_MASTER or --master names another address")
            }
            AskError::Connection(ConnectionError::Impostor { .. }) => {
                failure.hint("if that user runs your lmaster, name it by LIMO_MASTER_USER or --master-user")
            }
            AskError::Lookup { .. } | AskError::NotLoopback { .. } | AskError::Endpoint(_) => {
                failure.hint(format_args!("LIMO_MASTER or --master names it, for example {EXAMPLE_ADDRESS}"))
            }
            _ => failure,
        }
    }
}

impl Master {
    /// A connection as a client.
    ///
    /// # Errors
    /// [`AskError`] if the master is not on this machine, cannot be reached, speaks another version, or somebody else
    /// listens in its place.
    pub async fn connect(&self) -> Result<ClientConnection, AskError> {
        let mut last = Err(AskError::Closed);
        for endpoint in self.endpoints().await? {
            last = limo_proto::connect(&endpoint, Role::Client, &self.trusted()).await.map_err(AskError::from);
            if last.is_ok() {
                self.settle(endpoint);
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
        let mut backoff = Retries::new(FIRST_PATIENCE);
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
    pub async fn ask<Q: Asking>(&self, query: Q) -> Result<Q::Answer, AskError> {
        self.session().await?.ask(query).await
    }

    /// One change, which is on disk and in force when this returns.
    ///
    /// # Errors
    /// As [`Master::ask`].
    pub async fn change(&self, change: Change) -> Result<(), AskError> {
        self.change_warned(change).await.map(drop)
    }

    /// Makes a change; returns the warnings about it.
    pub async fn change_warned(&self, change: Change) -> Result<Vec<String>, AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(change))).await? {
            Answer::Done => Ok(Vec::new()),
            Answer::Warned(warnings) => Ok(warnings),
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

/// The questions, each with the type of its answer. Errors as [`Master::ask`].
impl Master {
    /// All nodes, in the order of their names, where a number in a name counts as a number.
    pub async fn nodes(&self) -> Result<Vec<NodeReport>, AskError> {
        Ok(in_order(self.ask(NodesQuery).await?, |node| &node.name))
    }

    /// Reservations that are not over, by name.
    pub async fn reservations(&self) -> Result<Vec<(String, Reservation)>, AskError> {
        self.ask(ReservationsQuery).await
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
        self.ask(NodeQuery(name)).await
    }

    /// What a node drew, or the cluster, in the intervals that begin in `[from, until)`, and whether that is emulated.
    pub async fn readings(
        &self,
        node: Option<String>,
        (from, until): (Time, Time),
    ) -> Result<(bool, Vec<Drawn>), AskError> {
        let ReadingsReport { emulated, intervals } = self.ask(ReadingsQuery { node, from, until }).await?;
        Ok((emulated, intervals))
    }

    /// The state of the cluster: limits, prices, policy, draw and counts.
    pub async fn status(&self) -> Result<Status, AskError> {
        self.ask(StatusQuery).await
    }

    /// All profiles that the master uses for estimates.
    pub async fn profiles(&self) -> Result<Vec<(ProfileKey, Profile)>, AskError> {
        self.ask(ProfilesQuery).await
    }

    /// What is known of users.
    ///
    /// # Errors
    /// As [`Master::ask`].
    pub async fn users(&self) -> Result<UsersReport, AskError> {
        self.ask(UsersQuery).await
    }

    /// The candidates of a request and its reason to wait, if it were submitted now. Nothing is submitted.
    pub async fn dry_run(&self, request: Request) -> Result<DryRun, AskError> {
        self.ask(DryRunQuery(Box::new(request))).await
    }
}

/// Long answers are cut: the first words say which kind it is.
pub(crate) fn unexpected(found: &impl std::fmt::Debug) -> AskError {
    AskError::Unexpected(format!("{found:?}").chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_master_elsewhere_is_refused_before_anything_is_sent() {
        let master = Master::at("192.0.2.1:6817").expect("an address");
        let Err(error) = master.connect().await else { panic!("connected to a documentation address") };
        assert_eq!(
            error.to_string(),
            "the master at 192.0.2.1:6817 (192.0.2.1:6817) is not on this machine: without certificates Limo speaks only \
             over loopback"
        );
        assert!(!error.is_absence(), "trying again does not help");
    }
}
