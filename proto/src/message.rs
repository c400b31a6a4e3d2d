//! The messages of version 1. NewSlave, SendExec, DoExec, JobAck, StreamData and ChangeConf are those of limo-2018,
//! section 3.3.2; StreamData travels as [`crate::Data`], without encoding.
//!
//! How an assignment becomes a process, exactly once: the master makes the assignment durable and sends `DoExec`; the
//! node records the intent and answers `JobAck`; the master sends `Go`, and only then the node runs the command. Without
//! `JobAck` the master sends no `Go`, so it may give the job to another node.

use limo_model::{
    Attempt, Band, Budgets, Curve, JobId, ModeSetting, NodeSpec, Outcome, Power, Preset, Price, Profile, ProfileKey,
    REASON_LIMIT, Request, Reservation, Usage, UsedUp, Wait,
};
use serde::{Deserialize, Serialize};

use crate::bound::{List, Text, clip, clip_some, list, texts};
use crate::history::Undo;
use crate::launch::{Launch, WindowSize};
use crate::limits::{NAME_LIMIT, NODES_LIMIT, PROFILES_LIMIT, SPECS_LIMIT};
use crate::queries::{Answer, Query};
use crate::register::{ATTEMPTS_PIECE, AttemptReport, NewSlave};
use crate::report::JobReport;
use crate::select::Selection;
use crate::stream::{Positions, StreamId};
use crate::users::UsersChange;

/// Chosen at random by the client for one submission, so that handing it in again after a broken connection does not
/// make a second job.
pub type SubmissionKey = [u8; 16];

/// From a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum NodeToMaster {
    /// First message of a node: what it is. `Attempts` and `RegisterEnd` follow.
    NewSlave(Box<NewSlave>),
    /// The intent is recorded; the command runs when `Go` comes.
    JobAck { job: JobId, attempt: Attempt },
    /// The node will not run this attempt.
    JobRefused { job: JobId, attempt: Attempt, reason: Reason },
    /// The command is running.
    Started { job: JobId, attempt: Attempt },
    /// Repeated until `EndedAck`.
    Ended {
        job: JobId,
        attempt: Attempt,
        #[serde(with = "crate::bound::outcome")]
        outcome: Outcome,
        usage: Usage,
    },
    /// What the node drew since the reading before it.
    Reading(Sample),
    /// Bytes of a job's stdin below `offset` have been taken.
    StreamAck { stream: StreamId, offset: u64 },
    /// What became of the caps of this generation: the units, by index, that do not hold theirs, and why.
    Capped { generation: u64, failed: List<(u16, Text<256>), FAILED_CAPS> },
    /// The job's processes stand still, or go on again, as was told. Readings show it from now on.
    Paused { job: JobId, attempt: Attempt, paused: bool },
    /// What the node has, as it says itself: lines for people. The answer to `Probe`.
    Probed { ticket: u64, report: Text<PROBE_LIMIT> },
    /// A piece of what the node still has of the master's jobs. Follows `NewSlave`, as often as there is more.
    Attempts(List<AttemptReport, ATTEMPTS_PIECE>),
    /// The registration is complete: so many attempts were reported.
    RegisterEnd { count: u32 },
    /// The machine goes to sleep as soon as the connection has ended. It registers when it is awake again.
    FallingAsleep,
    /// The machine was told to sleep and does not; or did not, where it has registered again meanwhile.
    SleepFailed { reason: Reason },
}

/// Why something is not done, for people.
pub type Reason = Text<REASON_LIMIT>;

/// Most units of a node whose caps can fail: as many as a node has.
pub const FAILED_CAPS: usize = 64;

/// Longest report of what a node has, in bytes: some hundred lines, where a machine with 64 units has some ten a unit.
pub const PROBE_LIMIT: usize = 64 * 1024;

/// Several looks at a meter, as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The mean over the time since the sample before it, weighted by time.
    pub draw: Power,
    /// The lowest and the highest of the looks.
    pub low: Power,
    /// See [`Sample::low`].
    pub high: Power,
    /// The newest look.
    pub last: Power,
    /// How many looks; at least 1.
    pub looks: u32,
}

impl Sample {
    /// One look.
    pub fn once(draw: Power) -> Self {
        Self { draw, low: draw, high: draw, last: draw, looks: 1 }
    }
}

/// From a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum ClientToMaster {
    /// A job is submitted: limo-2018's SendExec. Answered by `Accepted` or `Refused`.
    SendExec(Box<SendExec>),
    /// The client that submitted the job is back, and has its output up to these offsets.
    Attach {
        job: JobId,
        key: SubmissionKey,
        stdout: u64,
        stderr: u64,
        /// The same of its second node, its third and so on.
        #[serde(deserialize_with = "list::<_, _, NODES_LIMIT>")]
        more: Vec<(u64, u64)>,
    },
    /// A signal of Linux for the processes of the client's job.
    Signal { job: JobId, signal: i32 },
    /// Bytes of stdout or stderr below `offset` have been taken.
    StreamAck { stream: StreamId, offset: u64 },
    /// A question. Answered by `Answer` or `Refused`.
    Ask(Box<Query>),
    /// Something is to be changed: limo-2018's ChangeConf. Answered by `Answer` or `Refused`.
    ChangeConf(Box<Change>),
    /// The terminal of the client has another size now.
    Resize { job: JobId, size: WindowSize },
    /// Another client of the job's user wants its streams; with `take` also from the client that has them. Answered by
    /// `TakenUp`, after which it attaches.
    TakeUp { job: JobId, take: bool },
}

/// A submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendExec {
    /// The same in every attempt to hand it in.
    pub key: SubmissionKey,
    /// `user` is filled in by the master.
    pub request: Request,
    /// `uid` is filled in by the master.
    pub launch: Launch,
    /// True if it may have been sent before with this key: then the master looks for its job. One that was, and does not
    /// say so, becomes another job where the first is over.
    pub again: bool,
}

/// To a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum MasterToClient {
    /// The job is on disk and has this number.
    Accepted { job: JobId },
    /// What was asked for is not done, and why; `hint` is something to type.
    Refused {
        #[serde(serialize_with = "clip::<_, REASON_LIMIT>")]
        reason: String,
        #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
        hint: Option<String>,
    },
    /// Why the client's job is not running yet; sent again when that changes.
    Waiting { job: JobId, wait: Wait },
    /// The client's job runs, on the first of several nodes at least.
    Running {
        job: JobId,
        /// Several in short, as far as there is room.
        #[serde(serialize_with = "clip::<_, 4096>")]
        node: String,
        unit: String,
    },
    /// The output may be read and stdin written from here on. Not said of a job that is over.
    Attached { job: JobId, stdin_offset: u64 },
    /// The job is over, and that is on disk.
    Finished { job: JobId, report: Box<JobReport> },
    /// Bytes of stdin below `offset` have been taken.
    StreamAck { stream: StreamId, offset: u64 },
    /// The answer to `Ask` or `ChangeConf`, or its last piece.
    Answer(Box<Answer>),
    /// A piece of a list that is too long for one frame; the last piece is the [`Answer`].
    Piece(Box<Answer>),
    /// The client's job has used what it may, and goes on.
    UsedUp { job: JobId, used_up: UsedUp },
    /// What a client needs to attach to the job: how it was handed in, and where its streams are.
    TakenUp { job: JobId, exec: Box<SendExec>, streams: Positions },
    /// Another client has taken the job's streams.
    TakenOver { job: JobId },
}

/// A change by a user (of own jobs) or an operator (everything else).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Change {
    /// Ends these jobs.
    Cancel(Vec<JobId>),
    /// The lower and the upper limit of the draw from now on.
    Limits(Curve<Band>),
    /// Whether to aim for the top or the bottom of the band.
    Mode(ModeSetting),
    /// The policy from the next round on.
    Policy(Preset),
    /// `None` forgets the prices. Either holds until [`Change::FollowFeeds`].
    Prices(Option<Curve<Price>>),
    /// All of these nodes, or none.
    Drain {
        #[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")]
        nodes: Vec<String>,
        reason: String,
    },
    /// Takes back what `Drain` did. All of these nodes, or none.
    Resume {
        #[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")]
        nodes: Vec<String>,
    },
    /// Set by hand or from a file; replaces what was imported before, keeps what was learned.
    SetProfiles(#[serde(deserialize_with = "list::<_, _, PROFILES_LIMIT>")] Vec<(ProfileKey, Profile)>),
    /// Deletes a profile, learned or imported.
    ForgetProfile(ProfileKey),
    /// All periods from now on. `seen`, where it is given, is what they were when the change was made of them: where they
    /// have changed since, nothing is done.
    Budgets { budgets: Budgets, seen: Option<Budgets> },
    /// Prices as the feeds of the configuration tell them.
    FollowFeeds,
    /// Jobs that wait are not to run before they are released.
    Hold(Vec<JobId>),
    /// Takes back what `Hold` did.
    Release(Vec<JobId>),
    /// Jobs that run are to end and to run again from their beginnings.
    Requeue(Vec<JobId>),
    /// Ends jobs or, with a signal, sends that to those that run; a signal that ends a command ends waiting jobs, too. All
    /// or none, of a range those that are not over. Answered by [`Answer::Selected`].
    CancelSelected { selection: Selection, signal: Option<i32> },
    /// Sets back what an operator changed. Answered by [`Answer::Undone`].
    Undo(Undo),
    /// Copies what the master has on disk. Changes nothing of the cluster. Answered by [`Answer::Backup`].
    Backup,
    /// Keeps nodes for some users for a time. The name must not be in use.
    Reserve { name: String, reservation: Box<Reservation> },
    /// Gives the nodes back.
    Unreserve { name: String },
    /// Makes nodes known before they register. All of them, or none.
    AddNodes(#[serde(deserialize_with = "list::<_, _, SPECS_LIMIT>")] Vec<NodeSpec>),
    /// Forgets nodes that are away and have no jobs. All of them, or none.
    RemoveNodes(#[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")] Vec<String>),
    /// Another priority for jobs that wait. Who is no operator only lowers.
    Priority { jobs: Vec<JobId>, priority: i32 },
    /// Quotas, refusals and shares.
    Users(UsersChange),
    /// Unreachable nodes are dead: their jobs end and what is held for them is released. All of them, or none.
    NodesLost(Vec<String>),
    /// Returns unused space of the journal to the file system. Answered by [`Answer::Compacted`].
    CompactJournal,
}
