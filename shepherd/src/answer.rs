//! Answers of `lshepherd`.

use crate::fields::{DecodeError, Fields, Writer, narrow};
use crate::order::{Claim, Handle, Kept, claim_of};

/// The cause of a job's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The command ended by itself, or by a signal from elsewhere.
    OfItself,
    /// An order to stop ended the job.
    Stop,
    /// The time limit ended the job.
    Limit,
    /// The lease ended the job.
    Lease,
}

/// The end of a command that made no checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandFailure {
    /// Status as in `waitpid(2)`.
    pub status: i32,
    /// True if it was killed at its time limit.
    pub is_late: bool,
}

/// The end of a command, with the resources that it and its awaited children used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Status as in `waitpid(2)`.
    pub status: i32,
    /// Milliseconds since the command was started.
    pub elapsed: u64,
    /// CPU time in user mode, in milliseconds.
    pub user_cpu: u64,
    /// CPU time in system mode, in milliseconds.
    pub system_cpu: u64,
    /// Largest resident memory, in bytes.
    pub max_rss: u64,
    /// Source of the first signal, if the job did not end by itself.
    pub why: Why,
    /// Limit of the job's memory in bytes, if the kernel killed one of its processes because of it.
    pub exceeded_memory: Option<u64>,
}

/// A job that `lshepherd` holds when a later `lslave` connects. The answers about the job follow, as they were given
/// before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holds {
    /// Identifier of the launch.
    pub handle: Handle,
    /// The attempt of the launch.
    pub claim: Claim,
    /// Value of `LIMO_ATTEMPT` in its environment.
    pub cookie: String,
    /// Descriptors that are kept; without streams if they were dropped.
    pub kept: Kept,
    /// True if the job is suspended by `Order::Frozen`.
    pub frozen: bool,
    /// True if the submitter has stopped the job, by the last `Order::Halted`.
    pub halted: bool,
    /// Milliseconds since the command was started.
    pub elapsed: u64,
}

/// News about a launch, or about `lshepherd` itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Answer {
    /// `lshepherd` is ready. If it listens in a directory, the memory of stdin, stdout and stderr comes with this.
    Hello { pid: i32, holds: Option<Box<Holds>> },
    /// The command runs. `freezes` is true if `Order::Frozen` stops and continues its processes; otherwise signals must.
    Started { handle: Handle, leader: i32, freezes: bool },
    /// The command does not run and never will. `step` is a [`crate::Step`], if known; `errno` is 0 if the reason is
    /// complete.
    NotStarted { handle: Handle, step: u8, errno: i32, reason: String },
    /// A timer has begun to end the job.
    Stopping { handle: Handle, why: Why },
    /// The command is over, and its process group was killed.
    Exited { handle: Handle, ended: Ended },
    /// All processes of the job have ended except `left`, which could not be killed. Follows `Exited`.
    Emptied { handle: Handle, left: u32 },
    /// Message for the log.
    Trouble { text: String },
    /// Bytes of output were added to their memory, or bytes of stdin were released.
    Moved { handle: Handle },
    /// The last checkpoint is that after `ran` milliseconds of running, which took `took` milliseconds; 0 if this is unknown. If a
    /// later command for a checkpoint failed, contains how. A later answer replaces this one.
    Checkpointed { handle: Handle, ran: u64, took: u64, failed: Option<CommandFailure> },
    /// The job was forgotten, and another one may be launched.
    Ready,
}

const HELLO: u16 = 1;
const STARTED: u16 = 2;
const NOT_STARTED: u16 = 3;
const STOPPING: u16 = 4;
const EXITED: u16 = 5;
const EMPTIED: u16 = 6;
const TROUBLE: u16 = 7;
const MOVED: u16 = 8;
const READY: u16 = 9;
const CHECKPOINTED: u16 = 10;

/// Tags of all answers.
mod tag {
    pub const HANDLE: u16 = 1;
    pub const PID: u16 = 2;
    pub const STEP: u16 = 3;
    pub const ERRNO: u16 = 4;
    pub const REASON: u16 = 5;
    pub const STATUS: u16 = 6;
    pub const ELAPSED: u16 = 7;
    pub const USER_CPU: u16 = 8;
    pub const SYSTEM_CPU: u16 = 9;
    pub const MAX_RSS: u16 = 10;
    pub const WHY: u16 = 11;
    pub const LEFT: u16 = 12;
    pub const JOB: u16 = 13;
    pub const ATTEMPT: u16 = 14;
    pub const COOKIE: u16 = 15;
    pub const KEPT: u16 = 16;
    pub const FROZEN: u16 = 17;
    pub const HALTED: u16 = 18;
    pub const EXCEEDED_MEMORY: u16 = 19;
    pub const FREEZES: u16 = 20;
    pub const TOOK: u16 = 21;
    pub const LATE: u16 = 22;
}

impl Why {
    fn number(self) -> u64 {
        match self {
            Self::OfItself => 0,
            Self::Stop => 1,
            Self::Limit => 2,
            Self::Lease => 3,
        }
    }

    fn of(number: u64) -> Self {
        match number {
            1 => Self::Stop,
            2 => Self::Limit,
            3 => Self::Lease,
            _ => Self::OfItself,
        }
    }
}

/// Converts a signed number without changing its bits.
fn bits(number: i32) -> u64 {
    u64::from(number.cast_unsigned())
}

fn signed(tag: u16, number: u64) -> Result<i32, DecodeError> {
    Ok(narrow::<u32>(tag, number)?.cast_signed())
}

impl Holds {
    fn write(&self, writer: &mut Writer) {
        writer
            .number(tag::HANDLE, self.handle.0)
            .number(tag::JOB, self.claim.job)
            .number(tag::ATTEMPT, self.claim.attempt.into())
            .bytes(tag::COOKIE, self.cookie.as_bytes())
            .number(tag::KEPT, self.kept.bits())
            .flag(tag::FROZEN, self.frozen)
            .flag(tag::HALTED, self.halted)
            .number(tag::ELAPSED, self.elapsed);
    }

    fn read(fields: &Fields<'_>) -> Result<Option<Self>, DecodeError> {
        let Some(claim) = claim_of(fields, (tag::JOB, tag::ATTEMPT))? else { return Ok(None) };
        Ok(Some(Self {
            handle: Handle(fields.number(tag::HANDLE)?),
            claim,
            cookie: fields.text(tag::COOKIE)?,
            kept: Kept::of(fields.maybe(tag::KEPT)?.unwrap_or(0)),
            frozen: fields.flag(tag::FROZEN)?,
            halted: fields.flag(tag::HALTED)?,
            elapsed: fields.maybe(tag::ELAPSED)?.unwrap_or(0),
        }))
    }
}

impl Answer {
    /// Encodes the answer, for [`crate::send`].
    pub fn encode(&self) -> Vec<u8> {
        let of = |kind: u16, handle: &Handle| {
            let mut writer = Writer::new(kind);
            writer.number(tag::HANDLE, handle.0);
            writer
        };
        match self {
            Self::Hello { pid, holds } => {
                let mut writer = Writer::new(HELLO);
                writer.number(tag::PID, bits(*pid));
                if let Some(holds) = holds {
                    holds.write(&mut writer);
                }
                writer.finish()
            }
            Self::Moved { handle } => of(MOVED, handle).finish(),
            Self::Ready => Writer::new(READY).finish(),
            Self::Started { handle, leader, freezes } => {
                of(STARTED, handle).number(tag::PID, bits(*leader)).flag(tag::FREEZES, *freezes).finish()
            }
            Self::NotStarted { handle, step, errno, reason } => of(NOT_STARTED, handle)
                .number(tag::STEP, (*step).into())
                .number(tag::ERRNO, bits(*errno))
                .bytes(tag::REASON, reason.as_bytes())
                .finish(),
            Self::Stopping { handle, why } => of(STOPPING, handle).number(tag::WHY, why.number()).finish(),
            Self::Exited { handle, ended } => of(EXITED, handle)
                .number(tag::STATUS, bits(ended.status))
                .number(tag::ELAPSED, ended.elapsed)
                .number(tag::USER_CPU, ended.user_cpu)
                .number(tag::SYSTEM_CPU, ended.system_cpu)
                .number(tag::MAX_RSS, ended.max_rss)
                .number(tag::WHY, ended.why.number())
                .maybe(tag::EXCEEDED_MEMORY, ended.exceeded_memory)
                .finish(),
            Self::Checkpointed { handle, ran, took, failed } => of(CHECKPOINTED, handle)
                .number(tag::ELAPSED, *ran)
                .maybe(tag::TOOK, Some(*took).filter(|took| *took > 0))
                .maybe(tag::STATUS, failed.map(|failed| bits(failed.status)))
                .flag(tag::LATE, failed.is_some_and(|failed| failed.is_late))
                .finish(),
            Self::Emptied { handle, left } => of(EMPTIED, handle).number(tag::LEFT, (*left).into()).finish(),
            Self::Trouble { text } => Writer::new(TROUBLE).bytes(tag::REASON, text.as_bytes()).finish(),
        }
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// If the bytes are not an answer.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::read(bytes)?;
        let handle = || fields.number(tag::HANDLE).map(Handle);
        let pid = || signed(tag::PID, fields.number(tag::PID)?);
        let why = || Ok::<_, DecodeError>(Why::of(fields.maybe(tag::WHY)?.unwrap_or(0)));
        Ok(match fields.kind {
            HELLO => Self::Hello { pid: pid()?, holds: Holds::read(&fields)?.map(Box::new) },
            MOVED => Self::Moved { handle: handle()? },
            READY => Self::Ready,
            STARTED => Self::Started { handle: handle()?, leader: pid()?, freezes: fields.flag(tag::FREEZES)? },
            NOT_STARTED => Self::NotStarted {
                handle: handle()?,
                step: narrow(tag::STEP, fields.number(tag::STEP)?)?,
                errno: signed(tag::ERRNO, fields.number(tag::ERRNO)?)?,
                reason: fields.text(tag::REASON)?,
            },
            STOPPING => Self::Stopping { handle: handle()?, why: why()? },
            EXITED => Self::Exited {
                handle: handle()?,
                ended: Ended {
                    status: signed(tag::STATUS, fields.number(tag::STATUS)?)?,
                    elapsed: fields.number(tag::ELAPSED)?,
                    user_cpu: fields.number(tag::USER_CPU)?,
                    system_cpu: fields.number(tag::SYSTEM_CPU)?,
                    max_rss: fields.number(tag::MAX_RSS)?,
                    why: why()?,
                    exceeded_memory: fields.maybe(tag::EXCEEDED_MEMORY)?,
                },
            },
            CHECKPOINTED => {
                let is_late = fields.flag(tag::LATE)?;
                let status = fields.maybe(tag::STATUS)?.map(|status| signed(tag::STATUS, status)).transpose()?;
                Self::Checkpointed {
                    handle: handle()?,
                    ran: fields.number(tag::ELAPSED)?,
                    took: fields.maybe(tag::TOOK)?.unwrap_or(0),
                    failed: status.map(|status| CommandFailure { status, is_late }),
                }
            }
            EMPTIED => Self::Emptied { handle: handle()?, left: narrow(tag::LEFT, fields.number(tag::LEFT)?)? },
            TROUBLE => Self::Trouble { text: fields.text(tag::REASON)? },
            kind => return Err(DecodeError::Kind { kind }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_way() {
        let handle = Handle(7);
        let ended = Ended {
            status: 256,
            elapsed: 1,
            user_cpu: 2,
            system_cpu: 3,
            max_rss: 1 << 40,
            why: Why::OfItself,
            exceeded_memory: None,
        };
        let exited = |why| Answer::Exited { handle, ended: Ended { why, ..ended } };
        let exceeded_memory = Some(1 << 40);
        let holds = Holds {
            handle,
            claim: Claim { job: 5, attempt: 1 },
            cookie: "c".into(),
            kept: Kept { terminal: true, ..Kept::default() },
            frozen: true,
            halted: false,
            elapsed: 12,
        };
        for answer in [
            Answer::Hello { pid: 1, holds: None },
            Answer::Hello { pid: 1, holds: Some(Box::new(holds)) },
            Answer::Moved { handle },
            Answer::Ready,
            Answer::Started { handle, leader: i32::MAX, freezes: false },
            Answer::Started { handle, leader: 1, freezes: true },
            Answer::NotStarted { handle, step: 3, errno: 2, reason: "ä".into() },
            Answer::Stopping { handle, why: Why::Limit },
            exited(Why::OfItself),
            exited(Why::Stop),
            exited(Why::Limit),
            exited(Why::Lease),
            Answer::Exited { handle, ended: Ended { exceeded_memory, ..ended } },
            Answer::Emptied { handle, left: 3 },
            Answer::Checkpointed { handle, ran: 1 << 40, took: 0, failed: None },
            Answer::Checkpointed {
                handle,
                ran: 0,
                took: 9,
                failed: Some(CommandFailure { status: -1, is_late: true }),
            },
            Answer::Trouble { text: String::new() },
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }
}
