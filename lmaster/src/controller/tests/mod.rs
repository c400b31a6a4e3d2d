//! The controller without sockets: nodes and clients are inputs, and the disk is a list of batches that the test
//! commits or fails.

mod acks;
mod arrays;
mod backups;
mod budgets;
mod changes;
mod chaos;
mod clocks;
mod databases;
mod disk;
mod eligible;
mod errors;
mod feeds;
mod grid;
mod groups;
mod history;
mod jobs;
mod limits;
mod liveness;
mod lost_reports;
mod measured;
mod meters;
mod multi_node;
mod nodes;
mod owners;
mod parts;
mod plans;
mod policies;
mod predictor;
mod presence;
mod privacy;
mod probes;
mod queues;
mod readings;
mod reasons;
mod reboots;
mod restarts;
mod samples;
mod select;
mod sleep;
mod slices;
mod steer;
mod steps;
mod streams;
mod takeover;
mod time_limits;
mod undo;
mod users;
mod warnings;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use limo_feeds::grid::{Arbiter, Source};
use limo_journal::{Batch, ChangeItem, ChangeRow, Entry, NodeRow, ReadingRow, Recovered, StateRow, Submission};
use limo_model::{
    Attempt, Band, Cores, Drawn, JobId, Meter, ModeSetting, NodeActivity, Now, Outcome, Power, Preset, Span, Time,
    Usage, Wall,
};
use limo_profiles::predict::FinishedJob;
use limo_proto::{
    Answer, AttemptReport, BackupPartQuery, BackupReport, ClientToMaster, ExplainQuery, Frame, Io, JobFilter, JobQuery,
    JobReport, JobsQuery, JournalSizes, Launch, MasterToClient, MasterToNode, NewSlave, NodeQuery, NodeToMaster,
    NodesQuery, Query, ReadingsQuery, Registration, ReservationsQuery, Sample, SelectQuery, SendExec, StatusQuery,
    UsersQuery, WaitQuery,
};
use limo_sched::{Clock, Options};

use super::{
    Caller, Controller, Effect, Found, IdleSettings, Initial, Input, KEPT_GRID, Lesson, Outside, PeerId, Question,
    Settings, Ticket,
};
use crate::limits::Limits;
use crate::readings::Kept as ReadingsKept;
use crate::recover::restore;
use crate::wake::WakeOrder;
use samples::*;

const START: i64 = 1_767_225_600_000; // 2026-01-01

#[derive(Debug, Default, Clone)]
struct Disk {
    journal: limo_model::JournalId,
    snapshot: Option<String>,
    entries: Vec<(Time, Entry)>,
    live: BTreeMap<JobId, Submission>,
    keys: HashMap<[u8; 16], (JobId, u32)>,
    finished: BTreeMap<JobId, JobReport>,
    generation: u64,
    nodes: BTreeMap<String, NodeRow>,
    kept: BTreeMap<String, String>,
    /// The sources of limits of the configuration.
    sources: Vec<Source>,
    readings: BTreeMap<(Time, String, Time), Drawn>,
    states: BTreeMap<(Time, String, NodeActivity, Time), StateRow>,
    changes: Vec<ChangeRow>,
    /// Finished jobs from which the predictor is trained.
    trains_on: Vec<FinishedJob>,
    /// Reason why nothing can be written.
    read_only: Option<String>,
    /// Reason why submissions cannot be looked up.
    unreadable: Option<&'static str>,
}

impl Disk {
    fn write(&mut self, batch: Batch) {
        assert_eq!(batch.generation, self.generation, "a batch of a state that is not on disk");
        self.entries.extend(batch.entries);
        for ReadingRow { node, since, drawn } in batch.readings {
            self.readings.insert((drawn.at, node, since), drawn);
        }
        for row in batch.states {
            self.states.insert((row.at, row.node.clone(), row.state, row.since), row);
        }
        if let Some(before) = batch.forget_readings {
            self.readings.retain(|(at, ..), _| *at >= before);
        }
        for submission in batch.submissions {
            let known = self.keys.insert(submission.key, (submission.job, submission.uid));
            assert_eq!(known, None, "a submission became two jobs");
            assert!(self.live.insert(submission.job, submission).is_none(), "a number given twice");
        }
        for row in batch.finished {
            self.live.remove(&row.job);
            let report = serde_json::from_str(&row.report).expect("a report");
            assert!(self.finished.insert(row.job, report).is_none(), "job {} ended twice", row.job);
        }
        self.nodes.extend(batch.nodes.into_iter().map(|row| (row.name.clone(), row)));
        self.kept.extend(batch.kept);
        for row in batch.changes {
            let number = self.changes.len() as u64 + 1;
            self.changes.push(ChangeRow { number, ..row });
        }
        if let Some(snapshot) = batch.snapshot {
            self.snapshot = Some(snapshot);
            self.entries.clear();
        }
    }

    fn outside(&self, now: Time, ahead: Span) -> Outside {
        let kept = self.kept.get(KEPT_GRID).map(|text| serde_json::from_str(text).expect("readable"));
        let grid = Arbiter::new(self.sources.clone(), 100, kept.unwrap_or_default(), now + ahead);
        Outside { grid, clock: Clock { offset: ahead, ..Clock::default() } }
    }

    fn recover(&mut self) -> Recovered {
        self.generation += u64::from(self.read_only.is_none());
        Recovered {
            journal: self.journal,
            snapshot: self.snapshot.clone(),
            entries: self.entries.clone(),
            live: self.live.values().cloned().collect(),
            generation: self.generation,
            nodes: self.nodes.clone(),
            kept: self.kept.clone(),
            read_only: self.read_only.clone(),
        }
    }

    fn found(&self, number: u64) -> Option<Found> {
        let row = self.changes.iter().find(|row| row.number == number)?.clone();
        let newer = |item: &ChangeItem| {
            let of_it = |row: &&ChangeRow| row.items.iter().any(|other| other.subject == item.subject);
            self.changes.iter().filter(of_it).map(|row| row.number).max().filter(|newest| *newest > number)
        };
        let since = row.items.iter().map(newer).collect();
        Some(Found { items: crate::history::items(&row).expect("readable"), row, since })
    }
}

/// A controller with its surroundings. Sent messages are kept until a test takes them.
struct Bench {
    /// Time by which the wall clock is ahead of cluster time.
    ahead: Span,
    controller: Controller,
    disk: Disk,
    settings: Settings,
    now: Time,
    /// True if the test ends commits, which otherwise end at once.
    slow_disk: bool,
    /// True if the test answers questions and recoveries.
    slow_answers: bool,
    /// True if clients read messages only when the test tells them to.
    slow_clients: bool,
    undrained: Vec<PeerId>,
    /// True if the test gives turns to queries.
    slow_turns: bool,
    answers: VecDeque<Input>,
    committing: VecDeque<Batch>,
    to_nodes: Vec<(PeerId, Frame<MasterToNode>)>,
    to_clients: Vec<(PeerId, Frame<MasterToClient>)>,
    closed: Vec<(PeerId, String)>,
    lessons: Vec<Lesson>,
    observed: Vec<FinishedJob>,
    /// Connections of nodes that fall asleep.
    parted: Vec<PeerId>,
    woken: Vec<WakeOrder>,
    dropped_backups: u32,
    next_peer: u64,
}

impl Bench {
    fn new() -> Self {
        Self::on(Disk::default(), Time::from_unix_ms(START))
    }

    /// Starts a master from the state on disk.
    fn on(disk: Disk, now: Time) -> Self {
        Self::started(disk, now, Span::ZERO)
    }

    fn started(mut disk: Disk, now: Time, ahead: Span) -> Self {
        let restored = restore(disk.recover(), now).expect("readable");
        assert_eq!(restored.mismatches, 0, "the journal does not replay");
        let controller = Controller::new(restored, settings(), disk.outside(now, ahead), true);
        let mut bench = Self {
            ahead,
            controller,
            disk,
            settings: settings(),
            now,
            slow_disk: false,
            slow_answers: false,
            slow_clients: false,
            undrained: Vec::new(),
            slow_turns: false,
            answers: VecDeque::new(),
            committing: VecDeque::new(),
            to_nodes: Vec::new(),
            to_clients: Vec::new(),
            closed: Vec::new(),
            lessons: Vec::new(),
            observed: Vec::new(),
            parted: Vec::new(),
            woken: Vec::new(),
            dropped_backups: 0,
            next_peer: 0,
        };
        bench.input(Input::Timer);
        bench
    }

    /// Kills the master with `kill -9`, and starts another one on the same disk.
    fn killed(self) -> Self {
        Self::started(self.disk, self.now, self.ahead)
    }

    fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.controller.step(moment(self.now, self.ahead), input) {
                let answer = self.perform(effect);
                if self.slow_answers { &mut self.answers } else { &mut inputs }.extend(answer);
            }
            if !self.slow_disk
                && let Some(batch) = self.committing.pop_front()
            {
                self.disk.write(batch);
                inputs.push_back(Input::Committed(Ok(None)));
            }
            if inputs.is_empty() && self.controller.has_turn() && !self.slow_turns {
                inputs.push_back(Input::Turn);
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::ToNode(peer, frame) => self.to_nodes.push((peer, frame)),
            Effect::ToClient(peer, frame) => self.to_clients.push((peer, frame)),
            Effect::Close(peer, reason) => self.closed.push((peer, reason)),
            Effect::Commit(batch) => self.committing.push_back(*batch),
            Effect::Recover => return Some(Input::Recovered(Ok(self.disk.recover()))),
            Effect::RestoreBallast | Effect::GiveBack => {}
            Effect::DropBackup => self.dropped_backups += 1,
            Effect::WhenDrained(peer) if self.slow_clients => self.undrained.push(peer),
            Effect::WhenDrained(peer) => return Some(Input::Drained(peer)),
            Effect::Ask(ticket, question) => return Some(self.answer(ticket, question)),
            Effect::Learn(lesson) => self.lessons.push(*lesson),
            Effect::Observe(_, row) => self.observed.push(row),
            Effect::Part(peer) => self.parted.push(peer),
            Effect::Wake(_, order) => self.woken.push(order),
            // The tests serve no page.
            Effect::FindPage(..) => {}
            Effect::Audit(_) | Effect::Tell(_) => {}
        }
        None
    }

    fn answer(&self, ticket: Ticket, question: Question) -> Input {
        Input::Answered(ticket, samples::at_once(question.answer(&self.disk)))
    }

    /// Answers the oldest question or recovery.
    fn answer_one(&mut self) {
        if let Some(input) = self.answers.pop_front() {
            self.input(input);
        }
    }

    /// Lets time pass, with every deadline on the way.
    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while let Some(at) = self.controller.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.input(Input::Timer);
        }
        self.now = end;
    }

    fn peer(&mut self) -> PeerId {
        self.next_peer += 1;
        PeerId(self.next_peer)
    }

    fn client(&mut self, uid: u32) -> PeerId {
        self.member(uid, &[])
    }

    /// Connects a client of a user who belongs to these groups.
    fn member(&mut self, uid: u32, groups: &[&str]) -> PeerId {
        let peer = self.peer();
        let groups = Arc::new(groups.iter().map(|group| (*group).to_owned()).collect());
        let caller = Caller { uid, user: format!("user{uid}"), groups, operator: uid == 0, may_only_ask: false };
        self.input(Input::ClientConnected(peer, caller));
        peer
    }

    fn say(&mut self, client: PeerId, message: ClientToMaster) {
        self.input(Input::Client(client, Frame::Message(message)));
    }

    fn ask(&mut self, client: PeerId, query: Query) -> MasterToClient {
        self.heard(client);
        self.say(client, ClientToMaster::Ask(Box::new(query)));
        self.heard(client).pop().expect("an answer")
    }

    /// Returns the messages to a client since the last call.
    fn heard(&mut self, client: PeerId) -> Vec<MasterToClient> {
        messages(&mut self.to_clients, client)
    }

    /// Returns the messages to a node since the last call.
    fn orders(&mut self, node: PeerId) -> Vec<MasterToNode> {
        messages(&mut self.to_nodes, node)
    }

    /// Returns the data to clients, and then that to nodes, since the last call.
    fn data(&mut self) -> Vec<(PeerId, limo_proto::Data)> {
        [data(&mut self.to_clients), data(&mut self.to_nodes)].concat()
    }

    fn node(&mut self, name: &str) -> PeerId {
        self.node_with(name, "boot", Vec::new())
    }

    /// Registers a node, and waits for the confirmation.
    fn node_with(&mut self, name: &str, boot: &str, attempts: Vec<AttemptReport>) -> PeerId {
        let peer = self.peer();
        self.input(Input::NodeConnected(peer));
        self.register(peer, slave(name, boot, attempts));
        peer
    }

    /// Registers a node that says why it must get no jobs.
    fn node_unfit(&mut self, name: &str, reason: &str) {
        let peer = self.peer();
        self.input(Input::NodeConnected(peer));
        let mut registration = slave(name, "boot", Vec::new());
        registration.slave.unfit = Some(reason.into());
        self.register(peer, registration);
    }

    fn register(&mut self, node: PeerId, registration: Registration) {
        for message in registration.into_messages() {
            self.report(node, message);
        }
    }

    fn report(&mut self, node: PeerId, message: NodeToMaster) {
        self.input(Input::Node(node, Frame::Message(message)));
    }

    /// Submits a job and returns its number.
    fn submit(&mut self, client: PeerId, key: u8) -> JobId {
        self.heard(client);
        self.say(client, exec(key));
        let heard = self.heard(client);
        match heard.first() {
            Some(MasterToClient::Accepted { job }) => *job,
            _ => panic!("not accepted: {heard:?}"),
        }
    }
}
