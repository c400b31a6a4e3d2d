//! Inputs and effects of the controller: its whole interface to the rest of the program.

use limo_feeds::grid::Word;
use limo_journal::{Batch, CommitError, NoRoom, RecoverError, Recovered};
use limo_model::{JobId, NodeId, Power, Profile, ProfileKey};
use limo_profiles::predict::FinishedJob;
use limo_proto::{ClientToMaster, Frame, MasterToClient, MasterToNode, NodeToMaster, StreamId, WebReport};
use tokio::sync::OwnedSemaphorePermit;

use super::{Caller, Lesson, News, PeerId, Question, Reply, Settings, Ticket};
use crate::audit::AuditEntry;
use crate::messenger::Errand;
use crate::wake::WakeOrder;

/// An input of the controller.
#[derive(Debug)]
pub enum Input {
    NodeConnected(PeerId),
    /// A node that has just connected has a certificate with this name.
    NodeCertified(PeerId, String),
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
    /// A profile was updated by [`Effect::Learn`].
    Learned(ProfileKey, Profile),
    /// [`Controller::deadline`] has come.
    Timer,
    /// New reports of price feeds.
    Feeds(Box<News>),
    /// A message of a source of limits, by its index in the configuration.
    Word(usize, Word),
    /// The value of a meter, by its index in the configuration, or the reason if it is missing.
    Metered(usize, Result<Power, String>),
    /// The configuration was read again.
    Configured(Box<Settings>),
    /// Accept no more input; a running commit is completed.
    Stop,
    /// The answer to [`Effect::WhenDrained`].
    Drained(PeerId),
    /// Output was not sent to a client, because its user's queue is too large: the stream and the offset.
    Dropped(PeerId, StreamId, u64),
    /// Serve one slice of the queued queries; see [`Controller::has_turn`].
    Turn,
    /// A client's frame, with its place among its user's frames in flight. The shell frees the place.
    Placed(Box<Input>, OwnedSemaphorePermit),
    /// The answer to [`Effect::FindPage`].
    PageFound(PeerId, WebReport),
    /// [`Effect::Wake`] failed, with the reason.
    WakeFailed(NodeId, String),
}

/// Effects of the controller, in order.
#[derive(Debug)]
pub enum Effect {
    ToNode(PeerId, Frame<MasterToNode>),
    ToClient(PeerId, Frame<MasterToClient>),
    /// Sends the queue, then closes the connection. `Gone` may not follow.
    Close(PeerId, String),
    Commit(Box<Batch>),
    Recover,
    RestoreBallast,
    Ask(Ticket, Question),
    Learn(Box<Lesson>),
    /// Keeps a finished job for the predictor.
    Observe(JobId, FinishedJob),
    /// Drops the copies of a backup.
    DropBackup,
    /// Returns memory to the kernel after much was freed.
    GiveBack,
    /// Reports when a client has read everything that was sent so far.
    WhenDrained(PeerId),
    /// Closes the connection of a node that falls asleep.
    Part(PeerId),
    Wake(NodeId, WakeOrder),
    /// Tells the site about an event of a job.
    Tell(Box<Errand>),
    /// Finds the address of the page, with a code for this user if there is one.
    FindPage(PeerId, Option<u32>),
    /// Adds an entry to the audit log.
    Audit(Box<AuditEntry>),
}
