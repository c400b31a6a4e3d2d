//! One request of a client with its answer, over an open connection.

use thiserror::Error;
use tokio::time::Instant;

use crate::connection::{Connection, ConnectionError};
use crate::frame::Frame;
use crate::heartbeat::{Alive, HEARTBEAT};
use crate::limits::TooLarge;
use crate::message::{ClientToMaster, MasterToClient};
use crate::queries::{Answer, Asking};

/// Reasons why a request has no answer.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ExchangeError {
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

impl ExchangeError {
    /// Describes an unexpected answer, truncated: its beginning names its kind.
    pub fn unexpected(found: &impl std::fmt::Debug) -> Self {
        Self::Unexpected(format!("{found:?}").chars().take(80).collect())
    }
}

/// A connection cannot be used after an error.
impl Connection<MasterToClient, ClientToMaster> {
    /// Makes one query. Lists that come in several pieces are joined.
    ///
    /// # Errors
    /// [`ExchangeError`]; `Refused` contains the master's reason.
    pub async fn ask<Q: Asking>(&mut self, query: Q) -> Result<Q::Answer, ExchangeError> {
        let found = self.exchange(ClientToMaster::Ask(Box::new(query.into()))).await?;
        Q::answer(found).map_err(|other| ExchangeError::unexpected(&other))
    }

    /// Sends a request that has one answer. The answer may take long; the master gives signs of life meanwhile.
    ///
    /// # Errors
    /// The same as for [`Connection::ask`].
    pub async fn exchange(&mut self, message: ClientToMaster) -> Result<Answer, ExchangeError> {
        message.check()?;
        self.writer.send(&Frame::Message(message)).await?;
        let mut pieces = Vec::new();
        let (mut beats, signs) = (Alive::new(HEARTBEAT).caller(Instant::now()), self.writer.sign_writer());
        loop {
            match self.reader.next_alive(&mut beats, &signs).await? {
                Some(Frame::Message(MasterToClient::Piece(piece))) => pieces.push(*piece),
                Some(Frame::Message(MasterToClient::Answer(last))) => return Ok(last.joined(pieces)),
                Some(Frame::Message(MasterToClient::Refused { reason, hint })) => {
                    return Err(ExchangeError::Refused { reason, hint });
                }
                Some(other) => return Err(ExchangeError::unexpected(&other)),
                None => return Err(ExchangeError::Closed),
            }
        }
    }
}
