//! Inputs and effects of a session.

use bytes::Bytes;
use limo_client::Failure;
use limo_model::{JobId, UsedUp, Wait};
use limo_proto::{Channel, ClientToMaster, Frame, JobReport, MasterToClient, WindowSize};
use nix::errno::Errno;

/// Event for a session.
#[derive(Debug)]
pub enum Input {
    /// A connection was made.
    Connected,
    /// The connection broke.
    Broken,
    Heard(Frame<MasterToClient>),
    /// Piece of stdin; an empty piece is the end.
    Stdin(Bytes),
    /// Number of bytes of a node's output that were written; the end counts as one.
    Written(Channel, u32, u64),
    /// Output cannot be written; the rest is discarded.
    Blocked(Channel, Errno),
    /// This process got a signal.
    Signal(i32),
    /// The size of the terminal has changed.
    Resized(WindowSize),
    /// The master stayed away too long.
    GaveUp(Failure),
    /// The remaining output of a finished job did not arrive in time.
    Silence,
}

/// Action requested by a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    Send(Frame<ClientToMaster>),
    /// Output of one node. An empty piece is the end.
    Write(Channel, u32, Bytes),
    Say(News),
    /// Closes the connection and calls again, because the master sent something invalid.
    Reconnect,
    /// Stops this process, at the request of the terminal.
    StopSelf,
    Leave(Leave),
}

/// News for the user.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    Accepted(JobId),
    Waiting(JobId, Wait),
    Running {
        job: JobId,
        node: String,
        unit: String,
    },
    Away,
    Back,
    /// Warns that another interrupt within a second reaches the tasks.
    Asked {
        tasks: u32,
        node: String,
    },
    NotCancelled {
        job: JobId,
        reason: String,
    },
    CannotWrite(Channel, Errno),
    OutputMissing,
    UsedUp(JobId, UsedUp),
    /// A warning about the submission.
    Notice(String),
}

/// End of a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Leave {
    /// The job is over. `interrupt` is the signal by which the user ended it before it ran.
    Over {
        report: Box<JobReport>,
        interrupt: Option<i32>,
        output_lost: bool,
    },
    /// The user did not want to wait for the master.
    Interrupted {
        signal: i32,
        job: Option<JobId>,
    },
    Failed(Failure),
}
