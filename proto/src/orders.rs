//! What the master tells nodes: jobs, and what is to become of them.

use limo_model::{Attempt, JobId, JournalId, Lease, Placement, Power, Span, Warning};
use serde::{Deserialize, Serialize};

use crate::launch::{Launch, Share, Task, WindowSize};
use crate::message::Reason;
use crate::stream::StreamId;

/// To a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum MasterToNode {
    /// The registration is accepted. Orders follow.
    Registered,
    /// The registration is refused; the connection ends.
    Refused { reason: Reason },
    /// A job to be prepared: limo-2018's DoExec. Answered by `JobAck` or `JobRefused`.
    DoExec(Box<DoExec>),
    /// Permission to run an attempt that was acknowledged.
    Go {
        job: JobId,
        attempt: Attempt,
        /// What it is expected to draw on this node above idle: its weight if others draw beside it.
        expected: Power,
    },
    /// Forget an attempt that was not let go.
    Drop { job: JobId, attempt: Attempt },
    /// TERM to the job's processes, after `grace` KILL.
    Stop { job: JobId, attempt: Attempt, grace: Span },
    /// A signal to the job's process group.
    Signal { job: JobId, attempt: Attempt, signal: i32 },
    /// The end is durable at the master; the node may forget the attempt.
    EndedAck { job: JobId, attempt: Attempt },
    /// A client reads the job's output from these offsets on.
    ReadFrom { job: JobId, stdout: u64, stderr: u64 },
    /// Nobody will read the job's output: stdin ends, output is dropped.
    Discard { job: JobId },
    /// Bytes of stdout or stderr below `offset` have been taken.
    StreamAck { stream: StreamId, offset: u64 },
    /// The cap of each unit of the node, by index; `None` lets the unit draw what it likes. Holds until the next such
    /// message: of two, the one with the higher generation. Told again after a broken connection.
    Caps { generation: u64, caps: Vec<Option<Power>> },
    /// Stop the job's processes until `Resume`. Told again after a broken connection; twice is once.
    Suspend { job: JobId, attempt: Attempt },
    /// Let the job's processes go on. Twice is once.
    Resume { job: JobId, attempt: Attempt },
    /// Look at what the node has, and answer with `Probed` and this ticket. What runs goes on, and so does what caps it.
    Probe { ticket: u64 },
    /// The terminal of the job's client has another size now.
    Resize { job: JobId, attempt: Attempt, size: WindowSize },
    /// A job that was suspended or slowed down may run for `limit` in all, pauses included, if that is longer than its own
    /// time limit without its pauses.
    Extend { job: JobId, attempt: Attempt, limit: Span },
    /// Put the machine to sleep. Answered by `FallingAsleep`, after which the master ends the connection, or by `SleepFailed`.
    Sleep,
}

/// A job for a node. Not yet the permission to run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoExec {
    /// The master's: which journal the number of the job is of.
    pub journal: JournalId,
    /// Its number in that journal.
    pub job: JobId,
    /// Which start of the job it is.
    pub attempt: Attempt,
    /// As its user called it.
    pub name: String,
    /// By which profiles and emulated hardware know it.
    pub application: String,
    /// The size class of the request; emulated hardware looks up its numbers by it. May be empty.
    pub size: String,
    /// Name of the user, for its environment. It runs as [`Launch::uid`].
    pub user: String,
    /// The units, cores, memory and caps on all of its nodes.
    pub placement: Placement,
    /// Without the array.
    pub launch: Launch,
    /// How long the command may run, time in which the job is suspended excluded. The node ends it then.
    pub time_limit: Option<Span>,
    /// A signal that the node sends ahead of that.
    pub warning: Option<Warning>,
    /// Time between TERM and KILL when the node ends it.
    pub kill_grace: Span,
    /// How often the job was ended to run again.
    pub restarts: u32,
    /// Where it is a task of an array.
    pub task: Option<Task>,
    /// Where its launch is parallel: which of its tasks run here.
    pub share: Option<Share>,
    /// How long the node may run it without an answer from the master. Only a requeueable job has one.
    pub lease: Option<Lease>,
}
