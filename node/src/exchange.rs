//! Inputs and effects of the node.

use std::time::Duration;

use bytes::Bytes;
use limo_model::{Attempt, Containment, JobId, Kept, NodeSpec, Power, Span};
use limo_power::{Machine, MeterError, Reading};
use limo_proto::{Data, DoExec, Frame, LiveUsage, MasterToNode, NodeToMaster, StreamId, Text, WindowSize};
use limo_shepherd::processes::Mark;
use limo_shepherd::{BootTime, Ended, Handle, Identity, Launch, Order, Why};

use crate::meter::Rhythm;
use crate::owners::OwnerRecord;
use crate::records::Record;
use crate::scripts::{Script, ScriptOrder, Scripts};
use crate::survivor::Recovery;
use crate::users::{Account, UserRules};

/// Time of a step. The shell reads all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Time since the daemon began, on a monotonic clock. Points in time within the node are such durations.
    pub since: Duration,
    /// The same moment on the clock of `lshepherd`.
    pub boot: BootTime,
}

/// Configuration of a node.
pub struct Parts {
    pub spec: NodeSpec,
    /// Emulated machine; `None` for a real one.
    pub machine: Option<Machine>,
    /// True if there is a meter.
    pub has_meter: bool,
    /// True if real units may be capped.
    pub may_cap: bool,
    /// Time for which caps hold without a master.
    pub cap_lease: Span,
    /// User of the daemon; `None` if it is root and can become any user.
    pub own_uid: Option<u32>,
    /// Users whose jobs the node runs.
    pub user_rules: UserRules,
    pub scripts: Scripts,
    /// True if the node can tell whether the owner of the machine is there.
    pub has_owner: bool,
    /// Seed of the jobs' cookies, random and secret.
    pub seed: [u8; 32],
    /// Random identity, made once per state directory.
    pub instance: String,
    /// The kernel's boot id.
    pub boot: String,
    /// Rhythm of the meter.
    pub rhythm: Rhythm,
    /// The hold on the processes of jobs, for the master.
    pub containment: Containment,
}

/// Identifies a record that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Indices of units that do not hold their cap, with the reason.
pub type FailedCaps = Vec<(u16, Text<256>)>;

/// Streams of a job that go through the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connected {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// Event for the node.
#[derive(Debug)]
pub enum Input {
    /// Records of an earlier daemon, and the shepherds that it left. This is the first input of each node. Answers of
    /// the shepherds about their jobs follow.
    Recovered(Recovery),
    Connected(limo_proto::Identity),
    Disconnected,
    /// True if the master reads slowly. Comes at each change.
    Behind(bool),
    FromMaster(Frame<MasterToNode>),
    /// The master answered a ping that was sent at this time.
    Answered {
        sent: Duration,
    },
    /// A record is durable, or the error of writing it.
    Recorded {
        ticket: Ticket,
        result: Result<(), String>,
    },
    /// The look-up of a user ended, with the reason if it failed.
    UserFound {
        uid: u32,
        result: Result<Account, String>,
    },
    /// A prolog or epilog ended; after a failure, contains the reason, such as `failed with exit status: 1`.
    ScriptEnded {
        script: Script,
        job: JobId,
        attempt: Attempt,
        result: Result<(), String>,
    },
    /// The shepherd of a job was killed or crashed.
    ShepherdLost {
        handle: Handle,
    },
    /// No shepherd can be started.
    ShepherdFailed(String),
    Started {
        handle: Handle,
        leader: i32,
        connected: Connected,
        /// True if `Order::Frozen` stops and continues all processes of the job.
        freezes: bool,
    },
    /// The command was not started; `code` is the exit code for this. Without a code the machine has failed, and the job may
    /// run on another one.
    NotStarted {
        handle: Handle,
        code: Option<u8>,
        reason: String,
    },
    /// A timer of `lshepherd` has begun to end the job.
    Stopping {
        handle: Handle,
        why: Why,
    },
    /// The command ended.
    Exited {
        handle: Handle,
        ended: Ended,
    },
    /// `lshepherd` has made a checkpoint of the job or failed to.
    Checkpointed {
        handle: Handle,
        kept: Kept,
    },
    /// All processes of the job have ended, except `left` ones that could not be killed.
    Emptied {
        handle: Handle,
        left: u32,
    },
    /// A pass that stopped or continued all processes of the job has ended.
    Reached {
        job: JobId,
    },
    /// Like `Emptied`, for a job without a shepherd.
    Swept {
        job: JobId,
        left: usize,
    },
    /// Bytes from a pipe; an empty piece is its end.
    Output {
        stream: StreamId,
        bytes: Bytes,
    },
    /// The job read this many bytes of stdin; the end counts as one.
    StdinTaken {
        job: JobId,
        count: u64,
    },
    /// The meter was sampled at `at`, and answered.
    Metered {
        at: Duration,
        reading: Result<Reading, MeterError>,
    },
    /// Caps were set.
    Capped {
        generation: u64,
        failed: FailedCaps,
    },
    /// All caps were lifted, or some could not be.
    CapsPutBack {
        complete: bool,
    },
    /// The owner of the machine came or left.
    Owner {
        is_there: bool,
    },
    /// The hardware report.
    Probed(String),
    /// The resources that an attempt has used so far.
    Measured {
        ticket: u64,
        used: Option<LiveUsage>,
    },
    Reconfigured(Rhythm),
    /// The time of [`crate::Node::deadline`] has come.
    Deadline,
    /// The daemon is to end.
    Terminate(JobsAtExit),
    /// The machine was to sleep but is awake; contains the reason.
    SleepFailed(String),
    /// The command that restarts the machine failed, for this reason.
    RebootFailed(String),
}

/// Fate of the jobs when the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsAtExit {
    /// The jobs go on; the next daemon continues with them.
    Keep,
    /// The jobs are stopped first.
    End,
}

/// Launch without the parts that only the shell can make: pipes, and the plan with its paths.
#[derive(Debug)]
pub struct LaunchOrder {
    pub launch: Launch,
    pub exec: Box<DoExec>,
    pub cookie: String,
    /// Identity of the job's user; `None` if the daemon runs as that user.
    pub identity: Option<Identity>,
    /// True if emulated hardware decides when the work is done.
    pub emulated_work: bool,
}

/// Action for the shell, performed in order.
#[derive(Debug)]
pub enum Effect {
    /// Sends a message on the current connection.
    Send(NodeToMaster),
    SendData(Data),
    /// Ends the connection once everything was sent.
    HangUp,
    /// Writes a record. [`Input::Recorded`] follows.
    Record {
        ticket: Ticket,
        record: Record,
    },
    /// Keeps the state of the owner for the next daemon.
    KeepOwner(OwnerRecord),
    /// Looks up a user. [`Input::UserFound`] follows.
    LookUp {
        uid: u32,
    },
    /// Runs a prolog or epilog. [`Input::ScriptEnded`] follows.
    RunScript(Box<ScriptOrder>),
    /// Kills the prolog of an attempt. [`Input::ScriptEnded`] follows.
    EndProlog {
        job: JobId,
        attempt: Attempt,
    },
    /// Launches a job. [`Input::Started`] or [`Input::NotStarted`] follows.
    Launch(Box<LaunchOrder>),
    /// Sends `lshepherd` an order other than a launch.
    Order(Order),
    /// Kills the processes that a killed shepherd left behind.
    KillOrphans,
    /// The end of an attempt is recorded, so that its shepherd can forget it once the streams are dropped. `handle` is
    /// `None` if the shepherd was killed.
    Release {
        job: JobId,
        attempt: Attempt,
        handle: Option<Handle>,
    },
    /// Kills the processes in the control group of the attempt and those with the mark, for up to `patience`.
    /// [`Input::Swept`] follows.
    Sweep {
        job: JobId,
        attempt: Attempt,
        mark: Mark,
        patience: Duration,
    },
    /// Removes the file that came with a job of a killed daemon.
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
    /// Writes bytes to the job's stdin; an empty piece is its end. [`Input::StdinTaken`] follows.
    Stdin {
        job: JobId,
        bytes: Bytes,
    },
    /// Reads up to this many bytes of the job's output. [`Input::Output`] follows.
    Read {
        stream: StreamId,
        most: usize,
    },
    /// The receiver has the output up to `offset`. The earlier bytes may be dropped.
    Acknowledged {
        stream: StreamId,
        offset: u64,
    },
    Resize {
        job: JobId,
        size: WindowSize,
    },
    /// Ends the stdin of a job and drops its output, because its streams have no reader.
    DropStreams {
        job: JobId,
    },
    /// Ends the work of a job on emulated hardware: the work is done, or the process has ended.
    EndWork {
        job: JobId,
    },
    /// Samples the meter. [`Input::Metered`] follows.
    ReadMeter,
    /// Sets the caps of the units, by index. [`Input::Capped`] follows.
    SetCaps {
        generation: u64,
        caps: Vec<Option<Power>>,
    },
    /// Lifts every cap. [`Input::CapsPutBack`] follows.
    PutCapsBack,
    /// Makes a hardware report; `shown` is the last reading of the meter. [`Input::Probed`] follows.
    Probe {
        shown: Option<String>,
    },
    /// Reads the resources that an attempt has used so far. [`Input::Measured`] follows.
    Measure {
        ticket: u64,
        job: JobId,
        attempt: Attempt,
    },
    /// Ends the daemon. After a failure, contains the reason.
    Exit(Result<(), String>),
    /// Puts the machine to sleep once the connection has ended. If it does not sleep, [`Input::SleepFailed`] follows.
    Sleep,
    /// Runs the command that restarts the machine. If it fails, [`Input::RebootFailed`] follows.
    Reboot,
}
