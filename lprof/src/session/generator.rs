//! The generator: limo-2018, Algorithm 3.1, with the absolute times of its section 3.2.3.

use std::io::{self, BufRead, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;

use super::wire::{Status, StreamHeader, StreamInit};
use crate::workload::format::{FormatError, Header, Reader};
use crate::workload::summary::WorkloadSums;

/// Longest wait for an executor that serves another session, and for the end of its jobs.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Longest time of an application to prepare a session.
const INIT_LIMIT: Duration = Duration::from_secs(600);

/// Wait for the reason after a connection broke.
const REASON_LIMIT: Duration = Duration::from_secs(5);

/// Messages of an executor that wait to be read.
const STATUSES: usize = 16;

/// Bytes that are sent at a time when packages are late.
const BUFFER: usize = 1 << 18;

/// Figures of a session.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Number of packages, without those that are empty.
    pub packages: u64,
    /// Size of their contents.
    pub bytes: u64,
    /// The time t0: arrival of ACK_START.
    pub start: SystemTime,
    /// The time t_end: arrival of ACK_END, after the last job.
    pub end: SystemTime,
    /// Time between both, by a clock that does not jump.
    pub duration: Duration,
    /// Longest time by which a package was sent after it was due.
    pub behind: Duration,
    /// Work of the packages, without those that are empty.
    pub sums: WorkloadSums,
}

/// Reason why a session failed.
#[derive(Debug, Error)]
pub enum GeneratorError {
    /// The executor refuses the version.
    #[error("the executor is incompatible: it refuses the magic number or the version of this generator")]
    WrongVersion,
    /// The executor does not have the application.
    #[error("the executor does not have this application; its `lprof apps` lists those that it has")]
    InvalidRequest,
    /// The executor reports an error.
    #[error("the executor reports an error {when}; its standard error has the reason")]
    Executor {
        /// Step of the session.
        when: &'static str,
    },
    /// A message of the executor does not fit.
    #[error("the executor sent code {code} {when}")]
    Unexpected {
        /// The code.
        code: i64,
        /// Step of the session.
        when: &'static str,
    },
    /// The executor is silent.
    #[error("the executor sent nothing for {} s {when}", .limit.as_secs())]
    Silent {
        /// Step of the session.
        when: &'static str,
        /// The limit of that step.
        limit: Duration,
    },
    /// The executor went away.
    #[error("the executor ended the connection {when}")]
    Left {
        /// Step of the session.
        when: &'static str,
    },
    /// The connection failed.
    #[error("the connection to the executor failed: {0}")]
    Connection(#[from] io::Error),
    /// The workload is wrong.
    #[error("the workload is wrong: {0}")]
    Workload(#[from] FormatError),
}

/// A message of the executor, with the time of its arrival.
struct Arrival {
    header: StreamHeader,
    at: Instant,
    time: SystemTime,
}

/// Runs a session: waits until the executor is ready, and sends each package at its due time or as soon as the
/// executor takes it. `input` and `output` are the connection; a write must end by itself if the executor takes
/// nothing.
///
/// # Errors
/// [`GeneratorError`].
pub fn run<R: BufRead>(
    workload: &mut Reader<R>,
    init: &StreamInit,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> Result<Sent, GeneratorError> {
    let (to, statuses) = sync_channel(STATUSES);
    // The thread ends with the connection, or at the first message that nobody receives.
    thread::spawn(move || listen(input, &to));
    let mut output = BufWriter::with_capacity(BUFFER, output);
    wait(&statuses, Status::AwaitStart, "before it was ready", PATIENCE)?;
    output.write_all(&init.to_bytes())?;
    output.flush()?;
    let begun = wait(&statuses, Status::AckStart, "while it prepared the application", INIT_LIMIT)?;
    let mut sent = Sent {
        packages: 0,
        bytes: 0,
        start: begun.time,
        end: begun.time,
        duration: Duration::ZERO,
        behind: Duration::ZERO,
        sums: WorkloadSums::default(),
    };
    if let Err(error) = send_all(workload, &statuses, &mut output, begun.at, &mut sent) {
        // What was buffered is of no use any more, and must not be written when the buffer is dropped.
        drop(output.into_parts());
        let GeneratorError::Connection(_) = error else { return Err(error) };
        // A broken connection usually has a reason, which arrived before.
        return Err(match wait(&statuses, Status::AckEnd, "during the workload", REASON_LIMIT) {
            Err(reason @ (GeneratorError::Executor { .. } | GeneratorError::Unexpected { .. })) => reason,
            _ => error,
        });
    }
    let ended = wait(&statuses, Status::AckEnd, "after the last package", PATIENCE)?;
    (sent.end, sent.duration) = (ended.time, ended.at.duration_since(begun.at));
    Ok(sent)
}

/// Sends all packages and FINI.
fn send_all<R: BufRead>(
    workload: &mut Reader<R>,
    statuses: &Receiver<Arrival>,
    output: &mut BufWriter<impl Write>,
    begin: Instant,
    sent: &mut Sent,
) -> Result<(), GeneratorError> {
    let (mut due, mut sqn) = (begin, 0_u32);
    let mut content = Vec::new();
    while let Some(Header { delay, size }) = workload.next_package(&mut content)? {
        due += delay;
        check(statuses)?;
        let now = Instant::now();
        if now < due {
            output.flush()?;
            thread::sleep(due - now);
        }
        sent.behind = sent.behind.max(due.elapsed());
        // The content is in memory, so its size fits.
        output.write_all(&StreamHeader { sqn, size: size as i64 }.to_bytes())?;
        output.write_all(&content)?;
        if size > 0 {
            sent.packages += 1;
            sent.sums.add(delay, size);
        }
        sent.bytes += size;
        sqn = sqn.wrapping_add(1);
    }
    output.write_all(&Status::Fini.to_bytes(sqn))?;
    output.flush()?;
    Ok(())
}

fn listen(mut input: impl Read, to: &SyncSender<Arrival>) {
    while let Ok(Some(header)) = StreamHeader::read(&mut input) {
        let arrival = Arrival { header, at: Instant::now(), time: SystemTime::now() };
        if to.send(arrival).is_err() {
            return;
        }
    }
}

/// Waits for a status. OK is ignored.
fn wait(
    statuses: &Receiver<Arrival>,
    expected: Status,
    when: &'static str,
    limit: Duration,
) -> Result<Arrival, GeneratorError> {
    let begin = Instant::now();
    loop {
        match statuses.recv_timeout(limit.saturating_sub(begin.elapsed())) {
            Ok(arrival) if arrival.header.status() == Some(Status::Ok) => {}
            Ok(arrival) if arrival.header.status() == Some(expected) => return Ok(arrival),
            Ok(arrival) => return Err(refusal(&arrival, when)),
            Err(RecvTimeoutError::Timeout) => return Err(GeneratorError::Silent { when, limit }),
            Err(RecvTimeoutError::Disconnected) => return Err(GeneratorError::Left { when }),
        }
    }
}

/// Returns an error if the executor has reported one between two packages.
fn check(statuses: &Receiver<Arrival>) -> Result<(), GeneratorError> {
    loop {
        match statuses.try_recv() {
            Ok(arrival) if arrival.header.status() == Some(Status::Ok) => {}
            Ok(arrival) => return Err(refusal(&arrival, "during the workload")),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => return Err(GeneratorError::Left { when: "during the workload" }),
        }
    }
}

fn refusal(arrival: &Arrival, when: &'static str) -> GeneratorError {
    match arrival.header.status() {
        Some(Status::Error) => GeneratorError::Executor { when },
        Some(Status::WrongVersion) => GeneratorError::WrongVersion,
        Some(Status::InvalidRequest) => GeneratorError::InvalidRequest,
        _ => GeneratorError::Unexpected { code: arrival.header.size, when },
    }
}

#[cfg(test)]
mod tests;
