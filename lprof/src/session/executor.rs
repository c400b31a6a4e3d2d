//! The executor: limo-2018, Algorithm 3.2. It reads jobs from one generator and gives them to an application.
//!
//! It does not accept connections, so a session can run over any pair of streams.

use std::io::{self, BufReader, Read, Write};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::wire::{MAGIC, Status, StreamHeader, StreamInit, VERSION};
use crate::apps::{ApplicationError, Entry};

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 18;

/// Figures of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Name that the generator gave the session.
    pub name: String,
    /// Name of the application.
    pub application: &'static str,
    /// Number of jobs.
    pub jobs: u64,
    /// Size of their inputs.
    pub bytes: u64,
    /// Time from ACK_START to ACK_END.
    pub duration: Duration,
    /// Part of it in which the application processed jobs.
    pub busy: Duration,
}

/// Reason why a session failed. The generator got a status for it, if it was still there.
#[derive(Debug, Error)]
pub enum ExecutorError {
    /// The connection failed before the session began.
    #[error("the generator did not start the session: {0}")]
    Start(io::Error),
    /// The generator has the other byte order.
    #[error("the generator has the other byte order")]
    ByteOrder,
    /// The peer is not a generator.
    #[error("the peer is not a generator: it sent the magic number {found:#x} instead of {MAGIC:#x}")]
    Magic {
        /// The number.
        found: u64,
    },
    /// The generator has another version.
    #[error("the generator has version {found}; this executor has {VERSION}")]
    Version {
        /// The version.
        found: u64,
    },
    /// The application is unknown.
    #[error("application number {found} is unknown; `lprof apps` lists the applications")]
    Unknown {
        /// The number of the application.
        found: u16,
    },
    /// The application cannot be used here.
    #[error("{application} cannot be used: {cause}")]
    Unavailable {
        /// Name of the application.
        application: &'static str,
        /// The reason.
        cause: ApplicationError,
    },
    /// A job, or the end of the application, failed.
    #[error("package {sqn}: {application} failed: {cause}")]
    Job {
        /// Number that the generator gave the package.
        sqn: u32,
        /// Name of the application.
        application: &'static str,
        /// The reason.
        cause: ApplicationError,
    },
    /// A package is larger than the limit.
    #[error("package {sqn} has {size} bytes, more than {limit}; --max-package raises the limit")]
    Large {
        /// Number that the generator gave the package.
        sqn: u32,
        /// Its size.
        size: i64,
        /// The limit.
        limit: u64,
    },
    /// A message is unknown or unexpected.
    #[error("the generator sent code {code}, which is not expected within a session")]
    Unexpected {
        /// The code.
        code: i64,
    },
    /// The generator went away.
    #[error("the generator ended the connection after {jobs} jobs, without FINI")]
    Left {
        /// Number of jobs so far.
        jobs: u64,
    },
    /// The connection failed.
    #[error("the connection failed after {jobs} jobs: {cause}")]
    Connection {
        /// Number of jobs so far.
        jobs: u64,
        /// The reason.
        cause: io::Error,
    },
}

impl ExecutorError {
    /// Returns the status that tells the generator.
    fn status(&self) -> Status {
        match self {
            Self::ByteOrder | Self::Magic { .. } | Self::Version { .. } => Status::WrongVersion,
            Self::Unknown { .. } => Status::InvalidRequest,
            _ => Status::Error,
        }
    }
}

/// Tells the generator that the executor is ready for its session.
///
/// # Errors
/// If `output` fails.
pub fn greet(mut output: impl Write) -> io::Result<()> {
    output.write_all(&Status::AwaitStart.to_bytes(0))?;
    output.flush()
}

/// Runs the session that follows [`greet`], up to its ACK_END or its error, which the generator is told. Packages of
/// more than `max_package` bytes are refused. Does not wait for jobs that the generator has not sent.
///
/// # Errors
/// [`ExecutorError`].
pub fn run(
    input: impl Read,
    mut output: impl Write,
    applications: &[Entry],
    max_package: u64,
) -> Result<Served, ExecutorError> {
    session(BufReader::with_capacity(BUFFER, input), &mut output, applications, max_package).inspect_err(|error| {
        // The generator may be gone; the session ends anyway.
        let _ = output.write_all(&error.status().to_bytes(0)).and_then(|()| output.flush());
    })
}

fn session(
    mut input: impl Read,
    output: &mut impl Write,
    applications: &[Entry],
    max_package: u64,
) -> Result<Served, ExecutorError> {
    let init = StreamInit::read(&mut input).map_err(ExecutorError::Start)?;
    let entry = chosen(&init, applications)?;
    let name = init.name();
    let mut application =
        (entry.init)(&name).map_err(|cause| ExecutorError::Unavailable { application: entry.name, cause })?;
    let begin = Instant::now();
    let (duration, busy) = (Duration::ZERO, Duration::ZERO);
    let mut served = Served { name, application: entry.name, jobs: 0, bytes: 0, duration, busy };
    send(output, Status::AckStart, 0)?;
    let mut last_sqn = 0;
    let mut content = Vec::new();
    while let Some(header) = package(&mut input, max_package, served.jobs)? {
        last_sqn = header.sqn;
        read_content(&mut input, header.size as u64, &mut content)
            .map_err(|cause| ExecutorError::Connection { jobs: served.jobs, cause })?;
        let before = Instant::now();
        application.process(&mut content).map_err(|cause| ExecutorError::Job {
            sqn: header.sqn,
            application: entry.name,
            cause,
        })?;
        served.busy += before.elapsed();
        served.jobs += 1;
        served.bytes += content.len() as u64;
    }
    application.fini().map_err(|cause| ExecutorError::Job { sqn: last_sqn, application: entry.name, cause })?;
    served.duration = begin.elapsed();
    send(output, Status::AckEnd, served.jobs)?;
    Ok(served)
}

fn chosen<'a>(init: &StreamInit, applications: &'a [Entry]) -> Result<&'a Entry, ExecutorError> {
    if init.magic == MAGIC.swap_bytes() {
        return Err(ExecutorError::ByteOrder);
    }
    if init.magic != MAGIC {
        return Err(ExecutorError::Magic { found: init.magic });
    }
    if init.version != VERSION {
        return Err(ExecutorError::Version { found: init.version });
    }
    let found = applications.iter().find(|entry| entry.id == init.app);
    found.ok_or(ExecutorError::Unknown { found: init.app })
}

fn send(output: &mut impl Write, status: Status, jobs: u64) -> Result<(), ExecutorError> {
    let sent = output.write_all(&status.to_bytes(0)).and_then(|()| output.flush());
    sent.map_err(|cause| ExecutorError::Connection { jobs, cause })
}

/// Reads up to the header of the next package with content. Returns `None` at FINI.
fn package(input: &mut impl Read, max_package: u64, jobs: u64) -> Result<Option<StreamHeader>, ExecutorError> {
    loop {
        let header = StreamHeader::read(&mut *input).map_err(|cause| ExecutorError::Connection { jobs, cause })?;
        let header = header.ok_or(ExecutorError::Left { jobs })?;
        if header.size > 0 {
            let StreamHeader { sqn, size } = header;
            let is_large = size as u64 > max_package;
            return if is_large {
                Err(ExecutorError::Large { sqn, size, limit: max_package })
            } else {
                Ok(Some(header))
            };
        }
        match header.status() {
            Some(Status::Ok) => {}
            Some(Status::Fini) => return Ok(None),
            _ => return Err(ExecutorError::Unexpected { code: header.size }),
        }
    }
}

/// Replaces `content`. Its memory grows with the bytes that arrive.
fn read_content(input: &mut impl Read, size: u64, content: &mut Vec<u8>) -> io::Result<()> {
    content.clear();
    let read = input.by_ref().take(size).read_to_end(content)? as u64;
    if read < size {
        let message = format!("it ended after {read} of the {size} bytes of a package");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
