//! A job's stdio: pipes on one side, streams with credit on the other. Knows nothing of attempts or the master.
//!
//! A pipe is read only as far as its stream has room, so a job whose output nobody takes stops in its own `write`, and
//! the daemon keeps at most a window of each stream.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use limo_model::JobId;
use limo_proto::{CHUNK, Channel, Inbox, Kept, NodeToMaster, Outbox, StreamError, StreamId, WINDOW, WindowSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::launch::Pipes;
use crate::link::Outgoing;
use crate::node::Input;
use crate::terminal::Terminal;

/// How long after the end of a job its pipes may still be held open, by a process that nobody could find, before their
/// end is declared.
const AFTER_END: Duration = Duration::from_secs(2);

/// The ends of one job's streams, from its assignment until its output is delivered or dropped.
pub struct JobIo {
    stdin: Stdin,
    stdout: Output,
    stderr: Output,
    over: watch::Sender<bool>,
    writer: Option<AbortHandle>,
    /// In place of pipes.
    terminal: Option<Terminal>,
}

struct Stdin {
    inbox: Inbox,
    /// Bytes that the job has taken; the end counts as one.
    taken: u64,
    /// To the task that writes the pipe; the receiver waits here until there is one.
    queue: mpsc::UnboundedSender<Bytes>,
    start: Option<mpsc::UnboundedReceiver<Bytes>>,
}

#[derive(Default)]
struct Output {
    outbox: Outbox,
    /// Taken by the receiver, so that everything from here on is kept.
    acknowledged: u64,
    /// Asks the task that reads the pipe for up to so many bytes; closed, it reads on and drops them.
    ask: Option<mpsc::UnboundedSender<usize>>,
    asked: bool,
}

impl JobIo {
    pub fn new() -> Self {
        let (queue, start) = mpsc::unbounded_channel();
        Self {
            stdin: Stdin { inbox: Inbox::new(), taken: 0, queue, start: Some(start) },
            stdout: Output::default(),
            stderr: Output::default(),
            over: watch::Sender::new(false),
            writer: None,
            terminal: None,
        }
    }

    /// The job runs: connects its pipes. A stream without one ends at once, and what comes for it is dropped.
    ///
    /// # Errors
    /// Where the runtime does not take a pipe.
    pub fn start(&mut self, job: JobId, pipes: Pipes, inputs: &mpsc::Sender<Input>) -> io::Result<()> {
        let terminal = pipes.terminal.map(Terminal::new).transpose()?;
        self.terminal = terminal.clone();
        let stdin = match (&terminal, pipes.stdin) {
            (Some(terminal), _) => Some(Sink::Terminal(terminal.clone())),
            (None, fd) => fd.map(pipe::Sender::from_owned_fd).transpose()?.map(Sink::Pipe),
        };
        if let (Some(queue), Some(stdin)) = (self.stdin.start.take(), stdin) {
            self.writer = Some(tokio::spawn(write_stdin(job, stdin, queue, inputs.clone())).abort_handle());
        }
        let stdout = match (terminal, pipes.stdout) {
            (Some(terminal), _) => Some(Origin::Terminal(terminal)),
            (None, fd) => fd.map(pipe::Receiver::from_owned_fd).transpose()?.map(Origin::Pipe),
        };
        let stderr = pipes.stderr.map(pipe::Receiver::from_owned_fd).transpose()?.map(Origin::Pipe);
        for (output, from, channel) in
            [(&mut self.stdout, stdout, Channel::Stdout), (&mut self.stderr, stderr, Channel::Stderr)]
        {
            let Some(from) = from else {
                output.outbox.close();
                continue;
            };
            let (ask, asks) = mpsc::unbounded_channel();
            output.ask = Some(ask);
            output.ask_more();
            let source = Source { from, over: self.over.subscribe() };
            let stream = StreamId::new(job, channel);
            tokio::spawn(read_output(stream, source, asks, inputs.clone()));
        }
        Ok(())
    }

    /// The client's terminal has this size; nothing where the job has none.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), |terminal| terminal.resize(size))
    }

    /// The job will never run: its output is empty.
    pub fn close(&mut self) {
        self.stdout.outbox.close();
        self.stderr.outbox.close();
    }

    /// The job is over: streams that nobody has connected are empty.
    pub fn close_unused(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            if output.ask.is_none() {
                output.outbox.close();
            }
        }
    }

    /// The command is over.
    pub fn job_over(&mut self) {
        self.over.send_replace(true);
        if let Some(writer) = self.writer.take() {
            // A pipe that nobody reads any more would keep it for ever.
            writer.abort();
        }
    }

    /// Whether the receiver has all output, the ends included.
    pub fn is_delivered(&self) -> bool {
        self.stdout.outbox.is_done() && self.stderr.outbox.is_done()
    }

    /// Bytes of stdin that the job has taken.
    pub fn stdin_offset(&self) -> u64 {
        self.stdin.taken
    }

    /// Where this end of the streams is.
    pub fn kept(&self) -> Kept {
        let stdin = &self.stdin.inbox;
        let (stdout, stderr) = (self.stdout.acknowledged, self.stderr.acknowledged);
        Kept { stdin: stdin.offset(), stdin_ended: stdin.has_ended(), stdout, stderr }
    }

    /// Bytes for stdin arrived.
    ///
    /// # Errors
    /// Where they leave a gap, which a new connection may cause and its sender repairs by sending again.
    pub fn receive(&mut self, offset: u64, bytes: Bytes) -> Result<(), StreamError> {
        let stdin = &mut self.stdin;
        let pending = stdin.inbox.offset() - stdin.taken;
        if pending.saturating_add(bytes.len() as u64) > WINDOW + CHUNK as u64 {
            // A sender that overruns its credit; what is not taken in is not acknowledged, so an honest one sends it again.
            return Err(StreamError::Gap { offset, expected: stdin.taken });
        }
        if let Some(new) = stdin.inbox.accept(offset, bytes)? {
            // Without a reader the job is over, and nobody misses the bytes.
            let _ = stdin.queue.send(new);
        }
        Ok(())
    }

    /// The job took `count` more bytes of stdin; returns an acknowledgement that is due.
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

    /// The pipe gave these bytes; none is its end.
    pub fn read(&mut self, channel: Channel, bytes: Bytes) {
        let Some(output) = self.output(channel) else { return };
        output.asked = false;
        if bytes.is_empty() {
            output.outbox.close();
        } else {
            output.outbox.push(bytes);
        }
        output.ask_more();
    }

    /// The receiver has taken everything below `offset`.
    ///
    /// # Errors
    /// Where that was never sent.
    pub fn acknowledge(&mut self, channel: Channel, offset: u64) -> Result<(), StreamError> {
        let Some(output) = self.output(channel) else { return Ok(()) };
        output.outbox.acknowledge(offset)?;
        output.acknowledged = output.acknowledged.max(offset);
        output.ask_more();
        Ok(())
    }

    /// A receiver goes on from these offsets.
    ///
    /// # Errors
    /// Where one is not kept any more, or does not exist yet.
    pub fn resume(&mut self, stdout: u64, stderr: u64) -> Result<(), StreamError> {
        self.stdout.resume(stdout)?;
        self.stderr.resume(stderr)
    }

    /// What was sent may be lost: everything that is not acknowledged goes out again.
    pub fn rewind(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            // The outbox keeps everything from there on.
            let _ = output.outbox.resume(output.acknowledged);
        }
    }

    /// Sends what has not been sent.
    pub fn send(&mut self, job: JobId, link: &Outgoing) {
        for (output, channel) in [(&mut self.stdout, Channel::Stdout), (&mut self.stderr, Channel::Stderr)] {
            while let Some((offset, bytes)) = output.outbox.next_chunk() {
                link.send_data(StreamId::new(job, channel), offset, bytes);
            }
        }
    }
}

impl Output {
    /// Has the pipe read as far as there is room.
    fn ask_more(&mut self) {
        let room = self.outbox.room().min(CHUNK);
        if self.asked || room == 0 || self.outbox.is_closed() {
            return;
        }
        self.asked = self.ask.as_ref().is_some_and(|ask| ask.send(room).is_ok());
    }

    fn resume(&mut self, offset: u64) -> Result<(), StreamError> {
        self.outbox.resume(offset)?;
        self.acknowledged = self.acknowledged.max(offset);
        self.ask_more();
        Ok(())
    }
}

/// Connects the pipes of a job whose output nobody will read: stdin ends at once, output is read and dropped.
///
/// # Errors
/// Where the runtime does not take a pipe.
pub fn drain(pipes: Pipes) -> io::Result<()> {
    drop(pipes.stdin);
    if let Some(terminal) = pipes.terminal.map(Terminal::new).transpose()? {
        let mut from = Origin::Terminal(terminal);
        tokio::spawn(async move {
            let mut buffer = vec![0; CHUNK];
            while from.read(&mut buffer).await > 0 {}
        });
    }
    for fd in [pipes.stdout, pipes.stderr].into_iter().flatten() {
        let mut pipe = pipe::Receiver::from_owned_fd(fd)?;
        tokio::spawn(async move { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await });
    }
    Ok(())
}

async fn write_stdin(job: JobId, sink: Sink, mut queue: mpsc::UnboundedReceiver<Bytes>, inputs: mpsc::Sender<Input>) {
    let mut sink = Some(sink);
    while let Some(bytes) = queue.recv().await {
        let count = (bytes.len() as u64).max(1);
        if bytes.is_empty() {
            sink = None;
        } else if let Some(open) = &mut sink
            && open.write_all(&bytes).await.is_err()
        {
            // The job has closed its stdin; the sender need not know, and must not wait.
            sink = None;
        }
        if inputs.send(Input::StdinTaken { job, count }).await.is_err() {
            return;
        }
    }
}

/// Where stdin goes.
enum Sink {
    Pipe(pipe::Sender),
    Terminal(Terminal),
}

impl Sink {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Terminal(terminal) => terminal.write_all(bytes).await,
        }
    }
}

/// Where output comes from.
enum Origin {
    Pipe(pipe::Receiver),
    Terminal(Terminal),
}

impl Origin {
    /// At least one byte, or 0 at the end. A terminal ends in an error when no process has it any more.
    async fn read(&mut self, buffer: &mut [u8]) -> usize {
        let count = match self {
            Self::Pipe(pipe) => pipe.read(buffer).await,
            Self::Terminal(terminal) => terminal.read(buffer).await,
        };
        count.unwrap_or(0)
    }
}

struct Source {
    from: Origin,
    over: watch::Receiver<bool>,
}

impl Source {
    /// At least one byte, or 0 at the end.
    async fn read(&mut self, buffer: &mut [u8]) -> usize {
        let over = &mut self.over;
        let given_up = async {
            if over.wait_for(|over| *over).await.is_err() {
                // The streams were dropped while the job runs on: it may still write.
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(AFTER_END).await;
        };
        tokio::select! {
            biased;
            count = self.from.read(buffer) => count,
            () = given_up => 0,
        }
    }
}

async fn read_output(
    stream: StreamId,
    mut source: Source,
    mut asks: mpsc::UnboundedReceiver<usize>,
    inputs: mpsc::Sender<Input>,
) {
    let mut buffer = vec![0; CHUNK];
    while let Some(most) = asks.recv().await {
        let count = source.read(&mut buffer[..most]).await;
        // A copy of just these bytes: a slice of a large buffer would hold all of it until they are acknowledged.
        let bytes = Bytes::copy_from_slice(&buffer[..count]);
        if inputs.send(Input::Output { stream, bytes }).await.is_err() || count == 0 {
            return;
        }
    }
    // Nobody will ask again: the job must still be able to write.
    while source.from.read(&mut buffer).await > 0 {}
}

/// The end of a stream of which nothing is kept: nothing follows `offset`.
pub fn send_end(job: JobId, channel: Channel, offset: u64, link: &Outgoing) {
    link.send_data(StreamId::new(job, channel), offset, Bytes::new());
}

/// The message that acknowledges stdin.
pub fn stdin_ack(job: JobId, offset: u64) -> NodeToMaster {
    NodeToMaster::StreamAck { stream: StreamId::new(job, Channel::Stdin), offset }
}
