//! Clients that are attached to their jobs: they send stdin and read output, return after a broken connection, and read slowly at
//! times. No byte may be lost or doubled on the way.

use std::fmt;

use bytes::Bytes;
use limo_model::JobEnd;
use limo_proto::{Channel, Data, Inbox, Outbox, StreamId};

use super::pipes::{PIECE, Source};
use super::*;

/// Events that must happen in worlds with attached jobs, each with its least count: a third of the count when this was
/// written.
const EVENTS: [(&str, u32); 7] = [
    ("a client that is cut off", 500),
    ("a client that returns", 800),
    ("output that is dropped", 15),
    ("stdin", 600),
    ("stdin that is resumed", 10),
    ("output", 1_300),
    ("output that is complete", 240),
];

/// Bytes of stdin of a job.
const LENGTHS: [u64; 4] = [0, 1_000, 100_000, 400_000];

/// An attached client.
pub struct Talker {
    pub peer: Option<PeerId>,
    pub job: Option<JobId>,
    /// True if the submission was sent before.
    again: bool,
    stdin: Outbox,
    /// True while the job takes stdin.
    is_open: bool,
    /// Bytes of stdin so far, and in all.
    given: u64,
    length: u64,
    outputs: Vec<[Inbox; 2]>,
    report: Option<Box<JobReport>>,
    away_since: Option<Time>,
    /// True if it was away for so long that the master may have given it up.
    is_abandoned: bool,
    pub is_over: bool,
}

impl fmt::Debug for Talker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, job, is_open, outputs, away_since, .. } = self;
        let end = self.report.as_ref().and_then(|report| report.end.as_ref());
        write!(f, "{peer:?} {job:?}, takes stdin: {is_open}, outputs {outputs:?}, away {away_since:?}, end {end:?}")
    }
}

impl Talker {
    pub fn new(length: usize) -> Self {
        Self {
            peer: None,
            job: None,
            again: false,
            stdin: Outbox::new(),
            is_open: false,
            given: 0,
            length: LENGTHS[length % LENGTHS.len()],
            outputs: Vec::new(),
            report: None,
            away_since: None,
            is_abandoned: false,
            is_over: false,
        }
    }

    fn output(&mut self, stream: StreamId) -> &mut Inbox {
        let part = stream.part as usize;
        while self.outputs.len() <= part {
            self.outputs.push(Default::default());
        }
        &mut self.outputs[part][usize::from(stream.channel == Channel::Stderr)]
    }

    fn greeting(&self, key: u8, exec: &SendExec) -> ClientToMaster {
        let Some(job) = self.job else {
            return ClientToMaster::SendExec(Box::new(SendExec { again: self.again, ..exec.clone() }));
        };
        let mut offsets = self.outputs.iter().map(|[stdout, stderr]| (stdout.offset(), stderr.offset()));
        let (stdout, stderr) = offsets.next().unwrap_or_default();
        ClientToMaster::Attach { job, key: [key; 16], stdout, stderr, more: offsets.collect() }
    }

    /// Returns true if all output has arrived, or the job has none.
    fn is_done(&self) -> bool {
        let Some(report) = &self.report else { return false };
        let has_ended = |outputs: &&[Inbox; 2]| outputs.iter().all(Inbox::has_ended);
        !has_output(report) || self.outputs.iter().filter(has_ended).count() >= report.nodes.len()
    }
}

/// Returns true if the command ran, so that the client waits for its output.
fn has_output(report: &JobReport) -> bool {
    matches!(&report.end, Some(JobEnd::Ran { outcome: Outcome::Exited(_) | Outcome::Signaled(_), .. }))
}

impl World {
    /// Connects a client, unless it is connected or done.
    pub fn call(&mut self, key: u8) {
        let talker = &self.talkers[&key];
        if talker.peer.is_some() || talker.is_over {
            return;
        }
        if talker.again {
            self.seen.saw("a client that returns");
        }
        let peer = self.bench.client(7);
        let greeting = self.talkers[&key].greeting(key, &self.plans[&key]);
        let talker = self.talkers.get_mut(&key).expect("known");
        (talker.peer, talker.again, talker.away_since) = (Some(peer), true, None);
        let greeting = self.across(greeting);
        self.bench.say(peer, greeting);
    }

    /// Breaks the connection of a client; messages on it are lost. The master may notice this late.
    pub fn hang_up_client(&mut self, key: u8) -> Option<PeerId> {
        let now = self.bench.now;
        let talker = self.talkers.get_mut(&key)?;
        let peer = talker.peer.take()?;
        (talker.is_open, talker.away_since) = (false, Some(now));
        self.bench.to_clients.retain(|(to, _)| *to != peer);
        Some(peer)
    }

    fn leave(&mut self, key: u8) {
        self.talkers.get_mut(&key).expect("known").is_over = true;
        if let Some(peer) = self.hang_up_client(key) {
            self.bench.input(Input::Gone(peer));
        }
    }

    /// Lets clients and commands do something.
    pub fn talk(&mut self) {
        let node = self.dice.roll(NODES);
        // Most clients wait for their jobs to begin.
        let of_running_jobs = self.dice.roll(2) == 0;
        let runs =
            |job| self.hosts.iter().any(|host| host.keys_with_streams().any(|(running, _)| Some(running) == job));
        let talks = |talker: &Talker| !talker.is_over && (!of_running_jobs || runs(talker.job));
        let keys: Vec<u8> = self.talkers.iter().filter(|(_, talker)| talks(talker)).map(|(key, _)| *key).collect();
        if keys.is_empty() {
            return;
        }
        let key = keys[self.dice.roll(keys.len())];
        match self.dice.roll(40) {
            0 => {
                if let Some(peer) = self.hang_up_client(key) {
                    self.seen.saw("a client that is cut off");
                    if self.dice.roll(2) == 0 { self.bench.input(Input::Gone(peer)) } else { self.dies(peer) }
                }
            }
            1..5 => self.call(key),
            5 => self.drop_output(key),
            6..12 => (0..4).for_each(|_| self.works(node)),
            12..18 => self.listen(key),
            18..24 => self.take_output(key),
            24..32 => self.hear(node),
            _ => self.deliver(node),
        }
    }

    /// Lets all clients and commands go on, at the end of a world.
    pub fn talk_on(&mut self) {
        for key in self.talkers.keys().copied().collect::<Vec<_>>() {
            self.call(key);
            for _ in 0..8 {
                self.listen(key);
            }
            self.take_output(key);
        }
        (0..NODES).for_each(|node| self.works(node));
        self.bench.drain();
    }

    /// Lets clients leave that wait for output of a removed node.
    pub fn give_up_output(&mut self) {
        // A node that was removed has got another number.
        let was_removed = self.bench.controller.tx.core.nodes().len() > NODES;
        let waiting = self.talkers.iter().filter(|(_, talker)| talker.report.is_some() && !talker.is_over);
        for key in waiting.map(|(key, _)| *key).collect::<Vec<_>>() {
            if was_removed {
                self.seen.saw("output that is given up");
                self.talkers.get_mut(&key).expect("known").report = None;
                self.leave(key);
            }
        }
    }

    /// Drops the last frame of output to a client whose queue is too long.
    fn drop_output(&mut self, key: u8) {
        let Some(peer) = self.talkers[&key].peer else { return };
        let frames = &mut self.bench.to_clients;
        let Some(last) = frames.iter().rposition(|(to, _)| *to == peer) else { return };
        if let Frame::Data(Data { stream, offset, .. }) = frames[last].1 {
            frames.remove(last);
            self.seen.saw("output that is dropped");
            self.bench.input(Input::Dropped(peer, stream, offset));
        }
    }

    /// Gives a frame to a client.
    fn listen(&mut self, key: u8) {
        let Some(peer) = self.talkers[&key].peer else { return };
        let Some(first) = self.bench.to_clients.iter().position(|(to, _)| *to == peer) else { return self.drain(peer) };
        match self.bench.to_clients.remove(first).1 {
            Frame::Data(data) => self.outputs_arrive(key, data),
            Frame::Message(message) => {
                let message = self.across(message);
                self.told_client(key, message);
            }
        }
        if self.talkers[&key].is_done() {
            self.leave(key);
        }
    }

    /// Tells the master that a client has read everything.
    fn drain(&mut self, peer: PeerId) {
        let before = self.bench.undrained.len();
        self.bench.undrained.retain(|waiting| *waiting != peer);
        if self.bench.undrained.len() < before {
            self.bench.input(Input::Drained(peer));
        }
    }

    fn told_client(&mut self, key: u8, message: MasterToClient) {
        let talker = self.talkers.get_mut(&key).expect("known");
        match message {
            MasterToClient::Accepted { job } => {
                assert!(talker.job.is_none_or(|own| own == job), "job {job} is accepted for {talker:?}");
                talker.job = Some(job);
                self.accepted.insert(job);
            }
            MasterToClient::Attached { stdin_offset, .. } => {
                talker.stdin.resume(stdin_offset).expect("bytes that are kept");
                talker.is_open = true;
                if stdin_offset > 0 {
                    self.seen.saw("stdin that is resumed");
                }
                self.send_stdin(key);
            }
            MasterToClient::StreamAck { offset, .. } => {
                talker.stdin.acknowledge(offset).expect("it was sent");
                self.send_stdin(key);
            }
            MasterToClient::Finished { report, .. } => talker.report = Some(report),
            MasterToClient::Refused { reason, .. } => {
                let is_abandoned = talker.is_abandoned && reason.contains("was away");
                assert!(talker.job.is_none() || is_abandoned, "{reason}: {talker:?}");
                self.leave(key);
            }
            MasterToClient::Waiting { .. } | MasterToClient::Running { .. } | MasterToClient::UsedUp { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// Sends stdin as far as the window allows.
    fn send_stdin(&mut self, key: u8) {
        loop {
            let talker = self.talkers.get_mut(&key).expect("known");
            let (Some(peer), Some(job), true) = (talker.peer, talker.job, talker.is_open) else { return };
            let stream = StreamId::new(job, Channel::Stdin);
            let left =
                usize::try_from(talker.length - talker.given).expect("small").min(PIECE).min(talker.stdin.room());
            if left > 0 {
                let source = Source { job, channel: Channel::Stdin, machine: 0 };
                talker.stdin.push(Bytes::from_static(source.bytes(talker.given, left)));
                talker.given += left as u64;
            }
            if talker.given == talker.length {
                talker.stdin.close();
            }
            let Some((offset, bytes)) = talker.stdin.next_chunk() else { return };
            self.seen.saw("stdin");
            let data = self.data_across(Data { stream, offset, bytes });
            self.bench.input(Input::Client(peer, Frame::Data(data)));
        }
    }

    fn outputs_arrive(&mut self, key: u8, data: Data) {
        let Data { stream, offset, bytes } = self.data_across(data);
        let StreamId { job, channel, part } = stream;
        let home = self.homes.get(&job).and_then(|homes| homes.get(part as usize)).expect("it was launched there");
        let machine = self.hosts.iter().position(|host| host.name == *home).expect("a node of this world");
        Source { job, channel, machine }.check(offset, &bytes);
        self.seen.saw("output");
        let talker = self.talkers.get_mut(&key).expect("known");
        assert_eq!(talker.job, Some(job), "output of another job");
        if let Err(error) = talker.output(stream).accept(offset, bytes) {
            // A node that has lost the output ends it at the last acknowledgement. The client calls again with its offset.
            assert!(self.may_lose_output(job), "output of job {job} at {offset}: {error}");
            if let Some(peer) = self.hang_up_client(key) {
                self.bench.input(Input::Gone(peer));
            }
        }
    }

    /// Lets a client take the output that has arrived, and acknowledge it.
    fn take_output(&mut self, key: u8) {
        let talker = self.talkers.get_mut(&key).expect("known");
        let (Some(peer), Some(job)) = (talker.peer, talker.job) else { return };
        let mut acks = Vec::new();
        for (part, outputs) in (0..).zip(&mut talker.outputs) {
            for (channel, inbox) in [Channel::Stdout, Channel::Stderr].into_iter().zip(outputs) {
                inbox.consume();
                acks.extend(inbox.due_ack().map(|offset| (StreamId { job, channel, part }, offset)));
            }
        }
        for (stream, offset) in acks {
            self.bench.say(peer, ClientToMaster::StreamAck { stream, offset });
        }
    }

    /// Notes which jobs the master may have given up.
    pub fn clients_are_away(&mut self) {
        let (now, grace) = (self.bench.now, self.bench.settings.orphan_grace);
        for talker in self.talkers.values_mut() {
            if !talker.is_over && talker.away_since.is_some_and(|since| now - since >= grace) {
                talker.is_abandoned = true;
                self.unwanted.extend(talker.job);
            }
        }
    }

    pub fn all_talkers_are_done(&self) -> bool {
        self.talkers.values().all(|talker| talker.is_over)
    }

    fn may_lose_output(&self, job: JobId) -> bool {
        self.rebooted || self.cut_down.contains(&job) || self.has_failed(job)
    }

    /// Checks that each client has got all output of a job that ended by itself.
    pub fn output_is_complete(&mut self) {
        for talker in self.talkers.values() {
            let (Some(job), Some(report)) = (talker.job, &talker.report) else { continue };
            if talker.is_abandoned || self.may_lose_output(job) || !has_output(report) {
                continue;
            }
            for (name, outputs) in report.nodes.iter().zip(&talker.outputs) {
                let machine = self.hosts.iter().position(|host| host.name == *name).expect("a node of this world");
                let wrote = self.wrote.get(&(job, machine)).copied().unwrap_or_default();
                let got = outputs.each_ref().map(|inbox| inbox.offset() - 1);
                assert_eq!(got, wrote, "output of job {job} on {name} is lost");
                self.seen.saw("output that is complete");
            }
        }
    }
}

#[test]
fn no_byte_of_attached_jobs_is_lost_or_doubled() {
    worlds(200, WorldKind { wide: true, busy: true, attached: true, ..WorldKind::default() }, 500, &EVENTS);
}
