//! What the desk is told, and what it wants done: all that passes between it and the rest of the program.

use limo_feeds::grid::Word;
use limo_journal::{Batch, ChangeQuery, ChangeRow, CommitError, NoRoom, RecoverError, Recovered};
use limo_model::{JobId, NodeId, Power, Profile, ProfileKey, Time};
use limo_proto::{
    BackupReport, ClientToMaster, EnergyQuery, EnergyReport, Finished, Frame, JobReport, JournalSizes, MasterToClient,
    MasterToNode, NodeToMaster, StreamId, SubmissionKey,
};
use tokio::sync::OwnedSemaphorePermit;

use super::{Caller, Found, Lesson, News, PeerId, Settings, Ticket};
use crate::wake::WakeOrder;

/// What happens to the master.
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
    Answered(Ticket, Result<Reply, String>),
    /// Something was learned from [`Effect::Learn`].
    Learned(ProfileKey, Profile),
    /// [`Desk::deadline`] has come.
    Timer,
    /// What the feeds tell of prices now.
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
    /// Serve one slice of the queries that wait, of which [`Desk::has_turn`] knows.
    Turn,
    /// What a client sent, with its place among the frames that its user may have under way. The shell gives the place back.
    Placed(Box<Input>, OwnedSemaphorePermit),
    /// [`Effect::Wake`] could not be done, and why.
    WakeFailed(NodeId, String),
}

/// What the master wants done, in order.
#[derive(Debug, Clone, PartialEq)]
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Which job was submitted with this key, and what became of it.
    Key(SubmissionKey),
    /// Finished jobs, in this order; those that are not there are left out.
    Jobs(Vec<JobId>),
    /// Finished jobs, newest first.
    History(Finished),
    /// Everything in the profile database.
    Profiles,
    /// What a node drew, or the cluster where there is no name, in the intervals that begin in `[from, until)`; one more
    /// than [`READINGS_LIMIT`] at most.
    Readings(String, (Time, Time)),
    /// Import profiles.
    Store(Vec<(ProfileKey, Profile)>),
    Forget(ProfileKey),
    /// The newest job of a uid, over or not.
    NewestOf(u32),
    Energy(EnergyQuery),
    /// What operators changed, newest first.
    Changes(ChangeQuery),
    /// The change of this number, or the newest that can be set back.
    Undo(Option<u64>),
    /// Copy what is on disk.
    Backup,
    /// A part of a file of the copies.
    BackupPart {
        file: u32,
        offset: u64,
    },
    /// Give room in the journal that is no longer used back to the file system.
    Compact,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Key(Option<Known>),
    Jobs(Vec<JobReport>),
    AllProfiles(Vec<(ProfileKey, Profile)>),
    Readings(Vec<limo_model::Drawn>),
    /// What now holds for these keys.
    Profiles(Vec<(ProfileKey, Option<Profile>)>),
    Newest(Option<JobId>),
    Energy(Box<EnergyReport>),
    Changes(Vec<ChangeRow>),
    Undo(Option<Box<Found>>),
    Backup(BackupReport),
    BackupPart(Vec<u8>),
    Compacted(JournalSizes),
}

/// What the journal knows of a submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub job: JobId,
    pub uid: u32,
    /// Once it is over.
    pub report: Option<Box<JobReport>>,
}
