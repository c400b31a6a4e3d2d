//! Client's ends of a job's streams: stdin, and stdout and stderr of each node. No I/O.

use crate::lines::Lines;
use bytes::Bytes;
use limo_model::JobId;
use limo_proto::{CHUNK, Channel, ClientToMaster, Data, Frame, Inbox, Outbox, Positions, StreamError, StreamId};

/// Streams of the job. Offsets are kept over broken connections, so that no byte is lost or repeated.
#[derive(Debug, Default)]
pub struct Streams {
    stdin: Outbox,
    /// Outputs by node, up to the last node with output so far.
    outputs: Vec<Outputs>,
    /// True if only whole lines are written.
    by_lines: bool,
    /// Bytes handed out and not yet written; the end of a stream counts as one.
    unwritten: u64,
    /// True while the node accepts stdin.
    open: bool,
    /// First offset of stdin that this client can send.
    stdin_from: u64,
}

/// Output of one node.
#[derive(Debug, Default)]
struct Outputs {
    stdout: OutputStream,
    stderr: OutputStream,
}

#[derive(Debug, Default)]
struct OutputStream {
    inbox: Inbox,
    lines: Lines,
}

/// Most nodes that a master may report for a job.
const PARTS_LIMIT: u32 = 100_000;

impl Streams {
    /// Makes the streams; `by_lines` joins output by whole lines.
    pub fn new(by_lines: bool) -> Self {
        Self { by_lines, ..Self::default() }
    }

    /// Makes the streams of a job that another client had before.
    pub fn joining(by_lines: bool, at: &Positions) -> Self {
        let output = |offset| OutputStream { inbox: Inbox::from(offset), lines: Lines::default() };
        let outputs = |(stdout, stderr): &(u64, u64)| Outputs { stdout: output(*stdout), stderr: output(*stderr) };
        let mut stdin = at.stdin.map_or_else(Outbox::new, Outbox::from);
        if at.stdin.is_none() {
            stdin.close();
        }
        Self {
            stdin,
            outputs: at.outputs.iter().map(outputs).collect(),
            stdin_from: at.stdin.unwrap_or(u64::MAX),
            ..Self::new(by_lines)
        }
    }

    /// Returns true if a piece of stdin of up to [`CHUNK`] bytes can be taken.
    pub fn wants_stdin(&self) -> bool {
        self.open && !self.stdin.is_closed() && self.stdin.room() >= CHUNK
    }

    /// Queues a piece of stdin; an empty one is its end.
    pub fn push_stdin(&mut self, bytes: Bytes) {
        if bytes.is_empty() { self.stdin.close() } else { self.stdin.push(bytes) }
    }

    /// Returns stdin that may be sent now.
    pub fn next_stdin(&mut self, job: JobId) -> Option<Frame<ClientToMaster>> {
        if !self.open || self.stdin_from == u64::MAX {
            return None;
        }
        let (offset, bytes) = self.stdin.next_chunk()?;
        Some(Frame::Data(Data { stream: StreamId::new(job, Channel::Stdin), offset, bytes }))
    }

    /// Continues stdin at `offset`, the position of the node.
    ///
    /// # Errors
    /// If those bytes are no longer kept.
    pub fn open(&mut self, offset: u64) -> Result<(), StreamError> {
        // A job without stdin has nothing to continue.
        if self.stdin_from < u64::MAX {
            self.stdin.resume(offset.max(self.stdin_from))?;
        }
        self.open = true;
        Ok(())
    }

    /// Returns true while the node takes stdin.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Notes that the connection broke.
    pub fn suspend(&mut self) {
        self.open = false;
    }

    /// Notes that the node has consumed stdin up to `offset`.
    ///
    /// # Errors
    /// If that offset was never sent.
    pub fn acknowledge(&mut self, offset: u64) -> Result<(), StreamError> {
        if self.stdin_from == u64::MAX { Ok(()) } else { self.stdin.acknowledge(offset) }
    }

    fn output(&mut self, (channel, part): (Channel, u32)) -> Option<&mut OutputStream> {
        if channel == Channel::Stdin || part >= PARTS_LIMIT {
            return None;
        }
        let part = part as usize;
        if part >= self.outputs.len() {
            self.outputs.resize_with(part + 1, Outputs::default);
        }
        let outputs = self.outputs.get_mut(part)?;
        Some(if channel == Channel::Stderr { &mut outputs.stderr } else { &mut outputs.stdout })
    }

    /// Takes output. Returns the pieces to write now, in order; an empty piece is the end of the stream.
    ///
    /// # Errors
    /// If bytes before it are missing, or it follows the end.
    pub fn accept(
        &mut self,
        stream: (Channel, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<[Option<Bytes>; 2], StreamError> {
        let by_lines = self.by_lines;
        let Some(output) = self.output(stream) else { return Ok([None, None]) };
        let Some(new) = output.inbox.accept(offset, bytes)? else { return Ok([None, None]) };
        let write = match (by_lines, new.is_empty()) {
            (false, _) => [Some(new), None],
            (true, true) => [output.lines.end(), Some(new)],
            (true, false) => [output.lines.take(new), None],
        };
        self.unwritten += write.iter().flatten().map(|piece| (piece.len() as u64).max(1)).sum::<u64>();
        Ok(write)
    }

    /// Notes that `count` more bytes are written. Returns the due acknowledgement.
    pub fn written(&mut self, job: JobId, stream: (Channel, u32), count: u64) -> Option<ClientToMaster> {
        self.unwritten = self.unwritten.saturating_sub(count);
        let inbox = &mut self.output(stream)?.inbox;
        inbox.consume_bytes(count);
        let offset = inbox.due_ack()?;
        let (channel, part) = stream;
        Some(ClientToMaster::StreamAck { stream: StreamId { job, channel, part }, offset })
    }

    /// Returns the offsets at which stdout and stderr of each node continue.
    pub fn offsets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.outputs.iter().map(|outputs| (outputs.stdout.inbox.offset(), outputs.stderr.inbox.offset()))
    }

    /// Returns true if everything received is written.
    pub fn is_written(&self) -> bool {
        self.unwritten == 0
    }

    /// Returns true if both outputs of `nodes` nodes have ended and everything is written.
    pub fn is_drained(&self, nodes: usize) -> bool {
        let has_ended = |outputs: &&Outputs| outputs.stdout.inbox.has_ended() && outputs.stderr.inbox.has_ended();
        self.outputs.iter().filter(has_ended).count() >= nodes && self.is_written()
    }
}
