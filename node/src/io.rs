//! A job's stdio as streams with credit. Independent of attempts, the master and the pipes.
//!
//! A pipe is read only as far as its stream has space. A job whose output has no reader blocks in its own `write`,
//! and the daemon keeps at most one window of each stream.

use bytes::Bytes;
use limo_model::JobId;
use limo_proto::{CHUNK, Channel, Data, Inbox, Kept, NodeToMaster, Outbox, StreamError, StreamId, WINDOW};

use crate::exchange::{Connected, Effect};
use crate::survivor::{HeldOutput, HeldStreams};

/// Ends of one job's streams, from its assignment until its output is delivered or dropped.
pub struct JobIo {
    job: JobId,
    stdin: Stdin,
    stdout: Output,
    stderr: Output,
}

struct Stdin {
    inbox: Inbox,
    /// Number of bytes that the job has read; the end counts as one.
    taken: u64,
    pipe: Pipe,
}

/// Destination of stdin.
enum Pipe {
    /// The command does not run yet. Its bytes wait, at most a window of them.
    Later(Vec<Bytes>),
    Open,
    /// The command reads no stdin, so bytes are dropped.
    Absent,
}

#[derive(Default)]
struct Output {
    outbox: Outbox,
    /// Offset up to which the receiver has acknowledged; later bytes are kept.
    acknowledged: u64,
    /// True if there is a pipe to read.
    connected: bool,
    /// True while the pipe is being read.
    asked: bool,
}

impl JobIo {
    pub fn new(job: JobId) -> Self {
        let stdin = Stdin { inbox: Inbox::new(), taken: 0, pipe: Pipe::Later(Vec::new()) };
        Self { job, stdin, stdout: Output::default(), stderr: Output::default() }
    }

    /// Continues the streams of an earlier daemon.
    pub fn resumed(job: JobId, held: &HeldStreams, effects: &mut Vec<Effect>) -> Self {
        let inbox = Inbox::resumed(held.stdin, held.stdin_taken, held.stdin_ended);
        let stdin = Stdin { inbox, taken: held.stdin_taken, pipe: Pipe::Later(Vec::new()) };
        let [stdout, stderr] = [held.stdout, held.stderr].map(Output::resumed);
        let mut streams = Self { job, stdin, stdout, stderr };
        streams.start(held.connected, effects);
        streams
    }

    /// Starts the streams that have pipes. Other outputs are empty, and bytes for a missing stdin are dropped.
    pub fn start(&mut self, connected: Connected, effects: &mut Vec<Effect>) {
        let job = self.job;
        if !matches!(self.stdin.pipe, Pipe::Later(_)) {
            // They were started when the daemon found them.
            return;
        }
        let pipe = if connected.stdin { Pipe::Open } else { Pipe::Absent };
        if let Pipe::Later(waiting) = std::mem::replace(&mut self.stdin.pipe, pipe)
            && connected.stdin
        {
            effects.extend(waiting.into_iter().map(|bytes| Effect::Stdin { job, bytes }));
        }
        for (channel, connected) in [(Channel::Stdout, connected.stdout), (Channel::Stderr, connected.stderr)] {
            let Some(output) = self.output(channel) else { continue };
            output.connected = connected;
            if connected {
                output.ask_more(StreamId::new(job, channel), effects);
            } else {
                output.outbox.close();
            }
        }
    }

    /// Closes the streams of a job that will never run: its output is empty.
    pub fn close(&mut self) {
        self.stdout.outbox.close();
        self.stderr.outbox.close();
    }

    /// Closes the streams without a pipe: the command never ran.
    pub fn close_unused(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            if !output.connected {
                output.outbox.close();
            }
        }
    }

    /// Returns true if the receiver has all output, including the ends.
    pub fn is_delivered(&self) -> bool {
        self.stdout.outbox.is_done() && self.stderr.outbox.is_done()
    }

    /// Returns the number of bytes of stdin that the job has read.
    pub fn stdin_offset(&self) -> u64 {
        self.stdin.taken
    }

    /// Returns the offsets of this end of the streams.
    pub fn kept(&self) -> Kept {
        let stdin = &self.stdin.inbox;
        let (stdout, stderr) = (self.stdout.acknowledged, self.stderr.acknowledged);
        Kept { stdin: stdin.offset(), stdin_ended: stdin.has_ended(), stdout, stderr }
    }

    /// Takes bytes for stdin.
    ///
    /// # Errors
    /// If they leave a gap, which a new connection may cause; the sender sends the missing bytes again.
    pub fn receive(&mut self, offset: u64, bytes: Bytes, effects: &mut Vec<Effect>) -> Result<(), StreamError> {
        let stdin = &mut self.stdin;
        let pending = stdin.inbox.offset() - stdin.taken;
        if pending.saturating_add(bytes.len() as u64) > WINDOW + CHUNK as u64 {
            // The sender exceeded its credit. It sends bytes again that are not acknowledged.
            return Err(StreamError::Gap { offset, expected: stdin.taken });
        }
        if let Some(bytes) = stdin.inbox.accept(offset, bytes)? {
            match &mut stdin.pipe {
                Pipe::Later(waiting) => waiting.push(bytes),
                Pipe::Open => effects.push(Effect::Stdin { job: self.job, bytes }),
                Pipe::Absent => {}
            }
        }
        Ok(())
    }

    /// Notes that the job read `count` more bytes of stdin; returns a due acknowledgement.
    pub fn stdin_taken(&mut self, count: u64) -> Option<u64> {
        self.stdin.taken += count;
        self.stdin.inbox.consume_bytes(count);
        self.stdin.inbox.due_ack()
    }

    fn output(&mut self, channel: Channel) -> Option<&mut Output> {
        match channel {
            Channel::Stdin => None,
            Channel::Stdout => Some(&mut self.stdout),
            Channel::Stderr => Some(&mut self.stderr),
        }
    }

    /// Takes bytes from a pipe; an empty piece is its end.
    pub fn read(&mut self, channel: Channel, bytes: Bytes, effects: &mut Vec<Effect>) {
        let stream = StreamId::new(self.job, channel);
        let Some(output) = self.output(channel) else { return };
        output.asked = false;
        if bytes.is_empty() {
            output.outbox.close();
        } else {
            output.outbox.push(bytes);
        }
        output.ask_more(stream, effects);
    }

    /// Notes that the receiver has everything below `offset`.
    ///
    /// # Errors
    /// If that was never sent.
    pub fn acknowledge(&mut self, channel: Channel, offset: u64, effects: &mut Vec<Effect>) -> Result<(), StreamError> {
        let stream = StreamId::new(self.job, channel);
        let Some(output) = self.output(channel) else { return Ok(()) };
        output.outbox.acknowledge(offset)?;
        output.acknowledged(stream, offset, effects);
        Ok(())
    }

    /// Continues output at these offsets.
    ///
    /// # Errors
    /// If one of them is no longer kept, or does not exist yet.
    pub fn resume(&mut self, stdout: u64, stderr: u64, effects: &mut Vec<Effect>) -> Result<(), StreamError> {
        for (channel, offset) in [(Channel::Stdout, stdout), (Channel::Stderr, stderr)] {
            let stream = StreamId::new(self.job, channel);
            let Some(output) = self.output(channel) else { continue };
            output.outbox.resume(offset)?;
            output.acknowledged(stream, offset, effects);
        }
        Ok(())
    }

    /// Prepares to send all unacknowledged bytes again, because they may be lost.
    pub fn rewind(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            // The outbox keeps all bytes from there on.
            let _ = output.outbox.resume(output.acknowledged);
        }
    }

    /// Sends the bytes that have not been sent.
    pub fn send(&mut self, effects: &mut Vec<Effect>) {
        for channel in [Channel::Stdout, Channel::Stderr] {
            let stream = StreamId::new(self.job, channel);
            let Some(output) = self.output(channel) else { continue };
            while let Some((offset, bytes)) = output.outbox.next_chunk() {
                effects.push(Effect::SendData(Data { stream, offset, bytes }));
            }
        }
    }
}

impl Output {
    fn resumed(held: HeldOutput) -> Self {
        let HeldOutput { acknowledged, is_done } = held;
        let mut outbox = Outbox::from(acknowledged.saturating_sub(u64::from(is_done)));
        if is_done {
            outbox.close();
            // The end directly follows.
            let _ = outbox.resume(acknowledged);
        }
        Self { outbox, acknowledged, connected: false, asked: false }
    }

    /// Notes that the receiver has everything below `offset`.
    fn acknowledged(&mut self, stream: StreamId, offset: u64, effects: &mut Vec<Effect>) {
        if offset > self.acknowledged {
            self.acknowledged = offset;
            if self.connected {
                effects.push(Effect::Acknowledged { stream, offset });
            }
        }
        self.ask_more(stream, effects);
    }

    /// Requests a read of the pipe, as far as the stream has space.
    fn ask_more(&mut self, stream: StreamId, effects: &mut Vec<Effect>) {
        let most = self.outbox.room().min(CHUNK);
        if self.connected && !self.asked && most > 0 && !self.outbox.is_closed() {
            self.asked = true;
            effects.push(Effect::Read { stream, most });
        }
    }
}

/// Makes the end of a stream at `offset`, without data.
pub fn stream_end(job: JobId, channel: Channel, offset: u64) -> Effect {
    Effect::SendData(Data { stream: StreamId::new(job, channel), offset, bytes: Bytes::new() })
}

/// Makes the acknowledgement of stdin.
pub fn stdin_ack(job: JobId, offset: u64) -> NodeToMaster {
    NodeToMaster::StreamAck { stream: StreamId::new(job, Channel::Stdin), offset }
}
