//! The client's ends of a job's three streams. No I/O: says what to send, takes what arrived.

use bytes::Bytes;
use limo_model::JobId;
use limo_proto::{CHUNK, Channel, ClientToMaster, Data, Frame, Inbox, Outbox, StreamError, StreamId};

/// Offsets are kept over broken connections, so that no byte is lost or repeated.
#[derive(Debug, Default)]
pub struct Streams {
    stdin: Outbox,
    stdout: Inbox,
    stderr: Inbox,
    /// What was received and not yet written, the end of a stream counting as one.
    unwritten: u64,
    /// Whether the node takes stdin now.
    open: bool,
}

impl Streams {
    /// Whether a piece of stdin can be taken, of up to [`CHUNK`] bytes.
    pub fn wants_stdin(&self) -> bool {
        self.open && !self.stdin.is_closed() && self.stdin.room() >= CHUNK
    }

    /// A piece of stdin; no bytes are its end.
    pub fn push_stdin(&mut self, bytes: Bytes) {
        if bytes.is_empty() { self.stdin.close() } else { self.stdin.push(bytes) }
    }

    /// Stdin that may be sent now.
    pub fn next_stdin(&mut self, job: JobId) -> Option<Frame<ClientToMaster>> {
        if !self.open {
            return None;
        }
        let (offset, bytes) = self.stdin.next_chunk()?;
        Some(Frame::Data(Data { stream: StreamId { job, channel: Channel::Stdin }, offset, bytes }))
    }

    /// The node takes stdin from `offset` on.
    ///
    /// # Errors
    /// Where those bytes are not kept any more.
    pub fn open(&mut self, offset: u64) -> Result<(), StreamError> {
        self.stdin.resume(offset)?;
        self.open = true;
        Ok(())
    }

    /// Whether the node takes stdin now.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The connection broke.
    pub fn suspend(&mut self) {
        self.open = false;
    }

    /// The node has taken stdin up to `offset`.
    ///
    /// # Errors
    /// Where it was never sent.
    pub fn acknowledge(&mut self, offset: u64) -> Result<(), StreamError> {
        self.stdin.acknowledge(offset)
    }

    fn inbox(&mut self, channel: Channel) -> Option<&mut Inbox> {
        match channel {
            Channel::Stdin => None,
            Channel::Stdout => Some(&mut self.stdout),
            Channel::Stderr => Some(&mut self.stderr),
        }
    }

    /// Output arrived. Returns what of it is new and must be written; no bytes are the end of the stream.
    ///
    /// # Errors
    /// Where bytes are missing before it or follow the end.
    pub fn accept(&mut self, channel: Channel, offset: u64, bytes: Bytes) -> Result<Option<Bytes>, StreamError> {
        let Some(inbox) = self.inbox(channel) else { return Ok(None) };
        let new = inbox.accept(offset, bytes)?;
        if let Some(new) = &new {
            self.unwritten += (new.len() as u64).max(1);
        }
        Ok(new)
    }

    /// `count` more bytes are written. Returns the acknowledgement that is due.
    pub fn written(&mut self, job: JobId, channel: Channel, count: u64) -> Option<ClientToMaster> {
        self.unwritten = self.unwritten.saturating_sub(count);
        let inbox = self.inbox(channel)?;
        inbox.consume_bytes(count);
        let offset = inbox.due_ack()?;
        Some(ClientToMaster::StreamAck { stream: StreamId { job, channel }, offset })
    }

    /// Where stdout and stderr go on.
    pub fn offsets(&self) -> (u64, u64) {
        (self.stdout.offset(), self.stderr.offset())
    }

    /// Whether everything that was received is written.
    pub fn is_written(&self) -> bool {
        self.unwritten == 0
    }

    /// Whether both outputs have ended, and everything is written.
    pub fn is_drained(&self) -> bool {
        self.stdout.has_ended() && self.stderr.has_ended() && self.is_written()
    }
}
