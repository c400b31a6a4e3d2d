//! This daemon's side of a job's streams, in memory that is shared with the job's shepherd. Independent of windows.

use std::io::IoSlice;

use bytes::Bytes;
use limo_model::JobId;
use limo_node::{Connected, HeldOutput, HeldStreams, Input};
use limo_proto::{Channel, StreamId};
use limo_shepherd::{Kept, Ring};

use super::process::Rings;

/// Streams of a job.
pub struct JobStreams {
    rings: Rings,
    kept: Kept,
    stdout: Reading,
    stderr: Reading,
    /// Offset of stdin up to which the node knows that the job has read it.
    stdin_told: u64,
    /// True if the shepherd has ended, so that nothing follows.
    is_over: bool,
}

/// Progress of reading an output.
#[derive(Debug, Default)]
struct Reading {
    /// Offset of the next byte.
    next: u64,
    /// Number of bytes that the node waits for.
    asked: Option<usize>,
}

/// Returns the streams of a job with these descriptors.
pub fn connected(kept: Kept) -> Connected {
    let Kept { stdin, stdout, stderr, terminal, work: _ } = kept;
    Connected { stdin: stdin || terminal, stdout: stdout || terminal, stderr }
}

fn held(ring: &Ring) -> HeldOutput {
    HeldOutput { acknowledged: ring.head(), is_done: ring.has_ended() && ring.head() > ring.tail() }
}

impl JobStreams {
    /// Starts the streams of a new job.
    pub fn new(rings: Rings, kept: Kept) -> Self {
        let (stdout, stderr) = (Reading::default(), Reading::default());
        Self { rings, kept, stdout, stderr, stdin_told: 0, is_over: false }
    }

    /// Continues the streams of a job that an earlier daemon has left.
    pub fn resumed(rings: Rings, kept: Kept) -> (Self, HeldStreams) {
        let [stdin, stdout, stderr] = &rings;
        let stdin_ended = stdin.has_ended();
        let found = HeldStreams {
            connected: connected(kept),
            stdin_taken: stdin.head(),
            stdin: stdin.tail() + u64::from(stdin_ended),
            stdin_ended,
            stdout: held(stdout),
            stderr: held(stderr),
        };
        let reading = |output: HeldOutput| Reading { next: output.acknowledged, asked: None };
        let (stdout, stderr) = (reading(found.stdout), reading(found.stderr));
        (Self { rings, kept, stdout, stderr, stdin_told: found.stdin_taken, is_over: false }, found)
    }

    pub fn connected(&self) -> Connected {
        connected(self.kept)
    }

    /// Returns the memory for the next job.
    pub fn into_rings(self) -> Rings {
        self.rings
    }

    /// Notes that nothing follows: the shepherd was killed.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Requests up to `most` bytes of an output; returns them if they are there.
    pub fn read(&mut self, stream: StreamId, most: usize) -> Option<Input> {
        let (ring, reading) = match stream.channel {
            Channel::Stdin => return None,
            Channel::Stdout => (&self.rings[1], &mut self.stdout),
            Channel::Stderr => (&self.rings[2], &mut self.stderr),
        };
        reading.asked = Some(most);
        reading.continued(ring, self.is_over).map(|bytes| Input::Output { stream, bytes })
    }

    /// Writes bytes to stdin; an empty piece is its end. Returns true if the shepherd has to be woken.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let stdin = &mut self.rings[0];
        if bytes.is_empty() {
            stdin.end();
        } else {
            // The memory is larger than the most that the node accepts.
            stdin.write(bytes);
        }
        stdin.writer_waits();
        stdin.wakes_reader()
    }

    /// Releases output that the receiver has. Returns true if the shepherd has to be woken.
    pub fn release(&self, channel: Channel, offset: u64) -> bool {
        let ring = match channel {
            Channel::Stdin => return false,
            Channel::Stdout => &self.rings[1],
            Channel::Stderr => &self.rings[2],
        };
        ring.release(offset);
        ring.wakes_writer()
    }

    /// Returns what the node has waited for, after the shepherd has moved bytes or has ended.
    pub fn moved(&mut self, job: JobId) -> Vec<Input> {
        let mut inputs = Vec::new();
        let stdin = &self.rings[0];
        stdin.writer_waits();
        let taken = stdin.head();
        if taken > self.stdin_told {
            let count = taken - std::mem::replace(&mut self.stdin_told, taken);
            inputs.push(Input::StdinTaken { job, count });
        }
        let outputs =
            [(Channel::Stdout, &self.rings[1], &mut self.stdout), (Channel::Stderr, &self.rings[2], &mut self.stderr)];
        for (channel, ring, reading) in outputs {
            if let Some(bytes) = reading.continued(ring, self.is_over) {
                inputs.push(Input::Output { stream: StreamId::new(job, channel), bytes });
            }
        }
        inputs
    }
}

impl Reading {
    /// Returns the requested bytes if there are some, or the end. Otherwise lets the shepherd tell about the next ones.
    fn continued(&mut self, ring: &Ring, is_over: bool) -> Option<Bytes> {
        let most = self.asked?;
        let found = |ended: bool| match ring.unread(self.next, most) {
            [first, second] if !first.is_empty() => Some(joined([first, second])),
            _ => ended.then(Bytes::new),
        };
        // The end is read before the tail, which does not change afterwards.
        let mut bytes = found(ring.has_ended() || is_over);
        if bytes.is_none() {
            ring.reader_waits();
            bytes = found(ring.has_ended());
        }
        let bytes = bytes?;
        self.asked = None;
        self.next += bytes.len() as u64;
        Some(bytes)
    }
}

fn joined(parts: [IoSlice<'_>; 2]) -> Bytes {
    match parts {
        [first, second] if second.is_empty() => Bytes::copy_from_slice(&first),
        [first, second] => Bytes::from([&first[..], &second[..]].concat()),
    }
}
