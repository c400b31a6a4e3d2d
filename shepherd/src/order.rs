//! Orders that `lslave` gives to `lshepherd`.

use crate::boottime::BootTime;
use crate::fields::{DecodeError, Fields, Writer, narrow};

/// Identifier of a launch during a connection. `lslave` chooses it and never uses it twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The attempt of a launch. While `lshepherd` holds the attempt, its socket has the name `JOB.ATTEMPT`, so that a later
/// `lslave` knows what was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the type says what its fields are")]
pub struct Claim {
    pub job: u64,
    pub attempt: u32,
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.job, self.attempt)
    }
}

impl std::str::FromStr for Claim {
    type Err = std::num::ParseIntError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (job, attempt) = name.split_once('.').unwrap_or((name, ""));
        Ok(Self { job: job.parse()?, attempt: attempt.parse()? })
    }
}

/// The descriptors that `lshepherd` keeps for a job. They follow those of the job in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Writing end of the job's stdin.
    pub stdin: bool,
    /// Reading end of the job's stdout.
    pub stdout: bool,
    /// Reading end of the job's stderr.
    pub stderr: bool,
    /// The other side of the job's terminal, in place of all three.
    pub terminal: bool,
    /// A pipe that `Order::EndWork` closes.
    pub work: bool,
}

impl Kept {
    /// Returns the number of descriptors.
    pub fn count(self) -> usize {
        self.flags().into_iter().filter(|kept| *kept).count()
    }

    /// Returns true if `lshepherd` keeps a stream.
    pub fn has_streams(self) -> bool {
        self.stdin || self.stdout || self.stderr || self.terminal
    }

    fn flags(self) -> [bool; 5] {
        let Self { stdin, stdout, stderr, terminal, work } = self;
        [stdin, stdout, stderr, terminal, work]
    }

    pub(crate) fn bits(self) -> u64 {
        self.flags().into_iter().rev().fold(0, |bits, kept| bits << 1 | u64::from(kept))
    }

    pub(crate) fn of(bits: u64) -> Self {
        let has = |place: u32| bits >> place & 1 != 0;
        Self { stdin: has(0), stdout: has(1), stderr: has(2), terminal: has(3), work: has(4) }
    }
}

/// A launch without its plan. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Identifier in every order and answer about this launch.
    pub handle: Handle,
    /// Time limit of the command, without the time while it is suspended. `None` for no limit.
    pub time_limit: Option<u64>,
    /// A signal for the process group, and its time before the limit.
    pub warning: Option<(i32, u64)>,
    /// A signal for the process group, or `None` for the command of the plan, and the running time from one checkpoint to the
    /// next, without suspensions.
    pub checkpoint: Option<(Option<i32>, u64)>,
    /// Time between TERM and KILL when a timer ends the job.
    pub kill_grace: u64,
    /// End of the lease, if the job has one. A later `Order::Lease` moves the end of every lease.
    pub lease: Option<BootTime>,
    /// Longest time for entering the directory, opening files and executing the program together.
    pub launch_deadline: u64,
    /// The attempt, if `lshepherd` holds it until `Order::Release`. Without it, nothing outlives the connection.
    pub claim: Option<Claim>,
    /// Descriptors that come with the launch and are not for the job.
    pub kept: Kept,
}

/// An order to `lshepherd`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Order {
    /// The first message. With a name it comes with a directory, in which `lshepherd` listens under this name, so that
    /// a later `lslave` finds it; jobs then outlive the connection. Without a name all jobs end with the connection,
    /// and the descriptor is only kept open until then.
    Hello { name: Option<String> },
    /// Launches a command. The plan and the descriptors come with it ([`crate::send_launch`]).
    Launch(Launch),
    /// Sends a signal to the job's process group.
    Signal { handle: Handle, signal: i32 },
    /// Sends TERM, and KILL after `grace` milliseconds. The earliest KILL counts. With `evicts`, the job continues and makes a
    /// checkpoint before TERM, if it makes any.
    Stop { handle: Handle, grace: u64, evicts: bool },
    /// Moves the end of all leases, even to an earlier time.
    Lease { until: BootTime },
    /// The job is suspended or continues. Its time limit is paused during a suspension. A job in a control group that can be
    /// frozen is frozen or continues with this.
    Frozen { handle: Handle, on: bool },
    /// Removes the carried files that an earlier process left behind in `directory`, as user `uid`.
    RemoveCarried { directory: Vec<u8>, uid: u32 },
    /// The job may run for at least `limit` milliseconds, suspended or not, before it reaches its time limit.
    Extend { handle: Handle, limit: u64 },
    /// The job has another time limit in milliseconds, or none, counted from its beginning without suspensions. Ends the effect
    /// of earlier `Extend`.
    Limit { handle: Handle, limit: Option<u64> },
    /// Bytes of stdin were added to its memory, or bytes of output were released.
    Wake { handle: Handle },
    /// Nobody reads the output or writes stdin any longer: stdin ends, and the output is dropped.
    DropStreams { handle: Handle },
    /// Sets the size of the job's terminal.
    Resize { handle: Handle, rows: u16, columns: u16 },
    /// The work on emulated hardware is done.
    EndWork { handle: Handle },
    /// The submitter has stopped or continued the job. This is only kept for a later `lslave`.
    Halted { handle: Handle, on: bool },
    /// The end of the job is recorded and its output delivered, so that it can be forgotten. `Answer::Ready` follows.
    Release { handle: Handle },
}

const HELLO: u16 = 1;
const LAUNCH: u16 = 2;
const SIGNAL: u16 = 3;
const STOP: u16 = 4;
const LEASE: u16 = 5;
const FROZEN: u16 = 6;
const REMOVE_CARRIED: u16 = 7;
const EXTEND: u16 = 8;
const WAKE: u16 = 9;
const DROP_STREAMS: u16 = 10;
const RESIZE: u16 = 11;
const END_WORK: u16 = 12;
const RELEASE: u16 = 13;
const HALTED: u16 = 14;
const LIMIT: u16 = 15;

/// Tags of all orders.
mod tag {
    pub const HANDLE: u16 = 1;
    pub const TIME_LIMIT: u16 = 2;
    pub const KILL_GRACE: u16 = 3;
    pub const LEASE: u16 = 4;
    pub const LAUNCH_DEADLINE: u16 = 5;
    pub const SIGNAL: u16 = 6;
    pub const GRACE: u16 = 7;
    pub const ON: u16 = 8;
    pub const DIRECTORY: u16 = 9;
    pub const UID: u16 = 10;
    pub const PLAN: u16 = 11;
    pub const WARNING: u16 = 12;
    pub const WARN_BEFORE: u16 = 13;
    pub const NAME: u16 = 14;
    pub const JOB: u16 = 15;
    pub const ATTEMPT: u16 = 16;
    pub const KEPT: u16 = 17;
    pub const ROWS: u16 = 18;
    pub const COLUMNS: u16 = 19;
    pub const CHECKPOINT: u16 = 20;
    pub const CHECKPOINT_EVERY: u16 = 21;
    pub const EVICTS: u16 = 22;
}

pub(crate) use tag::{KEPT, PLAN};

impl Order {
    /// Encodes the order; a launch without its plan.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { name: None } => Writer::new(HELLO).finish(),
            Self::Hello { name: Some(name) } => Writer::new(HELLO).bytes(tag::NAME, name.as_bytes()).finish(),
            Self::Wake { handle } => Writer::new(WAKE).number(tag::HANDLE, handle.0).finish(),
            Self::DropStreams { handle } => Writer::new(DROP_STREAMS).number(tag::HANDLE, handle.0).finish(),
            Self::EndWork { handle } => Writer::new(END_WORK).number(tag::HANDLE, handle.0).finish(),
            Self::Halted { handle, on } => {
                Writer::new(HALTED).number(tag::HANDLE, handle.0).flag(tag::ON, *on).finish()
            }
            Self::Release { handle } => Writer::new(RELEASE).number(tag::HANDLE, handle.0).finish(),
            Self::Resize { handle, rows, columns } => Writer::new(RESIZE)
                .number(tag::HANDLE, handle.0)
                .number(tag::ROWS, (*rows).into())
                .number(tag::COLUMNS, (*columns).into())
                .finish(),
            Self::Launch(launch) => launch.writer().finish(),
            Self::Signal { handle, signal } => Writer::new(SIGNAL)
                .number(tag::HANDLE, handle.0)
                .number(tag::SIGNAL, u64::try_from(*signal).unwrap_or(0))
                .finish(),
            Self::Stop { handle, grace, evicts } => {
                let mut writer = Writer::new(STOP);
                writer.number(tag::HANDLE, handle.0).number(tag::GRACE, *grace).flag(tag::EVICTS, *evicts).finish()
            }
            Self::Lease { until } => Writer::new(LEASE).number(tag::LEASE, until.0).finish(),
            Self::Frozen { handle, on } => {
                Writer::new(FROZEN).number(tag::HANDLE, handle.0).flag(tag::ON, *on).finish()
            }
            Self::Extend { handle, limit } => {
                Writer::new(EXTEND).number(tag::HANDLE, handle.0).number(tag::TIME_LIMIT, *limit).finish()
            }
            Self::Limit { handle, limit } => {
                Writer::new(LIMIT).number(tag::HANDLE, handle.0).maybe(tag::TIME_LIMIT, *limit).finish()
            }
            Self::RemoveCarried { directory, uid } => {
                Writer::new(REMOVE_CARRIED).bytes(tag::DIRECTORY, directory).number(tag::UID, (*uid).into()).finish()
            }
        }
    }

    /// Decodes an order.
    ///
    /// # Errors
    /// If the bytes are not an order.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::read(bytes)?;
        let handle = || fields.number(tag::HANDLE).map(Handle);
        Ok(match fields.kind {
            HELLO => Self::Hello { name: fields.bytes(tag::NAME).map(|_| fields.text(tag::NAME)).transpose()? },
            WAKE => Self::Wake { handle: handle()? },
            DROP_STREAMS => Self::DropStreams { handle: handle()? },
            END_WORK => Self::EndWork { handle: handle()? },
            HALTED => Self::Halted { handle: handle()?, on: fields.flag(tag::ON)? },
            RELEASE => Self::Release { handle: handle()? },
            RESIZE => Self::Resize {
                handle: handle()?,
                rows: narrow(tag::ROWS, fields.number(tag::ROWS)?)?,
                columns: narrow(tag::COLUMNS, fields.number(tag::COLUMNS)?)?,
            },
            LAUNCH => Self::Launch(Launch {
                warning: timed_signal(&fields, (tag::WARNING, tag::WARN_BEFORE))?,
                checkpoint: match fields.maybe(tag::CHECKPOINT_EVERY)? {
                    Some(every) => Some((maybe_signal(&fields, tag::CHECKPOINT)?, every)),
                    None => None,
                },
                handle: handle()?,
                time_limit: fields.maybe(tag::TIME_LIMIT)?,
                kill_grace: fields.maybe(tag::KILL_GRACE)?.unwrap_or(0),
                lease: fields.maybe(tag::LEASE)?.map(BootTime),
                launch_deadline: fields.number(tag::LAUNCH_DEADLINE)?,
                claim: claim_of(&fields, (tag::JOB, tag::ATTEMPT))?,
                kept: Kept::of(fields.maybe(tag::KEPT)?.unwrap_or(0)),
            }),
            SIGNAL => Self::Signal { handle: handle()?, signal: narrow(tag::SIGNAL, fields.number(tag::SIGNAL)?)? },
            STOP => {
                Self::Stop { handle: handle()?, grace: fields.number(tag::GRACE)?, evicts: fields.flag(tag::EVICTS)? }
            }
            LEASE => Self::Lease { until: BootTime(fields.number(tag::LEASE)?) },
            FROZEN => Self::Frozen { handle: handle()?, on: fields.flag(tag::ON)? },
            REMOVE_CARRIED => Self::RemoveCarried {
                directory: fields.bytes(tag::DIRECTORY).ok_or(DecodeError::Missing { tag: tag::DIRECTORY })?.to_vec(),
                uid: narrow(tag::UID, fields.number(tag::UID)?)?,
            },
            EXTEND => Self::Extend { handle: handle()?, limit: fields.number(tag::TIME_LIMIT)? },
            LIMIT => Self::Limit { handle: handle()?, limit: fields.maybe(tag::TIME_LIMIT)? },
            kind => return Err(DecodeError::Kind { kind }),
        })
    }
}

/// Returns the attempt in two fields, if both are present.
pub(crate) fn claim_of(fields: &Fields<'_>, (job, attempt): (u16, u16)) -> Result<Option<Claim>, DecodeError> {
    match (fields.maybe(job)?, fields.maybe(attempt)?) {
        (Some(job), Some(number)) => Ok(Some(Claim { job, attempt: narrow(attempt, number)? })),
        _ => Ok(None),
    }
}

/// Returns a signal and its time in two fields, if both are present.
fn timed_signal(fields: &Fields<'_>, (signal, time): (u16, u16)) -> Result<Option<(i32, u64)>, DecodeError> {
    Ok(maybe_signal(fields, signal)?.zip(fields.maybe(time)?))
}

/// Returns the signal in a field, if it is present.
fn maybe_signal(fields: &Fields<'_>, tag: u16) -> Result<Option<i32>, DecodeError> {
    fields.maybe(tag)?.map(|number| narrow(tag, number)).transpose()
}

impl Launch {
    pub(crate) fn writer(&self) -> Writer {
        let mut writer = Writer::new(LAUNCH);
        let number = |signal: Option<i32>| signal.and_then(|signal| u64::try_from(signal).ok());
        writer
            .number(tag::HANDLE, self.handle.0)
            .maybe(tag::TIME_LIMIT, self.time_limit)
            .maybe(tag::WARNING, number(self.warning.map(|(signal, _)| signal)))
            .maybe(tag::WARN_BEFORE, self.warning.map(|(_, before)| before))
            .number(tag::KILL_GRACE, self.kill_grace)
            .maybe(tag::LEASE, self.lease.map(|until| until.0))
            .number(tag::LAUNCH_DEADLINE, self.launch_deadline)
            .maybe(tag::JOB, self.claim.map(|claim| claim.job))
            .maybe(tag::ATTEMPT, self.claim.map(|claim| claim.attempt.into()))
            .maybe(tag::KEPT, Some(self.kept.bits()).filter(|bits| *bits != 0))
            .maybe(tag::CHECKPOINT, number(self.checkpoint.and_then(|(signal, _)| signal)))
            .maybe(tag::CHECKPOINT_EVERY, self.checkpoint.map(|(_, every)| every));
        writer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_way() {
        let handle = Handle(u64::MAX);
        let launch = Launch {
            handle,
            time_limit: Some(3000),
            warning: Some((10, 500)),
            checkpoint: Some((Some(12), 60_000)),
            kill_grace: 5,
            lease: Some(BootTime(77)),
            launch_deadline: 30_000,
            claim: Some(Claim { job: 1 << 40, attempt: 2 }),
            kept: Kept { stdin: true, stderr: true, work: true, ..Kept::default() },
        };
        for order in [
            Order::Hello { name: None },
            Order::Hello { name: Some("a".into()) },
            Order::Wake { handle },
            Order::DropStreams { handle },
            Order::Resize { handle, rows: 24, columns: u16::MAX },
            Order::EndWork { handle },
            Order::Halted { handle, on: true },
            Order::Release { handle },
            Order::Launch(Launch { claim: None, kept: Kept::default(), ..launch }),
            Order::Launch(launch),
            Order::Launch(Launch { time_limit: None, lease: None, checkpoint: None, ..launch }),
            Order::Launch(Launch { checkpoint: Some((None, 1)), ..launch }),
            Order::Signal { handle, signal: 35 },
            Order::Stop { handle, grace: 0, evicts: false },
            Order::Stop { handle, grace: 9, evicts: true },
            Order::Lease { until: BootTime(1 << 40) },
            Order::Frozen { handle, on: true },
            Order::Extend { handle, limit: u64::MAX },
            Order::Limit { handle, limit: Some(0) },
            Order::Limit { handle, limit: None },
            Order::Frozen { handle, on: false },
            Order::RemoveCarried { directory: b"/tmp/x\xff".to_vec(), uid: u32::MAX },
        ] {
            assert_eq!(Order::decode(&order.encode()), Ok(order));
        }
        assert_eq!((launch.kept.count(), launch.kept.bits()), (3, 0b1_0101));
        assert_eq!(Order::decode(&Writer::new(999).finish()), Err(DecodeError::Kind { kind: 999 }));
    }

    #[test]
    fn names_of_claims_are_read() {
        let claim = Claim { job: 12, attempt: 3 };
        assert_eq!((claim.to_string(), "12.3".parse()), ("12.3".to_owned(), Ok(claim)));
        assert!(["12", "12.", ".3", "12.3.4", "idle-7"].iter().all(|name| name.parse::<Claim>().is_err()));
    }
}
