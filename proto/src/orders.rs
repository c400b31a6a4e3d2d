//! Messages from the master to nodes: jobs, and orders about them.

use limo_model::{Attempt, Checkpoint, JobId, JournalId, Lease, Placement, Power, Span, Warning};
use serde::{Deserialize, Serialize};

use crate::launch::{Launch, Share, Task, WindowSize};
use crate::message::Reason;
use crate::stream::StreamId;

/// Message to a node.
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
        /// Expected draw on this node above idle, which is the job's weight if other jobs also draw power.
        expected: Power,
    },
    /// Forgets an attempt that was not released.
    Drop { job: JobId, attempt: Attempt },
    /// Sends TERM to the job's processes, and KILL after `grace`.
    Stop { job: JobId, attempt: Attempt, grace: Span },
    /// Sends a signal to the job's process group.
    Signal { job: JobId, attempt: Attempt, signal: i32 },
    /// The end is durable at the master, so the node may forget the attempt.
    EndedAck { job: JobId, attempt: Attempt },
    /// A client reads the job's output from these offsets on.
    ReadFrom { job: JobId, stdout: u64, stderr: u64 },
    /// The job's output is unwanted: stdin ends, and output is dropped.
    Discard { job: JobId },
    /// Bytes of stdout or stderr below `offset` were consumed.
    StreamAck { stream: StreamId, offset: u64 },
    /// The cap of each unit of the node, by index; `None` removes the cap. Holds until a message with a higher
    /// generation. Repeated after a broken connection.
    Caps { generation: u64, caps: Vec<Option<Power>> },
    /// Stops the job's processes until `Resume`. Repeated after a broken connection; idempotent.
    Suspend { job: JobId, attempt: Attempt },
    /// Continues the job's processes. Idempotent.
    Resume { job: JobId, attempt: Attempt },
    /// Examines the devices; the answer is `Probed` with this ticket. Jobs and caps are not affected.
    Probe { ticket: u64 },
    /// The terminal of the job's client has another size.
    Resize { job: JobId, attempt: Attempt, size: WindowSize },
    /// A job that was suspended or slowed down may run for `limit` in total, including pauses. This applies if its
    /// own time limit without pauses ends earlier.
    Extend { job: JobId, attempt: Attempt, limit: Span },
    /// Puts the machine to sleep. The answer is `FallingAsleep`, after which the master ends the connection, or
    /// `SleepFailed`.
    Sleep,
    /// The standing order for the time when the owner of the node is there: the node suspends all jobs at once, and evicts
    /// each one that was suspended for `evict_after`. With `None`, it only reports the owner. Also holds without a master.
    /// Repeated after a broken connection.
    Owners { evict_after: Option<Span> },
    /// Like `Stop`, but a job that makes checkpoints makes one first, within `grace`.
    Evict { job: JobId, attempt: Attempt, grace: Span },
    /// Restarts the machine. It registers with another boot id, or answers `RebootFailed`.
    Reboot,
    /// The job has another time limit, without pauses, or none. Ends the effect of an earlier `Extend`; one may follow. Repeated
    /// after a broken connection.
    TimeLimit { job: JobId, attempt: Attempt, limit: Option<Span> },
    /// Reads the resources that the attempt has used so far; the answer is `Measured` with this ticket.
    Measure { ticket: u64, job: JobId, attempt: Attempt },
}

/// A job for a node, before the permission to run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoExec {
    /// The master's journal, in which the job's number is valid.
    pub journal: JournalId,
    /// Number of the job in that journal.
    pub job: JobId,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// The name that its user chose.
    pub name: String,
    /// The name for profiles and emulated hardware.
    pub application: String,
    /// The size class of the request, by which emulated hardware looks up its numbers. May be empty.
    pub size: String,
    /// Name of the user, for its environment. The job runs as [`Launch::uid`].
    pub user: String,
    /// The units, cores, memory and caps on all of its nodes.
    pub placement: Placement,
    /// Launch without the array.
    pub launch: Launch,
    /// Longest run of the command, without suspensions. Then the node ends it.
    pub time_limit: Option<Span>,
    /// A signal that the node sends before the time limit.
    pub warning: Option<Warning>,
    /// Time between TERM and KILL when the node ends it.
    pub kill_grace: Span,
    /// Number of times that the job was ended to run again.
    pub restarts: u32,
    /// The task, if it is one of an array.
    pub task: Option<Task>,
    /// The tasks that run on this node, if the launch is parallel.
    pub share: Option<Share>,
    /// Time for which the node may run it without an answer from the master. Only a requeueable job has one.
    pub lease: Option<Lease>,
    /// The checkpoints that the node makes of it.
    pub checkpoint: Option<Checkpoint>,
    /// The attempt in whose allocation it runs, if it is a step. It ends with that attempt at the latest.
    pub step: Option<StepOf>,
}

/// The place of a step on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOf {
    /// Number of its job.
    pub job: JobId,
    /// The attempt of that job.
    pub attempt: Attempt,
    /// Number among the steps of the job.
    pub number: u32,
}
