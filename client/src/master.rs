//! Connects to a master, and makes one query or one change. Keeps no connection between calls.

use std::net::SocketAddr;
use std::time::Duration;

use limo_model::{Drawn, Factor, JobId, Profile, ProfileKey, Request, Reservation, Time, UnitName};
use limo_proto::{
    Answer, Asking, Change, ClientToMaster, Connection, ConnectionError, DryRun, DryRunQuery, EndpointError,
    ExchangeError, GroupReport, GroupsQuery, MasterToClient, NodeDetail, NodeQuery, NodeReport, NodesQuery,
    PredictorQuery, PredictorReport, ProfilesQuery, QueueReport, QueuesQuery, ReadingsQuery, ReadingsReport,
    ReservationsQuery, Role, Selection, Status, StatusQuery, TooLarge, Undo, UndoReport, UsersQuery, UsersReport,
    VariationQuery,
};
use thiserror::Error;
use tokio::time::Instant;

use crate::backoff::{Patience, Retries};
use crate::failure::Failure;
use crate::hosts::in_order;
use crate::location::{EXAMPLE_ADDRESS, Master};
use crate::table::plain;

/// Longest wait for a master that is being started. An absent one is reported soon.
const FIRST_PATIENCE: Patience = Patience(Duration::from_secs(1));

/// Connection of a client to its master.
pub type ClientConnection = Connection<MasterToClient, ClientToMaster>;

/// Error of a question to the master.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum AskError {
    #[error("cannot find the master at {address}: {source}")]
    Lookup { address: String, source: std::io::Error },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(
        "the master at {address} ({found}) is on another machine: without certificates Limo connects only over loopback"
    )]
    NotLoopback { address: String, found: SocketAddr },
    #[error("the master at {address} is on this machine: a machine joins a master at tls://HOST:PORT")]
    NotOverTls { address: String },
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the request is too large: {0}")]
    TooLarge(#[from] TooLarge),
    #[error("the master closed the connection before it answered")]
    Closed,
    #[error("{reason}")]
    Refused { reason: String, hint: Option<String> },
    #[error("the master's answer does not match the question: {0}")]
    Unexpected(String),
}

impl AskError {
    /// Returns true if the master could not be reached or disconnected: a retry may help.
    pub fn is_absence(&self) -> bool {
        use ConnectionError::{Closed, Connect, Deposed, Io, Silent};
        matches!(self, Self::Closed | Self::Connection(Connect { .. } | Deposed { .. } | Io(_) | Closed | Silent(_)))
    }

    /// Returns true if another user listens in place of the master. It received only a greeting.
    pub fn is_impostor(&self) -> bool {
        use ConnectionError::{Impostor, Place, Unidentified};
        matches!(self, Self::Connection(Impostor { .. } | Place { .. } | Unidentified { .. }))
    }

    /// Returns true if a master that answered before may answer again: it is absent, or another user listens in its
    /// place for now.
    pub fn may_pass(&self) -> bool {
        self.is_absence() || self.is_impostor()
    }
}

impl From<ExchangeError> for AskError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Connection(error) => Self::Connection(error),
            ExchangeError::TooLarge(error) => Self::TooLarge(error),
            ExchangeError::Closed => Self::Closed,
            ExchangeError::Refused { reason, hint } => Self::Refused { reason, hint },
            ExchangeError::Unexpected(found) => Self::Unexpected(found),
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        // The reason may contain text of other users; control characters are escaped and it stays on one line.
        let failure = Self::new(plain(&error.to_string()));
        match error {
            AskError::Refused { hint: Some(hint), .. } => failure.hint(plain(&hint)),
            AskError::Connection(ConnectionError::Connect { .. }) => {
                failure.hint("check that lmaster runs there, or name another address with LIMO_MASTER or --master")
            }
            AskError::Connection(ConnectionError::Impostor { .. }) => {
                failure.hint("if that user runs your lmaster, name the user with LIMO_MASTER_USER or --master-user")
            }
            AskError::Lookup { .. } | AskError::NotLoopback { .. } | AskError::Endpoint(_) => failure
                .hint(format_args!("name the master with LIMO_MASTER or --master, for example {EXAMPLE_ADDRESS}")),
            _ => failure,
        }
    }
}

impl Master {
    /// Connects as a client.
    ///
    /// # Errors
    /// [`AskError`] if the master is on another machine, cannot be reached, speaks another version, or another user
    /// listens in its place.
    pub async fn connect(&self) -> Result<ClientConnection, AskError> {
        let mut last = Err(AskError::Closed);
        for endpoint in self.endpoints().await? {
            let newest = *self.newest();
            let called = limo_proto::connect_newest(&endpoint, Role::Client, &self.trusted(), newest).await;
            last = called.map_err(AskError::from);
            if let Ok(connection) = &last {
                self.newest().meet(&connection.identity);
                self.settle(endpoint);
                break;
            }
        }
        last
    }

    /// Makes the first connection of a program. Retries for a moment, so that a master that is being started is found.
    ///
    /// # Errors
    /// The same as for [`Master::connect`], after that moment.
    pub async fn first_connect(&self) -> Result<ClientConnection, AskError> {
        let mut backoff = Retries::new(FIRST_PATIENCE);
        let mut begun = Instant::now();
        loop {
            let error = match self.connect().await {
                Err(error) if error.is_absence() => error,
                result => return result,
            };
            // A master that does not answer takes much longer than one that is being started.
            let Some(pause) = backoff.pause(begun.elapsed()) else { return Err(error) };
            begun = Instant::now();
            tokio::time::sleep(pause).await;
        }
    }

    /// Makes one query.
    ///
    /// # Errors
    /// [`AskError`]; `Refused` contains the master's reason.
    pub async fn ask<Q: Asking>(&self, query: Q) -> Result<Q::Answer, AskError> {
        self.session().await?.ask(query).await
    }

    /// Makes one change. It is on disk and in force on return.
    ///
    /// # Errors
    /// The same as for [`Master::ask`].
    pub async fn change(&self, change: Change) -> Result<(), AskError> {
        self.change_warned(change).await.map(drop)
    }

    /// Makes a change; returns its warnings.
    pub async fn change_warned(&self, change: Change) -> Result<Vec<String>, AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(change))).await? {
            Answer::Done => Ok(Vec::new()),
            Answer::Warned(warnings) => Ok(warnings),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends jobs or sends them a signal; returns their numbers. The change is on disk and in force on return.
    ///
    /// # Errors
    /// The same as for [`Master::ask`].
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

/// The queries, each with the type of its answer. Errors are as for [`Master::ask`].
impl Master {
    /// Returns all nodes by name, with numbers in names as numbers.
    pub async fn nodes(&self) -> Result<Vec<NodeReport>, AskError> {
        Ok(in_order(self.ask(NodesQuery).await?, |node| &node.name))
    }

    /// Returns the reservations that are not over, by name.
    pub async fn reservations(&self) -> Result<Vec<(String, Reservation)>, AskError> {
        self.ask(ReservationsQuery).await
    }

    /// Returns the queues by name.
    pub async fn queues(&self) -> Result<Vec<QueueReport>, AskError> {
        self.ask(QueuesQuery).await
    }

    /// Returns the groups of nodes by name.
    pub async fn groups(&self) -> Result<Vec<GroupReport>, AskError> {
        self.ask(GroupsQuery).await
    }

    /// Undoes a change of an operator.
    pub async fn undo(&self, undo: Undo) -> Result<UndoReport, AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(Change::Undo(undo)))).await? {
            Answer::Undone(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns one node with its own report about its hardware.
    pub async fn node(&self, name: String) -> Result<NodeDetail, AskError> {
        self.ask(NodeQuery(name)).await
    }

    /// Returns the draw of a node or the cluster in the intervals that begin in `[from, until)`, and true if it is
    /// emulated.
    pub async fn readings(
        &self,
        node: Option<String>,
        (from, until): (Time, Time),
    ) -> Result<(bool, Vec<Drawn>), AskError> {
        let ReadingsReport { emulated, intervals } = self.ask(ReadingsQuery { node, from, until }).await?;
        Ok((emulated, intervals))
    }

    /// Returns the state of the cluster: limits, prices, policy, draw and counts.
    pub async fn status(&self) -> Result<Status, AskError> {
        self.ask(StatusQuery).await
    }

    /// Returns all profiles that the master uses for estimates.
    pub async fn profiles(&self) -> Result<Vec<(ProfileKey, Profile)>, AskError> {
        self.ask(ProfilesQuery).await
    }

    /// Returns the differences of units from the profiles of their hardware.
    pub async fn variation(&self) -> Result<Vec<(UnitName, Factor)>, AskError> {
        self.ask(VariationQuery).await
    }

    /// Returns the model of the predictor, and its errors.
    pub async fn predictor(&self) -> Result<PredictorReport, AskError> {
        self.ask(PredictorQuery).await
    }

    /// Returns quotas, shares and usage of users.
    ///
    /// # Errors
    /// The same as for [`Master::ask`].
    pub async fn users(&self) -> Result<UsersReport, AskError> {
        self.ask(UsersQuery).await
    }

    /// Returns the candidates of a request and the reason why it would wait now. Submits nothing.
    pub async fn dry_run(&self, request: Request) -> Result<DryRun, AskError> {
        self.ask(DryRunQuery(Box::new(request))).await
    }
}

/// Formats an unexpected answer, truncated: its beginning names its kind.
pub(crate) fn unexpected(found: &impl std::fmt::Debug) -> AskError {
    ExchangeError::unexpected(found).into()
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
            "the master at 192.0.2.1:6817 (192.0.2.1:6817) is on another machine: without certificates Limo connects only \
             over loopback"
        );
        assert!(!error.is_absence(), "trying again does not help");
    }
}
