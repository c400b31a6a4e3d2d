//! Queries of the databases on disk. Each is a type with two functions: one reads its answer outside of the loop of the
//! master, and the other handles the answer. A new query needs no entry in a list.

use std::fmt::Debug;
use std::pin::Pin;

use super::{Controller, PeerId};
use crate::database::Database;

/// One query. Its answer returns to its connection, if that is still open.
pub trait Lookup: Debug + Send + Sync + 'static {
    type Found: Debug + Send + 'static;

    /// True if the answer is read at once, without waiting for the running commit.
    const AT_ONCE: bool = false;

    /// True if a failure closes the connection instead of refusing: a refusal would end a client that can call again.
    const CLOSES: bool = false;

    /// Reads the answer.
    ///
    /// # Errors
    /// If a database cannot be read, or refuses.
    fn read(&self, from: &dyn Database) -> impl Future<Output = anyhow::Result<Self::Found>> + Send;

    /// Continues with the answer.
    fn found(self, controller: &mut Controller, peer: PeerId, found: Self::Found);

    /// Handles a missing answer. The caller informs the client.
    fn failed(&self, _desk: &mut Controller, _reason: &str) {}

    /// Returns true if an event may follow from the answer.
    fn changes_something(&self) -> bool {
        false
    }
}

/// A question on its way to the databases.
#[derive(Debug)]
pub struct Question(Box<dyn Asked>);

/// A query with its answer, or the reason if it failed.
#[derive(Debug)]
pub struct Reply(Box<dyn Answered>);

/// A lookup of any type.
trait Asked: Debug + Send {
    fn answer<'a>(self: Box<Self>, from: &'a dyn Database) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;
    fn fail(self: Box<Self>, reason: String) -> Reply;
}

impl<L: Lookup> Asked for L {
    fn answer<'a>(self: Box<Self>, from: &'a dyn Database) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move {
            let found = self.read(from).await.map_err(|error| format!("{error:#}"));
            Reply(Box::new((*self, found)))
        })
    }

    fn fail(self: Box<Self>, reason: String) -> Reply {
        Reply(Box::new((*self, Err(reason))))
    }
}

/// A lookup of any type with its answer.
trait Answered: Debug + Send {
    fn changes_something(&self) -> bool;
    fn closes(&self) -> bool;
    fn fail(self: Box<Self>, reason: String) -> Reply;
    fn follow(self: Box<Self>, controller: &mut Controller, peer: PeerId) -> Result<(), String>;
}

impl<L: Lookup> Answered for (L, Result<L::Found, String>) {
    fn changes_something(&self) -> bool {
        self.0.changes_something()
    }

    fn closes(&self) -> bool {
        L::CLOSES
    }

    fn fail(self: Box<Self>, reason: String) -> Reply {
        Reply(Box::new((self.0, Err(reason))))
    }

    fn follow(self: Box<Self>, controller: &mut Controller, peer: PeerId) -> Result<(), String> {
        let (lookup, found) = *self;
        match found {
            Ok(found) => {
                lookup.found(controller, peer, found);
                Ok(())
            }
            Err(reason) => {
                lookup.failed(controller, &reason);
                Err(reason)
            }
        }
    }
}

impl Question {
    pub(super) fn new(lookup: impl Lookup) -> Self {
        Self(Box::new(lookup))
    }

    /// Reads the answer. A failure is part of the reply.
    pub async fn answer(self, from: &dyn Database) -> Reply {
        self.0.answer(from).await
    }

    /// Returns the reply of a query that cannot be made.
    pub(super) fn fail(self, reason: String) -> Reply {
        self.0.fail(reason)
    }
}

impl Reply {
    pub(super) fn changes_something(&self) -> bool {
        self.0.changes_something()
    }

    /// Returns true if a failure closes the connection.
    pub(super) fn closes(&self) -> bool {
        self.0.closes()
    }

    /// Replaces the answer by a failure.
    pub(super) fn fail(self, reason: String) -> Self {
        self.0.fail(reason)
    }

    /// Continues with the answer.
    ///
    /// # Errors
    /// The reason if there is no answer.
    pub(super) fn follow(self, controller: &mut Controller, peer: PeerId) -> Result<(), String> {
        self.0.follow(controller, peer)
    }
}
