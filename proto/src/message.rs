//! The messages of version 1. NewSlave, SendExec, DoExec, JobAck, StreamData and ChangeConf are those of limo-2018,
//! section 3.3.2; StreamData is sent as [`crate::Data`], without encoding.
//!
//! An assignment becomes a process exactly once: the master makes the assignment durable and sends `DoExec`; the node
//! records the intent and answers `JobAck`; the master sends `Go`, and only then does the node run the command.
//! Without `JobAck` the master sends no `Go`, so it may give the job to another node.

use limo_model::{
    Attempt, Band, Budgets, Curve, Factor, JobId, JobShare, Kept, ModeSetting, NodeSpec, Outcome, PartRule, Power,
    Preset, Price, Profile, ProfileKey, REASON_LIMIT, Request, Reservation, Slowdown, SlowdownKey, Span, UnitName,
    Usage, UsedUp, Wait,
};
use serde::{Deserialize, Serialize};

use crate::bound::{List, Text, clip, clip_some, list, texts};
use crate::history::Undo;
use crate::launch::{Launch, WindowSize};
use crate::limits::{FACTORS_LIMIT, NAME_LIMIT, NODES_LIMIT, PARTS_LIMIT, PROFILES_LIMIT, SPECS_LIMIT};
use crate::queries::{Answer, Query};
use crate::register::{ATTEMPTS_PIECE, AttemptReport, NewSlave};
use crate::report::JobReport;
use crate::select::Selection;
use crate::stream::{Positions, StreamId};
use crate::usage::LiveUsage;
use crate::users::UsersChange;

/// Random key that the client chooses for one submission. A repeated submission after a broken connection then does
/// not make a second job.
pub type SubmissionKey = [u8; 16];

/// Message from a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum NodeToMaster {
    /// First message of a node: its description. `Attempts` and `RegisterEnd` follow.
    NewSlave(Box<NewSlave>),
    /// The intent is recorded; the command runs when `Go` comes.
    JobAck { job: JobId, attempt: Attempt },
    /// The node refuses to run this attempt.
    JobRefused { job: JobId, attempt: Attempt, reason: Reason },
    /// The command is running.
    Started { job: JobId, attempt: Attempt },
    /// The attempt has ended. Repeated until `EndedAck`.
    Ended {
        job: JobId,
        attempt: Attempt,
        #[serde(with = "crate::bound::outcome")]
        outcome: Outcome,
        usage: Usage,
    },
    /// Draw of the node since the previous reading.
    Reading(Sample),
    /// Bytes of a job's stdin below `offset` were consumed.
    StreamAck { stream: StreamId, offset: u64 },
    /// Result of the caps of this generation: the units (by index) without their cap, with the reasons.
    Capped { generation: u64, failed: List<(u16, Text<256>), FAILED_CAPS> },
    /// The job's processes are suspended or continue, as ordered. Later readings show this.
    Paused { job: JobId, attempt: Attempt, paused: bool },
    /// The node's own report of its hardware, as lines for people. The answer to `Probe`.
    Probed { ticket: u64, report: Text<PROBE_LIMIT> },
    /// A part of the node's attempts of the master's jobs. Follows `NewSlave`, several times if needed.
    Attempts(List<AttemptReport, ATTEMPTS_PIECE>),
    /// The registration is complete: `count` attempts were reported.
    RegisterEnd { count: u32 },
    /// The machine goes to sleep as soon as the connection has ended. It registers when it is awake again.
    FallingAsleep,
    /// The machine was ordered to sleep but stays awake, or has registered again because it failed to sleep.
    SleepFailed { reason: Reason },
    /// The intent is recorded, and the prolog runs. `JobAck` follows, or the end.
    Preparing { job: JobId, attempt: Attempt },
    /// The node must get no jobs until an operator has repaired it: its prolog or epilog failed. The end of the job
    /// follows.
    Unfit { reason: Reason },
    /// The owner of the node came or left.
    Owner { is_there: bool },
    /// The node ends the attempt by itself, because its owner has suspended it for too long. The end follows.
    Evicted { job: JobId, attempt: Attempt },
    /// The work that the last checkpoint of the attempt keeps. A signal for a checkpoint counts as one.
    Checkpointed { job: JobId, attempt: Attempt, kept: Kept },
    /// The machine was ordered to reboot and does not.
    RebootFailed { reason: Reason },
    /// The answer to `Measure`; nothing if the attempt does not run there or has no control group.
    Measured { ticket: u64, used: Option<LiveUsage> },
}

/// The reason for a refusal or failure, for people.
pub type Reason = Text<REASON_LIMIT>;

/// Most units of a node with failed caps: as many as a node has.
pub const FAILED_CAPS: usize = 64;

/// Longest warning about a submission, in bytes.
pub const NOTICE_LIMIT: usize = 1024;

/// Longest hardware report of a node, in bytes: some hundred lines, about ten for each of 64 units.
pub const PROBE_LIMIT: usize = 64 * 1024;

/// Several samples of a meter, combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The mean since the previous combined sample, weighted by time.
    pub draw: Power,
    /// The lowest and the highest sample.
    pub low: Power,
    /// See [`Sample::low`].
    pub high: Power,
    /// The newest sample.
    pub last: Power,
    /// Number of samples; at least 1.
    pub looks: u32,
}

impl Sample {
    /// Makes a combined sample of a single one.
    pub fn once(draw: Power) -> Self {
        Self { draw, low: draw, high: draw, last: draw, looks: 1 }
    }
}

/// Message from a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum ClientToMaster {
    /// A job is submitted: limo-2018's SendExec. Answered by `Accepted` or `Refused`.
    SendExec(Box<SendExec>),
    /// The client that submitted the job has reconnected, and has its output up to these offsets.
    Attach {
        job: JobId,
        key: SubmissionKey,
        stdout: u64,
        stderr: u64,
        /// Offsets of its second node, its third and so on.
        #[serde(deserialize_with = "list::<_, _, NODES_LIMIT>")]
        more: Vec<(u64, u64)>,
    },
    /// A Linux signal for the processes of the client's job.
    Signal { job: JobId, signal: i32 },
    /// Bytes of stdout or stderr below `offset` were consumed.
    StreamAck { stream: StreamId, offset: u64 },
    /// A query. Answered by `Answer` or `Refused`.
    Ask(Box<Query>),
    /// A change: limo-2018's ChangeConf. Answered by `Answer` or `Refused`.
    ChangeConf(Box<Change>),
    /// The client's terminal has a new size.
    Resize { job: JobId, size: WindowSize },
    /// Another client of the job's user takes over its streams; with `take` even if a client has them. Answered by
    /// `TakenUp`; the client attaches then.
    TakeUp { job: JobId, take: bool },
    /// First message of a submit host: the following ones are of this user of the host. Only a refusal is answered.
    OnBehalf { uid: u32, user: Text<256> },
}

/// A submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendExec {
    /// Key, the same in every attempt to submit the job.
    pub key: SubmissionKey,
    /// Request; the master fills in `user`.
    pub request: Request,
    /// Launch data; the master fills in `uid`.
    pub launch: Launch,
    /// True if the job may have been submitted before with this key, so that the master searches for it. If this is
    /// false by mistake, a finished job would run again.
    pub again: bool,
}

/// Message to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum MasterToClient {
    /// The job is on disk and has this number.
    Accepted { job: JobId },
    /// The request was refused, with the reason; `hint` is text that the user can type.
    Refused {
        #[serde(serialize_with = "clip::<_, REASON_LIMIT>")]
        reason: String,
        #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
        hint: Option<String>,
    },
    /// The reason why the client's job is not running yet; sent again when it changes.
    Waiting { job: JobId, wait: Wait },
    /// The client's job runs, at least on its first node.
    Running {
        job: JobId,
        /// Name of the node, or a short list of several nodes if it fits.
        #[serde(serialize_with = "clip::<_, 4096>")]
        node: String,
        unit: String,
    },
    /// Output can be read and stdin written from here on. Not sent if a job is over.
    Attached { job: JobId, stdin_offset: u64 },
    /// The job is over, and its end is on disk.
    Finished { job: JobId, report: Box<JobReport> },
    /// Bytes of stdin below `offset` were consumed.
    StreamAck { stream: StreamId, offset: u64 },
    /// The answer to `Ask` or `ChangeConf`, or its last piece.
    Answer(Box<Answer>),
    /// A piece of a list that is too long for one frame; the last piece is the [`Answer`].
    Piece(Box<Answer>),
    /// The client's job has used up its allowance, and continues.
    UsedUp { job: JobId, used_up: UsedUp },
    /// Everything that a client needs to attach to the job: its submission, and the state of its streams.
    TakenUp { job: JobId, exec: Box<SendExec>, streams: Positions },
    /// Another client has taken over the job's streams.
    TakenOver { job: JobId },
    /// A warning about the submission that is about to be answered.
    Notice { text: Text<NOTICE_LIMIT> },
}

/// A change by a user (of own jobs) or an operator (everything else).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Change {
    /// Ends these jobs.
    Cancel(Vec<JobId>),
    /// The lower and the upper limit of the draw from now on.
    Limits(Curve<Band>),
    /// The mode: aim for the top or the bottom of the band.
    Mode(ModeSetting),
    /// The policy from the next round on: a preset, and parts that replace its own. Each kind of part occurs once.
    Policy {
        preset: Preset,
        #[serde(deserialize_with = "list::<_, _, PARTS_LIMIT>")]
        parts: Vec<PartRule>,
    },
    /// Prices; `None` removes them. Both hold until [`Change::FollowFeeds`].
    Prices(Option<Curve<Price>>),
    /// Drains all of these nodes, or none.
    Drain {
        #[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")]
        nodes: Vec<String>,
        reason: String,
    },
    /// Undoes `Drain` for all of these nodes, or none.
    Resume {
        #[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")]
        nodes: Vec<String>,
    },
    /// Profiles set by hand or from a file; replaces imported ones, keeps learned ones.
    SetProfiles(#[serde(deserialize_with = "list::<_, _, PROFILES_LIMIT>")] Vec<(ProfileKey, Profile)>),
    /// Deletes a profile, learned or imported.
    ForgetProfile(ProfileKey),
    /// Budgets of all periods from now on. `seen` is the list from which the change was derived. If the current list
    /// differs, the change is refused.
    Budgets { budgets: Budgets, seen: Option<Budgets> },
    /// Prices from the feeds of the configuration.
    FollowFeeds,
    /// Holds waiting jobs until their release.
    Hold(Vec<JobId>),
    /// Undoes `Hold`.
    Release(Vec<JobId>),
    /// Ends running jobs so that they run again from their beginnings.
    Requeue(Vec<JobId>),
    /// Ends jobs, or sends a signal to running ones. A signal that ends a command also ends waiting jobs. Applies to
    /// all jobs or none; in a range, to unfinished ones. Answered by [`Answer::Selected`].
    CancelSelected { selection: Selection, signal: Option<i32> },
    /// Undoes an operator's change. Answered by [`Answer::Undone`].
    Undo(Undo),
    /// Copies the master's databases without changing the cluster. Answered by [`Answer::Backup`].
    Backup,
    /// Reserves nodes for some users for a time. The name must not be in use.
    Reserve { name: String, reservation: Box<Reservation> },
    /// Ends a reservation.
    Unreserve { name: String },
    /// Makes all of these nodes known before they register, or none.
    AddNodes(#[serde(deserialize_with = "list::<_, _, SPECS_LIMIT>")] Vec<NodeSpec>),
    /// Removes all of these nodes, or none. They must be unreachable and without jobs.
    RemoveNodes(#[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")] Vec<String>),
    /// Changes the priority of waiting jobs. A user who is not an operator can only lower it.
    Priority { jobs: Vec<JobId>, priority: i32 },
    /// Quotas, refusals and shares.
    Users(UsersChange),
    /// Declares all of these unreachable nodes dead, or none: their jobs end, and their held draw is released.
    NodesLost(Vec<String>),
    /// Returns unused space of the journal to the file system. Answered by [`Answer::Compacted`].
    CompactJournal,
    /// Suspends running jobs until a person resumes them.
    SuspendJobs(Vec<JobId>),
    /// Undoes `SuspendJobs`.
    ResumeJobs(Vec<JobId>),
    /// Drains all of these nodes, or none, and ends their jobs: requeueable ones run again elsewhere, others are
    /// cancelled.
    StopNodes {
        #[serde(deserialize_with = "texts::<_, NAME_LIMIT, NODES_LIMIT>")]
        nodes: Vec<String>,
        reason: String,
    },
    /// The share of the jobs that allow it that explore caps.
    Explore(JobShare),
    /// Sets or, with `None`, removes all of these factors of units, or none.
    SetVariation(#[serde(deserialize_with = "list::<_, _, FACTORS_LIMIT>")] Vec<(UnitName, Option<Factor>)>),
    /// The law of the slowdown by caps for an application, a type of hardware or both; `None` removes it.
    Slowdown { key: SlowdownKey, law: Option<Slowdown> },
    /// Trains the predictor anew, and ends when the model is in place.
    TrainPredictor,
    /// Takes a queue down or up, whatever its state in the configuration is.
    QueueState { queue: String, is_down: bool },
    /// Sets the upper limit of a group of nodes, whatever the configuration says.
    GroupLimit { group: String, limit: Power },
    /// Sets the time limits of jobs that are not over; `None` removes them. A user who is not an operator can only lower them.
    TimeLimit { jobs: Vec<JobId>, limit: Option<Span> },
}

impl Change {
    /// Returns the jobs that it names, if it is about jobs that are named one by one.
    pub fn jobs(&self) -> Option<&[JobId]> {
        match self {
            Self::Cancel(jobs)
            | Self::Hold(jobs)
            | Self::Release(jobs)
            | Self::Requeue(jobs)
            | Self::SuspendJobs(jobs)
            | Self::ResumeJobs(jobs)
            | Self::TimeLimit { jobs, .. }
            | Self::Priority { jobs, .. } => Some(jobs),
            _ => None,
        }
    }
}
