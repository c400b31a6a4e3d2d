//! A machine of a world: the step of a real node, with a simulated disk, `lshepherd` and processes.

use std::time::Duration;

use limo_model::{Incarnation, JournalId};
use limo_node::{Account, Effect as Deed, Found, Input as Happened, Intent, Moment, Node, OwnerRecord, Parts};
use limo_node::{Record, Recovery, Resumed, Rhythm, Script, ScriptOrder, Scripts, Survivor, Ticket, UserRules};
use limo_proto::DoExec;
use limo_shepherd::{BootTime, Handle, Identity};

use super::pipes::Pipes;
use super::power::Shown;
use super::shepherds::{Herd, Process};
use super::*;

/// Job and attempt.
pub type Key = (JobId, Attempt);

/// Properties of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// True if it can tell if its owner is there.
    pub has_owner: bool,
    pub may_sleep: bool,
    pub has_meter: bool,
    /// Time after which it removes its caps without a master.
    pub cap_lease: Span,
}

pub struct Host {
    pub name: String,
    pub boot: u32,
    /// Number of daemons that ran on the machine, and the time at which the last one began.
    daemons: u8,
    pub began: Time,
    node: Node,
    pub link: Option<PeerId>,
    /// True if the master knows the node on this connection.
    pub introduced: bool,
    /// Records on the disk.
    pub records: BTreeMap<Key, Found>,
    pub machine: Machine,
    pub slumber: Slumber,
    /// State of the owner on the disk.
    pub owner: OwnerRecord,
    /// Records on their way to the disk, in order.
    writes: VecDeque<(Ticket, Record)>,
    /// True if the disk accepts nothing until the connection ends.
    pub is_stuck: bool,
    /// Inputs that the daemon gets later.
    later: VecDeque<Happened>,
    pub processes: BTreeMap<Handle, Process>,
    /// Shepherds that hold an attempt.
    pub shepherds: BTreeMap<Handle, Herd>,
    /// Attempts whose shepherds were killed before a release.
    pub abandoned: BTreeSet<Key>,
    /// Number of effects after which the daemon is killed.
    pub doomed: Option<usize>,
    /// Attempts whose prolog succeeded, and whose epilog ran.
    pub prepared: BTreeSet<Key>,
    pub concluded: BTreeSet<Key>,
    /// Generation of the caps that are set.
    pub capped: Option<u64>,
    /// Cap of its unit.
    pub cap: Option<Power>,
    pub shown: Shown,
    /// True if they were ordered on this connection. The next value is true if the node confirmed caps on it without reason.
    pub is_told_caps: bool,
    pub has_lied: bool,
    /// Time since which the master does not answer.
    pub silent_since: Option<Time>,
    /// Part of this time in which the master ran.
    pub unreached: Span,
    /// True if an operator has declared the node dead. The order may be carried out later.
    pub is_declared_dead: bool,
    /// Leases and time limits of attempts that have one.
    pub leases: BTreeMap<Key, Span>,
    pub limits: BTreeMap<Key, Span>,
    pub out: VecDeque<Frame<NodeToMaster>>,
    /// Streams of attempts with a client.
    pub pipes: BTreeMap<Handle, Pipes>,
    /// Messages that have reached the master.
    pub said: Vec<NodeToMaster>,
}

fn since(now: Time) -> Duration {
    limo_node::duration(now - Time::from_unix_ms(START))
}

/// The time of a step.
pub fn node_moment(now: Time) -> Moment {
    let since = since(now);
    Moment { since, boot: BootTime(u64::try_from(since.as_millis()).expect("not long")) }
}

fn node_of(name: &str, boot: u32, daemons: u8, (machine, now): (Machine, Time)) -> Node {
    let mut slave = slave(name, &boot.to_string(), Vec::new()).slave;
    slave.spec.rest = machine.may_sleep.then(|| Arc::new(sleepers::rest()));
    let rhythm = Rhythm { looks: Duration::from_secs(1), readings: Duration::from_secs(1) };
    let parts = Parts {
        spec: slave.spec,
        machine: None,
        has_meter: machine.has_meter,
        may_cap: true,
        cap_lease: machine.cap_lease,
        own_uid: None,
        user_rules: UserRules { root_jobs: true, min_uid: 0 },
        scripts: Scripts { prolog: true, epilog: true },
        has_owner: machine.has_owner,
        seed: [daemons; 32],
        instance: slave.instance,
        boot: slave.boot,
        rhythm,
        containment: slave.containment,
    };
    Node::new(parts, node_moment(now))
}

impl Host {
    pub fn new(index: usize, machine: Machine, now: Time) -> Self {
        let name = format!("n{index}");
        Self {
            node: node_of(&name, 0, 0, (machine, now)),
            machine,
            slumber: Slumber::default(),
            name,
            boot: 0,
            daemons: 0,
            began: now,
            link: None,
            introduced: false,
            records: BTreeMap::new(),
            owner: OwnerRecord::default(),
            writes: VecDeque::new(),
            is_stuck: false,
            later: VecDeque::new(),
            processes: BTreeMap::new(),
            shepherds: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            doomed: None,
            prepared: BTreeSet::new(),
            concluded: BTreeSet::new(),
            capped: None,
            cap: None,
            shown: Shown::default(),
            is_told_caps: false,
            has_lied: false,
            silent_since: None,
            unreached: Span::ZERO,
            is_declared_dead: false,
            leases: BTreeMap::new(),
            limits: BTreeMap::new(),
            out: VecDeque::new(),
            pipes: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    fn write(&mut self, record: Record) {
        let key = record.key();
        let reason = match &record {
            Record::End { end, .. } => end.outcome.reason(),
            Record::Unfit { reason, .. } => Some(reason.as_str()),
            _ => None,
        };
        let length = reason.map_or(0, str::len);
        assert!(length <= limo_model::REASON_LIMIT, "the record of job {} has a reason of {length} bytes", key.0);
        match record {
            Record::Intent(intent) => self.records.entry(key).or_default().intent = Some(*intent),
            Record::Going { .. } => self.records.entry(key).or_default().going = true,
            Record::Released { expected, .. } => self.records.entry(key).or_default().released = Some(expected),
            Record::End { end, .. } => self.records.entry(key).or_default().end = Some(*end),
            Record::Unfit { reason, .. } => self.records.entry(key).or_default().unfit = Some(reason),
            Record::Evicted { .. } => self.records.entry(key).or_default().is_evicted = true,
            Record::Forget { .. } => {
                self.records.remove(&key);
                self.leases.remove(&key);
                self.limits.remove(&key);
            }
        }
    }

    /// Leaves a job of another master on the node's disk. `number` is also the number of a job here.
    pub fn keep_foreign(&mut self, number: u64) {
        let (job, attempt) = (JobId(number), Attempt(1));
        let journal = JournalId { incarnation: Incarnation(99), ..JournalId::default() };
        let exec = DoExec {
            journal,
            job,
            attempt,
            name: "foreign".into(),
            application: String::new(),
            size: String::new(),
            user: "user7".into(),
            placement: Vec::new(),
            launch: Launch { argv: vec![b"foreign".to_vec()], io: Io::Detached, ..Launch::default() },
            time_limit: None,
            warning: None,
            checkpoint: None,
            step: None,
            kill_grace: Span::ZERO,
            restarts: 0,
            task: None,
            share: None,
            lease: None,
        };
        self.write(Record::Intent(Box::new(Intent { exec, cookie: "foreign".into(), boot: self.boot.to_string() })));
    }

    /// Returns the time of the node's next action.
    pub fn due(&self) -> Option<Duration> {
        self.node.deadline()
    }

    /// Returns true if the daemon has not got the results of all of its actions.
    pub fn is_behind(&self) -> bool {
        !self.later.is_empty()
    }

    /// Returns true if the attempt's command may have run and its end is not on the disk.
    pub fn is_open(&self, key: Key) -> bool {
        self.records.get(&key).is_some_and(|found| found.released.is_some() && found.end.is_none())
    }
}

impl World {
    /// Starts a daemon with the records on its disk, which continues with the shepherds.
    pub fn begin_daemon(&mut self, index: usize) {
        let now = self.bench.now;
        let host = &mut self.hosts[index];
        (host.daemons, host.began) = (host.daemons + 1, now);
        host.node = node_of(&host.name, host.boot, host.daemons, (host.machine, now));
        (host.doomed, host.is_stuck) = (None, false);
        host.later.clear();
        host.writes.clear();
        // The daemon had the streams of killed shepherds.
        host.pipes.retain(|handle, _| host.shepherds.contains_key(handle));
        let mut survivors = BTreeMap::new();
        for (&handle, herd) in &host.shepherds {
            let frozen = host.processes.get(&handle).is_some_and(|process| process.is_frozen);
            let resumed = Resumed { frozen, ..Resumed::default() };
            let streams = host.pipes.get_mut(&handle).map(Pipes::resumed);
            survivors.insert(herd.key, Survivor { handle, cookie: herd.cookie.clone(), resumed, streams });
        }
        let (found, abandoned) = (host.records.clone(), host.abandoned.clone());
        let recovery =
            Recovery { found, survivors, abandoned, owner: host.owner.clone(), capped: host.capped.is_some() };
        let mut told = Vec::new();
        for (&handle, herd) in &host.shepherds {
            let connected = host.connected(handle);
            told.extend(herd.told.iter().map(|told| told.input(handle, connected)));
        }
        if !told.is_empty() {
            self.seen.saw("a job that goes on");
        }
        self.happens(index, Happened::Recovered(recovery));
        for input in self.soon(index, told) {
            self.happens(index, input);
        }
    }

    /// Kills the daemon with `kill -9`: its jobs go on. Records that were being written may be on the disk.
    pub fn kill_daemon(&mut self, index: usize) {
        self.seen.saw("kill of a node's daemon");
        let count = self.dice.roll(self.hosts[index].writes.len() + 1);
        let host = &mut self.hosts[index];
        for _ in 0..count {
            let (_, record) = host.writes.pop_front().expect("no more than there are");
            host.write(record);
        }
        self.part(index);
        self.begin_daemon(index);
    }

    /// Boots another kernel: nothing runs, and data that was not flushed to the disk is lost.
    pub fn lose_power(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.boot += 1;
        host.slumber = Slumber::Awake;
        host.records.retain(|_, _| self.dice.roll(2) == 0);
        host.processes.clear();
        host.cap = None;
        host.pipes.clear();
        let ended = std::mem::take(&mut host.shepherds).into_values().map(|herd| herd.key);
        host.abandoned.extend(ended.filter(|_| self.dice.roll(2) == 0));
        self.part(index);
        self.begin_daemon(index);
    }

    /// Gives an input to a node's daemon, with all immediate consequences.
    pub fn happens(&mut self, index: usize, happened: Happened) {
        let mut inputs = VecDeque::from([happened]);
        while let Some(input) = inputs.pop_front() {
            let now = node_moment(self.bench.now);
            for deed in self.hosts[index].node.step(now, input) {
                match &mut self.hosts[index].doomed {
                    Some(0) => return self.kill_daemon(index),
                    Some(left) => *left -= 1,
                    None => {}
                }
                inputs.extend(self.perform(index, deed));
            }
        }
    }

    /// Writes a waiting record to the disk, or gives the daemon a delayed input.
    pub fn settle(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.slumber == Slumber::Asleep {
            return;
        }
        if let Some((ticket, record)) = host.writes.pop_front_if(|_| !host.is_stuck) {
            host.write(record);
            self.happens(index, Happened::Recorded { ticket, result: Ok(()) });
        } else if let Some(input) = self.hosts[index].later.pop_front() {
            self.happens(index, input);
        }
    }

    fn perform(&mut self, index: usize, deed: Deed) -> Vec<Happened> {
        match deed {
            Deed::Send(message) => self.says(index, message),
            Deed::Record { ticket, record } => return self.writes(index, ticket, record),
            Deed::KeepOwner(record) => self.hosts[index].owner = record,
            Deed::LookUp { uid } => {
                let identity = Identity { uid, gid: uid, groups: vec![uid] };
                // All jobs of these worlds are of this user.
                let account = Account { name: "user7".into(), identity };
                return self.soon(index, vec![Happened::UserFound { uid, result: Ok(account) }]);
            }
            Deed::RunScript(order) => return self.runs_script(index, &order),
            Deed::Launch(order) => return self.launches(index, *order),
            Deed::Release { job, attempt, handle } => self.releases(index, (job, attempt), handle),
            Deed::Order(order) => return self.ordered(index, order),
            Deed::Sweep { job, .. } => return self.soon(index, vec![Happened::Swept { job, left: 0 }]),
            Deed::Reach { job, .. } => return self.soon(index, vec![Happened::Reached { job }]),
            Deed::SetCaps { generation, caps } => return self.sets_caps(index, generation, &caps),
            Deed::ReadMeter => return self.reads_meter(index),
            Deed::PutCapsBack => return self.puts_caps_back(index),
            Deed::Sleep => self.told_to_sleep(index),
            Deed::SendData(data) => self.sends(index, data),
            Deed::Stdin { job, bytes } => self.gives(index, job, &bytes),
            Deed::Read { stream, most } => return self.reads(index, stream, most),
            Deed::Acknowledged { stream, offset } => self.acknowledged(index, stream, offset),
            Deed::DropStreams { job } => self.drops(index, job),
            Deed::Exit(result) => panic!("the daemon of {} ends: {result:?}", self.hosts[index].name),
            _ => {}
        }
        Vec::new()
    }

    fn runs_script(&mut self, index: usize, order: &ScriptOrder) -> Vec<Happened> {
        let ScriptOrder { script, job, attempt, .. } = *order;
        let fails = self.rarely(60);
        let host = &mut self.hosts[index];
        match script {
            Script::Prolog if fails => self.seen.saw("a failed prolog"),
            Script::Prolog => drop(host.prepared.insert((job, attempt))),
            Script::Epilog => drop(host.concluded.insert((job, attempt))),
        }
        // Shells and hostile scripts write long lines.
        let result = if fails { Err(format!("failed: {}", "x".repeat(100_000))) } else { Ok(()) };
        self.soon(index, vec![Happened::ScriptEnded { script, job, attempt, result }])
    }

    /// Gives inputs at once, unless others come first or the world is slow.
    pub fn soon(&mut self, index: usize, inputs: Vec<Happened>) -> Vec<Happened> {
        if self.hosts[index].later.is_empty() && !self.rarely(8) {
            return inputs;
        }
        self.hosts[index].later.extend(inputs);
        Vec::new()
    }

    fn writes(&mut self, index: usize, ticket: Ticket, record: Record) -> Vec<Happened> {
        if let Record::Intent(_) = record {
            if self.rarely(16) {
                self.seen.saw("refused by a node");
                return vec![Happened::Recorded { ticket, result: Err("no space left".into()) }];
            }
            if self.rarely(16) {
                self.seen.saw("never acknowledged");
                self.hosts[index].is_stuck = true;
            }
        }
        let is_slow = self.rarely(6);
        let host = &mut self.hosts[index];
        if host.is_stuck || is_slow || !host.writes.is_empty() {
            host.writes.push_back((ticket, record));
            return Vec::new();
        }
        host.write(record);
        vec![Happened::Recorded { ticket, result: Ok(()) }]
    }
}
