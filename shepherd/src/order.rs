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

/// A launch without its plan. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Identifier in every order and answer about this launch.
    pub handle: Handle,
    /// Time limit of the command, without the time while it is suspended. `None` for no limit.
    pub time_limit: Option<u64>,
    /// A signal for the process group, and its time before the limit.
    pub warning: Option<(i32, u64)>,
    /// Time between TERM and KILL when a timer ends the job.
    pub kill_grace: u64,
    /// End of the lease, if the job has one. A later `Order::Lease` moves the end of every lease.
    pub lease: Option<BootTime>,
    /// Longest time for entering the directory, opening files and executing the program together.
    pub launch_deadline: u64,
}

/// An order to `lshepherd`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Order {
    /// The first message. It comes with one descriptor, the lock of the state directory. `lshepherd` keeps this
    /// descriptor open until it ends, so that the next daemon waits until all launched jobs are gone.
    Hello,
    /// Launches a command. The plan and the descriptors come with it ([`crate::send_launch`]).
    Launch(Launch),
    /// Sends a signal to the job's process group.
    Signal { handle: Handle, signal: i32 },
    /// Sends TERM, and KILL after `grace` milliseconds. The earliest KILL counts.
    Stop { handle: Handle, grace: u64 },
    /// Moves the end of all leases, even to an earlier time.
    Lease { until: BootTime },
    /// The job is suspended or continues. Its time limit is paused during a suspension.
    Frozen { handle: Handle, on: bool },
    /// Removes the carried files that an earlier process left behind in `directory`, as user `uid`.
    RemoveCarried { directory: Vec<u8>, uid: u32 },
    /// The job may run for at least `limit` milliseconds, suspended or not, before it reaches its time limit.
    Extend { handle: Handle, limit: u64 },
}

const HELLO: u16 = 1;
const LAUNCH: u16 = 2;
const SIGNAL: u16 = 3;
const STOP: u16 = 4;
const LEASE: u16 = 5;
const FROZEN: u16 = 6;
const REMOVE_CARRIED: u16 = 7;
const EXTEND: u16 = 8;

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
}

pub(crate) use tag::PLAN;

impl Order {
    /// Encodes the order; a launch without its plan.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello => Writer::new(HELLO).finish(),
            Self::Launch(launch) => launch.writer().finish(),
            Self::Signal { handle, signal } => Writer::new(SIGNAL)
                .number(tag::HANDLE, handle.0)
                .number(tag::SIGNAL, u64::try_from(*signal).unwrap_or(0))
                .finish(),
            Self::Stop { handle, grace } => {
                Writer::new(STOP).number(tag::HANDLE, handle.0).number(tag::GRACE, *grace).finish()
            }
            Self::Lease { until } => Writer::new(LEASE).number(tag::LEASE, until.0).finish(),
            Self::Frozen { handle, on } => {
                Writer::new(FROZEN).number(tag::HANDLE, handle.0).flag(tag::ON, *on).finish()
            }
            Self::Extend { handle, limit } => {
                Writer::new(EXTEND).number(tag::HANDLE, handle.0).number(tag::TIME_LIMIT, *limit).finish()
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
            HELLO => Self::Hello,
            LAUNCH => Self::Launch(Launch {
                warning: match (fields.maybe(tag::WARNING)?, fields.maybe(tag::WARN_BEFORE)?) {
                    (Some(signal), Some(before)) => Some((narrow(tag::WARNING, signal)?, before)),
                    _ => None,
                },
                handle: handle()?,
                time_limit: fields.maybe(tag::TIME_LIMIT)?,
                kill_grace: fields.maybe(tag::KILL_GRACE)?.unwrap_or(0),
                lease: fields.maybe(tag::LEASE)?.map(BootTime),
                launch_deadline: fields.number(tag::LAUNCH_DEADLINE)?,
            }),
            SIGNAL => Self::Signal { handle: handle()?, signal: narrow(tag::SIGNAL, fields.number(tag::SIGNAL)?)? },
            STOP => Self::Stop { handle: handle()?, grace: fields.number(tag::GRACE)? },
            LEASE => Self::Lease { until: BootTime(fields.number(tag::LEASE)?) },
            FROZEN => Self::Frozen { handle: handle()?, on: fields.flag(tag::ON)? },
            REMOVE_CARRIED => Self::RemoveCarried {
                directory: fields.bytes(tag::DIRECTORY).ok_or(DecodeError::Missing { tag: tag::DIRECTORY })?.to_vec(),
                uid: narrow(tag::UID, fields.number(tag::UID)?)?,
            },
            EXTEND => Self::Extend { handle: handle()?, limit: fields.number(tag::TIME_LIMIT)? },
            kind => return Err(DecodeError::Kind { kind }),
        })
    }
}

impl Launch {
    pub(crate) fn writer(&self) -> Writer {
        let mut writer = Writer::new(LAUNCH);
        writer
            .number(tag::HANDLE, self.handle.0)
            .maybe(tag::TIME_LIMIT, self.time_limit)
            .maybe(tag::WARNING, self.warning.and_then(|(signal, _)| u64::try_from(signal).ok()))
            .maybe(tag::WARN_BEFORE, self.warning.map(|(_, before)| before))
            .number(tag::KILL_GRACE, self.kill_grace)
            .maybe(tag::LEASE, self.lease.map(|until| until.0))
            .number(tag::LAUNCH_DEADLINE, self.launch_deadline);
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
            kill_grace: 5,
            lease: Some(BootTime(77)),
            launch_deadline: 30_000,
        };
        for order in [
            Order::Hello,
            Order::Launch(launch),
            Order::Launch(Launch { time_limit: None, lease: None, ..launch }),
            Order::Signal { handle, signal: 35 },
            Order::Stop { handle, grace: 0 },
            Order::Lease { until: BootTime(1 << 40) },
            Order::Frozen { handle, on: true },
            Order::Extend { handle, limit: u64::MAX },
            Order::Frozen { handle, on: false },
            Order::RemoveCarried { directory: b"/tmp/x\xff".to_vec(), uid: u32::MAX },
        ] {
            assert_eq!(Order::decode(&order.encode()), Ok(order));
        }
        assert_eq!(Order::decode(&Writer::new(999).finish()), Err(DecodeError::Kind { kind: 999 }));
    }
}
