//! Inputs and effects of the controller: everything that passes between it and the rest of the program.

use limo_feeds::grid::Word;
use limo_journal::{Batch, CommitError, NoRoom, RecoverError, Recovered};
use limo_model::{NodeId, Power, Profile, ProfileKey};
use limo_proto::{ClientToMaster, Frame, MasterToClient, MasterToNode, NodeToMaster, StreamId};
use tokio::sync::OwnedSemaphorePermit;

use super::{Caller, Lesson, News, PeerId, Question, Reply, Settings, Ticket};
use crate::wake::WakeOrder;

/// An input of the controller.
#[derive(Debug)]
pub enum Input {
    NodeConnected(PeerId),
    ClientConnected(PeerId, Caller),
    Node(PeerId, Frame<NodeToMaster>),
    Client(PeerId, Frame<ClientToMaster>),
    Gone(PeerId),
    /// The answer to [`Effect::Commit`].
    Committed(Result<Option<NoRoom>, CommitError>),
    /// The answer to [`Effect::Recover`].
    Recovered(Result<Recovered, RecoverError>),
    /// The answer to [`Effect::RestoreBallast`].
    Ballast(Result<(), String>),
    /// The answer to [`Effect::Ask`].
    Answered(Ticket, Reply),
    /// Something was learned from [`Effect::Learn`].
    Learned(ProfileKey, Profile),
    /// [`Controller::deadline`] has come.
    Timer,
    /// New reports of price feeds.
    Feeds(Box<News>),
    /// A source of limits, by its place in the configuration, has said something.
    Word(usize, Word),
    /// A meter, by its place in the configuration, shows this, or why it does not.
    Metered(usize, Result<Power, String>),
    /// The configuration was read again.
    Configured(Box<Settings>),
    /// Take no more in; what is under way is still committed.
    Stop,
    /// The answer to [`Effect::WhenDrained`].
    Drained(PeerId),
    /// Output was not sent to a client, because its user has too much queued: the stream and the offset.
    Dropped(PeerId, StreamId, u64),
    /// Serve one slice of the queries that wait, of which [`Controller::has_turn`] knows.
    Turn,
    /// What a client sent, with its place among the frames that its user may have under way. The shell gives the place back.
    Placed(Box<Input>, OwnedSemaphorePermit),
    /// [`Effect::Wake`] could not be done, and why.
    WakeFailed(NodeId, String),
}

/// Effects of the controller, in order.
#[derive(Debug)]
pub enum Effect {
    ToNode(PeerId, Frame<MasterToNode>),
    ToClient(PeerId, Frame<MasterToClient>),
    /// Send what is queued, then hang up. No `Gone` need follow.
    Close(PeerId, String),
    Commit(Box<Batch>),
    Recover,
    RestoreBallast,
    Ask(Ticket, Question),
    Learn(Box<Lesson>),
    /// Let the copies of a backup go.
    DropBackup,
    /// Give memory back to the kernel: much was freed.
    GiveBack,
    /// Tell when everything that was sent to a client so far was taken.
    WhenDrained(PeerId),
    /// Hang up on a node that falls asleep.
    Part(PeerId),
    Wake(NodeId, WakeOrder),
}
