//! The stdio of simulated jobs at their machines: pipes in memory that a job's shepherd and its daemon share. They outlive the
//! daemon. The bytes of a stream depend on their offsets, so that a lost, repeated or misdirected one is seen.

use std::sync::LazyLock;

use bytes::Bytes;
use limo_node::{Connected, HeldOutput, HeldStreams, Input as Happened};
use limo_proto::{Channel, Data, DoExec, StreamId, WINDOW};
use limo_shepherd::Handle;

use super::host::{Host, Key};
use super::shepherds::Process;
use super::*;

/// Most bytes that a pipe holds.
const CAPACITY: u64 = WINDOW;

/// Bytes that a job writes to each of its outputs in its life, at most: more than a window.
const LONGEST: u64 = WINDOW + 100_000;

/// Most bytes of one piece.
pub const PIECE: usize = 70_000;

/// The bytes of all streams. The period is prime, so that no chunk or window is a multiple of it.
const PERIOD: usize = 251;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| (0..PERIOD + PIECE).map(|at| (at % PERIOD) as u8).collect());

/// A stream at one end of a job.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub job: JobId,
    pub channel: Channel,
    /// Number of the machine that writes it; 0 for stdin.
    pub machine: usize,
}

impl Source {
    /// Returns bytes of the stream from an offset on, at most [`PIECE`] of them.
    pub fn bytes(self, from: u64, count: usize) -> &'static [u8] {
        let shift = self.job.0 * 31 + self.machine as u64 * 97 + self.channel as u64 * 13;
        let from = usize::try_from((from + shift) % PERIOD as u64).expect("small");
        &BYTES[from..from + count]
    }

    /// Checks received bytes.
    pub fn check(self, offset: u64, bytes: &[u8]) {
        for (place, piece) in bytes.chunks(PIECE).enumerate() {
            let from = offset + (place * PIECE) as u64;
            assert!(
                piece == self.bytes(from, piece.len()),
                "{self:?} has other bytes in the {} from {from}",
                piece.len()
            );
        }
    }
}

/// Offsets of a pipe. The end counts as one byte.
#[derive(Debug, Clone, Copy, Default)]
struct Pipe {
    head: u64,
    tail: u64,
    ended: bool,
}

/// An output, with the progress of the daemon.
#[derive(Debug, Clone, Copy, Default)]
struct Output {
    pipe: Pipe,
    next: u64,
    asked: Option<usize>,
}

/// The streams of an attempt with a client.
#[derive(Debug)]
pub struct Pipes {
    job: JobId,
    stdin: Pipe,
    /// Offset of stdin up to which the daemon knows that the job has read it.
    told: u64,
    outputs: [Output; 2],
    /// True if the shepherd was killed.
    is_over: bool,
    /// True if the shepherd may forget the attempt once the streams are dropped.
    is_released: bool,
}

impl Output {
    /// Returns the bytes for which the daemon waits, or the end.
    fn continued(&mut self, source: Source, is_over: bool) -> Option<Bytes> {
        let most = self.asked?;
        let count = usize::try_from(self.pipe.tail - self.next).expect("small").min(most).min(PIECE);
        if count == 0 && !self.pipe.ended && !is_over {
            return None;
        }
        let bytes = Bytes::from_static(source.bytes(self.next, count));
        self.asked = None;
        self.next += count as u64;
        Some(bytes)
    }

    fn held(&self) -> HeldOutput {
        HeldOutput { acknowledged: self.pipe.head, is_done: self.pipe.ended && self.pipe.head > self.pipe.tail }
    }
}

impl Pipes {
    fn new(job: JobId) -> Self {
        let outputs = [Output::default(); 2];
        Self { job, stdin: Pipe::default(), told: 0, outputs, is_over: false, is_released: false }
    }

    fn output(&mut self, channel: Channel) -> &mut Output {
        &mut self.outputs[usize::from(channel == Channel::Stderr)]
    }

    /// Returns the results of moved bytes for the daemon.
    fn moved(&mut self, machine: usize) -> Vec<Happened> {
        let job = self.job;
        let mut inputs = Vec::new();
        let count = self.stdin.head - std::mem::replace(&mut self.told, self.stdin.head);
        inputs.extend((count > 0).then_some(Happened::StdinTaken { job, count }));
        for channel in [Channel::Stdout, Channel::Stderr] {
            let is_over = self.is_over;
            let bytes = self.output(channel).continued(Source { job, channel, machine }, is_over);
            inputs.extend(bytes.map(|bytes| Happened::Output { stream: StreamId::new(job, channel), bytes }));
        }
        inputs
    }

    /// Returns what the next daemon finds.
    pub fn resumed(&mut self) -> HeldStreams {
        self.told = self.stdin.head;
        for output in &mut self.outputs {
            (output.next, output.asked) = (output.pipe.head, None);
        }
        HeldStreams {
            connected: CONNECTED,
            stdin_taken: self.stdin.head,
            stdin: self.stdin.tail + u64::from(self.stdin.ended),
            stdin_ended: self.stdin.ended,
            stdout: self.outputs[0].held(),
            stderr: self.outputs[1].held(),
        }
    }
}

const CONNECTED: Connected = Connected { stdin: true, stdout: true, stderr: true };

impl Host {
    /// Returns the streams that go through the daemon.
    pub fn connected(&self, handle: Handle) -> Connected {
        if self.pipes.contains_key(&handle) { CONNECTED } else { Connected::default() }
    }

    /// Returns the running attempts with streams.
    pub fn keys_with_streams(&self) -> impl Iterator<Item = Key> {
        let has_streams = |(handle, _): &(&Handle, &Process)| self.pipes.contains_key(handle);
        self.processes.iter().filter(has_streams).map(|(_, process)| process.key)
    }

    fn pipes_of(&mut self, job: JobId) -> Option<(Handle, &mut Pipes)> {
        let found = self.pipes.iter_mut().rev().find(|(_, pipes)| pipes.job == job);
        found.map(|(handle, pipes)| (*handle, pipes))
    }
}

impl World {
    /// Opens the streams of a started job.
    pub fn opens(&mut self, index: usize, handle: Handle, exec: &DoExec) {
        if exec.launch.io == Io::Attached {
            self.wrote.insert((exec.job, index), [0, 0]);
            self.hosts[index].pipes.insert(handle, Pipes::new(exec.job));
        }
    }

    /// Writes bytes to the stdin of a job.
    pub fn gives(&mut self, index: usize, job: JobId, bytes: &Bytes) {
        let Some((_, pipes)) = self.hosts[index].pipes_of(job) else { return };
        assert!(!pipes.stdin.ended, "stdin of job {job} goes on after its end");
        Source { job, channel: Channel::Stdin, machine: 0 }.check(pipes.stdin.tail, bytes);
        pipes.stdin.tail += bytes.len() as u64;
        pipes.stdin.ended = bytes.is_empty();
    }

    pub fn reads(&mut self, index: usize, stream: StreamId, most: usize) -> Vec<Happened> {
        let Some((_, pipes)) = self.hosts[index].pipes_of(stream.job) else { return Vec::new() };
        pipes.output(stream.channel).asked = Some(most);
        let moved = pipes.moved(index);
        self.soon(index, moved)
    }

    pub fn acknowledged(&mut self, index: usize, stream: StreamId, offset: u64) {
        let Some((_, pipes)) = self.hosts[index].pipes_of(stream.job) else { return };
        let is_over = pipes.is_over;
        let pipe = &mut pipes.output(stream.channel).pipe;
        assert!(offset <= pipe.tail + u64::from(pipe.ended || is_over), "{stream:?}: {offset} of {pipe:?}");
        pipe.head = pipe.head.max(offset);
    }

    /// Drops the streams of a job.
    pub fn drops(&mut self, index: usize, job: JobId) {
        let host = &mut self.hosts[index];
        let Some((handle, pipes)) = host.pipes_of(job) else { return };
        let is_released = pipes.is_released;
        host.pipes.remove(&handle);
        if is_released {
            host.shepherds.remove(&handle);
        }
    }

    /// Notes that a shepherd may forget its attempt. Returns true if streams are left.
    pub fn is_kept_for_streams(&mut self, index: usize, handle: Handle) -> bool {
        let pipes = self.hosts[index].pipes.get_mut(&handle);
        pipes.is_some_and(|pipes| {
            pipes.is_released = true;
            true
        })
    }

    /// Ends the outputs of a command, or of a killed shepherd.
    pub fn outputs_end(&mut self, index: usize, handle: Handle, is_killed: bool) -> Vec<Happened> {
        let Some(pipes) = self.hosts[index].pipes.get_mut(&handle) else { return Vec::new() };
        pipes.is_over |= is_killed;
        for output in &mut pipes.outputs {
            output.pipe.ended |= !is_killed;
        }
        pipes.moved(index)
    }

    /// Lets a running command read or write.
    pub fn works(&mut self, index: usize) {
        let running: Vec<Handle> =
            self.hosts[index].processes.iter().filter(|(_, own)| !own.is_frozen).map(|(own, _)| *own).collect();
        let running: Vec<Handle> =
            running.into_iter().filter(|own| self.hosts[index].pipes.contains_key(own)).collect();
        if running.is_empty() {
            return;
        }
        let handle = running[self.dice.roll(running.len())];
        let (what, count) = (self.dice.roll(4), [1, 100, 5_000, PIECE as u64][self.dice.roll(4)]);
        let Some(pipes) = self.hosts[index].pipes.get_mut(&handle) else { return };
        let job = pipes.job;
        match what {
            0 | 1 => {
                let Pipe { tail, ended, head } = pipes.stdin;
                let all = tail + u64::from(ended);
                pipes.stdin.head = all.min(head + count);
            }
            output => {
                let channel = if output == 2 { Channel::Stdout } else { Channel::Stderr };
                let pipe = &mut pipes.output(channel).pipe;
                pipe.tail = (pipe.tail + count).min(pipe.head + CAPACITY).min(LONGEST);
                let tail = pipe.tail;
                self.wrote.entry((job, index)).or_default()[output - 2] = tail;
            }
        }
        let moved = self.hosts[index].pipes.get_mut(&handle).map(|pipes| pipes.moved(index)).unwrap_or_default();
        for input in self.soon(index, moved) {
            self.happens(index, input);
        }
    }

    /// Sends output to the master.
    pub fn sends(&mut self, index: usize, data: Data) {
        let data = self.data_across(data);
        let host = &mut self.hosts[index];
        if host.link.is_some() {
            host.out.push_back(Frame::Data(data));
        }
    }
}
