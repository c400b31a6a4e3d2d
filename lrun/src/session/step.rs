//! What happens to a session, and what it wants done about it.

use bytes::Bytes;
use limo_client::Failure;
use limo_model::{JobId, UsedUp, Wait};
use limo_proto::{Channel, ClientToMaster, Frame, JobReport, MasterToClient, WindowSize};
use nix::errno::Errno;

/// What happens to a session.
#[derive(Debug)]
pub enum Input {
    /// There is a new connection.
    Connected,
    /// The connection broke.
    Broken,
    Heard(Frame<MasterToClient>),
    /// A piece of stdin; no bytes are its end.
    Stdin(Bytes),
    /// So many bytes of an output of one node are written; the end counts as one.
    Written(Channel, u32, u64),
    /// An output cannot be written; it is thrown away from here on.
    Blocked(Channel, Errno),
    /// This process got a signal.
    Signal(i32),
    /// The terminal has another size.
    Resized(WindowSize),
    /// The master stayed away too long.
    GaveUp(Failure),
    /// The rest of the output of a job that is over did not come for too long.
    Silence,
}

/// What a session wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    Send(Frame<ClientToMaster>),
    /// Output of one node. No bytes are the end.
    Write(Channel, u32, Bytes),
    Say(News),
    /// The master sent something that cannot be: hang up and call again.
    Reconnect,
    /// Stop this process, as the terminal asked.
    StopSelf,
    Leave(Leave),
}

/// What the person may want to know.
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
    /// So many tasks run there; one more interrupt, soon, reaches them.
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
}

/// How a session ends.
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
