//! Shepherds that an earlier daemon left: what they hold.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, JobId, Span};
use limo_shepherd::Handle;

use crate::exchange::Connected;
use crate::records::Found;

/// State that outlived the daemon.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Records of attempts.
    pub found: BTreeMap<(JobId, Attempt), Found>,
    /// Shepherds that hold an attempt.
    pub survivors: BTreeMap<(JobId, Attempt), Survivor>,
    /// Attempts whose shepherds have ended without a release.
    pub abandoned: BTreeSet<(JobId, Attempt)>,
}

/// A shepherd that holds an attempt.
#[derive(Debug, Clone)]
pub struct Survivor {
    pub handle: Handle,
    /// Value of `LIMO_ATTEMPT` in the job's environment. It must match the record.
    pub cookie: String,
    pub resumed: Resumed,
    /// Streams of the job; `None` if nobody is attached, or they were dropped.
    pub streams: Option<HeldStreams>,
}

/// State of a running job that no record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resumed {
    /// True if the job is suspended.
    pub frozen: bool,
    /// True if the submitter has stopped the job.
    pub halted: bool,
    /// Time since the command was started.
    pub elapsed: Span,
}

/// Streams of a job that an earlier daemon has left. Offsets count the end of a stream as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldStreams {
    pub connected: Connected,
    /// Offset up to which the job has read stdin.
    pub stdin_taken: u64,
    /// Offset up to which stdin was received.
    pub stdin: u64,
    pub stdin_ended: bool,
    pub stdout: HeldOutput,
    pub stderr: HeldOutput,
}

/// An output that an earlier daemon has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldOutput {
    /// Offset up to which the receiver has acknowledged.
    pub acknowledged: u64,
    /// True if this includes the end.
    pub is_done: bool,
}
