//! Pipes of a running job: tasks that read its output on request and write its stdin. Independent of windows.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use limo_model::JobId;
use limo_node::{Connected, Input};
use limo_proto::{CHUNK, Channel, StreamId, WindowSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tracing::error;

use crate::launch::Pipes;
use crate::shell::Event;
use crate::terminal::Terminal;

/// Longest time for which a hidden process may hold a job's pipes open after the job's end.
const AFTER_END: Duration = Duration::from_secs(2);

/// Daemon's side of a job's pipes. On drop, stdin ends, and output is read and discarded.
pub struct JobPipes {
    /// Queue of the task that writes stdin.
    stdin: Option<mpsc::UnboundedSender<Bytes>>,
    /// Requests to the task that reads the pipe, in bytes.
    stdout: Option<mpsc::UnboundedSender<usize>>,
    stderr: Option<mpsc::UnboundedSender<usize>>,
    over: watch::Sender<bool>,
    writer: Option<AbortHandle>,
    /// Terminal that replaces the pipes.
    terminal: Option<Terminal>,
}

impl JobPipes {
    /// Connects the pipes of a running job; logs what the runtime refuses.
    pub fn connect(job: JobId, pipes: Pipes, events: &mpsc::Sender<Event>) -> Self {
        let mut connected = Self {
            stdin: None,
            stdout: None,
            stderr: None,
            over: watch::Sender::new(false),
            writer: None,
            terminal: None,
        };
        if let Err(error) = connected.take(job, pipes, events) {
            error!(%job, %error, "the job's stdio is not connected");
        }
        connected
    }

    fn take(&mut self, job: JobId, pipes: Pipes, events: &mpsc::Sender<Event>) -> io::Result<()> {
        let terminal = pipes.terminal.map(Terminal::new).transpose()?;
        self.terminal = terminal.clone();
        let stdin = match (&terminal, pipes.stdin) {
            (Some(terminal), _) => Some(Sink::Terminal(terminal.clone())),
            (None, fd) => fd.map(pipe::Sender::from_owned_fd).transpose()?.map(Sink::Pipe),
        };
        if let Some(stdin) = stdin {
            let (sender, queue) = mpsc::unbounded_channel();
            self.stdin = Some(sender);
            self.writer = Some(tokio::spawn(write_stdin(job, stdin, queue, events.clone())).abort_handle());
        }
        let stdout = match (terminal, pipes.stdout) {
            (Some(terminal), _) => Some(Origin::Terminal(terminal)),
            (None, fd) => fd.map(pipe::Receiver::from_owned_fd).transpose()?.map(Origin::Pipe),
        };
        let stderr = pipes.stderr.map(pipe::Receiver::from_owned_fd).transpose()?.map(Origin::Pipe);
        for (ask, from, channel) in
            [(&mut self.stdout, stdout, Channel::Stdout), (&mut self.stderr, stderr, Channel::Stderr)]
        {
            let Some(from) = from else { continue };
            let (sender, asks) = mpsc::unbounded_channel();
            *ask = Some(sender);
            let source = Source { from, over: self.over.subscribe() };
            tokio::spawn(read_output(StreamId::new(job, channel), source, asks, events.clone()));
        }
        Ok(())
    }

    pub fn connected(&self) -> Connected {
        let Self { stdin, stdout, stderr, .. } = self;
        Connected { stdin: stdin.is_some(), stdout: stdout.is_some(), stderr: stderr.is_some() }
    }

    /// Writes bytes to stdin; an empty piece is its end.
    pub fn write(&self, bytes: Bytes) {
        // If there is no reader, the job is over.
        let _ = self.stdin.as_ref().map(|queue| queue.send(bytes));
    }

    /// Requests up to `most` bytes of an output.
    pub fn read(&self, channel: Channel, most: usize) {
        let ask = match channel {
            Channel::Stdin => None,
            Channel::Stdout => self.stdout.as_ref(),
            Channel::Stderr => self.stderr.as_ref(),
        };
        // A reader that has ended has reported the end.
        let _ = ask.map(|ask| ask.send(most));
    }

    /// Sets the size of the job's terminal; does nothing without one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), |terminal| terminal.resize(size))
    }

    /// Notes that the command is over.
    pub fn job_over(&mut self) {
        self.over.send_replace(true);
        if let Some(writer) = self.writer.take() {
            // A pipe without a reader would block the task without a limit.
            writer.abort();
        }
    }
}

async fn write_stdin(job: JobId, sink: Sink, mut queue: mpsc::UnboundedReceiver<Bytes>, events: mpsc::Sender<Event>) {
    let mut sink = Some(sink);
    while let Some(bytes) = queue.recv().await {
        let count = (bytes.len() as u64).max(1);
        if bytes.is_empty() {
            sink = None;
        } else if let Some(open) = &mut sink
            && open.write_all(&bytes).await.is_err()
        {
            // The job has closed its stdin. The sender does not know this, and must not wait.
            sink = None;
        }
        if events.send(Event::Node(Input::StdinTaken { job, count })).await.is_err() {
            return;
        }
    }
}

/// Destination of stdin.
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

/// Source of output.
enum Origin {
    Pipe(pipe::Receiver),
    Terminal(Terminal),
}

impl Origin {
    /// Reads at least one byte, or returns 0 at the end. A terminal ends with an error when no process has it open.
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
    /// Reads at least one byte, or returns 0 at the end.
    async fn read(&mut self, buffer: &mut [u8]) -> usize {
        let over = &mut self.over;
        let given_up = async {
            if over.wait_for(|over| *over).await.is_err() {
                // The streams were dropped while the job runs, and it may still write.
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
    events: mpsc::Sender<Event>,
) {
    let mut buffer = vec![0; CHUNK];
    while let Some(most) = asks.recv().await {
        let count = source.read(&mut buffer[..most]).await;
        // Only these bytes are copied: a slice would keep the whole buffer until they are acknowledged.
        let bytes = Bytes::copy_from_slice(&buffer[..count]);
        if events.send(Event::Node(Input::Output { stream, bytes })).await.is_err() || count == 0 {
            return;
        }
    }
    // No more requests come, but the job must still be able to write.
    while source.from.read(&mut buffer).await > 0 {}
}
