//! Stdio between the jobs' pipes and the master.

use bytes::Bytes;
use limo_model::{Attempt as Number, JobId};
use limo_proto::{Channel, Data, MasterToNode, StreamId, WindowSize};
use tracing::{debug, warn};

use super::Node;
use crate::attempt::Attempt;
use crate::exchange::{Connected, Effect};
use crate::io;
use crate::records::Record;

impl Node {
    pub(super) fn stdin_arrived(&mut self, data: Data) {
        let Data { stream: StreamId { job, channel, .. }, offset, bytes } = data;
        if channel != Channel::Stdin {
            return warn!(%job, ?channel, "the master sends data of a stream that only a job writes");
        }
        if let Some(streams) = self.streams.get_mut(&job)
            && let Err(error) = streams.receive(offset, bytes, &mut self.effects)
        {
            debug!(%job, %error, "stdin is refused; its sender continues from the last acknowledgement");
        }
    }

    pub(super) fn stdin_taken(&mut self, job: JobId, count: u64) {
        if let Some(offset) = self.streams.get_mut(&job).and_then(|streams| streams.stdin_taken(count)) {
            self.send(io::stdin_ack(job, offset));
        }
    }

    /// Sets the size of the job's terminal.
    pub(super) fn resize(&mut self, job: JobId, number: Number, size: WindowSize) {
        if self.deferred(job, number, MasterToNode::Resize { job, attempt: number, size }) {
            return;
        }
        let runs = self.attempts.find(job, number).is_some_and(|attempt| attempt.running().is_some());
        if runs && self.streams.contains_key(&job) {
            self.effect(Effect::Resize { job, size });
        }
    }

    pub(super) fn output_read(&mut self, stream: StreamId, bytes: Bytes) {
        if let Some(streams) = self.streams.get_mut(&stream.job) {
            streams.read(stream.channel, bytes, &mut self.effects);
            self.send_output(stream.job);
        }
    }

    pub(super) fn output_taken(&mut self, stream: StreamId, offset: u64) {
        let Some(streams) = self.streams.get_mut(&stream.job) else { return };
        if let Err(error) = streams.acknowledge(stream.channel, offset, &mut self.effects) {
            warn!(job = %stream.job, %error, "acknowledgement ignored");
        }
        self.tidy(stream.job);
    }

    /// Continues output for a client at these offsets.
    pub(super) fn resume(&mut self, job: JobId, stdout: u64, stderr: u64) {
        let registered = self.is_registered();
        match self.streams.get_mut(&job) {
            Some(streams) => {
                if let Err(error) = streams.resume(stdout, stderr, &mut self.effects) {
                    warn!(%job, %error, "the output cannot continue at these offsets");
                }
                self.send_output(job);
            }
            // Missing output is lost, for example if the job's daemon was killed.
            None if registered => {
                self.effect(io::stream_end(job, Channel::Stdout, stdout));
                self.effect(io::stream_end(job, Channel::Stderr, stderr));
            }
            None => {}
        }
    }

    /// Drops the streams of a job without a reader: it runs with an empty stdin, and its output is dropped.
    pub(super) fn discard(&mut self, job: JobId) {
        self.drop_streams(job);
    }

    /// Forgets the job's streams, and the records of an attempt that was kept for them.
    pub(super) fn drop_streams(&mut self, job: JobId) {
        if self.streams.remove(&job).is_some() {
            self.effect(Effect::DropStreams { job });
        }
        if let Some(Attempt { number, .. }) = self.lingering.remove(&job) {
            self.record(Record::Forget { job, attempt: number });
        }
    }

    /// Connects the streams of a running job that have pipes.
    pub(super) fn connect_streams(&mut self, job: JobId, connected: Connected) {
        match self.streams.get_mut(&job) {
            Some(streams) => streams.start(connected, &mut self.effects),
            // The streams were dropped.
            None => self.effect(Effect::DropStreams { job }),
        }
        // Streams that go to files end at once.
        self.send_output(job);
    }

    pub(super) fn send_output(&mut self, job: JobId) {
        if self.is_registered()
            && let Some(streams) = self.streams.get_mut(&job)
        {
            streams.send(&mut self.effects);
        }
    }

    /// Forgets the streams of a finished job with delivered output.
    pub(super) fn tidy(&mut self, job: JobId) {
        let over = !self.attempts.known.get(&job).is_some_and(Attempt::is_open);
        if over && self.streams.get(&job).is_some_and(io::JobIo::is_delivered) {
            self.drop_streams(job);
        }
    }
}
