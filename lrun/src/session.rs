//! State machine of a client's job: takes events, returns effects. No I/O and no clock.
//!
//! A submission without an answer is repeated with its key. An accepted job is attached to again, at the offsets that
//! its streams have reached. Messages that must reach the master are kept while it is unreachable.

mod interrupt;
mod step;
#[cfg(test)]
mod tests;

use std::time::Duration;

use limo_client::Failure;
use limo_model::{JobEnd, JobId, Outcome};
use limo_proto::{
    Change, Channel, ClientToMaster, Data, Frame, JobReport, MasterToClient, Positions, SendExec, WindowSize,
};
use nix::errno::Errno;
use nix::libc::SIGPIPE;

use crate::streams::Streams;
pub use step::{Effect, Input, Leave, News};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Submitting,
    Waiting,
    Running,
    Over,
}

/// State of one submission.
pub struct Session {
    exec: SendExec,
    job: Option<JobId>,
    phase: Phase,
    streams: Streams,
    connected: bool,
    /// True while the master is absent and has not answered since.
    away: bool,
    /// True while an `Attach` is unanswered, because a refusal then refers to the `Attach`.
    attaching: bool,
    /// Signals to send when the master has returned.
    held: Vec<ClientToMaster>,
    /// True if the job is to be cancelled. The request is sent on each connection, since the last one may have broken
    /// before the request arrived.
    cancelling: bool,
    /// Signal with which the user cancelled the job before it ran.
    interrupt: Option<i32>,
    last_interrupt: Option<(Duration, i32)>,
    /// Number of interrupts in a row, each within a second of the previous one.
    in_a_row: u32,
    /// Node on which the job runs.
    node: String,
    report: Option<Box<JobReport>>,
    output_lost: bool,
    /// Size of the terminal, if it has changed since the submission.
    size: Option<WindowSize>,
    effects: Vec<Effect>,
}

impl Session {
    pub fn new(exec: SendExec) -> Self {
        let streams = Streams::new(exec.request.spread.is_some());
        Self {
            exec,
            job: None,
            phase: Phase::Submitting,
            streams,
            connected: false,
            away: false,
            attaching: false,
            held: Vec::new(),
            cancelling: false,
            interrupt: None,
            last_interrupt: None,
            in_a_row: 0,
            node: String::new(),
            report: None,
            output_lost: false,
            size: None,
            effects: Vec::new(),
        }
    }

    /// Makes a session for a job that another client had before.
    pub fn joining(exec: SendExec, job: JobId, (at, size): (&Positions, Option<WindowSize>)) -> Self {
        let streams = Streams::joining(exec.request.spread.is_some(), at);
        Self { job: Some(job), phase: Phase::Waiting, streams, size, ..Self::new(exec) }
    }

    /// Returns true if the next piece of stdin may be read. This is false before the job reads it, so that a job that
    /// never starts consumes nothing.
    pub fn wants_stdin(&self) -> bool {
        self.exec.launch.files.stdin.is_none() && self.streams.wants_stdin()
    }

    /// Handles `input`, which happened at `now` on a monotonic clock, and returns the effects in order.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Effect> {
        match input {
            Input::Connected => self.connected(),
            Input::Broken => self.broken(),
            Input::Heard(Frame::Message(message)) => self.heard(message),
            Input::Heard(Frame::Data(data)) => self.data(data),
            Input::Stdin(bytes) => {
                self.streams.push_stdin(bytes);
                self.send_stdin();
            }
            Input::Written(channel, part, count) => self.written((channel, part), count),
            Input::Blocked(channel, error) => self.blocked(channel, error),
            Input::Signal(signal) => self.signal(now, signal),
            Input::Resized(size) => {
                self.size = Some(size);
                self.send_size();
            }
            Input::GaveUp(failure) => self.gave_up(failure),
            Input::Silence => {
                self.output_lost = true;
                self.say(News::OutputMissing);
                self.leave_over();
            }
        }
        std::mem::take(&mut self.effects)
    }

    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    fn say(&mut self, news: News) {
        self.effects.push(Effect::Say(news));
    }

    fn leave(&mut self, leave: Leave) {
        self.effects.push(Effect::Leave(leave));
    }

    fn fail(&mut self, reason: String) {
        self.leave(Leave::Failed(Failure::new(reason)));
    }

    /// Sends a message now, or when the master has returned.
    fn send(&mut self, message: ClientToMaster) {
        if self.connected {
            self.effects.push(Effect::Send(Frame::Message(message)));
        } else {
            self.held.push(message);
        }
    }

    fn cancel(&mut self) {
        self.cancelling = true;
        if let Some(job) = self.job.filter(|_| self.connected) {
            self.send(ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job]))));
        }
    }

    /// Sends the size to the job's terminal, once it exists, and again on a new connection.
    fn send_size(&mut self) {
        if let (Some(job), Some(size), true) = (self.job, self.size, self.streams.is_open()) {
            self.effects.push(Effect::Send(Frame::Message(ClientToMaster::Resize { job, size })));
        }
    }

    fn send_stdin(&mut self) {
        let Some(job) = self.job else { return };
        while let Some(frame) = self.streams.next_stdin(job) {
            self.effects.push(Effect::Send(frame));
        }
    }

    fn connected(&mut self) {
        self.connected = true;
        let first = match self.job {
            None => {
                let exec = self.exec.clone();
                self.exec.again = true;
                ClientToMaster::SendExec(Box::new(exec))
            }
            Some(job) => {
                let mut offsets = self.streams.offsets();
                self.attaching = true;
                let (stdout, stderr) = offsets.next().unwrap_or_default();
                ClientToMaster::Attach { job, key: self.exec.key, stdout, stderr, more: offsets.collect() }
            }
        };
        self.send(first);
        for message in std::mem::take(&mut self.held) {
            self.send(message);
        }
        if self.cancelling {
            self.cancel();
        }
    }

    fn broken(&mut self) {
        self.connected = false;
        self.streams.suspend();
        if !self.away {
            self.away = true;
            self.say(News::Away);
        }
    }

    fn gave_up(&mut self, failure: Failure) {
        let failure = match self.job {
            Some(job) => Failure::new(format_args!("cannot return to job {job}: {}", failure.message))
                .hint(format_args!("the job continues without lrun: `lq show {job}` when the master is back")),
            None => failure,
        };
        self.leave(Leave::Failed(failure));
    }

    fn heard(&mut self, message: MasterToClient) {
        if std::mem::take(&mut self.away) {
            self.say(News::Back);
        }
        let refusal = matches!(message, MasterToClient::Refused { .. });
        let attaching = self.attaching && refusal;
        self.attaching &= matches!(message, MasterToClient::StreamAck { .. } | MasterToClient::Answer(_));
        match message {
            MasterToClient::Accepted { job } => self.accepted(job),
            MasterToClient::Refused { reason, hint } => self.refused(reason, hint, attaching),
            MasterToClient::Waiting { job, wait } => {
                self.phase = Phase::Waiting;
                self.say(News::Waiting(job, wait));
            }
            MasterToClient::Running { job, node, unit } => {
                self.phase = Phase::Running;
                self.node.clone_from(&node);
                self.say(News::Running { job, node, unit });
            }
            MasterToClient::Attached { stdin_offset, .. } => match self.streams.open(stdin_offset) {
                Ok(()) => {
                    self.send_size();
                    self.send_stdin();
                }
                Err(error) => self.fail(format!("cannot continue with standard input: {error}")),
            },
            MasterToClient::TakenOver { job } => self.fail(format!("another client took over job {job}")),
            MasterToClient::TakenUp { .. } => {}
            MasterToClient::Notice { text } => self.say(News::Notice(text.into_string())),
            MasterToClient::UsedUp { job, used_up } => self.say(News::UsedUp(job, used_up)),
            MasterToClient::Finished { report, .. } => {
                self.phase = Phase::Over;
                self.report = Some(report);
                self.leave_if_done();
            }
            MasterToClient::StreamAck { stream, offset } if stream.channel == Channel::Stdin => {
                match self.streams.acknowledge(offset) {
                    Ok(()) => self.send_stdin(),
                    Err(_) => self.effects.push(Effect::Reconnect),
                }
            }
            MasterToClient::StreamAck { .. } | MasterToClient::Answer(_) | MasterToClient::Piece(_) => {}
        }
    }

    fn accepted(&mut self, job: JobId) {
        if self.job.is_none() {
            self.job = Some(job);
            self.phase = Phase::Waiting;
            self.say(News::Accepted(job));
            if self.cancelling {
                self.cancel();
            }
        }
    }

    fn refused(&mut self, reason: String, hint: Option<String>, attaching: bool) {
        let failure = |text: String| Failure { hint, ..Failure::new(text) };
        match self.job {
            None => self.leave(Leave::Failed(failure(reason))),
            Some(job) if attaching => {
                self.leave(Leave::Failed(failure(format!("cannot return to job {job}: {reason}"))))
            }
            Some(job) => self.say(News::NotCancelled { job, reason }),
        }
    }

    fn data(&mut self, data: Data) {
        if Some(data.stream.job) != self.job {
            return;
        }
        if self.phase == Phase::Waiting {
            self.phase = Phase::Running;
        }
        let (channel, part) = (data.stream.channel, data.stream.part);
        match self.streams.accept((channel, part), data.offset, data.bytes) {
            Ok(new) => self.effects.extend(new.into_iter().flatten().map(|new| Effect::Write(channel, part, new))),
            Err(_) => self.effects.push(Effect::Reconnect),
        }
    }

    fn written(&mut self, stream: (Channel, u32), count: u64) {
        let Some(job) = self.job else { return };
        // Without a connection, acknowledgements are not needed, because the next `Attach` has the offsets.
        if let Some(ack) = self.streams.written(job, stream, count).filter(|_| self.connected) {
            self.send(ack);
        }
        self.leave_if_done();
    }

    /// Handles output that cannot be written. A closed stdout becomes SIGPIPE for the job, as if it had written there
    /// itself. A closed stderr only discards its output.
    fn blocked(&mut self, channel: Channel, error: Errno) {
        if error != Errno::EPIPE {
            self.output_lost = true;
            self.say(News::CannotWrite(channel, error));
        }
        if let (Some(job), Channel::Stdout, Phase::Running) = (self.job, channel, self.phase) {
            self.send(ClientToMaster::Signal { job, signal: SIGPIPE });
        }
    }

    /// Ends the session when a started job has passed on all output, or when a job that never started is over.
    fn leave_if_done(&mut self) {
        let Some(report) = &self.report else { return };
        let ran = matches!(report.end, Some(JobEnd::Ran { outcome: Outcome::Exited(_) | Outcome::Signaled(_), .. }));
        let done = if ran { self.streams.is_drained(report.nodes.len().max(1)) } else { self.streams.is_written() };
        if done {
            self.leave_over();
        }
    }

    /// Returns true if the job is over and only output is missing; the node may be gone for good.
    pub fn awaits_output(&self) -> bool {
        self.report.is_some() && self.streams.is_written()
    }

    fn leave_over(&mut self) {
        if let Some(report) = self.report.take() {
            let (interrupt, output_lost) = (self.interrupt, self.output_lost);
            self.leave(Leave::Over { report, interrupt, output_lost });
        }
    }
}
