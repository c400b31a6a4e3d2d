//! The pipes of a running job: tasks that read its output when asked and write its stdin. Knows nothing of windows.

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

/// How long after the end of a job its pipes may still be held open, by a process that nobody could find, before their
/// end is declared.
const AFTER_END: Duration = Duration::from_secs(2);

/// The daemon's side of a job's pipes. When it is dropped, stdin ends, and output is read and dropped.
pub struct JobPipes {
    /// To the task that writes stdin.
    stdin: Option<mpsc::UnboundedSender<Bytes>>,
    /// Ask the task that reads the pipe for up to so many bytes.
    stdout: Option<mpsc::UnboundedSender<usize>>,
    stderr: Option<mpsc::UnboundedSender<usize>>,
    over: watch::Sender<bool>,
    writer: Option<AbortHandle>,
    /// In place of pipes.
    terminal: Option<Terminal>,
}

impl JobPipes {
    /// Takes the pipes of a job that runs, as far as the runtime does; the log says what it does not.
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

    /// Bytes for stdin; none is its end.
    pub fn write(&self, bytes: Bytes) {
        // Without a reader the job is over, and nobody misses the bytes.
        let _ = self.stdin.as_ref().map(|queue| queue.send(bytes));
    }

    /// Has up to `most` bytes of an output read.
    pub fn read(&self, channel: Channel, most: usize) {
        let ask = match channel {
            Channel::Stdin => None,
            Channel::Stdout => self.stdout.as_ref(),
            Channel::Stderr => self.stderr.as_ref(),
        };
        // A reader that is gone has told the end.
        let _ = ask.map(|ask| ask.send(most));
    }

    /// The client's terminal has this size; nothing where the job has none.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), |terminal| terminal.resize(size))
    }

    /// The command is over.
    pub fn job_over(&mut self) {
        self.over.send_replace(true);
        if let Some(writer) = self.writer.take() {
            // A pipe that nobody reads any more would keep it for ever.
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
            // The job has closed its stdin; the sender need not know, and must not wait.
            sink = None;
        }
        if events.send(Event::Node(Input::StdinTaken { job, count })).await.is_err() {
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
    events: mpsc::Sender<Event>,
) {
    let mut buffer = vec![0; CHUNK];
    while let Some(most) = asks.recv().await {
        let count = source.read(&mut buffer[..most]).await;
        // A copy of just these bytes: a slice of a large buffer would hold all of it until they are acknowledged.
        let bytes = Bytes::copy_from_slice(&buffer[..count]);
        if events.send(Event::Node(Input::Output { stream, bytes })).await.is_err() || count == 0 {
            return;
        }
    }
    // Nobody will ask again: the job must still be able to write.
    while source.from.read(&mut buffer).await > 0 {}
}
