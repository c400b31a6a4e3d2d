//! Inputs and effects: everything that reaches the node, and everything that it wants done.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use limo_model::{Attempt, JobId, NodeSpec, Power, Span};
use limo_power::{Machine, MeterError, Reading};
use limo_proto::{Data, DoExec, Frame, MasterToNode, NodeToMaster, StreamId, Text, WindowSize};
use limo_shepherd::processes::Mark;
use limo_shepherd::{BootTime, Ended, Handle, Identity, Launch, Order, Why};

use crate::meter::Rhythm;
use crate::records::{Found, Record};

/// The time of a step. All clocks of a node are read by its shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Time since the daemon began, by a clock that nobody sets. Points in time within the node are such durations.
    pub since: Duration,
    /// The same moment by the clock of `lshepherd`.
    pub boot: BootTime,
}

/// What a node is made of.
pub struct Parts {
    pub spec: NodeSpec,
    /// Set on emulated hardware.
    pub machine: Option<Machine>,
    /// Whether there is a meter that can be read.
    pub has_meter: bool,
    /// Whether real units may be capped.
    pub may_cap: bool,
    /// How long caps hold without a master.
    pub cap_lease: Span,
    /// The user that the daemon runs as; `None` if it is root and can become any.
    pub own_uid: Option<u32>,
    /// Random and secret: the cookies of jobs follow from it.
    pub seed: [u8; 32],
    /// Random, made once per state directory.
    pub instance: String,
    /// The kernel's boot id.
    pub boot: String,
    /// Of the meter.
    pub rhythm: Rhythm,
}

/// Names a record that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Units, by index, that do not hold their cap, and why.
pub type FailedCaps = Vec<(u16, Text<256>)>;

/// The streams of a job that go through the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connected {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// One thing that happened.
#[derive(Debug)]
pub enum Input {
    /// The records of an earlier daemon. The first input of each node.
    Recovered(BTreeMap<(JobId, Attempt), Found>),
    Connected(limo_proto::Identity),
    Disconnected,
    /// Whether the master is slow to take what it is sent. Comes when that changes.
    Behind(bool),
    FromMaster(Frame<MasterToNode>),
    /// The master answered a ping that was sent at this time.
    Answered {
        sent: Duration,
    },
    /// A record is durable, or why it could not be written.
    Recorded {
        ticket: Ticket,
        result: Result<(), String>,
    },
    /// A look-up of a user ended, with the reason if it failed.
    UserFound {
        uid: u32,
        result: Result<Identity, String>,
    },
    /// `lshepherd` takes orders.
    ShepherdReady,
    /// `lshepherd` ended, which it does not do by itself.
    ShepherdLost,
    /// `lshepherd` cannot be started again.
    ShepherdFailed(String),
    Started {
        handle: Handle,
        leader: i32,
        connected: Connected,
    },
    /// The command does not run. `code` is the exit code that stands for it.
    NotStarted {
        handle: Handle,
        code: u8,
        reason: String,
    },
    /// A timer of `lshepherd` has begun to end the job.
    Stopping {
        handle: Handle,
        why: Why,
    },
    /// The command is over.
    Exited {
        handle: Handle,
        ended: Ended,
    },
    /// Nothing is left of the job but `left` processes that could not be killed.
    Emptied {
        handle: Handle,
        left: u32,
    },
    /// A pass over all processes of the job, which stopped or continued them, is over.
    Reached {
        job: JobId,
    },
    /// The same as `Emptied`, of a job that no `lshepherd` has.
    Swept {
        job: JobId,
        left: usize,
    },
    /// A pipe gave these bytes; none is its end.
    Output {
        stream: StreamId,
        bytes: Bytes,
    },
    /// The job took so many bytes of stdin; the end counts as one.
    StdinTaken {
        job: JobId,
        count: u64,
    },
    /// The meter was asked at `at`, and answered.
    Metered {
        at: Duration,
        reading: Result<Reading, MeterError>,
    },
    /// Caps were set.
    Capped {
        generation: u64,
        failed: FailedCaps,
    },
    /// Every cap was lifted, or some could not be.
    CapsPutBack {
        complete: bool,
    },
    /// The report of the machine.
    Probed(String),
    Reconfigured(Rhythm),
    /// The time that [`crate::Node::deadline`] named has come.
    Deadline,
    Terminate,
    /// The machine was to sleep and is awake, and why.
    SleepFailed(String),
}

/// A launch, besides what only the shell can make: pipes, and the plan with its paths.
#[derive(Debug)]
pub struct LaunchOrder {
    pub launch: Launch,
    pub exec: Box<DoExec>,
    pub cookie: String,
    /// `None` if the daemon is the job's user.
    pub identity: Option<Identity>,
    /// Whether emulated hardware says when its work is done.
    pub emulated_work: bool,
}

/// One thing to do. The shell does them in order.
#[derive(Debug)]
pub enum Effect {
    /// To the master on the connection of now.
    Send(NodeToMaster),
    SendData(Data),
    /// Ends the connection once everything was sent.
    HangUp,
    /// [`Input::Recorded`] follows.
    Record {
        ticket: Ticket,
        record: Record,
    },
    /// [`Input::UserFound`] follows.
    LookUp {
        uid: u32,
    },
    /// [`Input::Started`] or [`Input::NotStarted`] follows.
    Launch(Box<LaunchOrder>),
    /// An order to `lshepherd` other than a launch.
    Order(Order),
    /// Kills what an ended `lshepherd` left.
    KillOrphans,
    /// Starts another `lshepherd`. [`Input::ShepherdFailed`] follows if that fails.
    RestartShepherd,
    /// Kills what carries the mark, within `patience`. [`Input::Swept`] follows.
    Sweep {
        job: JobId,
        mark: Mark,
        patience: Duration,
    },
    /// Removes the file that came with a job that a killed daemon ran.
    RemoveCarried {
        cookie: String,
        uid: u32,
    },
    /// Stops or continues every process of the job outside the group of `leader`. [`Input::Reached`] follows.
    Reach {
        job: JobId,
        mark: Mark,
        leader: i32,
        stop: bool,
    },
    /// Bytes for the job's stdin; none is its end. [`Input::StdinTaken`] follows.
    Stdin {
        job: JobId,
        bytes: Bytes,
    },
    /// Reads up to so many bytes of the job's output. [`Input::Output`] follows.
    Read {
        stream: StreamId,
        most: usize,
    },
    Resize {
        job: JobId,
        size: WindowSize,
    },
    /// The job's command is over: its pipes end soon, even if something holds them open.
    EndStreams {
        job: JobId,
    },
    /// Nobody wants the job's streams: stdin ends, and output is read and dropped.
    DropStreams {
        job: JobId,
    },
    /// The work of a job on emulated hardware is done, or its process is gone.
    EndWork {
        job: JobId,
    },
    /// [`Input::Metered`] follows.
    ReadMeter,
    /// Sets the caps of the units, by index. [`Input::Capped`] follows.
    SetCaps {
        generation: u64,
        caps: Vec<Option<Power>>,
    },
    /// Lifts every cap. [`Input::CapsPutBack`] follows.
    PutCapsBack,
    /// Looks at what the machine has; `shown` is what the meter showed last. [`Input::Probed`] follows.
    Probe {
        shown: Option<String>,
    },
    /// The daemon ends, with the reason if that is a failure.
    Exit(Result<(), String>),
    /// Puts the machine to sleep once the connection has ended. [`Input::SleepFailed`] follows if it does not sleep.
    Sleep,
}
